//===- IndexConstants.cpp - Constants as functions of their indices -------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Support/Ramp.h"

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

/// One of two values, by whether column - row <= k.
static IndexExpr triangleAt(IndexAnalysis &a, int64_t rows, int64_t columns,
                            llvm::function_ref<IndexExpr(int64_t, int64_t)> element,
                            const SymExpr &row, const SymExpr &column) {
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
  return a.select(a.compare(Predicate::LE, column - row - SymExpr(k)), low, high);
}

// A constant matrix is recognized as a function of its indices if it is
// arithmetic (0, 1, 2, ... along one dimension), a triangle: one value where
// column - row <= k, another elsewhere (PyTorch's causal mask buffers are), or a ramp: a number for
// each row times the column, plus something.
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
  const SymExpr &row = where[free[0]].getPolynomial(), &column = where[free[1]].getPolynomial();
  if (IndexExpr triangle = triangleAt(*this, rows, columns, element, row, column))
    return triangle;
  if (!dense.getElementType().isF32())
    return {};
  std::vector<float> table;
  auto values = dense.getValues<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      table.push_back(values[offset + r * strides[free[0]] + c * strides[free[1]]]);
  std::optional<::tpc::Ramp> ramp = ::tpc::findRamp(table, columns);
  if (!ramp)
    return {};
  // A row's number is its element in the column of 1 or of -1, or in the first over what that is.
  SmallVector<IndexExpr> inner(where);
  int64_t one = 1 - ramp->start, other = -1 - ramp->start;
  bool hasOne = one >= 0 && one < columns, hasOther = other >= 0 && other < columns;
  inner[free[1]] = IndexExpr::integer(hasOne ? one : hasOther ? other : 0);
  double number = hasOne ? 1 : hasOther ? -1 : 1.0 / double(ramp->start);
  return IndexExpr::scaled(IndexExpr::element(op.getResult(), inner), number,
                           column + SymExpr(ramp->start));
}
