//===- DiscardableAttrs.h - The attributes tpc.* ----------------*- C++ -*-===//

#ifndef TPC_LIB_DIALECT_DISCARDABLEATTRS_H
#define TPC_LIB_DIALECT_DISCARDABLEATTRS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Checks an attribute tpc.* of an input that is no argument of a function: `input_attrs` of a
/// pipeline.
LogicalResult verifyInputAttribute(NamedAttribute attribute, Type type, GridAttr grid,
                                   function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::tpc

#endif // TPC_LIB_DIALECT_DISCARDABLEATTRS_H
