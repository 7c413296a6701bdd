//===- Grid.cpp - Process grid with named axes ----------------------------===//

#include "tpc/Support/Grid.h"

using namespace tpc;

static constexpr std::array<std::string_view, numAxes> axisNames = {"tp", "cp", "ep", "dp", "pp"};

std::string_view tpc::axisName(Axis axis) { return axisNames[unsigned(axis)]; }

std::optional<Axis> tpc::parseAxis(std::string_view name) {
  for (Axis axis : defaultAxisOrder)
    if (axisName(axis) == name)
      return axis;
  return std::nullopt;
}

std::optional<AxisSet> AxisSet::parse(std::string_view text, std::string &error) {
  AxisSet set;
  for (;;) {
    size_t end = text.find('-');
    std::string_view name = text.substr(0, end);
    std::optional<Axis> axis = parseAxis(name);
    if (!axis) {
      error = "'" + std::string(name) +
              "' is not an axis: expected tp, cp, ep, dp or pp, joined by "
              "'-' as in tp-dp";
      return std::nullopt;
    }
    if (set.contains(*axis)) {
      error = "axis '" + std::string(name) + "' is given twice";
      return std::nullopt;
    }
    set.insert(*axis);
    if (end == std::string_view::npos)
      return set;
    text.remove_prefix(end + 1);
  }
}

Grid::Grid() {
  sizes.fill(1);
  strides.fill(1);
}

std::optional<Grid> Grid::get(const std::array<int64_t, numAxes> &sizes,
                              std::span<const Axis> order, std::string &error) {
  Grid grid;
  grid.sizes = sizes;
  AxisSet seen;
  unsigned position = 0;
  for (Axis axis : order) {
    if (seen.contains(axis)) {
      error = "axis '" + std::string(axisName(axis)) + "' occurs twice in the order";
      return std::nullopt;
    }
    seen.insert(axis);
    grid.axisOrder[position++] = axis;
  }
  for (Axis axis : defaultAxisOrder) {
    if (seen.contains(axis))
      continue;
    if (grid.size(axis) != 1) {
      error = "axis '" + std::string(axisName(axis)) + "' has " + std::to_string(grid.size(axis)) +
              " ranks but is not in the order";
      return std::nullopt;
    }
    grid.axisOrder[position++] = axis;
  }
  for (Axis axis : grid.axisOrder) {
    int64_t size = grid.size(axis);
    if (size < 1) {
      error = "axis '" + std::string(axisName(axis)) + "' has size " + std::to_string(size) +
              ": it must be at least 1";
      return std::nullopt;
    }
    // The product cannot overflow, because `world` is bounded.
    if (size > maxWorldSize / grid.world) {
      error = "the grid has more than " + std::to_string(maxWorldSize) + " ranks";
      return std::nullopt;
    }
    grid.strides[unsigned(axis)] = grid.world;
    grid.world *= size;
  }
  return grid;
}

std::string Grid::orderText() const {
  std::string text;
  for (Axis axis : axisOrder) {
    if (!text.empty())
      text += '-';
    text += axisName(axis);
  }
  return text;
}

Grid::Coordinates Grid::coordinates(int64_t rank) const {
  Coordinates result;
  for (Axis axis : defaultAxisOrder)
    result[unsigned(axis)] = coordinate(rank, axis);
  return result;
}

int64_t Grid::rank(const Coordinates &coordinates) const {
  int64_t result = 0;
  for (Axis axis : defaultAxisOrder)
    result += coordinates[unsigned(axis)] * stride(axis);
  return result;
}

int64_t Grid::groupSize(AxisSet axes) const {
  int64_t result = 1;
  for (Axis axis : defaultAxisOrder)
    if (axes.contains(axis))
      result *= size(axis);
  return result;
}

/// Returns the ranks whose coordinates on the axes not in `chosen` are 0.
static std::vector<int64_t> getOffsets(std::span<const int64_t> sizes,
                                       const std::vector<bool> &chosen) {
  // Each chosen axis repeats the list at multiples of its stride, so the first axis varies fastest
  // and the list is ascending.
  std::vector<int64_t> result = {0};
  int64_t stride = 1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    size_t count = result.size();
    if (chosen[axis])
      for (int64_t i = 1; i < sizes[axis]; ++i)
        for (size_t j = 0; j < count; ++j)
          result.push_back(result[j] + i * stride);
    stride *= sizes[axis];
  }
  return result;
}

std::vector<std::vector<int64_t>> tpc::orthogonalGroups(std::span<const int64_t> sizes,
                                                        const std::vector<bool> &chosen) {
  std::vector<bool> others = chosen;
  others.flip();
  std::vector<int64_t> within = getOffsets(sizes, chosen);
  std::vector<std::vector<int64_t>> result;
  for (int64_t first : getOffsets(sizes, others)) {
    std::vector<int64_t> &group = result.emplace_back(within);
    for (int64_t &rank : group)
      rank += first;
  }
  return result;
}

std::vector<bool> Grid::toMarks(AxisSet axes) const {
  std::vector<bool> chosen;
  for (Axis axis : axisOrder)
    chosen.push_back(axes.contains(axis));
  return chosen;
}

std::vector<std::vector<int64_t>> Grid::groups(AxisSet axes) const {
  std::array<int64_t, numAxes> ordered;
  for (unsigned i = 0; i < numAxes; ++i)
    ordered[i] = size(axisOrder[i]);
  return orthogonalGroups(ordered, toMarks(axes));
}

std::vector<int64_t> Grid::groupOf(int64_t rank, AxisSet axes) const {
  int64_t first = rank;
  for (Axis axis : defaultAxisOrder)
    if (axes.contains(axis))
      first -= coordinate(rank, axis) * stride(axis);
  std::array<int64_t, numAxes> ordered;
  for (unsigned i = 0; i < numAxes; ++i)
    ordered[i] = size(axisOrder[i]);
  std::vector<int64_t> group = getOffsets(ordered, toMarks(axes));
  for (int64_t &member : group)
    member += first;
  return group;
}
