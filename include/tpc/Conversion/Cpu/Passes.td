//===- Passes.td - Lowering of kernel IR for CPUs ----------*- tablegen -*-===//

#ifndef TPC_CONVERSION_CPU_PASSES
#define TPC_CONVERSION_CPU_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"tpc-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Lower kernels to loops that LLVM vectorizes, for CPUs";
  let description = [{
    Each `tpc_kernel.func` is replaced by an LLVM function of the same name: a loop over a range of
    rows that is passed by the caller. Sizes are computed once, in the entry block. Loops are
    rotated and marked as having independent iterations. An `adjacent` `fold` of floats uses 32
    lanes: index i of its last dimension is reduced in lane i mod 32, in ascending order; at the end
    lanes are combined pairwise: 8 apart, then 16, 4, 2 and 1. Any other fold reduces its terms in
    ascending order. Scalar ops of `arith` and `math` are kept for `tpc-approximate-math` and the
    upstream conversions.

    Barriers are erased: one thread runs the whole row.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect"];
}

#endif
