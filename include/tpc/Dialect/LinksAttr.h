//===- LinksAttr.h - The attribute tpc.links --------------------*- C++ -*-===//
//
//   tpc.links = {intra_node = [5.0e-6, 2.2e-12], inter_node = [1.0e-5, 2.0e-11],
//                axes = {dp = [2.0e-5, 1.0e-10]}}
//
// Each pair is [α, β], in seconds and in seconds per byte: between ranks of a node, between nodes,
// and along axes of the grid. All entries are optional.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_LINKSATTR_H
#define TPC_DIALECT_LINKSATTR_H

#include "tpc/Support/Links.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"

#include <optional>

namespace mlir::tpc {

/// Parses [α, β]; nothing if `attr` has another form.
std::optional<::tpc::Link> readLink(Attribute attr);

/// Checks the form of `tpc.links`.
LogicalResult verifyLinks(Attribute links, function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LINKSATTR_H
