//===- OpHelpers.h - What op implementations share --------------*- C++ -*-===//

#ifndef TPC_LIB_DIALECT_OPHELPERS_H
#define TPC_LIB_DIALECT_OPHELPERS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

using ::tpc::SymExpr;
using Sizes = SmallVector<SymExpr>;

/// Sizes of a broadcast of `a` and `b` (numpy, aligned at the last dimension);
/// fails where two sizes are neither equal nor 1.
FailureOr<Sizes> broadcastSizes(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b);

/// Emits an error at `loc` if there is one; for inferReturnTypes.
LogicalResult inferError(std::optional<Location> loc, const Twine &message);
std::string describe(ArrayRef<SymExpr> sizes);

/// Factor of each dimension of `sizes`, all new.
ShardingRule::Dims addDims(ShardingRule &rule, ArrayRef<SymExpr> sizes,
                           FactorKind kind = FactorKind::Parallel);
/// Dimensions of an operand that broadcasts to `result`: where sizes are
/// equal the result's factors, where the operand has 1 none.
ShardingRule::Dims broadcastDims(ArrayRef<SymExpr> operand, ArrayRef<SymExpr> result,
                                 const ShardingRule::Dims &resultDims);

/// Compatible: same element type and same global sizes (distributions differ).
bool compatibleTypes(TypeRange a, TypeRange b);

/// Emits "op ... " if `dim` is not a dimension of `v`.
LogicalResult checkDim(Operation *op, Value v, int64_t dim, StringRef name);
/// Whether numbers of tokens may be of this value's type.
bool isLengths(Value v);
/// Emits "op ... " if a size has left 64 bits.
LogicalResult checkSize(Operation *op, const SymExpr &size, StringRef name);
/// Checks the runs of a cyclic shift: `every` divides the dimension.
LogicalResult checkRun(Operation *op, Value v, int64_t dim, const SymExpr &from,
                       const SymExpr &every);

} // namespace mlir::tpc

#endif
