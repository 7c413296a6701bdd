//===- QuantizedMatrices.cpp - Matrices of quantized parameters -----------===//
//
// The result of tpc.dequantize has dimensions in the order of the packed bytes. Each dimension of a
// later value is a list of these dimensions: reshapes regroup the list, transposes exchange lists.
// In the matrix [k, n], the dimensions of n must precede those of k, or follow them.
//
//===----------------------------------------------------------------------===//

#include "QuantizedMatrices.h"

#include "tpc/Dialect/RankSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
using Sizes = SmallVector<SymExpr>;
/// Dimensions of the result of tpc.dequantize, by index.
using Dims = SmallVector<unsigned>;

class MatrixReader {
public:
  MatrixReader(const ParameterTable &parameters, MeshAttr grid)
      : parameters(parameters), grid(grid) {}
  bool read(Value rhs);
  QuantizedMatrix matrix;

private:
  Sizes sizesOf(Value v) const { return getLocalSizes(v.getType(), grid); }
  bool isEqual(const SymExpr &a, const SymExpr &b) const {
    return substituteNumbers(a, grid) == substituteNumbers(b, grid);
  }
  bool isParameter(Value v) const;
  std::optional<SmallVector<Dims>> regroup(ArrayRef<Dims> groups, ArrayRef<SymExpr> to) const;
  bool readZeros(Value zeros);
  /// Sets `strides`, of columns and of blocks of k, from the strides of the dimensions of the
  /// operand `v`. Sets the block unless it is set.
  bool setStrides(Value v, ArrayRef<SymExpr> operandStrides, Sizes &strides);
  Sizes getDenseStrides(Value v) const;

  const ParameterTable &parameters;
  MeshAttr grid;
  Sizes sizes; // of the result of tpc.dequantize
  Dims k, n;
  bool hasBlock = false;
};
} // namespace

bool mlir::tpc::isWidening(Operation *op) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  if (!cast || !getElementTypeOrSelf(cast.getType()).isF32())
    return false;
  Type from = getElementTypeOrSelf(cast.getOperand());
  return from.isF16() || from.isBF16();
}

static SymExpr productOf(ArrayRef<unsigned> dims, ArrayRef<SymExpr> sizes) {
  SymExpr result(1);
  for (unsigned dim : dims)
    result = result * sizes[dim];
  return result;
}

static bool isFirstPart(SliceOp slice, int64_t dim) {
  return slice.getDim() == uint64_t(dim) && slice.getStart().isConstant(0) && slice.getStep() == 1;
}

bool MatrixReader::isParameter(Value v) const {
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape.getOperand();
  return parameters.lookup(v);
}

/// Divides the list of all dimensions into new dimensions of the sizes `to`.
std::optional<SmallVector<Dims>> MatrixReader::regroup(ArrayRef<Dims> groups,
                                                       ArrayRef<SymExpr> to) const {
  Dims all;
  for (const Dims &group : groups)
    all.append(group);
  SmallVector<Dims> result;
  size_t next = 0;
  for (const SymExpr &size : to) {
    Dims group;
    SymExpr have(1);
    while (!isEqual(have, size)) {
      if (next == all.size())
        return std::nullopt;
      have = have * sizes[all[next]];
      group.push_back(all[next++]);
    }
    result.push_back(std::move(group));
  }
  for (; next < all.size(); ++next)
    if (!sizes[all[next]].isConstant(1))
      return std::nullopt;
  return result;
}

Sizes MatrixReader::getDenseStrides(Value v) const {
  Sizes operandSizes = sizesOf(v), strides(operandSizes.size(), SymExpr(1));
  for (size_t i = operandSizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * operandSizes[i];
  return strides;
}

bool MatrixReader::setStrides(Value v, ArrayRef<SymExpr> operandStrides, Sizes &strides) {
  // Strides by dimension of the result; nothing if the operand is broadcast along it.
  SmallVector<std::optional<SymExpr>> all(sizes.size());
  auto dims = getDist(v).getDims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (!dims[i].getExpr().isConstant(1))
      all[sizes.size() - dims.size() + i] = operandStrides[i];
  // Leading dimensions have strides, and form one index; the others are within a block.
  auto getIndex = [&](ArrayRef<unsigned> list) -> std::optional<std::pair<size_t, SymExpr>> {
    size_t count = 0;
    while (count < list.size() && all[list[count]])
      ++count;
    for (size_t i = count; i < list.size(); ++i)
      if (all[list[i]])
        return std::nullopt;
    for (size_t i = 1; i < count; ++i)
      if (!isEqual(*all[list[i - 1]], *all[list[i]] * sizes[list[i]]))
        return std::nullopt;
    return std::pair(count, count ? *all[list[count - 1]] : SymExpr(0));
  };
  auto columns = getIndex(n), blocks = getIndex(k);
  if (!columns || !blocks || (columns->first != 0 && columns->first != n.size()))
    return false;
  strides = {columns->second, blocks->second};
  SymExpr block = productOf(ArrayRef(k).drop_front(blocks->first), sizes);
  if (blocks->first == 0)
    return true; // any block
  if (hasBlock && !isEqual(block, matrix.block))
    return false;
  matrix.block = block;
  hasBlock = true;
  return true;
}

bool MatrixReader::readZeros(Value zeros) {
  matrix.zeros = zeros;
  Sizes operandStrides = getDenseStrides(zeros);
  if (isParameter(zeros)) {
    matrix.zeroBits = isa<FloatType>(getElementTypeOrSelf(zeros)) ? 0 : 8;
    return setStrides(zeros, operandStrides, matrix.zeroStrides);
  }
  // Packed zero points of a column; the last byte may be used in part.
  Value v = zeros;
  auto skip = [&](Value value) {
    while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      matrix.ops.push_back(reshape);
      value = reshape.getOperand();
    }
    return value;
  };
  v = skip(v);
  if (auto slice = v.getDefiningOp<SliceOp>()) {
    Sizes whole = sizesOf(slice.getOperand()), part = sizesOf(slice), dims = sizesOf(zeros);
    if (!isFirstPart(slice, 1) || whole.size() != 2 || !isEqual(dims[0], part[0]))
      return false;
    operandStrides[0] = whole[1];
    matrix.ops.push_back(slice);
    v = skip(slice.getOperand());
  }
  auto unpacked = v.getDefiningOp<DequantizeOp>();
  if (!unpacked || unpacked.getZero() || unpacked.getZeroPoint() != 0 ||
      isUnsigned(unpacked.getPacked().getType()) !=
          isUnsigned(matrix.numbers.getPacked().getType()) ||
      !isParameter(unpacked.getPacked()))
    return false;
  auto one = unpacked.getScale().getDefiningOp<ConstantOp>();
  auto value = one ? dyn_cast<DenseElementsAttr>(one.getValue()) : DenseElementsAttr();
  if (!value || !value.isSplat() || value.getSplatValue<APFloat>().convertToDouble() != 1)
    return false;
  matrix.ops.push_back(unpacked);
  matrix.zeroBits = unpacked.getBits();
  if (!setStrides(zeros, operandStrides, matrix.zeroStrides))
    return false;
  matrix.zeros = unpacked.getPacked();
  return true;
}

bool MatrixReader::read(Value rhs) {
  SmallVector<Operation *> path; // from the matmul to tpc.dequantize
  Value v = rhs;
  if (Operation *op = v.getDefiningOp(); isWidening(op)) {
    path.push_back(op);
    v = op->getOperand(0);
  }
  Operation *rows = v.getDefiningOp<SliceOp>();
  while (Operation *op = v.getDefiningOp()) {
    path.push_back(op);
    if (v.getDefiningOp<DequantizeOp>())
      break;
    if (!isa<ReshapeOp, TransposeOp>(op) && op != rows)
      return false;
    v = op->getOperand(0);
  }
  matrix.numbers = v.getDefiningOp<DequantizeOp>();
  if (!matrix.numbers || !(getElementTypeOrSelf(v).isF32() || isWidening(rhs.getDefiningOp())) ||
      cast<RankedTensorType>(rhs.getType()).getRank() != 2)
    return false;
  matrix.packed = matrix.numbers.getPacked();
  matrix.ops = path;
  matrix.scale = matrix.numbers.getScale();
  if (!isParameter(matrix.packed) || !isParameter(matrix.scale))
    return false;
  sizes = sizesOf(v);
  SmallVector<Dims> groups;
  for (unsigned i = 0; i < sizes.size(); ++i)
    groups.push_back({i});
  for (Operation *op : llvm::drop_begin(llvm::reverse(path))) {
    if (op == rows) {
      if (!isFirstPart(cast<SliceOp>(op), 0))
        return false;
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      SmallVector<Dims> moved;
      for (int64_t dim : transpose.getPermutation())
        moved.push_back(groups[dim]);
      groups = std::move(moved);
    } else {
      auto divided = regroup(groups, sizesOf(op->getResult(0)));
      if (!divided)
        return false;
      groups = std::move(*divided);
    }
  }
  if (groups.size() != 2)
    return false;
  auto isOne = [&](unsigned dim) { return sizes[dim].isConstant(1); };
  for (Dims &group : groups)
    llvm::erase_if(group, isOne);
  k = groups[0];
  n = groups[1];
  Dims first = n, second = k;
  matrix.byRows = !n.empty() && !k.empty() && k.front() < n.front();
  if (matrix.byRows)
    std::swap(first, second);
  Dims all(first);
  all.append(second);
  if (!llvm::is_sorted(all))
    return false;
  // A row has whole bytes.
  unsigned within = sizes.size() - 1;
  if (!isOne(within) && (second.empty() || second.back() != within))
    return false;
  llvm::erase(second, within);
  matrix.rowBytes = productOf(second, sizes);
  matrix.block = productOf(k, sizes);
  if (!setStrides(matrix.scale, getDenseStrides(matrix.scale), matrix.scaleStrides))
    return false;
  return !matrix.numbers.getZero() || readZeros(matrix.numbers.getZero());
}

std::optional<QuantizedMatrix> mlir::tpc::getQuantizedMatrix(Value rhs,
                                                             const ParameterTable &parameters) {
  Operation *op = rhs.getDefiningOp();
  if (!op)
    return std::nullopt;
  MatrixReader reader(parameters, MeshAttr::lookup(op));
  if (!reader.read(rhs))
    return std::nullopt;
  return reader.matrix;
}
