//===- Elements.td - Interfaces of movements, lookups and norms -----------===//

#ifndef TPC_INTERFACES_ELEMENTS
#define TPC_INTERFACES_ELEMENTS

include "mlir/IR/OpBase.td"

def MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let description = [{
    An op without arithmetic: each element of the result is an element of the first operand, on some
    rank. A property of all elements of the operand is a property of all elements of the result.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether each element of the operand is also in the result, over all ranks.",
      "bool", "keepsEveryElement", (ins), "", [{ return true; }]>
  ];
}

def LookupOpInterface : OpInterface<"LookupOpInterface"> {
  let description = [{
    An op that reads slices of a table by indices. Indices into a dimension of n elements range from
    -n to n - 1; executables check indices that are inputs.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The table.",
      "::mlir::Value", "getLookupTable", (ins), "", [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"The indices.",
      "::mlir::Value", "getLookupIndices", (ins), "", [{ return $_op->getOperand(1); }]>,
    InterfaceMethod<"The indexed dimensions of the table. If there are several, the last "
                    "dimension of the indices has one entry for each.",
      "::llvm::SmallVector<int64_t>", "getLookupDims">
  ];
}

def NormOpInterface : OpInterface<"NormOpInterface"> {
  let description = [{
    An op that normalizes rows and multiplies them by a scale (1 by default).
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"The factor of the normalized rows.", "::mlir::Value", "getScale">
  ];
}

#endif
