//===- Passes.td - From kernel IR to code for CPUs --------------*- tablegen -*-===//

#ifndef TPC_CONVERSION_CPU_PASSES
#define TPC_CONVERSION_CPU_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"tpc-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels into loops that LLVM vectorizes, for CPUs";
  let description = [{
    Each `tpc_kernel.func` becomes an LLVM function of the same name, in the place where it is: a loop over the rows that it is told to do. Sizes are computed once at
    its beginning. Loops are rotated and say that their iterations are independent. A `fold` of floats that is `adjacent` keeps 32 lanes: index i of
    its last dimension in lane i mod 32, ascending, and at the end the lanes by halves of what is left (8 and 16 apart, then 4, 2, 1); any
    other combines its terms in ascending order. Scalar ops of `arith` and `math` stay, for `tpc-approximate-math` and upstream's conversions.

    Barriers vanish: one thread does all of a row.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect"];
}

#endif
