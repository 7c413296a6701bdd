//===- DiscardableAttrs.h - Verification of discardable tpc.* attributes --===//

#ifndef TPC_LIB_DIALECT_DISCARDABLEATTRS_H
#define TPC_LIB_DIALECT_DISCARDABLEATTRS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Verifies a tpc.* attribute in the `input_attrs` of a pipeline.
LogicalResult verifyInputAttribute(NamedAttribute attribute, Type type, MeshAttr grid,
                                   function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::tpc

#endif // TPC_LIB_DIALECT_DISCARDABLEATTRS_H
