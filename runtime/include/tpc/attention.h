//===- attention.h - launch interface of GPU attention kernels ------------===//
//
// For each attention variant of a program, the compiler generates three kernels, each with two
// parameters and a one-dimensional grid:
//   kernel(const tpc_attention_args *args, float *workspace) `args` is the call's struct, in device
//   memory and with device pointers. Kernels read all sizes from it, so a recorded launch can be
//   replayed with other lengths, up to the lengths that its grid and workspace were sized for. If a
//   call has few rows, their keys are split over blocks:
//   if (!attention::splitsKeys(a))
//     tiles  <<<blocks(getItems(Tiles, a)),   threads, shared>>>(args, nullptr)
//   else
//     split  <<<blocks(getItems(Split, a)),   threads, shared>>>(args, workspace)
//     combine<<<blocks(getItems(Combine, a)), threads, 0     >>>(args, workspace) The number of
//     threads and the bytes of dynamic shared memory are properties of the kernel; above 48 KiB a
//     launcher has to enable them (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES). Blocks loop
//     over items: any grid of at least 1 block is correct, and one block per item is best, up to
//     the maximum grid size. No launch is needed for zero rows. The workspace has getWorkspaceBytes
//     bytes and is unused afterwards. The call's struct determines its variant, except for element
//     types: see Variant. Plain C++, shared by the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ATTENTION_H
#define TPC_ATTENTION_H

#include "tpc/runtime.h"

namespace tpc::attention {

/// Compile-time parameters of a kernel. Kernels read all others (sizes, strides, offsets, the
/// scale) at run time.
struct Variant {
  int32_t element = TPC_F32;      // tpc_dtype of q, k, v and the result: f32, f16 or bf16
  int32_t bias = -1, slopes = -1; // tpc_dtype of these; -1: absent
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
           isSame(a.lengths, cached);
  }
};

enum class Kernel : uint8_t { Tiles, Split, Combine };

/// Number of rows of an item.
constexpr int64_t getRowsOfItem(Kernel kernel) {
  return kernel == Kernel::Tiles ? 64 : kernel == Kernel::Split ? 16 : 4;
}
/// Number of keys of a range (a "part"). Ranges do not depend on the grid of blocks, so neither do
/// results.
inline constexpr int64_t kKeysOfPart = 256;

/// Number of rows of a KV head: its queries times the query heads that it serves.
constexpr int64_t getRows(const tpc_attention_args &a) {
  return a.heads_kv > 0 ? a.seq_q * (a.heads_q / a.heads_kv) : 0;
}
/// Whether keys are split: only for KV heads with few rows.
constexpr bool splitsKeys(const tpc_attention_args &a) {
  return getRows(a) <= getRowsOfItem(Kernel::Split);
}
constexpr int64_t getParts(const tpc_attention_args &a) {
  return (a.seq_k + kKeysOfPart - 1) / kKeysOfPart;
}
/// Number of work items that the blocks of a grid loop over.
constexpr int64_t getItems(Kernel kernel, const tpc_attention_args &a) {
  int64_t rows = getRows(a), heads = a.batch * a.heads_kv, each = getRowsOfItem(kernel);
  if (kernel == Kernel::Combine) // a warp for each row, of any head
    return (rows * heads + each - 1) / each;
  int64_t items = (rows + each - 1) / each * heads;
  return kernel == Kernel::Split ? items * getParts(a) : items;
}

/// Number of workspace floats for one row and range of keys: a sum per value column, the maximum
/// score, and the sum of exponentials.
constexpr int64_t getPartialSize(int64_t valueSize) { return (valueSize + 3) / 4 * 4 + 4; }
/// Workspace of the split and combine kernels, in bytes, aligned to 16; tiles need none.
constexpr int64_t getWorkspaceBytes(const tpc_attention_args &a) {
  return getRows(a) * a.batch * a.heads_kv * getParts(a) * getPartialSize(a.value_size) * 4;
}

} // namespace tpc::attention

#endif // TPC_ATTENTION_H
