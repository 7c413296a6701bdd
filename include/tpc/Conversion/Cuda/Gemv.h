//===- Gemv.h - Matrix-vector kernels for GPUs ------------------*- C++ -*-===//
//
// Kernels for GEMMs with up to four rows, which the runtime's library of GPU kernels contains.
// tpc/gemv.h documents their variants and launches.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_CUDA_GEMV_H
#define TPC_CONVERSION_CUDA_GEMV_H

#include "tpc/gemv.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::cuda {

using GemvVariant = ::tpc::gemv::Variant;

/// Returns a name such as tpc_gemv_bf16_kn_1: elements, layout of w, rows of x.
std::string getName(const GemvVariant &variant);

/// Returns the number of blocks that registers of a multiprocessor must suffice for: two, unless
/// the kernel would spill.
unsigned getMinBlocks(const GemvVariant &variant);

/// Adds the kernel to a module of the LLVM dialect. Keeps scalar ops of `arith` and `math`.
void makeGemvKernel(ModuleOp kernels, const GemvVariant &variant);

/// Loads the dialects that kernels consist of, where no pass manager does.
void loadKernelDialects(MLIRContext &context);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_GEMV_H
