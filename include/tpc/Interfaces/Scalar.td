//===- Scalar.td - Interface of element-wise ops -----------*- tablegen -*-===//

#ifndef TPC_INTERFACES_SCALAR
#define TPC_INTERFACES_SCALAR

include "mlir/IR/OpBase.td"

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let description = [{
    An element-wise op, defined by the computation of one element. Operands broadcast as in NumPy
    and ONNX. Kernels, constant folding and the reference evaluator use only this interface.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Builds one element of the result from one element of each operand.",
      "::mlir::Value", "buildScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"Computes an element in double precision, as the reference for all tests. "
                    "Integers and booleans are passed as doubles; an integer op may return a "
                    "value that is not an integer (division by zero).",
      "double", "evaluateScalar", (ins "::llvm::ArrayRef<double>":$operands)>,
    InterfaceMethod<"Whether recomputing the result costs less than storing it.",
      "bool", "isCheapScalar">,
    InterfaceMethod<"Returns the identity of a binary op: if operand `operand` is this number, the "
                    "result is the other operand (0 in x - 0). Nothing if there is none.",
      "std::optional<double>", "getIdentity", (ins "unsigned":$operand), "",
      [{ (void)operand; return std::nullopt; }]>,
    InterfaceMethod<"Returns the absorbing number: if an operand is this number, so is the result "
                    "(false in `x and false`). Nothing if there is none.",
      "std::optional<double>", "getAbsorbing", (ins), "", [{ return std::nullopt; }]>
  ];
}

#endif // TPC_INTERFACES_SCALAR
