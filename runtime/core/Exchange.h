//===- Exchange.h - Tensor blocks that ranks exchange ---------------------===//
//
// In each dimension a member owns ranges of indices before and after the exchange. Several members
// may own the same shard. The elements that a member needs from a shard of other members form a
// box: one or more index ranges per dimension. One owner of the shard sends the box.
//
// Boxes are assigned by descending size; equal sizes by ascending receiver rank. Each goes to the
// owner with the fewest assigned bytes. Ties go to the owner at the receiver's coordinates on all
// other axes, then to the first owner. All members therefore compute the same assignment.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_EXCHANGE_H
#define TPC_RT_CORE_EXCHANGE_H

#include "core/Grid.h"
#include "core/TensorBlock.h"
#include "core/Transport.h"
#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpc::rt {

class Exchange {
public:
  Exchange(const Grid &grid, const Group &group, const ExchangeShape &shape);

  /// Bytes of a member's input and output.
  int64_t inBytes(int member) const { return bytesOf(before[member], before[member]); }
  int64_t outBytes(int member) const { return bytesOf(after[member], after[member]); }
  /// Bytes of the largest input.
  int64_t largest() const;
  /// Bytes that `from` sends to `to`. If both are the same member: bytes that it keeps.
  int64_t bytesBetween(int from, int to) const {
    return sends(from, to) ? bytesOf(before[from], after[to]) : 0;
  }
  /// Maximum over the members of bytes sent or received.
  int64_t maxBytes() const { return busiest; }

  /// Returns the tensor block that `from` sends to `to`.
  TensorBlock tensorBlock(int from, int to) const;

private:
  struct Range {
    int64_t begin, end;
  };
  using Ranges = std::vector<Range>; // ascending
  using Box = std::vector<Ranges>;   // ranges of each dimension
  /// Contiguous elements of one dimension, with their offsets before and after the exchange.
  using Run = TensorBlock::Run;

  /// Splits `size` over axes, for a member at these coordinates.
  Range split(int64_t size, const std::vector<int> &axes,
              const std::vector<int64_t> &coordinates) const;
  template <std::vector<int> ExchangeFactor::*factorAxes, std::vector<int> ExchangeDim::*axes>
  Box boxOf(const std::vector<int64_t> &coordinates) const;
  void chooseSenders();
  bool sends(int from, int to) const {
    return parts[from] == parts[to] ? from == to : senders[to][parts[from]] == from;
  }
  static std::vector<Run> runsIn(const Ranges &before, const Ranges &after);
  int64_t bytesOf(const Box &a, const Box &b) const;

  const Grid &grid;
  const ExchangeShape &shape;
  std::vector<Box> before, after; // per member
  // per member: the index of its shard, and its index among the shard's owners
  std::vector<int> parts, replicas;
  std::vector<std::vector<int>> senders; // sender of each shard to each member
  int numParts = 1;
  int64_t busiest = 0;
};

inline Exchange::Exchange(const Grid &grid, const Group &group, const ExchangeShape &shape)
    : grid(grid), shape(shape) {
  uint32_t splitting = 0; // axis mask
  auto mark = [&](const std::vector<int> &axes) {
    for (int axis : axes)
      splitting |= uint32_t(1) << axis;
  };
  for (const ExchangeDim &dim : shape.dims) {
    for (const ExchangeFactor &factor : dim.factors)
      mark(factor.before);
    mark(dim.before);
  }
  for (int rank : group.ranks) {
    std::vector<int64_t> coordinates = grid.coordinatesOf(rank);
    before.push_back(boxOf<&ExchangeFactor::before, &ExchangeDim::before>(coordinates));
    after.push_back(boxOf<&ExchangeFactor::after, &ExchangeDim::after>(coordinates));
    int numbers[2] = {0, 0}, strides[2] = {1, 1};
    for (int axis = 0; axis < grid.numAxes(); ++axis) {
      if (!(group.axes >> axis & 1))
        continue;
      int which = splitting >> axis & 1;
      numbers[which] += static_cast<int>(coordinates[axis]) * strides[which];
      strides[which] *= static_cast<int>(grid.axes()[axis].size);
    }
    parts.push_back(numbers[1]);
    replicas.push_back(numbers[0]);
    numParts = strides[1];
  }
  chooseSenders();
}

inline Exchange::Range Exchange::split(int64_t size, const std::vector<int> &axes,
                                       const std::vector<int64_t> &coordinates) const {
  Part part{0, size};
  for (int axis : axes) {
    Part next = partOf(part.size, grid.axes()[axis].size, coordinates[axis]);
    part = {part.offset + next.offset, next.size};
  }
  return {part.offset, part.offset + part.size};
}

template <std::vector<int> ExchangeFactor::*factorAxes, std::vector<int> ExchangeDim::*axes>
Exchange::Box Exchange::boxOf(const std::vector<int64_t> &coordinates) const {
  Box box;
  for (const ExchangeDim &dim : shape.dims) {
    // Index ranges of the factors processed so far, major to minor.
    Ranges all = {{0, 1}};
    for (const ExchangeFactor &factor : dim.factors) {
      Range own = split(factor.size, factor.*factorAxes, coordinates);
      Ranges finer;
      for (const Range &range : all)
        if (own.begin == 0 && own.end == factor.size)
          finer.push_back({range.begin * factor.size, range.end * factor.size});
        else
          for (int64_t i = range.begin; i < range.end; ++i)
            finer.push_back({i * factor.size + own.begin, i * factor.size + own.end});
      all = std::move(finer);
    }
    int64_t total = 0;
    for (const Range &range : all)
      total += range.end - range.begin;
    Range own = split(total, dim.*axes, coordinates);
    Ranges ownRanges;
    int64_t seen = 0;
    for (const Range &range : all) {
      int64_t begin = std::max(own.begin, seen), size = range.end - range.begin;
      int64_t end = std::min(own.end, seen + size);
      if (begin < end)
        ownRanges.push_back({range.begin + begin - seen, range.begin + end - seen});
      seen += size;
    }
    box.push_back(std::move(ownRanges));
  }
  return box;
}

inline void Exchange::chooseSenders() {
  int members = static_cast<int>(parts.size());
  std::vector<std::vector<int>> owners(numParts);
  for (int member = 0; member < members; ++member)
    owners[parts[member]].push_back(member);
  senders.assign(members, std::vector<int>(numParts, -1));
  std::vector<int64_t> sent(members), received(members);
  for (int part = 0; part < numParts; ++part) {
    const std::vector<int> &list = owners[part];
    std::vector<std::pair<int64_t, int>> boxes; // (-bytes, receiver)
    for (int to = 0; to < members; ++to)
      if (int64_t bytes = part == parts[to] ? 0 : bytesOf(before[list[0]], after[to]))
        boxes.push_back({-bytes, to});
    std::sort(boxes.begin(), boxes.end());
    for (auto [negative, to] : boxes) {
      int replica = replicas[to];
      int from = *std::min_element(list.begin(), list.end(), [&](int a, int b) {
        return std::tuple(sent[a], replicas[a] != replica, a) <
               std::tuple(sent[b], replicas[b] != replica, b);
      });
      senders[to][part] = from;
      sent[from] -= negative;
      received[to] -= negative;
    }
  }
  busiest = std::max(*std::max_element(sent.begin(), sent.end()),
                     *std::max_element(received.begin(), received.end()));
}

inline std::vector<Exchange::Run> Exchange::runsIn(const Ranges &before, const Ranges &after) {
  std::vector<Run> runs;
  int64_t source = 0, target = 0; // offsets of the two ranges in memory
  for (auto has = before.begin(), wants = after.begin();
       has != before.end() && wants != after.end();) {
    int64_t begin = std::max(has->begin, wants->begin), end = std::min(has->end, wants->end);
    if (begin < end)
      runs.push_back({source + begin - has->begin, target + begin - wants->begin, end - begin});
    bool first = has->end < wants->end;
    const Range &done = first ? *has++ : *wants++;
    (first ? source : target) += done.end - done.begin;
  }
  return runs;
}

inline int64_t Exchange::bytesOf(const Box &a, const Box &b) const {
  int64_t bytes = shape.element;
  for (size_t d = 0; d < a.size(); ++d) {
    int64_t size = 0;
    for (const Run &run : runsIn(a[d], b[d]))
      size += run.size;
    bytes *= size;
  }
  return bytes;
}

inline int64_t Exchange::largest() const {
  int64_t maximum = 0;
  for (size_t member = 0; member < parts.size(); ++member)
    maximum = std::max(maximum, inBytes(static_cast<int>(member)));
  return maximum;
}

inline TensorBlock Exchange::tensorBlock(int from, int to) const {
  if (!sends(from, to))
    return TensorBlock();
  std::vector<TensorBlock::Dim> dims(shape.dims.size());
  int64_t source = shape.element, target = shape.element;
  auto sizeOf = [](const Ranges &ranges) {
    int64_t size = 0;
    for (const Range &range : ranges)
      size += range.end - range.begin;
    return size;
  };
  for (size_t d = shape.dims.size(); d-- > 0;) {
    dims[d] = {runsIn(before[from][d], after[to][d]), source, target};
    source *= sizeOf(before[from][d]);
    target *= sizeOf(after[to][d]);
  }
  return TensorBlock(std::move(dims), shape.element);
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_EXCHANGE_H
