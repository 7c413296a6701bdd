//===- LinkModel.h - Cost of communication ----------------------*- C++ -*-===//
//
// Seconds for collectives over axes of a module's grid, computed from the grid's `gpus_per_node`
// and the links in the attribute `tpc.links` (LinksAttr.h). Absent entries default to those of
// tpc/Support/Links.h. An axis with a link of its own uses that link in all cases. Any other axis
// uses the inter-node link if its groups cross a node boundary, else the intra-node link.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_LINKMODEL_H
#define TPC_ANALYSIS_LINKMODEL_H

#include "tpc/Dialect/LinksAttr.h"
#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

class LinkModel {
public:
  /// Reads the module's grid (one rank if there is none) and links.
  explicit LinkModel(ModuleOp module);
  LinkModel(GridAttr grid, DictionaryAttr links);

  /// Whether the groups over an axis cross a node boundary.
  bool crossesNodes(StringRef axis) const;
  /// Returns the link of groups over these axes: the slowest of the axes' links.
  ::tpc::Link getLink(ArrayRef<StringAttr> axes) const;
  ::tpc::Link getLink(StringRef axis) const;
  const ::tpc::Links &getLinks() const { return links; }

  /// Returns the seconds for one collective over `axes` whose whole buffer has `bytes`.
  double getSeconds(::tpc::Transfer transfer, ArrayRef<StringAttr> axes, double bytes) const;
  int64_t getMembers(ArrayRef<StringAttr> axes) const;

private:
  GridAttr grid;
  ::tpc::Links links;
  llvm::StringMap<::tpc::Link> axisLinks;
};

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_LINKMODEL_H
