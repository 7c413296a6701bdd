//===- IndexConstants.cpp - Constants as functions of their indices -------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Element `flat` of a constant: an integer, a number or a truth value.
static IndexExpr constantElement(DenseElementsAttr dense, int64_t flat) {
  Type element = dense.getElementType();
  if (isa<FloatType>(element))
    return IndexExpr::number(dense.getValues<llvm::APFloat>()[flat].convertToDouble());
  llvm::APInt value = dense.getValues<llvm::APInt>()[flat];
  if (element.isInteger(1))
    return IndexExpr::truth(value.getBoolValue());
  return IndexExpr::integer(
      SymExpr(isUnsigned(element) ? (int64_t)value.getZExtValue() : value.getSExtValue()));
}

// A constant matrix is recognized as a function of its indices if it is
// arithmetic (0, 1, 2, ... along one dimension) or a triangle: one value where
// column - row <= k, another elsewhere. PyTorch's causal mask buffers are.
IndexExpr IndexAnalysis::constantAt(ConstantOp op, ArrayRef<IndexExpr> where) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || dense.getNumElements() == 0)
    return {};
  if (dense.isSplat())
    return constantElement(dense, 0);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getType()).getShape();
  // Dimensions with a symbolic index, and the offset of the others.
  SmallVector<unsigned, 2> free;
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int i = (int)shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  int64_t offset = 0;
  for (auto [i, index] : llvm::enumerate(where)) {
    if (!index.isInteger())
      return {};
    auto n = index.getPolynomial().asConstant();
    if (!n) {
      if (shape[i] != 1)
        free.push_back(i);
      continue;
    }
    if (*n < 0 || *n >= shape[i])
      return {};
    offset += *n * strides[i];
  }
  if (free.empty())
    return constantElement(dense, offset);
  if (free.size() == 1) {
    int64_t n = shape[free[0]], stride = strides[free[0]];
    IndexExpr first = constantElement(dense, offset);
    bool same = true, arithmetic = n > 1 && first.isInteger();
    std::optional<SymExpr> step;
    for (int64_t i = 1; i < n; ++i) {
      IndexExpr e = constantElement(dense, offset + i * stride);
      same &= e == first;
      if (!arithmetic)
        continue;
      SymExpr difference = e.getPolynomial() - first.getPolynomial();
      if (!step)
        step = difference;
      arithmetic = difference == *step * SymExpr(i);
    }
    if (same)
      return first;
    if (arithmetic)
      return IndexExpr::integer(first.getPolynomial() + *step * where[free[0]].getPolynomial());
    return {};
  }
  if (free.size() != 2)
    return {};
  int64_t rows = shape[free[0]], columns = shape[free[1]];
  auto element = [&](int64_t r, int64_t c) {
    return constantElement(dense, offset + r * strides[free[0]] + c * strides[free[1]]);
  };
  // The border is where row 0 changes; a matrix with one value in row 0
  // changes first at the end of column 0.
  IndexExpr low = element(rows - 1, 0), high = element(0, columns - 1);
  if (low == high)
    return {};
  int64_t k = -rows;
  for (int64_t c = 0; c < columns && element(0, c) == low; ++c)
    k = c;
  if (k == -rows)
    for (int64_t r = 1; r < rows && !(element(r, 0) == low); ++r)
      k = -r - 1;
  if (k == -rows)
    k = -1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (!(element(r, c) == (c - r <= k ? low : high)))
        return {};
  SymExpr difference = where[free[1]].getPolynomial() - where[free[0]].getPolynomial() - SymExpr(k);
  return select(compare(Predicate::LE, difference), low, high);
}
