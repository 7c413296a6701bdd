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

/// Returns the number of blocks that must fit into the registers of a multiprocessor: two, or one
/// if the kernel would otherwise spill.
unsigned getMinBlocks(const GemvVariant &variant);

/// Adds the kernel to a module of the LLVM dialect. Keeps scalar ops of `arith` and `math`.
void makeGemvKernel(ModuleOp kernels, const GemvVariant &variant);

/// Loads the dialects of kernel code. Needed without a pass manager, which loads dependent
/// dialects.
void loadKernelDialects(MLIRContext &context);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_GEMV_H
