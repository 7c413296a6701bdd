//===- MergedResults.h - Results of merged matmuls --------------*- C++ -*-===//
//
// Where the target's library computes merged matmuls as one (TargetTraits::hasStridedResults),
// their results are side by side in the rows of one buffer:
//
//   [m, n1 + n2 + n3]:   row i is   q[i, :]  k[i, :]  v[i, :]
//
// Kernels, attention and tpc.append read a result with a row stride.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_MERGEDRESULTS_H
#define TPC_LIB_CONVERSION_MERGEDRESULTS_H

#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the matmuls that are merged with `op`, in program order; only `op` if it is unmarked.
SmallVector<MatmulOp> getMerged(MatmulOp op);

/// Columns of the buffer with the results of merged matmuls.
struct ResultColumns {
  MatmulOp matmul; // computes them
  ::tpc::SymExpr rows, first, width, stride;
};

/// Returns the columns that contain a value, following reshapes, fused ops and aliases back to the
/// matmul; nothing for a value with a buffer of its own.
std::optional<ResultColumns> getResultColumns(Value tensor);

/// Returns the number of leading dimensions whose product is `rows`; nothing if there is no such
/// number.
std::optional<unsigned> countRowDims(ArrayRef<::tpc::SymExpr> sizes, const ::tpc::SymExpr &rows);

/// Returns the distances in elements between neighbors in each dimension of a value in memory.
SmallVector<::tpc::SymExpr> getElementStrides(Value tensor, MeshAttr grid);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_MERGEDRESULTS_H
