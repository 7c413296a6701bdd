//===- PlannedQuantized.cpp - Matmuls with quantized parameters -----------===//
//
// Follows the ops from tpc.dequantize to the matmul. Each dimension of a value is a list of
// factors, outermost first, with the distances of their elements in the packed numbers, the scales
// and the zero points. In the matrix [k, n] these distances are compared with the call's.
//
//===----------------------------------------------------------------------===//

#include "PlannedMatmuls.h"
#include "tpc/Dialect/Quantized.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
enum Source { Numbers, Scales, Zeros };

struct Factor {
  SymExpr size{1};
  SymExpr distances[3] = {SymExpr(0), SymExpr(0), SymExpr(0)};
};
using Factors = SmallVector<Factor>;

class MatrixLayout {
public:
  explicit MatrixLayout(PlanChecker &c) : c(c) {}
  /// Follows the ops that compute a value; false if one of them is not known.
  bool follow(Value v);
  bool followZeros(Value zeros);
  DequantizeOp numbers, unpackedZeros;
  Value zeros;
  SmallVector<Factors> dims; // of the value

  SmallVector<SymExpr> sizesOf(Value v) const {
    return llvm::map_to_vector(getDist(v).getDims(),
                               [&](DimAttr d) { return normal(c.sizes().size(d)); });
  }
  SymExpr normal(const SymExpr &e) const { return c.sizes().normalize(e); }

private:
  /// Sets the distances of a source that is broadcast to the result, from those of its elements.
  void setDistances(Source source, Value v, ArrayRef<SymExpr> distances);
  SmallVector<SymExpr> dense(ArrayRef<SymExpr> sizes) const;
  bool regroup(ArrayRef<SymExpr> sizes);
  PlanChecker &c;
};
} // namespace

/// Returns the operand of a cast from 16 bits to f32 that the call computes, or the value itself.
/// The call's matrix is in f32: it omits the rounding to 16 bits.
static Value getUnwidened(Value v) {
  auto cast = v ? v.getDefiningOp<CastOp>() : CastOp();
  if (!cast || !cast->hasAttr(kQuantizedAttr) || !getElementTypeOrSelf(cast.getType()).isF32())
    return v;
  Type from = getElementTypeOrSelf(cast.getOperand());
  return from.isF16() || from.isBF16() ? cast.getOperand() : v;
}

SmallVector<SymExpr> MatrixLayout::dense(ArrayRef<SymExpr> sizes) const {
  SmallVector<SymExpr> distances;
  for (size_t i = 0; i < sizes.size(); ++i)
    distances.push_back(product(sizes.drop_front(i + 1)));
  return distances;
}

void MatrixLayout::setDistances(Source source, Value v, ArrayRef<SymExpr> distances) {
  size_t skipped = dims.size() - distances.size();
  for (auto [i, size] : llvm::enumerate(sizesOf(v)))
    if (!size.isConstant(1))
      dims[skipped + i][0].distances[source] = distances[i];
}

bool MatrixLayout::regroup(ArrayRef<SymExpr> sizes) {
  Factors all;
  for (const Factors &factors : dims)
    for (const Factor &factor : factors)
      if (!factor.size.isConstant(1))
        all.push_back(factor);
  dims.clear();
  auto *next = all.begin();
  for (const SymExpr &size : sizes) {
    Factors &dim = dims.emplace_back();
    SymExpr have(1);
    for (; normal(have) != size && next != all.end(); ++next) {
      have = have * next->size;
      dim.push_back(*next);
    }
    if (normal(have) != size)
      return false;
  }
  return next == all.end();
}

bool MatrixLayout::followZeros(Value v) {
  zeros = v;
  SmallVector<SymExpr> sizes = sizesOf(v), distances = dense(sizes);
  SmallVector<SymExpr> shape = sizes;
  for (Operation *op = v.getDefiningOp(); op && op->hasAttr(kQuantizedAttr);
       op = v.getDefiningOp()) {
    if ((unpackedZeros = v.getDefiningOp<DequantizeOp>())) {
      auto one = unpackedZeros.getScale().getDefiningOp<ConstantOp>();
      auto value = one ? dyn_cast<DenseElementsAttr>(one.getValue()) : DenseElementsAttr();
      if (unpackedZeros.getZero() || unpackedZeros.getZeroPoint() != 0 || !value ||
          !value.isSplat() || value.getSplatValue<APFloat>().convertToDouble() != 1)
        return false;
      zeros = unpackedZeros.getPacked();
      break;
    }
    if (auto slice = dyn_cast<SliceOp>(op)) {
      // The slice has the first elements of each row, so the distance of its rows is that of the
      // whole rows.
      SmallVector<SymExpr> whole = sizesOf(slice.getOperand());
      if (slice.getDim() != 1 || !slice.getStart().isConstant(0) || slice.getStep() != 1 ||
          whole.size() != 2 || whole[0] != sizes[0])
        return false;
      distances[0] = whole[1];
    } else if (!isa<ReshapeOp>(op)) {
      return false;
    }
    v = op->getOperand(0);
  }
  setDistances(Zeros, numbers.getZero(), distances);
  return true;
}

bool MatrixLayout::follow(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if ((numbers = v.getDefiningOp<DequantizeOp>())) {
    SmallVector<SymExpr> sizes = sizesOf(v), distances = dense(sizes);
    for (auto [size, distance] : llvm::zip_equal(sizes, distances))
      dims.push_back({Factor{size, {distance, SymExpr(0), SymExpr(0)}}});
    setDistances(Scales, numbers.getScale(), dense(sizesOf(numbers.getScale())));
    return !numbers.getZero() || followZeros(numbers.getZero());
  }
  if (!isa<MovementOpInterface>(op) || !follow(op->getOperand(0)))
    return false;
  if (auto transpose = v.getDefiningOp<TransposeOp>()) {
    SmallVector<Factors> moved;
    for (int64_t dim : transpose.getPermutation())
      moved.push_back(dims[dim]);
    dims = std::move(moved);
    return true;
  }
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getDim() == 0 && slice.getStart().isConstant(0) && slice.getStep() == 1;
  return isa<ReshapeOp>(op) && regroup(sizesOf(v));
}

/// Distance of neighbors in a list of factors that form one index; nothing if they do not.
static std::optional<SymExpr> getDistance(const MatrixLayout &layout, ArrayRef<Factor> factors,
                                          Source source) {
  for (size_t i = 1; i < factors.size(); ++i)
    if (layout.normal(factors[i - 1].distances[source]) !=
        layout.normal(factors[i].distances[source] * factors[i].size))
      return std::nullopt;
  return factors.empty() ? SymExpr(0) : factors.back().distances[source];
}

LogicalResult mlir::tpc::checkQuantizedProduct(MatmulOp op, PlanChecker &c) {
  auto call = c.next<buffer::QuantizedProductOp>(op);
  if (!call)
    return failure();
  MatrixLayout layout(c);
  auto unknown = [&] {
    return call.emitOpError("computes a matrix that is not one of its parameters' numbers");
  };
  if (!layout.follow(getUnwidened(op.getRhs())) || layout.dims.size() != 2)
    return unknown();
  DequantizeOp numbers = layout.numbers;
  for (Type type : {op.getLhs().getType(), op.getRhs().getType(), op.getType()})
    if (!getElementTypeOrSelf(type).isF32())
      return op.emitOpError("is of a type that no library computes");
  const Factors &k = layout.dims[0], &n = layout.dims[1];
  SmallVector<SymExpr> rhs = layout.sizesOf(op.getRhs()), x = layout.sizesOf(op.getLhs());
  if (x.empty())
    return unknown();

  // Packed numbers: elements of a row are adjacent, and the bytes of rows at one distance.
  bool byRows = call.getByRows();
  auto within = getDistance(layout, byRows ? n : k, Numbers),
       across = getDistance(layout, byRows ? k : n, Numbers);
  auto isOne = [&](const SymExpr &size) { return size.isConstant(1); };
  if (!within || !across || !(isOne(*within) || isOne(rhs[byRows ? 1 : 0])))
    return unknown();
  SymExpr perByte(8 / int64_t(call.getBits()));
  if (layout.normal(call.getRowBytes().getExpr() * perByte) != layout.normal(*across) &&
      !isOne(rhs[byRows ? 0 : 1]))
    return call.emitOpError() << "has rows of " << call.getRowBytes().getExpr().str()
                              << " bytes, which are not those of the packed numbers";
  // Scales and zero points: constant within blocks of k.
  auto check = [&](StringRef what, Source source, ArrayAttr strides) -> LogicalResult {
    ArrayRef<Factor> blocks(k);
    SymExpr block(1);
    while (!blocks.empty() && blocks.back().distances[source].isConstant(0)) {
      block = block * blocks.back().size;
      blocks = blocks.drop_back();
    }
    auto columns = getDistance(layout, n, source), rows = getDistance(layout, blocks, source);
    if (!columns || !rows)
      return unknown();
    if (!blocks.empty() && failed(c.compare(call, "block", call.getBlock(), block)))
      return failure();
    // The distance of a single column, or of a single block, has no effect.
    SmallVector<SymExpr> wanted{*columns, *rows};
    bool isSingle[] = {isOne(rhs[1]), blocks.empty() && c.value(call.getBlock()) == rhs[0]};
    for (unsigned i = 0; i < 2; ++i)
      if (isSingle[i] && strides.size() == 2)
        wanted[i] = c.value(cast<buffer::ExprAttr>(strides[i]));
    return c.compare(call, what, strides, wanted);
  };
  if (failed(check("strides of scales", Scales, call.getScaleStrides())))
    return failure();
  if (bool(call.getZeros()) != bool(layout.zeros))
    return call.emitOpError("has other zero points than the op on tensors");
  if (layout.zeros && failed(check("strides of zero points", Zeros, *call.getZeroStrides())))
    return failure();
  auto compareNumber = [&](StringRef what, int64_t have, int64_t wanted) -> LogicalResult {
    if (have == wanted)
      return success();
    return call.emitOpError() << "has " << what << " " << have << ", but must have " << wanted;
  };
  bool areFloats = layout.zeros && isa<FloatType>(getElementTypeOrSelf(layout.zeros));
  int64_t zeroBits = layout.unpackedZeros         ? int64_t(layout.unpackedZeros.getBits())
                     : layout.zeros && !areFloats ? 8
                                                  : 0;
  if (failed(compareNumber("bits", call.getBits(), numbers.getBits())) ||
      failed(compareNumber("zero", call.getZeroPoint(), numbers.getZeroPoint())) ||
      failed(compareNumber("zero_bits", call.getZeroBits(), zeroBits)))
    return failure();
  // Integer zero points have the sign of the packed numbers.
  if (zeroBits && isUnsigned(layout.zeros.getType()) != isUnsigned(numbers.getPacked().getType()))
    return unknown();
  if (areFloats && getElementTypeOrSelf(layout.zeros) != getElementTypeOrSelf(numbers.getScale()))
    return unknown();

  auto epilogue = getMatmulEpilogue(op, c);
  if (failed(epilogue))
    return failure();
  for (Value v : {epilogue->bias, epilogue->residual, epilogue->result})
    if (v && !getElementTypeOrSelf(v).isF32())
      return op.emitOpError("has elements of several types, which no call computes");
  if (call.getEpilogue() != epilogue->activation)
    return call.emitOpError() << "has epilogue " << buffer::stringifyEpilogue(call.getEpilogue())
                              << ", but the op on tensors "
                              << buffer::stringifyEpilogue(epilogue->activation);
  c.setDone(op);
  return failure(failed(c.compare(call, "m", call.getM(), product(ArrayRef(x).drop_back()))) ||
                 failed(c.compare(call, "k", call.getK(), x.back())) ||
                 failed(c.compare(call, "k", call.getK(), rhs[0])) ||
                 failed(c.compare(call, "n", call.getN(), rhs[1])) ||
                 failed(c.read(call, call.getX(), op.getLhs())) ||
                 failed(c.read(call, call.getPacked(), numbers.getPacked())) ||
                 failed(c.read(call, call.getScale(), numbers.getScale())) ||
                 failed(checkOptional(c, call, "zero points", call.getZeros(), layout.zeros)) ||
                 failed(checkOptional(c, call, "bias", call.getBias(), epilogue->bias)) ||
                 failed(checkOptional(c, call, "residual", call.getResidual(), epilogue->residual,
                                      call.getTo())) ||
                 failed(c.write(call, call.getTo(), epilogue->result)));
}
