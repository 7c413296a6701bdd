//===- Passes.td - Lowering of kernel IR for GPUs ----------*- tablegen -*-===//

#ifndef TPC_CONVERSION_CUDA_PASSES
#define TPC_CONVERSION_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernelsToNvvm : Pass<"tpc-lower-kernels-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lower kernels to GPU threads";
  let description = [{
    Each `tpc_kernel.func` becomes an LLVM function of the same name that is an entry point. Its
    parameters are `env`, the status, then operands and results as pointers to global memory. A row
    with folds is computed by a warp or, if it is long, by a block. Other rows are computed by one
    thread per chunk, and long ones are split.

        tpc_kernel.rows (%row) in [tokens] {
          %s = tpc_kernel.fold sum (%j) in [768] …
          tpc_kernel.elements (%j) in [768] { … }
        }

    becomes

        for item = block; item < ceil(tokens / 8); item += blocks
          row = 8 item + warp                              // if row < tokens
          s = terms of chunks lane, lane + 32, …, then shuffles
          chunks lane, lane + 32, … of 4 elements, loaded and stored as vectors

    A barrier synchronizes the warp or the block. Scalar ops of `arith` and `math` are kept. A
    kernel may be launched with any number of blocks. The assignment of terms to threads depends
    only on sizes, so results do not depend on the number of blocks.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def AttentionToNvvm : Pass<"tpc-attention-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Generate GPU kernels for the attention ops of a program";
  let description = [{
    Adds two functions for each variant of `tpc.attention` (types, head sizes, kinds of masks) to
    the other kernels. `attention_…` iterates over tiles of queries and keys with a one-pass
    softmax, `attention_…_split` over a part of the keys for few queries; its last block combines
    the parts. Sizes are read at run time. The attention ops are kept; the runtime launches the
    kernels. Errors: element types other than f32, f16 and bf16; head sizes that exceed 256 or
    differ between ranks.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def ExpandMath : Pass<"tpc-expand-math", "::mlir::ModuleOp"> {
  let summary = "Expand sin, cos, pow and remainders of f32 to arithmetic that is accurate for "
                "all arguments";
  let description = [{
    CPU kernels call libm instead. `sin` and `cos` use Payne-Hanek argument reduction in integer
    arithmetic, which is accurate up to the largest f32. `pow` and `arith.remf` are computed in f64;
    `arith.remf` is exact.

    Errors: any other `math` op without a GPU instruction; `sin`, `cos`, `pow` or `remf` of a type
    other than f32.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

#endif
