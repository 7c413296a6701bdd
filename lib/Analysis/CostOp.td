//===- CostOp.td - What ops cost --------------------------------*- tablegen -*-===//

#ifndef TPC_LIB_ANALYSIS_COSTOP
#define TPC_LIB_ANALYSIS_COSTOP

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let description = [{
    An op of which it is known what it costs on one rank.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"What it costs.", "::mlir::tpc::Cost", "getCost", (ins "::mlir::tpc::CostModel &":$model)>
  ];
}

#endif
