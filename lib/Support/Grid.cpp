//===- Grid.cpp - Grids of Megatron-Core's axes ---------------------------===//

#include "tpc/Support/Grid.h"

#include <algorithm>

using namespace tpc;

bool tpc::isAxis(std::string_view name) {
  return std::ranges::find(defaultAxisOrder, name) != defaultAxisOrder.end();
}

std::optional<Grid> tpc::makeGrid(const AxisSizes &sizes, std::span<const std::string_view> order,
                                  std::string &error) {
  std::vector<Grid::Axis> axes;
  auto has = [&](std::string_view name) {
    return std::ranges::any_of(axes, [&](const Grid::Axis &axis) { return axis.name == name; });
  };
  auto sizeOf = [&](std::string_view name) {
    auto it = sizes.find(name);
    return it == sizes.end() ? 1 : it->second;
  };
  for (std::string_view name : order) {
    if (has(name)) {
      error = "axis '" + std::string(name) + "' occurs twice in the order";
      return std::nullopt;
    }
    axes.push_back({std::string(name), sizeOf(name)});
  }
  for (std::string_view name : defaultAxisOrder) {
    if (has(name))
      continue;
    if (sizeOf(name) != 1) {
      error = "axis '" + std::string(name) + "' has " + std::to_string(sizeOf(name)) +
              " ranks but is not in the order";
      return std::nullopt;
    }
    axes.push_back({std::string(name), 1});
  }
  int64_t world = 1;
  for (const auto &[name, size] : axes) {
    if (size < 1) {
      error = "axis '" + name + "' has size " + std::to_string(size) + ": it must be at least 1";
      return std::nullopt;
    }
    // The product cannot overflow, because `world` is bounded.
    if (size > maxWorldSize / world) {
      error = "the grid has more than " + std::to_string(maxWorldSize) + " ranks";
      return std::nullopt;
    }
    world *= size;
  }
  return Grid(std::move(axes));
}
