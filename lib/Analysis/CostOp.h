//===- CostOp.h - Interface of cost models ----------------------*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_COSTOP_H
#define TPC_LIB_ANALYSIS_COSTOP_H

#include "tpc/Analysis/Cost.h"
#include "tpc/Dialect/Tpc.h"

#include "CostOp.h.inc"

#endif // TPC_LIB_ANALYSIS_COSTOP_H
