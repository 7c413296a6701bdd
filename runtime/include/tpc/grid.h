//===- grid.h - Grid of ranks, its groups, and balanced splits ------------===//
//
// Ranks 0 … n-1 are numbered over named axes; the first axis has the smallest stride. With the axes
// tp2, dp2, pp2
//
//     rank = tp + 2·dp + 4·pp        coordinates of rank 6: tp 0, dp 1, pp 1
//
// A group over a set of axes contains the ranks that differ only on those axes: the groups over
// {tp, dp} are {0 1 2 3} and {4 5 6 7}. Groups are ordered by their coordinates on the other axes
// (the first axis varies fastest); members of a group are in ascending order. All orders are those
// of Megatron-Core's RankGenerator. Plain C++, shared by the compiler and the runtime. See
// docs/design/grid.md.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_GRID_H
#define TPC_GRID_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpc {

/// Shard of a dimension at one coordinate.
struct Part {
  int64_t offset = 0;
  int64_t size = 0;
};

/// Balanced split of `n` over `parts` coordinates: the first `n % parts` have one element more.
inline Part partOf(int64_t n, int64_t parts, int64_t coordinate) {
  int64_t base = n / parts, extra = n % parts;
  return {coordinate * base + (coordinate < extra ? coordinate : extra),
          base + (coordinate < extra ? 1 : 0)};
}

/// Ranks that differ from one rank only on the axes of a mask, ascending.
struct Group {
  uint32_t axes = 0;
  std::vector<int> ranks;     ///< world ranks
  int index = 0;              ///< index of this rank in `ranks`
  std::vector<int64_t> sizes; ///< sizes of the mask's axes, largest stride first

  int size() const { return static_cast<int>(ranks.size()); }
  /// Returns a member's shard of a dimension of `n`. Several axes split it in turn, largest stride
  /// first, so that the shards of ascending ranks are consecutive.
  Part part(int64_t n, int member) const {
    Part whole{0, n};
    int64_t stride = size();
    for (int64_t axis : sizes) {
      stride /= axis;
      Part part = partOf(whole.size, axis, member / stride % axis);
      whole = {whole.offset + part.offset, part.size};
    }
    return whole;
  }
};

class Grid {
public:
  struct Axis {
    std::string name;
    int64_t size = 1;
    bool operator==(const Axis &) const = default;
  };

  Grid() = default;
  /// `axes`: smallest stride first. At most 31 axes.
  explicit Grid(std::vector<Axis> axes) : order(std::move(axes)) {
    for (const Axis &axis : order)
      ranks *= static_cast<int>(axis.size);
  }

  const std::vector<Axis> &axes() const { return order; }
  int numAxes() const { return static_cast<int>(order.size()); }
  int numRanks() const { return ranks; }
  /// Mask of all axes.
  uint32_t allAxes() const { return (uint32_t(1) << order.size()) - 1; }
  /// Mask of one axis; 0 if there is no axis of this name.
  uint32_t maskOf(std::string_view name) const {
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i].name == name)
        return uint32_t(1) << i;
    return 0;
  }

  /// Number of ranks along an axis; 1 if there is no axis of this name.
  int64_t size(std::string_view name) const {
    for (const Axis &axis : order)
      if (axis.name == name)
        return axis.size;
    return 1;
  }
  /// Rank difference between adjacent coordinates of an axis.
  int64_t stride(std::string_view name) const {
    int64_t stride = 1;
    for (const Axis &axis : order) {
      if (axis.name == name)
        break;
      stride *= axis.size;
    }
    return stride;
  }
  int64_t coordinate(int64_t rank, std::string_view name) const {
    return rank / stride(name) % size(name);
  }

  /// Coordinates of `rank`, one per axis in grid order.
  std::vector<int64_t> coordinatesOf(int rank) const {
    std::vector<int64_t> coordinates;
    coordinates.reserve(order.size());
    for (const Axis &axis : order) {
      coordinates.push_back(rank % axis.size);
      rank /= static_cast<int>(axis.size);
    }
    return coordinates;
  }
  int rankOf(const std::vector<int64_t> &coordinates) const {
    int64_t rank = 0;
    for (size_t i = order.size(); i-- > 0;)
      rank = rank * order[i].size + coordinates[i];
    return static_cast<int>(rank);
  }

  Group groupOf(int rank, uint32_t axes) const {
    Group group;
    group.axes = axes;
    for (size_t i = order.size(); i-- > 0;)
      if (axes >> i & 1)
        group.sizes.push_back(order[i].size);
    // Each of the mask's axes repeats the list at multiples of its stride, so that the first axis
    // varies fastest and the list is ascending.
    group.ranks = {rank};
    int64_t stride = 1;
    for (size_t i = 0; i < order.size(); ++i) {
      if (axes >> i & 1) {
        int own = static_cast<int>(rank / stride % order[i].size);
        int count = group.size();
        for (int &member : group.ranks)
          member -= static_cast<int>(own * stride);
        group.index += own * count;
        for (int64_t at = 1; at < order[i].size; ++at)
          for (int member = 0; member < count; ++member)
            group.ranks.push_back(group.ranks[member] + static_cast<int>(at * stride));
      }
      stride *= order[i].size;
    }
    return group;
  }
  /// Returns all groups over the axes of a mask: a partition of the ranks.
  std::vector<std::vector<int64_t>> groups(uint32_t axes) const {
    std::vector<std::vector<int64_t>> groups;
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t stride = 1;
      bool isFirst = true;
      for (size_t i = 0; i < order.size() && isFirst; stride *= order[i++].size)
        isFirst = !(axes >> i & 1) || rank / stride % order[i].size == 0;
      if (!isFirst)
        continue;
      Group group = groupOf(rank, axes);
      groups.emplace_back(group.ranks.begin(), group.ranks.end());
    }
    return groups;
  }

  /// "tp", "tp-dp": names of a mask's axes, in grid order.
  std::string label(uint32_t axes) const {
    std::string text;
    for (size_t i = 0; i < order.size(); ++i)
      if (axes >> i & 1)
        text += (text.empty() ? "" : "-") + order[i].name;
    return text;
  }
  /// "rank 3 (tp 1, pp 1)": includes coordinates on axes of size above 1.
  std::string describe(int rank) const {
    std::vector<int64_t> at = coordinatesOf(rank);
    std::string text;
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i].size > 1)
        text += (text.empty() ? " (" : ", ") + order[i].name + " " + std::to_string(at[i]);
    return "rank " + std::to_string(rank) + text + (text.empty() ? "" : ")");
  }

  bool operator==(const Grid &other) const { return order == other.order; }

private:
  std::vector<Axis> order;
  int ranks = 1;
};

} // namespace tpc

#endif // TPC_GRID_H
