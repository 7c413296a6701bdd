//===- Elements.td - Interfaces of movements, lookups and norms -----------===//

#ifndef TPC_INTERFACES_ELEMENTS
#define TPC_INTERFACES_ELEMENTS

include "mlir/IR/OpBase.td"

def MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let description = [{
    An op without arithmetic: each element of the result is an element of the first operand,
    possibly from another rank of the grid. A property that all elements of the operand have is thus
    a property of all elements of the result.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Whether each element of the operand is also in the result of some rank.",
      "bool", "preservesAllElements", (ins), "", [{ return true; }]>
  ];
}

def LookupOpInterface : OpInterface<"LookupOpInterface"> {
  let description = [{
    An op that reads slices of a table by indices. Indices into a dimension of n elements range from
    -n to n - 1; executables check indices that are inputs.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Returns the table.",
      "::mlir::Value", "getLookupTable", (ins), "", [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"Returns the indices.",
      "::mlir::Value", "getLookupIndices", (ins), "", [{ return $_op->getOperand(1); }]>,
    InterfaceMethod<"Returns the indexed dimensions of the table. If there are several, the last "
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
    InterfaceMethod<"Returns the scale, by which the normalized rows are multiplied.",
      "::mlir::Value", "getScale">
  ];
}

#endif
