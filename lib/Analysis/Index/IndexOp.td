//===- IndexOp.td - Elements as functions of their indices ------*- tablegen -*-===//

#ifndef TPC_LIB_ANALYSIS_INDEX_INDEXOP
#define TPC_LIB_ANALYSIS_INDEX_INDEXOP

include "mlir/IR/OpBase.td"

def IndexOpInterface : OpInterface<"IndexOpInterface"> {
  let description = [{
    An op of whose result it is known what an element is, as a function of its indices and of elements of the operands.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The element at these indices; null where the op has no answer: then it is an element of this result, which is always right.",
      "::mlir::tpc::IndexExpr", "getElementAt",
      (ins "::mlir::tpc::IndexAnalysis &":$analysis, "::llvm::ArrayRef<::mlir::tpc::IndexExpr>":$where)>
  ];
}

#endif
