//===- Attention.h - Attention as kernels of a GPU --------------*- C++ -*-===//
//
// One set of kernels for each variant of tpc.attention that a program has:
//
//   tiles     a block computes 64 rows of one kv head: for launches with many rows
//   split     16 rows, and of the keys a part: for few rows, such as one query; partial results
//             go to the workspace
//   combine   results from the workspace, a warp for each row
//
// Rows of a kv head are its queries times the query heads that it serves: row = query * group +
// head. What variants are, and what a launcher gives the kernels, says tpc/attention.h.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_CUDA_ATTENTION_H
#define TPC_CONVERSION_CUDA_ATTENTION_H

#include "tpc/Conversion/Cuda/Launch.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/attention.h"

namespace mlir::tpc::cuda {

using AttentionVariant = ::tpc::attention::Variant;

/// Head sizes that fit into a block's registers and shared memory.
inline constexpr int64_t kLargestHead = 256;

/// Such as attention_f16_64_causal.
std::string getName(const AttentionVariant &variant);

/// The variant of an op. Where there are no kernels for it, an error says why.
FailureOr<AttentionVariant> getVariant(AttentionOp op);

/// Why a library (cuDNN's fused attention) may not compute a variant; empty if it may. Where the
/// library refuses at run time, these kernels compute it all the same.
StringRef whyNotLibrary(const AttentionVariant &variant);

/// What was generated for a variant.
struct AttentionKernels {
  AttentionVariant variant;
  Launch tiles, split, combine;
};

/// Adds the functions to a module of the LLVM dialect. Scalar ops of `arith` and `math` stay.
AttentionKernels makeAttention(ModuleOp kernels, const AttentionVariant &variant);

/// Those of all variants that a program has, each once, in the order of its ops: in the module of
/// its kernels, which is made if there is none.
FailureOr<std::vector<AttentionKernels>> makeAttentions(ModuleOp program);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_ATTENTION_H
