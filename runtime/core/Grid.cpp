//===- Grid.cpp - Grid of ranks, its groups, and balanced splits ----------===//

#include "core/Grid.h"

namespace tpc::rt {

Part Group::part(int64_t n, int member) const {
  Part whole{0, n};
  int64_t stride = size();
  for (int64_t axis : sizes) {
    stride /= axis;
    Part part = partOf(whole.size, axis, member / stride % axis);
    whole = {whole.offset + part.offset, part.size};
  }
  return whole;
}

Grid::Grid(std::vector<Axis> axes) : order(std::move(axes)) {
  for (const Axis &axis : order)
    ranks *= static_cast<int>(axis.size);
}

std::vector<int64_t> Grid::coordinatesOf(int rank) const {
  std::vector<int64_t> coordinates;
  coordinates.reserve(order.size());
  for (const Axis &axis : order) {
    coordinates.push_back(rank % axis.size);
    rank /= static_cast<int>(axis.size);
  }
  return coordinates;
}

int Grid::rankOf(const std::vector<int64_t> &coordinates) const {
  int64_t rank = 0;
  for (size_t i = order.size(); i-- > 0;)
    rank = rank * order[i].size + coordinates[i];
  return static_cast<int>(rank);
}

Group Grid::groupOf(int rank, uint32_t axes) const {
  // Counting up the coordinates of the mask's axes, first axis fastest, visits the members in
  // ascending order, because strides grow with the order.
  std::vector<int64_t> mine = coordinatesOf(rank), at = mine;
  int64_t members = 1;
  Group group;
  group.axes = axes;
  for (size_t i = order.size(); i-- > 0;)
    if (axes >> i & 1) {
      members *= order[i].size;
      group.sizes.push_back(order[i].size);
    }
  for (int64_t member = 0; member < members; ++member) {
    int64_t rest = member;
    for (size_t i = 0; i < order.size(); ++i)
      if (axes >> i & 1) {
        at[i] = rest % order[i].size;
        rest /= order[i].size;
      }
    int other = rankOf(at);
    if (other == rank)
      group.index = static_cast<int>(member);
    group.ranks.push_back(other);
  }
  return group;
}

std::string Grid::label(uint32_t axes) const {
  std::string text;
  for (size_t i = 0; i < order.size(); ++i)
    if (axes >> i & 1)
      text += (text.empty() ? "" : "-") + order[i].name;
  return text;
}

std::string Grid::describe(int rank) const {
  std::vector<int64_t> at = coordinatesOf(rank);
  std::string text;
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i].size > 1)
      text += (text.empty() ? " (" : ", ") + order[i].name + " " + std::to_string(at[i]);
  return "rank " + std::to_string(rank) + text + (text.empty() ? "" : ")");
}

} // namespace tpc::rt
