//===- LinkModel.cpp - What communication costs ---------------------------===//

#include "tpc/Dialect/LinkModel.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Link;
using ::tpc::Transfer;

/// [α, β]; nothing if it is no such pair.
static std::optional<Link> readLink(Attribute attr) {
  auto pair = dyn_cast_if_present<ArrayAttr>(attr);
  if (!pair || pair.size() != 2)
    return std::nullopt;
  auto alpha = dyn_cast<FloatAttr>(pair[0]), beta = dyn_cast<FloatAttr>(pair[1]);
  if (!alpha || !beta)
    return std::nullopt;
  Link link{alpha.getValueAsDouble(), beta.getValueAsDouble()};
  auto valid = [](double value) { return value >= 0 && value <= 1e9; }; // neither inf nor nan
  if (!valid(link.alpha) || !valid(link.beta))
    return std::nullopt;
  return link;
}

LogicalResult mlir::tpc::verifyLinks(Attribute links,
                                     function_ref<InFlightDiagnostic()> emitError) {
  auto dict = dyn_cast_if_present<DictionaryAttr>(links);
  if (!dict)
    return emitError() << "'" << kLinksAttr << "' must be a dictionary";
  auto check = [&](NamedAttribute entry) -> LogicalResult {
    if (readLink(entry.getValue()))
      return success();
    return emitError() << "'" << kLinksAttr << "': '" << entry.getName().getValue()
                       << "' must be [seconds, seconds per byte], two numbers that are not "
                          "negative, not "
                       << entry.getValue();
  };
  for (NamedAttribute entry : dict) {
    StringRef name = entry.getName();
    if (name == "axes") {
      auto axes = dyn_cast<DictionaryAttr>(entry.getValue());
      if (!axes)
        return emitError() << "'" << kLinksAttr << "': 'axes' must be a dictionary";
      for (NamedAttribute axis : axes)
        if (failed(check(axis)))
          return failure();
    } else if (name != "intra_node" && name != "inter_node") {
      return emitError() << "'" << kLinksAttr << "': there is no link '" << name
                         << "': expected intra_node, inter_node or axes";
    } else if (failed(check(entry))) {
      return failure();
    }
  }
  return success();
}

LinkModel::LinkModel(ModuleOp module)
    : LinkModel(GridAttr::lookup(module), module->getAttrOfType<DictionaryAttr>(kLinksAttr)) {}

LinkModel::LinkModel(GridAttr grid, DictionaryAttr dict) : grid(grid) {
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
  return false; // mb: in time
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

int64_t LinkModel::getMembers(ArrayRef<StringAttr> axes) const {
  int64_t members = 1;
  for (StringAttr axis : axes)
    members *= grid ? grid.getAxisSize(axis.getValue()) : 1;
  return members;
}

double LinkModel::getSeconds(Transfer transfer, ArrayRef<StringAttr> axes, double bytes) const {
  return ::tpc::getSeconds(getLink(axes), transfer, getMembers(axes), bytes);
}
