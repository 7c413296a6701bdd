//===- Layout.h - copies of blocks of tensors -----------------------------===//

#ifndef TPC_RT_CORE_LAYOUT_H
#define TPC_RT_CORE_LAYOUT_H

#include <cstdint>
#include <cstring>

namespace tpc::rt {

/// Copies `counts[0] * counts[1] * counts[2]` runs of `run` bytes; strides in bytes.
struct RunCopy {
  int64_t counts[3] = {1, 1, 1};
  int64_t dstStrides[3] = {0, 0, 0};
  int64_t srcStrides[3] = {0, 0, 0};
  int64_t run = 0;

  void operator()(void *dst, const void *src) const {
    // Nothing is copied from or to an empty tensor, whose pointers may be null.
    if (run == 0 || counts[0] == 0 || counts[1] == 0 || counts[2] == 0)
      return;
    RunCopy c = *this;
    // A dimension that is dense on both sides belongs to the run.
    for (int d = 2; d >= 0; --d) {
      bool dense = c.dstStrides[d] == c.run && c.srcStrides[d] == c.run;
      if (!dense && c.counts[d] != 1)
        break;
      c.run *= c.counts[d];
      c.counts[d] = 1;
    }
    char *to = static_cast<char *>(dst);
    const char *from = static_cast<const char *>(src);
    for (int64_t i = 0; i < c.counts[0]; ++i)
      for (int64_t j = 0; j < c.counts[1]; ++j) {
        char *t = to + i * c.dstStrides[0] + j * c.dstStrides[1];
        const char *f = from + i * c.srcStrides[0] + j * c.srcStrides[1];
        for (int64_t k = 0; k < c.counts[2]; ++k)
          std::memcpy(t + k * c.dstStrides[2], f + k * c.srcStrides[2], c.run);
      }
  }
};

/// [outer, size, inner] of a tensor [outer, n, inner], at `offset` of n, to or from a dense block.
/// `inner` in bytes.
inline void copyIntoWhole(void *whole, const void *block, int64_t outer, int64_t n, int64_t offset,
                          int64_t size, int64_t inner) {
  RunCopy copy;
  copy.counts[2] = outer;
  copy.run = size * inner;
  copy.dstStrides[2] = n * inner;
  copy.srcStrides[2] = size * inner;
  copy(static_cast<char *>(whole) + offset * inner, block);
}
inline void copyFromWhole(void *block, const void *whole, int64_t outer, int64_t n, int64_t offset,
                          int64_t size, int64_t inner) {
  RunCopy copy;
  copy.counts[2] = outer;
  copy.run = size * inner;
  copy.dstStrides[2] = size * inner;
  copy.srcStrides[2] = n * inner;
  copy(block, static_cast<const char *>(whole) + offset * inner);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_LAYOUT_H
