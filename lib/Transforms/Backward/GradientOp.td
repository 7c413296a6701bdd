//===- GradientOp.td - Interface of gradients --------------*- tablegen -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_GRADIENTOP
#define TPC_LIB_TRANSFORMS_BACKWARD_GRADIENTOP

include "mlir/IR/OpBase.td"

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let description = [{
    An op with a gradient. The backward ops are ops of the dialect on global tensors.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Adds the cotangents of the active operands, computed from the cotangent of "
                    "the result. Emits an error for operands that it cannot differentiate.",
      "::llvm::LogicalResult", "buildGradient", (ins "::mlir::tpc::GradientBuilder &":$builder)>,
    InterfaceMethod<"Whether the result depends smoothly on this operand. Position tables and "
                    "conditions are constants.",
      "bool", "isDifferentiable", (ins "unsigned":$operand), "", [{ (void)operand; return true; }]>
  ];
}

#endif
