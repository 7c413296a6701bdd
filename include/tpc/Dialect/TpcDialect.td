//===- TpcDialect.td - The tpc dialect --------------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCDIALECT
#define TPC_DIALECT_TPCDIALECT

include "mlir/IR/OpBase.td"

def Tpc_Dialect : Dialect {
  let name = "tpc";
  let cppNamespace = "::mlir::tpc";
  let summary = "Transformer programs and their distribution over a grid";
  let description = [{
    One dialect for all levels of a program: model ops on global tensors, the same ops with a
    distribution on every value, the program of one rank with collectives over named grid axes, and
    pipeline stages with their schedule.

    Sizes are symbolic and part of the types, see `#tpc.dist`; there are no shape operands. Every op
    defines a sharding rule (`ShardingRuleOpInterface`), and one verifier checks the types of all
    ops against their rules.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();

  }];
}

#endif
