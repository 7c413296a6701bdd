//===- Scalar.td - Ops on one element of each operand ------------*- tablegen -*-===//

#ifndef TPC_INTERFACES_SCALAR
#define TPC_INTERFACES_SCALAR

include "mlir/IR/OpBase.td"

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let description = [{
    An element-wise op: what it computes for one element. Operands broadcast as
    in ONNX (numpy). Kernels, constant folding and the reference evaluator need nothing else.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds the computation of one element of the result from one element of each operand.",
      "::mlir::Value", "buildScalar", (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"The same in double precision: the definition that all else is tested against. Integers "
      "and booleans are numbers; the result of an integer op may be one that no integer is (division by zero).",
      "double", "evaluateScalar", (ins "::llvm::ArrayRef<double>":$operands)>,
    InterfaceMethod<"Whether computing it again costs less than storing the result.", "bool", "isCheapScalar">
  ];
}

#endif // TPC_INTERFACES_SCALAR
