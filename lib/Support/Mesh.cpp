//===- Mesh.cpp - Mesh of atomic axes with named views --------------------===//

#include "tpc/Support/Mesh.h"

#include <algorithm>

using namespace tpc;

/// Returns the name of an axis of the grid of experts. All ranks of cp have the same experts.
static std::string_view getExpertAxis(std::string_view axis) {
  if (axis == "tp")
    return "etp";
  return axis == "cp" || axis == "dp" ? "edp" : axis;
}

/// Returns true if the ranks of a dense axis can be ranks of an expert axis.
static bool canCoincide(std::string_view dense, std::string_view expert) {
  if (expert == "ep")
    return dense == "tp" || dense == "ep" || dense == "dp";
  return dense == expert;
}

std::optional<std::vector<MeshAtom>> tpc::makeMesh(const Grid &dense, const Grid &experts,
                                                   int64_t tensorX, int64_t tensorY) {
  std::vector<MeshAtom> atoms;
  int64_t stride = 1;
  auto add = [&](std::string name, int64_t size, std::string_view axis, std::string_view expert) {
    atoms.push_back(
        {std::move(name), size, stride, std::string(axis), std::string(getExpertAxis(expert))});
    stride *= size;
  };
  // Walks both grids: each atom ends where an axis of either grid ends.
  auto expert = experts.axes().begin();
  auto end = experts.axes().end();
  int64_t expertLeft = expert == end ? 1 : expert->size;
  for (const Grid::Axis &axis : dense.axes()) {
    int64_t left = axis.size;
    if (left == 1) {
      if (axis.name != "ep" || experts.size("ep") == 1)
        add(axis.name, 1, axis.name, axis.name);
      continue;
    }
    while (left > 1) {
      while (expertLeft == 1)
        expertLeft = (++expert)->size;
      int64_t size = std::min(left, expertLeft);
      if (left % size || expertLeft % size || !canCoincide(axis.name, expert->name))
        return std::nullopt;
      bool isWhole = size == axis.size && axis.name == expert->name;
      if (isWhole && axis.name == "tp" && tensorX > 0) {
        add("tpx", tensorX, axis.name, axis.name);
        add("tpy", tensorY, axis.name, axis.name);
      } else {
        add(isWhole ? axis.name : axis.name + "_" + std::string(getExpertAxis(expert->name)), size,
            axis.name, expert->name);
      }
      left /= size;
      expertLeft /= size;
    }
  }
  return atoms;
}

Grid tpc::getGrid(std::span<const MeshAtom> atoms) {
  std::vector<Grid::Axis> axes;
  for (const MeshAtom &atom : atoms)
    axes.push_back({atom.name, atom.size});
  return Grid(std::move(axes));
}

std::vector<std::string_view> tpc::getViewNames() {
  std::vector<std::string_view> names(defaultAxisOrder.begin(), defaultAxisOrder.end());
  for (std::string_view axis : defaultAxisOrder)
    if (std::ranges::find(names, getExpertAxis(axis)) == names.end())
      names.push_back(getExpertAxis(axis));
  return names;
}

std::vector<std::string_view> tpc::getDenseAxes(std::string_view expertAxis) {
  std::vector<std::string_view> axes;
  for (std::string_view axis : defaultAxisOrder)
    if (axis != expertAxis && getExpertAxis(axis) == expertAxis)
      axes.push_back(axis);
  return axes;
}
