//===- QuantizeLinear.cpp - (De)QuantizeLinear, MatMulInteger -------------===//
//
// Weights that DequantizeLinear reads stay in bytes, and tpc.dequantize computes their numbers.
// Activations are quantized by element-wise ops. Matrices of integers are multiplied in f32. ONNX
// Runtime's results are integers, which f32 represents exactly up to 2^24, and with a relative
// error of 2^-24 beyond.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"
#include "Quantize.h"

#include "tpc/Dialect/Float8.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Layout of a quantized tensor: its axis and blocks, with dimensions that scales and zero points
/// broadcast to.
struct Layout {
  Sizes shape;  // of the numbers
  Sizes blocks; // `shape` with the axis divided into blocks; `shape` if the last one is partial
  Sizes scales; // broadcasts to `blocks` if all are whole
  int64_t axis = 0;
  int64_t partialBlock = 0; // the block size if the last block is partial
};
} // namespace

/// Returns scales or zero points in a shape that broadcasts to `layout.blocks`.
static Value fit(Node &n, const Layout &layout, Value v) {
  v = n.reshape(v, layout.scales);
  if (!layout.partialBlock)
    return v;
  Sizes sizes = layout.scales;
  sizes[layout.axis + 1] = SymExpr(layout.partialBlock);
  v = n.expand(v, sizes);
  sizes.erase(sizes.begin() + layout.axis + 1);
  sizes[layout.axis] = sizes[layout.axis] * SymExpr(layout.partialBlock);
  return n.slice(n.reshape(v, sizes), layout.axis, SymExpr(0), layout.shape[layout.axis]);
}

/// Returns the layout; fails with an error if the scales do not match.
static FailureOr<Layout> getLayout(Node &n, ArrayRef<SymExpr> shape, ArrayRef<SymExpr> scales) {
  Layout layout{Sizes(shape), Sizes(shape), Sizes(shape.size(), SymExpr(1))};
  int64_t block = n.version >= 21 ? n.getInt("block_size", 0) : 0;
  int64_t axis = n.version >= 13 || !n.domain.empty() ? n.getInt("axis", 1) : 1;
  if (n.failed())
    return failure();
  auto fail = [&]() -> FailureOr<Layout> {
    n.error() << "has scales " << str(scales) << " for " << str(shape) << " with axis = " << axis
              << " and block_size = " << block
              << "; they must be a single number, one for each index of the axis, or one for each "
                 "block of it";
    return failure();
  };
  int64_t rank = shape.size();
  if (block == 0 && isSingle(scales) && scales.size() <= 1)
    return layout;
  if (axis < -rank || axis >= rank || block < 0)
    return fail();
  axis += axis < 0 ? rank : 0;
  if (block == 0) {
    if (scales.size() != 1 || scales[0] != shape[axis])
      return fail();
    layout.scales[axis] = shape[axis];
    return layout;
  }
  Sizes expected(shape);
  std::optional<SymExpr> count = shape[axis].divideExact(SymExpr(block));
  std::optional<int64_t> size = shape[axis].asConstant();
  bool isPartial = !count && size;
  if (isPartial)
    count = SymExpr(llvm::divideCeil(*size, block));
  if (count)
    expected[axis] = *count;
  if (!count || Sizes(scales) != expected)
    return fail();
  layout.scales = expected;
  if (isPartial && count->isConstant(1))
    return layout;
  layout.scales.insert(layout.scales.begin() + axis + 1, SymExpr(1));
  if (isPartial) {
    layout.axis = axis;
    layout.partialBlock = block;
    return layout;
  }
  layout.blocks[axis] = *count;
  layout.blocks.insert(layout.blocks.begin() + axis + 1, SymExpr(block));
  return layout;
}

/// Divides the last dimension into bytes and the numbers of a byte. A dimension that broadcasts has
/// one of each.
static Sizes withBytes(Sizes sizes, int64_t each) {
  SymExpr last = sizes.pop_back_val();
  bool broadcasts = last.isConstant(1);
  sizes.push_back(broadcasts ? last : *last.divideExact(SymExpr(each)));
  sizes.push_back(SymExpr(broadcasts ? 1 : each));
  return sizes;
}

/// Returns the shape of the elements of `x`, whose shape may be that of bytes.
static Sizes getShape(const Tensor &x) {
  if (x.unalignedShape)
    return *x.unalignedShape;
  Sizes shape(x.shape);
  if (x.packedBits)
    shape.back() = shape.back() * SymExpr(8 / x.packedBits);
  return shape;
}

/// Returns the integers of input `i` as floats.
static Value unpack(Node &n, unsigned i, Type element) {
  const Tensor &x = n.in(i);
  if (!x.packedBits)
    return n.cast(n.operand(i), element);
  Value numbers = n.dequantize(n.weight(i), n.constant(element, 1), {}, x.packedBits);
  Sizes shape = getShape(x);
  if (!x.unalignedShape)
    return n.reshape(numbers, shape);
  SymExpr all = x.shape[0] * SymExpr(8 / x.packedBits);
  return n.reshape(n.slice(n.reshape(numbers, {all}), 0, SymExpr(0), product(shape)), shape);
}

/// Returns the index of the first element that the file has and for which `test` is true; nothing
/// if there is none.
template <typename Element, typename Test>
static FailureOr<std::optional<size_t>> findElement(Node &n, unsigned input, Test test) {
  const Tensor &x = n.in(input);
  if (!x.source || !x.source->fileExists || x.source->elements() == 0)
    return std::optional<size_t>();
  FailureOr<DenseElementsAttr> elements = n.importer.load(*x.source, n.loc);
  if (failed(elements))
    return failure();
  for (auto [i, element] : llvm::enumerate(elements->getValues<Element>()))
    if (test(element))
      return std::optional<size_t>(i);
  return std::optional<size_t>();
}

/// Reports an error if a zero point of 8-bit floats is not 0.
static LogicalResult checkFloat8Zero(Node &n, unsigned input) {
  auto found = findElement<APInt>(n, input, [](const APInt &zero) { return (zero & 0x7f) != 0; });
  if (failed(found))
    return failure();
  if (*found)
    return n.error() << "has a zero point other than 0 at element " << **found << " of '"
                     << n.proto.input(input) << "'; zero points of 8-bit floats must be 0";
  return success();
}

/// Reports an error if a scale that divides numbers is 0.
static LogicalResult checkDivisors(Node &n, unsigned input) {
  if (failed(checkScales(n, input)) || !n.in(input).isFloat())
    return failure(n.failed());
  auto found = findElement<APFloat>(n, input, [](const APFloat &scale) { return scale.isZero(); });
  if (failed(found))
    return failure();
  if (*found)
    return n.error() << "has the scale 0 at element " << **found << " of '" << n.proto.input(input)
                     << "'; numbers are divided by it, so that it must not be 0";
  return success();
}

static LogicalResult importDequantizeLinear(Node &n) {
  enum : unsigned { X, Scale, Zero };
  if (failed(n.expectInputs(2, 3)))
    return failure();
  const Tensor &x = n.in(X), &scale = n.in(Scale);
  int64_t type = n.version >= 23 ? n.getInt("output_dtype", 0) : 0;
  if (n.failed())
    return failure();
  if (!isa<FloatType>(scale.element) ||
      (type && getElementType(n.b.getContext(), type) != scale.element))
    return n.error() << "has scales of " << scale.element << " for a result of "
                     << (type ? getDataTypeName(type) : "another type")
                     << "; both must be the same type of floats";
  bool isFloat8 = x.packedBits == 8;
  if (n.has(Zero) &&
      ((n.in(Zero).element != x.element && !isFloat8) || n.in(Zero).packedBits != x.packedBits))
    return n.error() << "has zero points of " << n.in(Zero).element << " for " << x.element
                     << "; the types must be the same";
  int64_t bits = x.packedBits ? x.packedBits : 8, each = 8 / bits;
  Sizes shape = getShape(x);
  FailureOr<Layout> layout = getLayout(n, shape, scale.shape);
  if (failed(layout) || failed(checkScales(n, Scale)))
    return failure();
  if (n.has(Zero)) {
    Sizes zeroShape = getShape(n.in(Zero));
    if (product(zeroShape) != product(layout->scales))
      return n.error() << "has zero points " << str(zeroShape) << " for scales " << str(scale.shape)
                       << "; there must be one for each scale";
  }
  if (x.element.isInteger(32) && n.has(Zero)) {
    auto found = findElement<APInt>(n, Zero, [](const APInt &zero) { return !zero.isZero(); });
    if (failed(found))
      return failure();
    if (*found)
      return n.error() << "has a zero point other than 0 at element " << **found << " of '"
                       << n.proto.input(Zero) << "'; zero points of int32 must be 0";
  }
  if (isFloat8) {
    if (n.has(Zero) && failed(checkFloat8Zero(n, Zero)))
      return failure();
    Value numbers = x.isFloat() ? n.operand(X) : createDecodeFloat8(n.b, n.loc, n.weight(X));
    numbers = n.cast(n.reshape(numbers, layout->blocks), scale.element);
    numbers = n.binary<MulOp>(numbers, fit(n, *layout, n.operand(Scale)));
    return n.result(n.reshape(numbers, shape));
  }
  if (!x.element.isInteger(8) && !x.element.isInteger(32))
    return n.error() << "has quantized numbers of " << x.element
                     << "; supported are 2, 4 and 8-bit integers, and int32";
  if (x.element.isInteger(32) || x.unalignedShape || shape.empty() || layout->partialBlock) {
    Value numbers = n.reshape(unpack(n, X, scale.element), layout->blocks);
    if (n.has(Zero) && !x.element.isInteger(32)) // the zero point of an int32 is 0
      numbers = n.binary<SubOp>(numbers, fit(n, *layout, unpack(n, Zero, scale.element)));
    numbers = n.binary<MulOp>(numbers, fit(n, *layout, n.operand(Scale)));
    return n.result(n.reshape(numbers, shape));
  }
  Sizes bytes = layout->blocks, scales = withBytes(layout->scales, each);
  if (!bytes.back().divideExact(SymExpr(each)))
    return n.error() << "has blocks of " << bytes.back().str() << " numbers of " << bits
                     << " bits, which do not end at a byte";
  bytes.back() = *bytes.back().divideExact(SymExpr(each));
  Value zero;
  if (n.has(Zero)) {
    zero = n.reshape(x.packedBits ? unpack(n, Zero, scale.element) : n.weight(Zero), scales);
    if (!zero)
      return failure();
  }
  Value numbers =
      n.dequantize(n.reshape(n.weight(X), bytes), n.reshape(n.weight(Scale), scales), zero, bits);
  return n.result(n.reshape(numbers, shape));
}

Value mlir::tpc::frontend::quantize(Node &n, Value quotient, Value zero, Type bytes) {
  bool noSign = bytes.isUnsignedInteger(8);
  Value v = n.unary<RoundOp>(quotient);
  if (zero)
    v = n.binary<AddOp>(v, zero);
  if (!v)
    return {};
  v = n.binary<MaxOp>(v, n.scalar(noSign ? 0 : -128, v));
  v = n.binary<MinOp>(v, n.scalar(noSign ? 255 : 127, v));
  return n.cast(v, bytes);
}

static LogicalResult importQuantizeLinear(Node &n) {
  enum : unsigned { X, Scale, Zero };
  if (failed(n.expectInputs(2, 3)) || failed(n.expectFloat(X)))
    return failure();
  const Tensor &x = n.in(X), &scale = n.in(Scale);
  bool saturates = n.getInt("saturate", 1); // of 8-bit floats
  int64_t type = n.version >= 21 ? n.getInt("output_dtype", 0) : 0;
  if (n.version >= 23)
    n.ignore("precision");
  if (n.failed())
    return failure();
  Type bytes = n.has(Zero) ? n.in(Zero).element
               : type      ? getElementType(n.b.getContext(), type)
                           : Type(n.b.getIntegerType(8, /*isSigned=*/false));
  bool isFloat8 =
      n.has(Zero) ? n.in(Zero).packedBits == 8 : type == ::onnx::TensorProto::FLOAT8E4M3FN;
  if (isFloat8) {
    if (!saturates)
      return n.error()
             << "does not saturate, so that large numbers would become NaN; quantize with "
                "saturate = 1";
    if (n.has(Zero) && failed(checkFloat8Zero(n, Zero)))
      return failure();
    bytes = n.b.getIntegerType(8, /*isSigned=*/false);
  }
  if (!bytes || !bytes.isInteger(8) || (n.has(Zero) && n.in(Zero).packedBits && !isFloat8) ||
      scale.element != x.element)
    return n.error() << "quantizes " << x.element << " by scales of " << scale.element
                     << "; supported are results of int8 and uint8, and scales of the input's type";
  FailureOr<Layout> layout = getLayout(n, x.shape, scale.shape);
  if (failed(layout) || failed(checkDivisors(n, Scale)))
    return failure();
  if (n.has(Zero) && product(n.in(Zero).shape) != product(layout->scales))
    return n.error() << "has zero points " << str(n.in(Zero).shape) << " for scales "
                     << str(scale.shape) << "; there must be one for each scale";
  Value quotient =
      n.binary<DivOp>(n.reshape(n.operand(X), layout->blocks), fit(n, *layout, n.operand(Scale)));
  if (isFloat8) {
    if (!quotient)
      return failure();
    quotient = n.cast(n.reshape(quotient, x.shape), n.b.getF32Type());
    Tensor result = n.wrap(createRoundToFloat8(n.b, n.loc, quotient));
    result.packedBits = 8;
    return n.set(0, result);
  }
  Value zero;
  if (n.has(Zero) && !(zero = fit(n, *layout, n.cast(n.operand(Zero), x.element))))
    return failure();
  return n.result(n.reshape(quantize(n, quotient, zero, bytes), x.shape));
}

/// Maps the range of all numbers, or of each row for generation, to 0 to 255. The range is extended
/// to contain zero.
DynamicQuantization mlir::tpc::frontend::quantizeDynamically(Node &n, Value x) {
  if (!x)
    return {};
  int64_t rank = rankOf(x);
  bool byRow = rank > 1 && n.importer.quantizesByToken();
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(byRow ? rank - 1 : 0, rank));
  auto reduce = [&](ReduceFunction function) { return n.reduce(function, x, dims, byRow); };
  Value none = n.scalar(0, x), high = n.binary<MaxOp>(reduce(ReduceFunction::Max), none),
        low = n.binary<MinOp>(reduce(ReduceFunction::Min), none);
  Value scale = n.binary<DivOp>(n.binary<SubOp>(high, low), n.scalar(255, x));
  if (!scale)
    return {};
  // A tensor of zeros has the scale 0, and the zero point 0.
  Value isZero = n.compare(Predicate::EQ, scale, none);
  Value divisor = n.select(isZero, n.scalar(1, x), scale);
  Type bytes = n.b.getIntegerType(8, /*isSigned=*/false);
  Value zero = quantize(n, n.unary<NegOp>(n.binary<DivOp>(low, divisor)), {}, bytes);
  Value y =
      zero ? quantize(n, n.binary<DivOp>(x, divisor), n.cast(zero, elementOf(x)), bytes) : Value();
  return {y, scale, zero};
}

static LogicalResult importDynamicQuantizeLinear(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  auto [y, scale, zero] = quantizeDynamically(n, n.operand(0));
  if (!y)
    return failure();
  return failure(failed(n.set(0, n.wrap(y))) || failed(n.set(1, n.wrap(scale))) ||
                 failed(n.set(2, n.wrap(zero))));
}

Value mlir::tpc::frontend::makeFactor(Node &n, unsigned input, unsigned zeros, bool isRight,
                                      std::optional<Columns> columns) {
  const Tensor &x = n.in(input);
  Type single = n.b.getF32Type();
  if (!x.element.isInteger(8)) {
    n.error() << "multiplies matrices of " << x.element << "; they must be of int8 or uint8";
    return {};
  }
  Sizes bytes(x.shape), zeroSizes(x.shape.size() + 1, SymExpr(1));
  if (n.has(zeros)) {
    const Tensor &zero = n.in(zeros);
    int64_t dim = x.rank() - (isRight ? 1 : 2);
    bool perDim = dim >= 0 && product(zero.shape) == x.shape[dim];
    Sizes rows(x.shape);
    if (!rows.empty())
      rows.back() = SymExpr(1);
    bool perRow = !isRight && ArrayRef(zero.shape) == ArrayRef(rows);
    if (zero.element != x.element || (!isSingle(zero.shape) && !perDim && !perRow)) {
      n.error() << "has zero points " << str(zero.shape) << " of " << zero.element << " for "
                << str(x.shape) << " of " << x.element
                << "; supported are one of this type, or one for each "
                << (isRight ? "column" : "row");
      return {};
    }
    if (perRow)
      std::copy(rows.begin(), rows.end(), zeroSizes.begin());
    else if (!isSingle(zero.shape))
      zeroSizes[dim] = x.shape[dim];
  }
  Value zero;
  if (n.has(zeros) && !(zero = n.reshape(n.weight(zeros), zeroSizes)))
    return {};
  Sizes shape(x.shape);
  auto takeColumns = [&](Value v) {
    int64_t dim = x.rank() - 1;
    bool isWhole = !columns || getSizes(v)[dim].isConstant(1);
    return isWhole ? v : n.slice(v, dim, columns->start, columns->size);
  };
  if (columns) {
    shape.back() = columns->size;
    if (zero) {
      zero = takeColumns(zero);
      zeroSizes = getSizes(zero);
    }
  }
  if (!x.value)
    return n.reshape(n.dequantize(takeColumns(n.weight(input)), n.constant(single, 1), zero, 8),
                     shape);
  Value v = n.cast(takeColumns(n.operand(input)), single);
  if (zero) {
    zeroSizes.pop_back();
    v = n.binary<SubOp>(v, n.cast(n.reshape(zero, zeroSizes), single));
  }
  return v;
}

static LogicalResult importMatMulInteger(Node &n) {
  if (failed(n.expectInputs(2, 4)))
    return failure();
  Value a = makeFactor(n, 0, 2, false), b = a ? makeFactor(n, 1, 3, true) : Value();
  if (!b)
    return failure();
  return n.result(n.cast(n.matmul(a, b), n.b.getI32Type()));
}

/// MatMulInteger, times both scales, plus a bias.
static LogicalResult importMatMulIntegerToFloat(Node &n) {
  enum : unsigned { A, B, ScaleA, ScaleB, ZeroA, ZeroB, Bias };
  if (failed(n.expectInputs(4, 7)))
    return failure();
  if (!n.in(ScaleA).element.isF32() || !n.in(ScaleB).element.isF32())
    return n.error() << "has scales of " << n.in(ScaleA).element << " and " << n.in(ScaleB).element
                     << "; they must be of float32";
  if (failed(checkScales(n, ScaleA)) || failed(checkScales(n, ScaleB)))
    return failure();
  Value a = makeFactor(n, A, ZeroA, false), b = a ? makeFactor(n, B, ZeroB, true) : Value();
  if (!b)
    return failure();
  Value y = n.binary<MulOp>(n.matmul(a, b), n.binary<MulOp>(n.operand(ScaleA), n.operand(ScaleB)));
  if (n.has(Bias))
    y = n.binary<AddOp>(y, n.operand(Bias));
  return n.result(y);
}

/// QuantizeLinear of the product of two DequantizeLinear.
static LogicalResult importQLinearMatMul(Node &n) {
  enum : unsigned { A, ScaleA, ZeroA, B, ScaleB, ZeroB, ScaleY, ZeroY };
  if (failed(n.expectInputs(8)))
    return failure();
  for (unsigned i : {ScaleA, ScaleB, ScaleY})
    if (!n.in(i).element.isF32() || failed(i == ScaleY ? checkDivisors(n, i) : checkScales(n, i)))
      return n.failed() ? failure()
                        : LogicalResult(n.error() << "has scales of " << n.in(i).element
                                                  << "; they must be of float32");
  if (!isSingle(n.in(ScaleA).shape) || !isSingle(n.in(ScaleY).shape) ||
      !isSingle(n.in(ZeroY).shape) || !n.in(ZeroY).element.isInteger(8) || n.in(ScaleB).rank() > 1)
    return n.error() << "has scales " << str(n.in(ScaleA).shape) << ", " << str(n.in(ScaleB).shape)
                     << " and " << str(n.in(ScaleY).shape)
                     << "; supported are one number for A and the result, and one for each column "
                        "of B";
  Value a = makeFactor(n, A, ZeroA, false), b = a ? makeFactor(n, B, ZeroB, true) : Value();
  if (!b)
    return failure();
  auto scalar = [&](unsigned i) { return n.reshape(n.operand(i), {}); };
  Value by = n.binary<DivOp>(n.binary<MulOp>(scalar(ScaleA), n.operand(ScaleB)), scalar(ScaleY));
  Value zero = n.cast(scalar(ZeroY), n.b.getF32Type());
  if (!by || !zero)
    return failure();
  return n.result(quantize(n, n.binary<MulOp>(n.matmul(a, b), by), zero, n.in(ZeroY).element));
}

void mlir::tpc::frontend::addQuantizeLinearOps(OpTable &t) {
  t.add(
      "DequantizeLinear", {10, 13, 19, 21, 23, 24, 25}, importDequantizeLinear,
      "2, 4 and 8-bit integers, int32, and float8e4m3fn without NaN; scales of the result's type");
  t.add("QuantizeLinear", {10, 13, 19, 21, 23, 24, 25}, importQuantizeLinear,
        "to int8, uint8 and float8e4m3fn with saturate; scales of the input's type");
  t.add("DynamicQuantizeLinear", {11}, importDynamicQuantizeLinear);
  t.add("MatMulInteger", {10}, importMatMulInteger);
  t.add("QLinearMatMul", {10, 21}, importQLinearMatMul,
        "one scale for A and the result, and one for each column of B");
  t.addMicrosoft("MatMulIntegerToFloat", importMatMulIntegerToFloat, "scales of float32");
  t.addMicrosoft("DequantizeLinear", importDequantizeLinear, "as in ai.onnx, opset 10");
  for (StringRef domain : {"", "com.microsoft"})
    t.unpacks(domain, "DequantizeLinear");
  t.unpacks("", "QuantizeLinear"); // for the zero point of 8-bit floats
  t.addMicrosoft("QuantizeLinear", importQuantizeLinear, "as in ai.onnx, opset 10");
}
