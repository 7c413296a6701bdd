//===- BlockMove.h - Tensor blocks that a collective-permute exchanges ----===//
//
// A collective-permute moves the elements of one dimension, viewed as [blocks, n, unit]. Some axes
// split n. Other axes then split the sequence of all remaining elements. A member therefore has the
// same range of each block (the whole block or a shard of n), except that its elements may start
// within its first block and end within its last one. Element i of a block comes from element
// (first + i) mod (n·unit) of that block. A member therefore needs at most two ranges per block
// from another member.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_BLOCKMOVE_H
#define TPC_RT_CORE_BLOCKMOVE_H

#include "core/Grid.h"
#include "core/TensorBlock.h"
#include "core/Transport.h"
#include <algorithm>

namespace tpc::rt {

class BlockMove {
public:
  BlockMove(const Grid &grid, const Group &group, const PermuteShape &shape)
      : grid(grid), group(group), shape(shape), run(shape.n * shape.unit) {}

  /// Bytes of a member's input and output.
  int64_t inBytes(int member) const { return bytes(partOf(shape.in, member)); }
  int64_t outBytes(int member) const { return bytes(partOf(shape.out, member)); }
  /// Bytes of the largest input.
  int64_t largest() const;
  /// Bytes that `from` sends to `to`.
  int64_t bytesBetween(int from, int to) const;
  /// Maximum over the members of the bytes that a member sends to others.
  int64_t maxSent() const;

  /// Returns the tensor block that `from` sends to `to`.
  TensorBlock tensorBlock(int from, int to) const;

private:
  /// A member's elements: [own, own + width) of each block. `part` is a range of their
  /// concatenation.
  struct Member {
    int64_t own, width;
    Part part;
  };
  Member partOf(const PermuteSide &side, int member) const;
  Part splitOver(Part part, const std::vector<int> &axes,
                 const std::vector<int64_t> &coordinates) const;
  int64_t bytes(const Member &m) const { return shape.outer * m.part.size * shape.inner; }

  /// Calls `use` with the offset of each range in `from`'s and in `to`'s elements, and its size.
  template <typename Fn> void forEachRange(int from, int to, Fn use) const;

  const Grid &grid;
  const Group &group;
  const PermuteShape &shape;
  int64_t run;
};

inline Part BlockMove::splitOver(Part part, const std::vector<int> &axes,
                                 const std::vector<int64_t> &coordinates) const {
  for (int axis : axes) {
    Part next = tpc::rt::partOf(part.size, grid.axes()[axis].size, coordinates[axis]);
    part = {part.offset + next.offset, next.size};
  }
  return part;
}

inline BlockMove::Member BlockMove::partOf(const PermuteSide &side, int member) const {
  std::vector<int64_t> coordinates = grid.coordinatesOf(group.ranks[member]);
  Part own = splitOver({0, shape.n}, side.part, coordinates);
  int64_t width = own.size * shape.unit;
  return {own.offset * shape.unit, width,
          splitOver({0, shape.blocks * width}, side.product, coordinates)};
}

template <typename Fn> void BlockMove::forEachRange(int from, int to, Fn use) const {
  Member source = partOf(shape.in, from), target = partOf(shape.out, to);
  if (source.part.size == 0 || target.part.size == 0)
    return;
  auto firstBlock = [](const Member &m) { return m.part.offset / m.width; };
  auto endBlock = [](const Member &m) { return (m.part.offset + m.part.size - 1) / m.width + 1; };
  // Elements [begin, end) of a block that a member has, and the memory offset of element 0.
  struct Range {
    int64_t begin, end, zero;
  };
  auto rangeIn = [](const Member &m, int64_t block) {
    int64_t begin = std::max(m.part.offset, block * m.width);
    int64_t end = std::min(m.part.offset + m.part.size, (block + 1) * m.width);
    int64_t shift = m.own - block * m.width;
    return Range{begin + shift, end + shift, -m.part.offset - shift};
  };
  int64_t end = std::min(endBlock(source), endBlock(target));
  for (int64_t block = std::max(firstBlock(source), firstBlock(target)); block < end; ++block) {
    Range has = rangeIn(source, block), wants = rangeIn(target, block);
    // The source of element i is i + first, minus `run` if beyond the end.
    for (int64_t wrapped : {0, 1}) {
      int64_t shift = shape.first - wrapped * run;
      int64_t begin = std::max({wants.begin, has.begin - shift, wrapped ? run - shape.first : 0});
      int64_t stop = std::min({wants.end, has.end - shift, wrapped ? run : run - shape.first});
      if (begin < stop)
        use(begin + shift + has.zero, begin + wants.zero, stop - begin);
    }
  }
}

inline TensorBlock BlockMove::tensorBlock(int from, int to) const {
  std::vector<TensorBlock::Run> runs;
  forEachRange(from, to, [&](int64_t source, int64_t target, int64_t size) {
    runs.push_back({source, target, size});
  });
  int64_t in = partOf(shape.in, from).part.size, out = partOf(shape.out, to).part.size;
  return TensorBlock({{{{0, 0, shape.outer}}, in * shape.inner, out * shape.inner},
                      {std::move(runs), shape.inner, shape.inner}},
                     shape.inner);
}

inline int64_t BlockMove::largest() const {
  int64_t maximum = 0;
  for (int member = 0; member < group.size(); ++member)
    maximum = std::max(maximum, inBytes(member));
  return maximum;
}

inline int64_t BlockMove::bytesBetween(int from, int to) const {
  int64_t count = 0;
  forEachRange(from, to, [&](int64_t, int64_t, int64_t size) { count += size; });
  return shape.outer * count * shape.inner;
}

inline int64_t BlockMove::maxSent() const {
  int64_t maximum = 0;
  for (int member = 0; member < group.size(); ++member)
    maximum = std::max(maximum, inBytes(member) - bytesBetween(member, member));
  return maximum;
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_BLOCKMOVE_H
