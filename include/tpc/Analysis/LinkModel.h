//===- LinkModel.h - Communication time by grid axis ------------*- C++ -*-===//
//
// Estimates the seconds of collectives over grid axes. Inputs are the grid's `gpus_per_node` and
// the attribute `tpc.links` (LinksAttr.h); the defaults of missing entries are in
// tpc/Support/Links.h. An axis that has an entry in `axes` of `tpc.links` uses it. Any other axis
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
  /// Reads grid and links from the attributes of `module`. Without a grid there is one rank.
  explicit LinkModel(ModuleOp module);
  LinkModel(MeshAttr grid, DictionaryAttr links);

  /// Whether a group over the axis has members in several nodes.
  bool crossesNodes(StringRef axis) const;
  /// Returns the slowest link of these axes.
  ::tpc::Link getLink(ArrayRef<StringAttr> axes) const;
  ::tpc::Link getLink(StringRef axis) const;
  const ::tpc::Links &getLinks() const { return links; }

  /// Returns the seconds for one transfer over `axes`. `bytes`: size of the whole buffer, see
  /// Transfer.
  double getSeconds(::tpc::Transfer transfer, ArrayRef<StringAttr> axes, double bytes) const;
  /// Returns the number of ranks of a group over `axes`.
  int64_t getGroupSize(ArrayRef<StringAttr> axes) const;

private:
  MeshAttr grid;
  ::tpc::Links links;
  llvm::StringMap<::tpc::Link> axisLinks;
};

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_LINKMODEL_H
