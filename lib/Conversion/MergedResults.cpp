//===- MergedResults.cpp - Results of merged matmuls ----------------------===//

#include "MergedResults.h"

#include "BufferPlanner.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SmallVector<MatmulOp> mlir::tpc::getMerged(MatmulOp op) {
  Attribute mark = op->getAttr(kMergedAttr);
  if (!mark)
    return {op};
  SmallVector<MatmulOp> merged;
  for (OpOperand &use : op.getLhs().getUses())
    if (auto other = dyn_cast<MatmulOp>(use.getOwner()); other && use.getOperandNumber() == 0 &&
                                                         other->getBlock() == op->getBlock() &&
                                                         other->getAttr(kMergedAttr) == mark)
      merged.push_back(other);
  llvm::sort(merged, [](MatmulOp a, MatmulOp b) { return a->isBeforeInBlock(b); });
  return merged;
}

std::optional<ResultColumns> mlir::tpc::getResultColumns(Value tensor) {
  auto op = tensor.getDefiningOp<HostOpInterface>();
  while (op && op.isHostOp() && op.isSameMemory() && op.getAliased())
    op = op.getAliased().getDefiningOp<HostOpInterface>();
  auto matmul = op ? dyn_cast<MatmulOp>(op.getOperation()) : MatmulOp();
  if (!matmul || !matmul->hasAttr(kMergedAttr) || !TargetTraits::get(matmul).hasStridedResults)
    return std::nullopt;
  MeshAttr grid = MeshAttr::lookup(matmul);
  SmallVector<SymExpr> lhs = getLocalSizes(matmul.getLhs().getType(), grid);
  ResultColumns columns{matmul, SymExpr(1), SymExpr(0), SymExpr(0), SymExpr(0)};
  for (const SymExpr &size : ArrayRef(lhs).drop_back())
    columns.rows = columns.rows * size;
  for (MatmulOp other : getMerged(matmul)) {
    SymExpr width = getLocalSizes(other.getRhs().getType(), grid).back();
    if (other == matmul) {
      columns.first = columns.stride;
      columns.width = width;
    }
    columns.stride = columns.stride + width;
  }
  return columns;
}

std::optional<unsigned> mlir::tpc::countRowDims(ArrayRef<SymExpr> sizes, const SymExpr &rows) {
  SymExpr count(1);
  for (unsigned i = 0; i < sizes.size(); ++i) {
    count = count * sizes[i];
    if (count == rows)
      return i + 1;
  }
  return std::nullopt;
}

SmallVector<SymExpr> mlir::tpc::getElementStrides(Value tensor, MeshAttr grid) {
  SmallVector<SymExpr> sizes = getLocalSizes(tensor.getType(), grid);
  // An aliased transpose has the strides of its operand, permuted.
  if (auto transpose = tensor.getDefiningOp<TransposeOp>();
      transpose && transpose->hasAttr(kAliasedAttr)) {
    SmallVector<SymExpr> operandStrides = getElementStrides(transpose.getOperand(), grid), strides;
    for (int64_t dim : transpose.getPermutation())
      strides.push_back(operandStrides[dim]);
    return strides;
  }
  unsigned rowDims = 0;
  std::optional<ResultColumns> columns = getResultColumns(tensor);
  if (columns)
    rowDims = *countRowDims(sizes, columns->rows); // tpc-merge-matmuls has checked it
  SmallVector<SymExpr> strides(sizes.size(), SymExpr(1));
  SymExpr stride(1);
  for (size_t i = sizes.size(); i-- > 0;) {
    if (i + 1 == rowDims)
      stride = columns->stride;
    strides[i] = stride;
    stride = stride * sizes[i];
  }
  return strides;
}
