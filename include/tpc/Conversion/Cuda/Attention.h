//===- Attention.h - Attention kernels for GPUs -----------------*- C++ -*-===//
//
// Each variant of tpc.attention in a program has two kernels:
//
//   tiles   a block computes 64 rows of one KV head: for launches with many rows
//   split   a block computes up to 16 rows over a part of the keys: for few rows, such as those of
//           one query. Partial results are stored in the workspace; the last block of a KV head
//           combines them
//
// Rows of a KV head are its queries times its query heads: row = query * group + head.
// tpc/attention.h documents the variants and the launch parameters.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_CUDA_ATTENTION_H
#define TPC_CONVERSION_CUDA_ATTENTION_H

#include "tpc/Conversion/Cuda/Launch.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/attention.h"

namespace mlir::tpc::cuda {

using AttentionVariant = ::tpc::attention::Variant;

/// Maximum head size that fits into a block's registers and shared memory.
inline constexpr int64_t kMaxHeadSize = 256;

/// Returns a name such as attention_f16_64_causal.
std::string getName(const AttentionVariant &variant);

/// Returns the variant of an op, or an error with the reason why no kernel supports it.
FailureOr<AttentionVariant> getVariant(AttentionOp op);

/// Returns the reason why the library (cuDNN's fused attention) does not support a variant; empty
/// if it does. The generated kernels are the fallback if the library rejects a call at run time.
StringRef getLibraryLimitation(const AttentionVariant &variant);

/// Tile sizes of a kernel for many rows on tensor cores. A block computes `rows` rows and has two
/// stages of `keys` keys and values in shared memory.
struct TensorTile {
  unsigned rows = 0, keys = 0;
  unsigned warps = 4;
  unsigned blocks = 2;            // per multiprocessor; limits the registers of a thread
  bool queriesInRegisters = true; // else in shared memory
  std::string str() const;
};
/// Returns the tile sizes of a variant; none for f32, which is computed without tensor cores.
std::optional<TensorTile> getTensorTile(const AttentionVariant &variant);

/// Kernels generated for a variant.
struct AttentionKernels {
  AttentionVariant variant;
  Launch tiles, split;
};

/// Adds the kernels of a variant to a module of the LLVM dialect. Keeps scalar ops of `arith`
/// and `math`.
AttentionKernels makeAttentionKernels(ModuleOp kernels, const AttentionVariant &variant);

/// Adds the kernels of all variants in a program to its module `@kernels`, which is created if
/// absent. Each variant occurs once, in the order of the program's ops.
FailureOr<std::vector<AttentionKernels>> makeAllAttentionKernels(ModuleOp program);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_ATTENTION_H
