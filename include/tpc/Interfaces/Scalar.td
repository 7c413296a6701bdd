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
    InterfaceMethod<"Whether computing it again costs less than storing the result.", "bool", "isCheapScalar">,
    InterfaceMethod<"The identity of an op on two operands: the number that operand `operand` is where the result is the other "
      "one, as 0 in x - 0. Nothing if there is none; an op that does not say is not simplified.",
      "std::optional<double>", "getIdentity", (ins "unsigned":$operand), "", [{ (void)operand; return std::nullopt; }]>,
    InterfaceMethod<"The number that the result is wherever an operand is it, as false in x and false. Nothing if there is none.",
      "std::optional<double>", "getAbsorbing", (ins), "", [{ return std::nullopt; }]>
  ];
}

#endif // TPC_INTERFACES_SCALAR
