//===- attention.h - How attention is launched on a GPU ---------*- C++ -*-===//
//
// For each variant of attention that a program has, the compiler generates three kernels, all with
// two parameters and a grid of one dimension:
//
//   kernel(const tpc_attention_args *args, float *workspace)
//
// `args` is the call's struct in the device's memory, with device pointers in it. They read all
// sizes from there: a launch that was recorded can be replayed with other lengths, up to those that
// its grid and workspace were made for. Few rows have their keys split over blocks:
//
//   if (!attention::splitsKeys(a))
//     tiles  <<<blocks(getItems(Tiles, a)),   threads, shared>>>(args, nullptr)
//   else
//     split  <<<blocks(getItems(Split, a)),   threads, shared>>>(args, workspace)
//     combine<<<blocks(getItems(Combine, a)), threads, 0     >>>(args, workspace)
//
// Threads and bytes of dynamic shared memory are of the kernel; above 48 KiB a launcher has to
// allow them (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES). Items are what blocks go through:
// any grid from 1 block on is right, one block for each item is best, up to what a grid may have.
// No launch is needed where there are no rows. The workspace, of getWorkspaceBytes, is dead
// afterwards. Which variant a call is of, its struct says, but for types: see Variant.
//
// Plain C++, shared by the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ATTENTION_H
#define TPC_ATTENTION_H

#include "tpc/runtime.h"

namespace tpc::attention {

/// What kernels are compiled for. All else (sizes, strides, offsets, the scale) they read.
struct Variant {
  int32_t element = TPC_F32;      // tpc_dtype of q, k, v and the result: f32, f16 or bf16
  int32_t bias = -1, slopes = -1; // tpc_dtype of these; -1: there is none
  int32_t headSize = 0, valueSize = 0;
  bool causal = false, windowed = false, keyMask = false, mask = false, softcap = false;
  bool uniformRows = false; // of rows that see no key
  bool cached = false;      // there are lengths: each row sees a key

  bool operator==(const Variant &) const = default;
  /// Whether a call of elements of the variant's types is of it. Without keys nothing is read of
  /// what masks and biases there are.
  bool takes(const tpc_attention_args &a) const {
    auto isSame = [&](const void *pointer, bool has) {
      return a.seq_k == 0 || (pointer != nullptr) == has;
    };
    return a.head_size == headSize && a.value_size == valueSize && (a.causal != 0) == causal &&
           (a.windowed != 0) == windowed && (a.softcap != 0) == softcap &&
           (a.masked_row != 0 && !a.lengths) == uniformRows && isSame(a.key_mask, keyMask) &&
           isSame(a.mask, mask) && isSame(a.bias, bias >= 0) && isSame(a.slopes, slopes >= 0) &&
           isSame(a.lengths, cached);
  }
};

enum class Kernel : uint8_t { Tiles, Split, Combine };

/// Of an item.
constexpr int64_t getRowsOfItem(Kernel kernel) {
  return kernel == Kernel::Tiles ? 64 : kernel == Kernel::Split ? 16 : 4;
}
/// Keys of one part. Parts do not depend on the grid, and so results do not.
inline constexpr int64_t kKeysOfPart = 256;

/// Rows of a kv head: its queries times the query heads that it serves.
constexpr int64_t getRows(const tpc_attention_args &a) {
  return a.heads_kv > 0 ? a.seq_q * (a.heads_q / a.heads_kv) : 0;
}
/// Rows of a kv head up to which keys are split.
constexpr bool splitsKeys(const tpc_attention_args &a) {
  return getRows(a) <= getRowsOfItem(Kernel::Split);
}
constexpr int64_t getParts(const tpc_attention_args &a) {
  return (a.seq_k + kKeysOfPart - 1) / kKeysOfPart;
}
/// What the blocks of a grid go through.
constexpr int64_t getItems(Kernel kernel, const tpc_attention_args &a) {
  int64_t rows = getRows(a), heads = a.batch * a.heads_kv, each = getRowsOfItem(kernel);
  if (kernel == Kernel::Combine) // a warp for each row, of whichever head
    return (rows * heads + each - 1) / each;
  int64_t items = (rows + each - 1) / each * heads;
  return kernel == Kernel::Split ? items * getParts(a) : items;
}

/// Floats of the workspace for one row and part: sums for each value, the largest score, and the
/// sum of powers.
constexpr int64_t getPartialSize(int64_t valueSize) { return (valueSize + 3) / 4 * 4 + 4; }
/// Of split and combine; tiles need none. Aligned to 16 bytes.
constexpr int64_t getWorkspaceBytes(const tpc_attention_args &a) {
  return getRows(a) * a.batch * a.heads_kv * getParts(a) * getPartialSize(a.value_size) * 4;
}

} // namespace tpc::attention

#endif // TPC_ATTENTION_H
