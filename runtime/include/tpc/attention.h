//===- attention.h - Launch interface of GPU attention kernels ------------===//
//
// For each attention variant of a program, the compiler generates two kernels with a
// one-dimensional grid:
//
//   if (!attention::splitsKeys(a))
//     tiles<<<blocks(getItems(Tiles, a)), threads, shared>>>(args)
//   else
//     split<<<blocks(getItems(Split, a)), threads, shared>>>(args, workspace, counters)
//
// `args` is the call's struct, in device memory and with device pointers. Kernels read all sizes
// from it, so a recorded launch can be replayed with other lengths, up to the lengths that its grid
// and workspace were sized for. The number of threads and the bytes of dynamic shared memory are
// properties of the kernel; above 48 KiB a launcher has to enable them
// (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES). Blocks loop over items: any grid of at least 1
// block is correct. The best is one block per item, for `split` up to the number that can run at
// once. No launch is needed for zero rows.
//
// If a call has few rows, their keys are split over blocks. The workspace has getWorkspaceBytes
// bytes and is unused afterwards. The counters have getCounterBytes bytes, which are zero before
// the first launch; each launch leaves zeros. Launches that share them must be ordered.
//
// The call's struct determines its variant, except for element types: see Variant. Plain C++,
// shared by the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ATTENTION_H
#define TPC_ATTENTION_H

#include "tpc/runtime.h"

namespace tpc::attention {

/// Compile-time parameters of a kernel. Kernels read all others (sizes, strides, offsets, the
/// scale) at run time.
struct Variant {
  int32_t element = TPC_F32; // tpc_dtype of q, k, v and the result: f32, f16 or bf16
  int32_t bias = -1, slopes = -1, sinks = -1; // tpc_dtype of these; -1: absent
  int32_t headSize = 0, valueSize = 0;
  bool causal = false, windowed = false, keyMask = false, mask = false, softcap = false;
  bool uniformRows = false; // rows without a visible key: uniform weights, else zeros
  bool cached = false;      // `lengths` is present: each row has a visible key

  bool operator==(const Variant &) const = default;
  /// Whether this variant computes a call whose elements have the variant's types. Calls without
  /// keys never read masks and biases, so these are not compared.
  bool takes(const tpc_attention_args &a) const {
    auto isSame = [&](const void *pointer, bool has) {
      return a.seq_k == 0 || (pointer != nullptr) == has;
    };
    return a.head_size == headSize && a.value_size == valueSize && (a.causal != 0) == causal &&
           (a.windowed != 0) == windowed && (a.softcap != 0) == softcap &&
           (a.masked_row != 0 && !a.lengths) == uniformRows && isSame(a.key_mask, keyMask) &&
           isSame(a.mask, mask) && isSame(a.bias, bias >= 0) && isSame(a.slopes, slopes >= 0) &&
           isSame(a.sinks, sinks >= 0) && isSame(a.lengths, cached);
  }
};

/// Parameters that point to memory that no kernel of a step writes: `args`.
inline constexpr unsigned kConstants[] = {0};

enum class Kernel : uint8_t { Tiles, Split };

/// Blocks of `Split` that a multiprocessor can run at once. More blocks would begin later and often
/// have no work, because a graph is recorded for the capacity of a cache.
inline constexpr int64_t kSplitBlocksOfMultiprocessor = 2;
/// Rows of a work item of `Tiles`; maximum rows of a KV head for `Split`.
inline constexpr int64_t kRowsOfTile = 64, kRowsOfSplit = 16;
/// Keys are split into at most kMaxParts parts of equally many units. The size of a part depends on
/// the number of visible keys alone, so results do not depend on the grid, on other sequences of
/// the batch, or on the capacity of the cache.
inline constexpr int64_t kKeysOfUnit = 64, kMaxParts = 32;

/// Number of rows of a KV head: its queries times the query heads that it serves.
constexpr int64_t getRows(const tpc_attention_args &a) {
  return a.heads_kv > 0 ? a.seq_q * (a.heads_q / a.heads_kv) : 0;
}
/// Whether keys are split: only for KV heads with few rows.
constexpr bool splitsKeys(const tpc_attention_args &a) { return getRows(a) <= kRowsOfSplit; }
/// Maximum number of parts of a KV head; a call with fewer visible keys uses fewer.
constexpr int64_t getParts(const tpc_attention_args &a) {
  int64_t units = (a.seq_k + kKeysOfUnit - 1) / kKeysOfUnit;
  return units < 1 ? 1 : units > kMaxParts ? kMaxParts : units;
}
/// Number of work items that the blocks of a grid loop over.
constexpr int64_t getItems(Kernel kernel, const tpc_attention_args &a) {
  int64_t rows = getRows(a), heads = a.batch * a.heads_kv;
  if (kernel == Kernel::Split)
    return rows > 0 ? heads * getParts(a) : 0;
  return (rows + kRowsOfTile - 1) / kRowsOfTile * heads;
}

/// Number of workspace floats for one row and part: a sum per value column, the maximum score, and
/// the sum of exponentials.
constexpr int64_t getPartialSize(int64_t valueSize) { return (valueSize + 3) / 4 * 4 + 4; }
/// Workspace of `split`, in bytes, aligned to 16.
constexpr int64_t getWorkspaceBytes(const tpc_attention_args &a) {
  int64_t parts = getParts(a);
  return parts > 1 ? getRows(a) * a.batch * a.heads_kv * parts * getPartialSize(a.value_size) * 4
                   : 0;
}
/// Counters of finished parts, one for each KV head of each sequence.
constexpr int64_t getCounterBytes(const tpc_attention_args &a) {
  return a.batch * a.heads_kv * static_cast<int64_t>(sizeof(int32_t));
}

} // namespace tpc::attention

#endif // TPC_ATTENTION_H
