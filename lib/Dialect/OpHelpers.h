//===- OpHelpers.h - Helpers for op implementations -------------*- C++ -*-===//

#ifndef TPC_LIB_DIALECT_OPHELPERS_H
#define TPC_LIB_DIALECT_OPHELPERS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

using ::tpc::SymExpr;
using Sizes = SmallVector<SymExpr>;

/// Returns the sizes of a broadcast of `a` and `b` (NumPy rules, aligned at the last dimension).
/// Fails if two sizes are neither equal nor 1.
FailureOr<Sizes> broadcastSizes(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b);

/// Emits an error at `loc` if it is given (for inferReturnTypes).
LogicalResult inferError(std::optional<Location> loc, const Twine &message);
std::string describe(ArrayRef<SymExpr> sizes);

/// Adds a new factor for each dimension of `sizes`.
ShardingRule::Dims addDims(ShardingRule &rule, ArrayRef<SymExpr> sizes,
                           FactorKind kind = FactorKind::Parallel);
/// Returns the factors of an operand that broadcasts to `result`: the result's factors for equal
/// sizes, none for broadcast dimensions.
ShardingRule::Dims broadcastDims(ArrayRef<SymExpr> operand, ArrayRef<SymExpr> result,
                                 const ShardingRule::Dims &resultDims);

/// Whether types have the same element type and global sizes. Distributions may differ.
bool compatibleTypes(TypeRange a, TypeRange b);

/// Emits "op ... " if `dim` is not a dimension of `v`.
LogicalResult checkDim(Operation *op, Value v, int64_t dim, StringRef name);
/// Whether the value has a valid type for sequence lengths (i64 or i32).
bool isLengths(Value v);
/// Emits "op ... " if a size exceeds 64 bits.
LogicalResult checkSize(Operation *op, const SymExpr &size, StringRef name);
/// Check the types of a collective that gathers dimension `dim` of its operand, or that reduces its
/// operand and scatters dimension `dim` of the result, over `axes`.
LogicalResult checkGather(Operation *op, ArrayAttr axes, int64_t dim);
LogicalResult checkScatter(Operation *op, ArrayAttr axes, int64_t dim);
/// Checks the runs of a cyclic shift: `every` divides the dimension.
LogicalResult checkRun(Operation *op, Value v, int64_t dim, const SymExpr &from,
                       const SymExpr &every);

} // namespace mlir::tpc

#endif
