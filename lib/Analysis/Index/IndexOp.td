//===- IndexOp.td - Interface of index models --------------*- tablegen -*-===//

#ifndef TPC_LIB_ANALYSIS_INDEX_INDEXOP
#define TPC_LIB_ANALYSIS_INDEX_INDEXOP

include "mlir/IR/OpBase.td"

def IndexOpInterface : OpInterface<"IndexOpInterface"> {
  let description = [{
    An op whose elements have a closed form in terms of their indices and elements of the operands.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the element at these indices, or null if its form is unknown. Then "
                    "the element is opaque.",
      "::mlir::tpc::IndexExpr", "getElementAt",
      (ins "::mlir::tpc::IndexAnalysis &":$analysis,
           "::llvm::ArrayRef<::mlir::tpc::IndexExpr>":$where)>
  ];
}

#endif
