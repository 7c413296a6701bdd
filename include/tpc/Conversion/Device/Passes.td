//===- Passes.td - Device-independent passes on kernel code ---------------===//

#ifndef TPC_CONVERSION_DEVICE_PASSES
#define TPC_CONVERSION_DEVICE_PASSES

include "mlir/Pass/PassBase.td"

def ApproximateMath : Pass<"tpc-approximate-math", "::mlir::ModuleOp"> {
  let summary = "Expand exp, tanh, erf and log to polynomials, so that loops vectorize";
  let description = [{
    Accurate to 3e-7, and correct for infinities and NaN. exp, tanh and erf use the same formulas as
    the runtime's epilogues (`tpc/functions.h`), so an activation is bit-identical in a matmul
    epilogue and in a kernel. sin, cos and pow remain libm calls, because polynomials for them are
    inaccurate far from zero. No fast-math flags are set, see KernelBuilder.h.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif
