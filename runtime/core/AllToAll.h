//===- AllToAll.h - Tensor blocks that an all-to-all exchanges ------------===//

#ifndef TPC_RT_CORE_ALLTOALL_H
#define TPC_RT_CORE_ALLTOALL_H

#include "core/Grid.h"
#include "core/TensorBlock.h"
#include "core/Transport.h"
#include <array>

namespace tpc::rt {

class AllToAll {
public:
  AllToAll(const Group &group, const AllToAllShape &shape) : group(group), shape(shape) {}

  /// Bytes of a member's input.
  int64_t inBytes(int member) const {
    int64_t split = shape.splitFirst ? shape.a : shape.b;
    return shape.outer * shape.middle * shape.inner * split * gathered(member).size;
  }
  /// Bytes of the largest input: the first shard of a balanced split is the largest.
  int64_t largest() const { return inBytes(0); }
  /// Bytes that `from` sends to `to`.
  int64_t bytesBetween(int from, int to) const {
    return shape.outer * shape.middle * shape.inner * split(to).size * gathered(from).size;
  }
  TensorBlock tensorBlock(int from, int to) const;

private:
  Part split(int to) const { return group.part(shape.splitFirst ? shape.a : shape.b, to); }
  Part gathered(int from) const { return group.part(shape.splitFirst ? shape.b : shape.a, from); }

  const Group &group;
  const AllToAllShape &shape;
};

/// Returns the box [outer, a', middle, b', inner]: `to`'s shard of the split dimension, `from`'s
/// shard of the gathered dimension. The split dimension is whole in the input, the gathered one in
/// the output.
inline TensorBlock AllToAll::tensorBlock(int from, int to) const {
  struct Side {
    int64_t wholeA, beginA, wholeB, beginB;
    std::array<int64_t, 4> strides(const AllToAllShape &shape) const {
      int64_t middle = wholeB * shape.inner, a = shape.middle * middle;
      return {wholeA * a, a, middle, shape.inner};
    }
  };
  Part a = shape.splitFirst ? split(to) : gathered(from);
  Part b = shape.splitFirst ? gathered(from) : split(to);
  Side before{shape.a, a.offset, b.size, 0}, after{a.size, 0, shape.b, b.offset};
  if (!shape.splitFirst) {
    before = {a.size, 0, shape.b, b.offset};
    after = {shape.a, a.offset, b.size, 0};
  }
  auto in = before.strides(shape), out = after.strides(shape);
  return TensorBlock({{{{0, 0, shape.outer}}, in[0], out[0]},
                      {{{before.beginA, after.beginA, a.size}}, in[1], out[1]},
                      {{{0, 0, shape.middle}}, in[2], out[2]},
                      {{{before.beginB, after.beginB, b.size}}, in[3], out[3]}},
                     shape.inner);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_ALLTOALL_H
