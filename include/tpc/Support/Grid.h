//===- Grid.h - Process grid with named axes ------------------------------===//
//
// A grid arranges the ranks 0 … world-1 along named axes. The order of the axes defines the
// strides: the leftmost axis has the smallest stride. With tp2,dp2,pp2 and the order tp-dp-pp
//
//     rank = tp + 2·dp + 4·pp        coordinates of rank 6: tp 0, dp 1, pp 1
//
// A group over a set of axes contains the ranks that differ only on those axes: the groups over
// {tp, dp} are {0 1 2 3} and {4 5 6 7}. Groups are ordered by their coordinates on the other axes
// (the leftmost axis varies fastest); members of a group are in ascending order. All orders are
// those of Megatron-Core's RankGenerator.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_GRID_H
#define TPC_SUPPORT_GRID_H

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// Axes of tensor (and sequence), context, expert, data and pipeline parallelism, in the default
/// order.
enum class Axis : uint8_t { TP = 0, CP = 1, EP = 2, DP = 3, PP = 4 };
inline constexpr unsigned numAxes = 5;
inline constexpr std::array<Axis, numAxes> defaultAxisOrder = {Axis::TP, Axis::CP, Axis::EP,
                                                               Axis::DP, Axis::PP};

/// Convert between an axis and its name: "tp", "cp", …
std::string_view axisName(Axis axis);
std::optional<Axis> parseAxis(std::string_view name);

/// A set of axes.
class AxisSet {
public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes)
      insert(axis);
  }
  constexpr bool contains(Axis axis) const { return bits >> unsigned(axis) & 1; }
  constexpr void insert(Axis axis) { bits |= 1u << unsigned(axis); }
  constexpr bool empty() const { return bits == 0; }
  constexpr bool operator==(const AxisSet &) const = default;

  /// Parses "tp", "tp-dp", … in any order. On failure returns nothing and sets `error`.
  static std::optional<AxisSet> parse(std::string_view text, std::string &error);

private:
  uint32_t bits = 0;
};

/// Returns the groups over the axes marked in `chosen`. `sizes`: sizes of all axes, by ascending
/// stride. Groups are ordered as in Grid::groups.
std::vector<std::vector<int64_t>> orthogonalGroups(std::span<const int64_t> sizes,
                                                   const std::vector<bool> &chosen);

class Grid {
public:
  /// Limit on the number of ranks: small enough to enumerate all groups.
  static constexpr int64_t maxWorldSize = int64_t(1) << 20;

  using Coordinates = std::array<int64_t, numAxes>; // indexed by Axis

  /// A grid of one rank.
  Grid();

  /// Creates a grid. Axes of size 1 may be omitted from `order` and are then appended. On failure
  /// (a size below 1, too many ranks, an axis that is repeated in `order` or missing although its
  /// size exceeds 1) returns nothing and sets `error`.
  static std::optional<Grid> get(const std::array<int64_t, numAxes> &sizes,
                                 std::span<const Axis> order, std::string &error);

  int64_t size(Axis axis) const { return sizes[unsigned(axis)]; }
  int64_t stride(Axis axis) const { return strides[unsigned(axis)]; }
  int64_t worldSize() const { return world; }
  const std::array<Axis, numAxes> &order() const { return axisOrder; }
  /// Returns the order as text, such as "tp-cp-ep-dp-pp".
  std::string orderText() const;

  /// Requires `rank` in [0, worldSize()).
  int64_t coordinate(int64_t rank, Axis axis) const { return rank / stride(axis) % size(axis); }
  Coordinates coordinates(int64_t rank) const;
  /// Requires coordinates in [0, size(axis)).
  int64_t rank(const Coordinates &coordinates) const;

  int64_t groupSize(AxisSet axes) const;
  /// Returns all groups over `axes`: a partition of the ranks.
  std::vector<std::vector<int64_t>> groups(AxisSet axes) const;
  /// Returns the group of `rank`.
  std::vector<int64_t> groupOf(int64_t rank, AxisSet axes) const;

  bool operator==(const Grid &other) const {
    return sizes == other.sizes && axisOrder == other.axisOrder;
  }

private:
  std::vector<bool> toMarks(AxisSet axes) const; // one mark per axis, in the grid's order

  std::array<int64_t, numAxes> sizes;
  std::array<int64_t, numAxes> strides;
  std::array<Axis, numAxes> axisOrder = defaultAxisOrder;
  int64_t world = 1;
};

} // namespace tpc

#endif // TPC_SUPPORT_GRID_H
