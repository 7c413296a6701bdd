//===- LinkModel.h - What communication costs -------------------*- C++ -*-===//
//
// Seconds for collectives over axes of a module's grid, from its `gpus_per_node` and the links in
// its attribute `tpc.links` (LinksAttr.h); what that does not say has the default of
// tpc/Support/Links.h. An axis that has a link of its own has that one, whatever lies under it; any
// other has the one between nodes if its groups reach over the border of a node.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_LINKMODEL_H
#define TPC_ANALYSIS_LINKMODEL_H

#include "tpc/Dialect/LinksAttr.h"
#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

class LinkModel {
public:
  /// Reads the module's grid (none: one rank) and links.
  explicit LinkModel(ModuleOp module);
  LinkModel(GridAttr grid, DictionaryAttr links);

  /// Whether the groups over an axis reach over the border of a node.
  bool crossesNodes(StringRef axis) const;
  /// The link that groups over these axes communicate on: the slowest of the axes'.
  ::tpc::Link getLink(ArrayRef<StringAttr> axes) const;
  ::tpc::Link getLink(StringRef axis) const;
  const ::tpc::Links &getLinks() const { return links; }

  /// Seconds for one collective over `axes` whose whole buffer has `bytes`.
  double getSeconds(::tpc::Transfer transfer, ArrayRef<StringAttr> axes, double bytes) const;
  int64_t getMembers(ArrayRef<StringAttr> axes) const;

private:
  GridAttr grid;
  ::tpc::Links links;
  llvm::StringMap<::tpc::Link> axisLinks;
};

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_LINKMODEL_H
