//===- LinkModel.h - What communication costs -------------------*- C++ -*-===//
//
// Seconds for collectives over axes of a module's grid, from its `gpus_per_node` and the
// links in its attribute `tpc.links`:
//
//   tpc.links = {intra_node = [5.0e-6, 2.2e-12], inter_node = [1.0e-5, 2.0e-11],
//                axes = {dp = [2.0e-5, 1.0e-10]}}
//
// each [α, β], in seconds and in seconds per byte; what is absent has the default of
// tpc/Support/Links.h. An axis that `axes` names has that link, whatever lies under it; any other
// has the one between nodes if its groups reach over the border of a node.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_LINKMODEL_H
#define TPC_DIALECT_LINKMODEL_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/Links.h"

namespace mlir::tpc {

inline constexpr llvm::StringLiteral kLinksAttr = "tpc.links";

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

/// Checks the form of `tpc.links`.
LogicalResult verifyLinks(Attribute links, function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LINKMODEL_H
