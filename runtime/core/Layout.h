//===- Layout.h - Strided copies of tensor blocks -------------------------===//

#ifndef TPC_RT_CORE_LAYOUT_H
#define TPC_RT_CORE_LAYOUT_H

#include <cstdint>
#include <cstring>

namespace tpc::rt {

/// Copies `rows` blocks of `run` bytes; strides in bytes.
inline void copyRows(void *dst, const void *src, int64_t rows, int64_t run, int64_t dstStride,
                     int64_t srcStride) {
  // Empty tensors, whose pointers may be null, are not copied.
  if (run == 0 || rows == 0)
    return;
  if (dstStride == run && srcStride == run) {
    run *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(static_cast<char *>(dst) + i * dstStride,
                static_cast<const char *>(src) + i * srcStride, static_cast<size_t>(run));
}

/// Copies [outer, size, inner] of a tensor [outer, n, inner], at `offset` in n, to or from a dense
/// block. `inner` in bytes.
inline void copyIntoWhole(void *whole, const void *block, int64_t outer, int64_t n, int64_t offset,
                          int64_t size, int64_t inner) {
  int64_t run = size * inner;
  copyRows(static_cast<char *>(whole) + offset * inner, block, outer, run, n * inner, run);
}
inline void copyFromWhole(void *block, const void *whole, int64_t outer, int64_t n, int64_t offset,
                          int64_t size, int64_t inner) {
  int64_t run = size * inner;
  copyRows(block, static_cast<const char *>(whole) + offset * inner, outer, run, run, n * inner);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAYOUT_H
