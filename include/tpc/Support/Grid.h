//===- Grid.h - Grids of Megatron-Core's axes -----------------------------===//
//
// The axes tp, cp, ep, dp and pp of --megatron-shard, and their order. tpc/grid.h has the class.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_GRID_H
#define TPC_SUPPORT_GRID_H

#include "tpc/grid.h"

#include <array>
#include <map>
#include <optional>
#include <span>

namespace tpc {

/// Axes of tensor (and sequence), context, expert, data and pipeline parallelism, in the default
/// order.
inline constexpr std::array<std::string_view, 5> defaultAxisOrder = {"tp", "cp", "ep", "dp", "pp"};

/// Returns true for a name of defaultAxisOrder.
bool isAxis(std::string_view name);

/// Limit on the number of ranks: small enough to enumerate all groups.
inline constexpr int64_t maxWorldSize = int64_t(1) << 20;

/// Sizes of axes by name; axes that are not listed have size 1.
using AxisSizes = std::map<std::string, int64_t, std::less<>>;

/// Creates a grid of all axes of defaultAxisOrder. Axes of size 1 may be omitted from `order` and
/// are then appended. On failure (a size below 1, too many ranks, an axis that is repeated in
/// `order` or missing although its size exceeds 1) returns nothing and sets `error`.
std::optional<Grid> makeGrid(const AxisSizes &sizes, std::span<const std::string_view> order,
                             std::string &error);

/// Returns the names of the axes of a grid, smallest stride first, such as "tp-cp-ep-dp-pp".
inline std::string getOrderText(const Grid &grid) { return grid.label(grid.allAxes()); }

} // namespace tpc

#endif // TPC_SUPPORT_GRID_H
