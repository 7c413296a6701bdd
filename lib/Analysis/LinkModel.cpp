//===- LinkModel.cpp - Communication time by grid axis --------------------===//

#include "tpc/Analysis/LinkModel.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Link;
using ::tpc::Transfer;

LinkModel::LinkModel(ModuleOp module)
    : LinkModel(MeshAttr::lookup(module), module->getAttrOfType<DictionaryAttr>(kLinksAttr)) {}

LinkModel::LinkModel(MeshAttr grid, DictionaryAttr dict) : grid(grid) {
  if (!dict)
    return;
  if (auto link = readLink(dict.get("intra_node")))
    links.intraNode = *link;
  if (auto link = readLink(dict.get("inter_node")))
    links.interNode = *link;
  if (auto axes = dict.getAs<DictionaryAttr>("axes"))
    for (NamedAttribute axis : axes)
      if (auto link = readLink(axis.getValue()))
        axisLinks[axis.getName().getValue()] = *link;
}

bool LinkModel::crossesNodes(StringRef axis) const {
  if (!grid)
    return false;
  int64_t stride = 1;
  for (auto [name, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
    if (name.getValue() == axis)
      return ::tpc::crossesNodes(stride, size, grid.getWorldSize(), grid.getGpusPerNode());
    stride *= size;
  }
  return false; // mb is not an axis of ranks
}

Link LinkModel::getLink(StringRef axis) const {
  if (auto it = axisLinks.find(axis); it != axisLinks.end())
    return it->second;
  return crossesNodes(axis) ? links.interNode : links.intraNode;
}

Link LinkModel::getLink(ArrayRef<StringAttr> axes) const {
  Link slowest{0, 0};
  for (StringAttr axis : axes) {
    Link link = getLink(axis.getValue());
    slowest.alpha = std::max(slowest.alpha, link.alpha);
    slowest.beta = std::max(slowest.beta, link.beta);
  }
  return slowest;
}

int64_t LinkModel::getGroupSize(ArrayRef<StringAttr> axes) const {
  int64_t members = 1;
  for (StringAttr axis : axes)
    if (axis.getValue() != kMicroBatchAxis) // not an axis of ranks
      members *= grid ? grid.getAxisSize(axis.getValue()) : 1;
  return members;
}

double LinkModel::getSeconds(Transfer transfer, ArrayRef<StringAttr> axes, double bytes) const {
  return ::tpc::getSeconds(getLink(axes), transfer, getGroupSize(axes), bytes);
}
