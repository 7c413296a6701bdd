//===- Buffer.h - The tpc_buffer dialect ------------------------*- C++ -*-===//

#ifndef TPC_BUFFER_BUFFER_H
#define TPC_BUFFER_BUFFER_H

#include "tpc/Dialect/Tpc.h"

#include "tpc/Dialect/ExpertEnums.h"

#include "tpc/Buffer/BufferDialect.h.inc"
#include "tpc/Buffer/BufferEnums.h.inc"

namespace mlir::tpc::buffer {
/// A size, offset or count: an expression over the symbols of RankSizes.h.
using ExprAttr = SymExprAttr;
} // namespace mlir::tpc::buffer

#define GET_ATTRDEF_CLASSES
#include "tpc/Buffer/BufferAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tpc/Buffer/BufferTypes.h.inc"

#define GET_OP_CLASSES
#include "tpc/Buffer/BufferOps.h.inc"

namespace mlir::tpc::buffer {
/// Returns the number and type of a buffer's elements.
ExtentAttr getExtent(Value buffer);
} // namespace mlir::tpc::buffer

#endif // TPC_BUFFER_BUFFER_H
