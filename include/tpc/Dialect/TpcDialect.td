//===- TpcDialect.td - The tpc dialect --------------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCDIALECT
#define TPC_DIALECT_TPCDIALECT

include "mlir/IR/OpBase.td"

def Tpc_Dialect : Dialect {
  let name = "tpc";
  let cppNamespace = "::mlir::tpc";
  let summary = "Transformer programs, and how they are distributed over a grid";
  let description = [{
    One dialect for a program on its whole way: model ops on global tensors, the
    same ops with a distribution on every value, one rank's program with
    collectives over named grid axes, and pipeline stages with their schedule.

    Sizes are symbolic and live in the types, see `#tpc.dist`; there are no
    shape operands. Every op states its sharding rule once, see
    `ShardingRuleOpInterface`, and one verifier checks each op's types with it.
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
