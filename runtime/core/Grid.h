//===- Grid.h - Grid of ranks, its groups, and balanced splits ------------===//
//
// Ranks are numbered over named axes; the first axis has the smallest stride. See
// docs/design/types.md, docs/design/executable.md.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_GRID_H
#define TPC_RT_CORE_GRID_H

#include <cstdint>
#include <string>
#include <vector>

namespace tpc::rt {

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
  Part part(int64_t n, int member) const;
};

class Grid {
public:
  struct Axis {
    std::string name;
    int64_t size = 1;
  };

  Grid() = default;
  /// `axes` in manifest order: smallest stride first. At most 31 axes.
  explicit Grid(std::vector<Axis> axes);

  const std::vector<Axis> &axes() const { return order; }
  int numAxes() const { return static_cast<int>(order.size()); }
  int numRanks() const { return ranks; }
  /// Mask of all axes.
  uint32_t allAxes() const { return (uint32_t(1) << order.size()) - 1; }

  /// Coordinates of `rank`, one per axis in grid order.
  std::vector<int64_t> coordinatesOf(int rank) const;
  int rankOf(const std::vector<int64_t> &coordinates) const;
  Group groupOf(int rank, uint32_t axes) const;

  /// "tp", "tp-dp": names of a mask's axes, in grid order.
  std::string label(uint32_t axes) const;
  /// "rank 3 (tp 1, pp 1)": includes coordinates on axes of size above 1.
  std::string describe(int rank) const;

private:
  std::vector<Axis> order;
  int ranks = 1;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_GRID_H
