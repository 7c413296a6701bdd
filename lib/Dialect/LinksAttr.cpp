//===- LinksAttr.cpp - The attribute tpc.links ----------------------------===//

#include "tpc/Dialect/LinksAttr.h"
#include "tpc/Dialect/ProgramAttrs.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Link;

std::optional<Link> mlir::tpc::readLink(Attribute attr) {
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
