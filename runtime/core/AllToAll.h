//===- AllToAll.h - the blocks that an all-to-all exchanges ---------------===//

#ifndef TPC_RT_CORE_ALLTOALL_H
#define TPC_RT_CORE_ALLTOALL_H

#include "core/Grid.h"
#include "core/Layout.h"
#include "core/Transport.h"

namespace tpc::rt {

/// What member `from` gives member `to`: a box [outer, a', middle, b', inner] of from's input and
/// of to's output, where the split dimension has to's part and the gathered one has from's.
class AllToAllBlock {
public:
  AllToAllBlock(const Group &group, const AllToAllShape &shape, int from, int to) {
    Part a = group.part(shape.a, shape.splitFirst ? to : from);
    Part b = group.part(shape.b, shape.splitFirst ? from : to);
    outer = shape.outer;
    middle = shape.middle;
    inner = shape.inner;
    sizeA = a.size;
    sizeB = b.size;
    // The input is whole in the dimension that is split, the output in the one that is gathered.
    if (shape.splitFirst) {
      in = {shape.a, a.offset, b.size, 0};
      out = {a.size, 0, shape.b, b.offset};
    } else {
      in = {a.size, 0, shape.b, b.offset};
      out = {shape.a, a.offset, b.size, 0};
    }
  }

  int64_t bytes() const { return outer * sizeA * middle * sizeB * inner; }
  void copyThrough(void *to, const void *from) const { copy(to, out, from, in); }
  void pack(void *block, const void *from) const { copy(block, dense(), from, in); }
  void unpack(void *to, const void *block) const { copy(to, out, block, dense()); }

private:
  /// A tensor [outer, wholeA, middle, wholeB, inner] and where in it the box begins.
  struct View {
    int64_t wholeA, beginA, wholeB, beginB;
  };
  View dense() const { return {sizeA, 0, sizeB, 0}; }

  void copy(void *dst, const View &to, const void *src, const View &from) const {
    RunCopy copy;
    auto place = [&](const View &view, int64_t *strides) {
      strides[2] = view.wholeB * inner;
      strides[1] = middle * strides[2];
      strides[0] = view.wholeA * strides[1];
      return view.beginA * strides[1] + view.beginB * inner;
    };
    int64_t dstBegin = place(to, copy.dstStrides), srcBegin = place(from, copy.srcStrides);
    copy.counts[0] = outer;
    copy.counts[1] = sizeA;
    copy.counts[2] = middle;
    copy.run = sizeB * inner;
    if (bytes())
      copy(static_cast<char *>(dst) + dstBegin, static_cast<const char *>(src) + srcBegin);
  }

  int64_t outer, middle, inner, sizeA, sizeB;
  View in, out;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_ALLTOALL_H
