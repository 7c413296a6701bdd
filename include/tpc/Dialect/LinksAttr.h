//===- LinksAttr.h - The attribute tpc.links --------------------*- C++ -*-===//
//
//   tpc.links = {intra_node = [5.0e-6, 2.2e-12], inter_node = [1.0e-5, 2.0e-11],
//                axes = {dp = [2.0e-5, 1.0e-10]}}
//
// each [α, β], in seconds and in seconds per byte: between ranks of a node, between nodes, and of
// axes of the grid. Any of them may be absent.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_LINKSATTR_H
#define TPC_DIALECT_LINKSATTR_H

#include "tpc/Support/Links.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"

#include <optional>

namespace mlir::tpc {

/// [α, β]; nothing if it is no such pair.
std::optional<::tpc::Link> readLink(Attribute attr);

/// Checks the form of `tpc.links`.
LogicalResult verifyLinks(Attribute links, function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::tpc

#endif // TPC_DIALECT_LINKSATTR_H
