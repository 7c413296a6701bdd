//===- Passes.td - What code of kernels has in common on all devices -*- tablegen -*-===//

#ifndef TPC_CONVERSION_DEVICE_PASSES
#define TPC_CONVERSION_DEVICE_PASSES

include "mlir/Pass/PassBase.td"

def ApproximateMath : Pass<"tpc-approximate-math", "::mlir::ModuleOp"> {
  let summary = "Writes exp, tanh, erf and log as polynomials, so that loops vectorize";
  let description = [{
    Accurate to 3e-7, and right for infinities and NaN. exp, tanh and erf are the formulas that the runtime computes activations
    with (`tpc/functions.h`): an activation has the same bits behind a product and in a kernel. sin, cos and pow stay calls of
    libm: polynomials for them are poor far from zero. Nothing is marked with fast-math flags: see KernelBuilder.h.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

#endif
