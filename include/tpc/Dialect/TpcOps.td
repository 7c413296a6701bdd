//===- TpcOps.td - All ops of the dialect -----------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCOPS
#define TPC_DIALECT_TPCOPS

include "tpc/Dialect/ProgramOps.td"
include "tpc/Dialect/ElementwiseOps.td"
include "tpc/Dialect/ShapeOps.td"
include "tpc/Dialect/ModelOps.td"
include "tpc/Dialect/CollectiveOps.td"
include "tpc/Dialect/PipelineOps.td"

#endif
