//===- Passes.td - From kernel IR to code for GPUs --------------*- tablegen -*-===//

#ifndef TPC_CONVERSION_CUDA_PASSES
#define TPC_CONVERSION_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernelsToNvvm : Pass<"tpc-lower-kernels-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Turns kernels into threads of a GPU";
  let description = [{
    Each `tpc_kernel.func` becomes an LLVM function of the same name that is an entry point: `env`, the status, then operands and results as
    pointers to global memory. Threads work in groups: what shares folds is a row of a warp or, if it is long, of a block; other rows
    are as many threads' as they have chunks, and long ones are cut into parts.

        tpc_kernel.rows (%row) in [tokens] {            for item = block; item < ceil(tokens / 8); item += blocks
          %s = tpc_kernel.fold sum (%j) in [768] …        row = 8 item + warp                              // if row < tokens
          tpc_kernel.elements (%j) in [768] { … }   ->    s = terms of chunks lane, lane + 32, …, then shuffles
        }                                                 chunks lane, lane + 32, … of 4 elements, loaded and stored at once

    A barrier is one of the warp or of the block. Scalar ops of `arith` and `math` stay. Any grid is right. Which thread combines which terms
    depends on sizes only, so results do.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def AttentionToNvvm : Pass<"tpc-attention-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Writes kernels of a GPU for the attention of a program";
  let description = [{
    For each variant of `tpc.attention` (types, head sizes, which masks it has) three functions come beside the other kernels:
    `attention_…` goes over tiles of queries and keys with softmax in one pass, `attention_…_split` over a part of the keys for few queries, and
    `attention_…_combine` puts parts together. Sizes are read at run time. The ops stay: it is the runtime that launches. Elements that are
    none of f32, f16 and bf16, head sizes above 256 and those that differ by rank are errors.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def ExpandMath : Pass<"tpc-expand-math", "::mlir::ModuleOp"> {
  let summary = "Writes sin, cos, pow and remainders of f32 as arithmetic that is right for all numbers";
  let description = [{
    CPUs have libm for them. `sin` and `cos` reduce their argument by the digits of 2/pi that it needs (Payne and Hanek), with integers: right up to
    the largest f32. `pow` computes in f64, and so does `arith.remf`, exactly.

    Errors: another function of `math` that is no instruction, or one of these of a type other than f32.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::LLVM::LLVMDialect"];
}

#endif
