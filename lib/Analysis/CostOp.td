//===- CostOp.td - Interface of cost models ----------------*- tablegen -*-===//

#ifndef TPC_LIB_ANALYSIS_COSTOP
#define TPC_LIB_ANALYSIS_COSTOP

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let description = [{
    An op with a cost model.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the cost of the op on one rank.", "::mlir::tpc::Cost", "getCost",
      (ins "::mlir::tpc::CostModel &":$model)>
  ];
}

#endif
