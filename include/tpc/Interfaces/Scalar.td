//===- Scalar.td - Interface of element-wise ops -----------*- tablegen -*-===//

#ifndef TPC_INTERFACES_SCALAR
#define TPC_INTERFACES_SCALAR

include "mlir/IR/OpBase.td"

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let description = [{
    An element-wise op, defined by its computation for one element. Operands broadcast as in NumPy
    and ONNX. Kernels, constant folding and the reference evaluator need nothing else.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds the computation of one element of the result from one element of each "
                    "operand.",
      "::mlir::Value", "buildScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"Computes an element in double precision. This is the reference for all "
                    "tests. Integers and booleans are numbers; the result of an integer op may be "
                    "a number that is no integer (division by zero).",
      "double", "evaluateScalar", (ins "::llvm::ArrayRef<double>":$operands)>,
    InterfaceMethod<"Whether recomputing the result costs less than storing it.",
      "bool", "isCheapScalar">,
    InterfaceMethod<"The identity of a binary op: if operand `operand` is this number, the result "
                    "is the other operand, as for 0 in x - 0. Nothing if there is none; then the "
                    "op is not simplified.",
      "std::optional<double>", "getIdentity", (ins "unsigned":$operand), "",
      [{ (void)operand; return std::nullopt; }]>,
    InterfaceMethod<"The absorbing number: if an operand is this number, so is the result, as for "
                    "false in x and false. Nothing if there is none.",
      "std::optional<double>", "getAbsorbing", (ins), "", [{ return std::nullopt; }]>
  ];
}

#endif // TPC_INTERFACES_SCALAR
