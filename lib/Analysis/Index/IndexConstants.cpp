//===- IndexConstants.cpp - Closed forms of constant tensors --------------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Support/Ramp.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Returns the element of a constant at the linear index `flat`.
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

/// Recognizes a matrix of two values that depends only on column - row: a triangle (one value up to
/// a diagonal) or a band (one value between two diagonals).
static IndexExpr bandAt(IndexAnalysis &a, int64_t rows, int64_t columns,
                        llvm::function_ref<IndexExpr(int64_t, int64_t)> element, const SymExpr &row,
                        const SymExpr &column) {
  // Row 0 and column 0 have one element of each diagonal; all other elements must be equal to it.
  auto onDiagonal = [&](int64_t distance) {
    return distance < 0 ? element(-distance, 0) : element(0, distance);
  };
  SmallVector<int64_t> ends; // last diagonals before the value changes
  for (int64_t distance = 1 - rows; distance < columns - 1 && ends.size() < 3; ++distance)
    if (!(onDiagonal(distance) == onDiagonal(distance + 1)))
      ends.push_back(distance);
  IndexExpr low = onDiagonal(1 - rows), high = onDiagonal(columns - 1);
  bool isBand = ends.size() == 2 && low == high;
  if (!isBand && ends.size() != 1)
    return {};
  IndexExpr middle = isBand ? onDiagonal(ends[1]) : high;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t distance = c - r;
      const IndexExpr &wanted = distance <= ends[0]              ? low
                                : !isBand || distance <= ends[1] ? middle
                                                                 : high;
      if (!(element(r, c) == wanted))
        return {};
    }
  auto isAtMost = [&](int64_t end) {
    return a.compare(Predicate::LE, column - row - SymExpr(end));
  };
  IndexExpr below = isAtMost(ends[0]);
  if (!isBand)
    return a.select(below, low, high);
  return a.select(a.conjunction({isAtMost(ends[1]), a.negation(below)}), middle, low);
}

// Recognizes three forms of constant matrices: an arithmetic progression along one dimension; a
// triangle or a band, with one value if first < column - row <= last and another value otherwise
// (PyTorch's buffers of causal and local masks); a ramp, that is, a slope per row times (column +
// start).
IndexExpr IndexAnalysis::constantAt(ConstantOp op, ArrayRef<IndexExpr> where) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || dense.getNumElements() == 0)
    return {};
  if (dense.isSplat())
    return constantElement(dense, 0);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getType()).getShape();
  // Dimensions with a symbolic index, and the linear offset of the constant indices.
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
  if (IndexExpr band = bandAt(*this, rows, columns, element, row, column))
    return band;
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
  // A row's slope is its element at column + start = 1, its negated element at column + start = -1,
  // or else its first element divided by the start.
  SmallVector<IndexExpr> inner(where);
  int64_t one = 1 - ramp->start, other = -1 - ramp->start;
  bool hasOne = one >= 0 && one < columns, hasOther = other >= 0 && other < columns;
  inner[free[1]] = IndexExpr::integer(hasOne ? one : hasOther ? other : 0);
  double number = hasOne ? 1 : hasOther ? -1 : 1.0 / double(ramp->start);
  return IndexExpr::scaled(IndexExpr::element(op.getResult(), inner), number,
                           column + SymExpr(ramp->start));
}
