//===- Elements.td - Where the elements of results come from ----*- tablegen -*-===//

#ifndef TPC_INTERFACES_ELEMENTS
#define TPC_INTERFACES_ELEMENTS

include "mlir/IR/OpBase.td"

def MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let description = [{
    An op without arithmetic: each element of the result is an element of the first operand, of some
    rank. What holds for all elements of the operand holds for those of the result.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether each element of the operand is also in the result, of all ranks together.",
      "bool", "keepsEveryElement", (ins), "", [{ return true; }]>
  ];
}

def LookupOpInterface : OpInterface<"LookupOpInterface"> {
  let description = [{
    An op that takes parts of a table by indices. Of a dimension of n elements, indices are from -n to
    n - 1; executables check inputs that are indices against that.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"What is looked up.",
      "::mlir::Value", "getLookupTable", (ins), "", [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"By which indices.",
      "::mlir::Value", "getLookupIndices", (ins), "", [{ return $_op->getOperand(1); }]>,
    InterfaceMethod<"The dimensions of the table that are looked up. Where they are several, the last dimension of the "
      "indices has one for each.",
      "::llvm::SmallVector<int64_t>", "getLookupDims">
  ];
}

def NormOpInterface : OpInterface<"NormOpInterface"> {
  let description = [{
    An op that normalizes rows, and then multiplies by a scale: one by default.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"What the normalized rows are multiplied by.", "::mlir::Value", "getScale">
  ];
}

#endif
