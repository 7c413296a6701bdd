//===- Mesh.cpp - Mesh of atomic axes with named views --------------------===//

#include "tpc/Support/Mesh.h"

#include <algorithm>

using namespace tpc;

/// Returns the name of an axis of the grid of experts. All ranks of cp have the same experts.
static std::string_view expertAxisName(Axis axis) {
  switch (axis) {
  case Axis::TP:
    return "etp";
  case Axis::CP:
  case Axis::DP:
    return "edp";
  default:
    return axisName(axis);
  }
}

/// Returns true if the ranks of a dense axis can be ranks of an expert axis.
static bool canCoincide(Axis dense, Axis expert) {
  if (expert == Axis::EP)
    return dense == Axis::TP || dense == Axis::EP || dense == Axis::DP;
  return dense == expert;
}

std::optional<std::vector<MeshAtom>> tpc::makeMesh(const Grid &dense, const Grid &experts,
                                                   int64_t tensorX, int64_t tensorY) {
  std::vector<MeshAtom> atoms;
  int64_t stride = 1;
  auto add = [&](std::string name, int64_t size) {
    atoms.push_back({std::move(name), size, stride});
    stride *= size;
  };
  // Walks both grids: each atom ends where an axis of either grid ends.
  auto expert = experts.order().begin();
  int64_t expertLeft = experts.size(*expert);
  for (Axis axis : dense.order()) {
    int64_t left = dense.size(axis);
    std::string name(axisName(axis));
    if (left == 1) {
      if (axis != Axis::EP || experts.size(Axis::EP) == 1)
        add(name, 1);
      continue;
    }
    while (left > 1) {
      while (expertLeft == 1)
        expertLeft = experts.size(*++expert);
      int64_t size = std::min(left, expertLeft);
      if (left % size || expertLeft % size || !canCoincide(axis, *expert))
        return std::nullopt;
      bool isWhole = size == dense.size(axis) && axis == *expert;
      if (isWhole && axis == Axis::TP && tensorX > 0) {
        add("tpx", tensorX);
        add("tpy", tensorY);
      } else {
        add(isWhole ? name : name + "_" + std::string(expertAxisName(*expert)), size);
      }
      left /= size;
      expertLeft /= size;
    }
  }
  return atoms;
}

bool tpc::isInView(std::string_view atom, std::string_view view) {
  if (atom == view)
    return true;
  if (atom == "tpx" || atom == "tpy")
    atom = "tp";
  size_t end = atom.find('_');
  std::string_view dense = atom.substr(0, end);
  // The ep of the dense grid is part of the ep of experts.
  if (dense == view)
    return true;
  if (end != std::string_view::npos)
    return atom.substr(end + 1) == view;
  std::optional<Axis> axis = parseAxis(dense);
  return axis && expertAxisName(*axis) == view;
}
