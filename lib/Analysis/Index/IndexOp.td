//===- IndexOp.td - Interface of index models --------------*- tablegen -*-===//

#ifndef TPC_LIB_ANALYSIS_INDEX_INDEXOP
#define TPC_LIB_ANALYSIS_INDEX_INDEXOP

include "mlir/IR/OpBase.td"

def IndexOpInterface : OpInterface<"IndexOpInterface"> {
  let description = [{
    An op whose elements are known functions of their indices and of elements of the operands.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the element at these indices. Null if unknown: then it is an opaque "
                    "element of this result, which is always correct.",
      "::mlir::tpc::IndexExpr", "getElementAt",
      (ins "::mlir::tpc::IndexAnalysis &":$analysis,
           "::llvm::ArrayRef<::mlir::tpc::IndexExpr>":$where)>
  ];
}

#endif
