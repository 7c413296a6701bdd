//===- QOperator.cpp - Ops of ONNX Runtime on quantized activations -------===//
//
// Each op of the static QOperator format is the op on dequantized numbers, whose result is
// quantized. Sums of integers are computed in f32, see QuantizeLinear.cpp.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"
#include "Quantize.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Reports an error unless a scale is one number of float32 and its zero point is one number of 8
/// bits. The zero point may be missing. A scale that is a constant of the file must be finite.
static LogicalResult checkScale(Node &n, unsigned scale, unsigned zero) {
  if (!n.has(scale) || !n.in(scale).element.isF32() || !isSingle(n.in(scale).shape) ||
      (n.has(zero) && (!n.in(zero).element.isInteger(8) || !isSingle(n.in(zero).shape))))
    return n.error() << "has input " << scale << " or " << zero
                     << " that is not one scale of float32 or one zero point of 8 bits";
  return checkScales(n, scale);
}

/// Returns the numbers of input `x`; null after an error.
static Value dequantized(Node &n, unsigned x, unsigned scale, unsigned zero) {
  if (failed(checkScale(n, scale, zero)))
    return {};
  const Tensor &tensor = n.in(x);
  if (!tensor.element.isInteger(8) || (n.has(zero) && n.in(zero).element != tensor.element)) {
    n.error() << "has numbers of " << tensor.element << "; they must be of int8 or uint8, like "
              << "their zero point";
    return {};
  }
  Type single = n.b.getF32Type();
  Value v = n.cast(n.operand(x), single);
  if (n.has(zero))
    v = n.binary<SubOp>(v, n.cast(n.reshape(n.operand(zero), {}), single));
  return n.binary<MulOp>(v, n.reshape(n.operand(scale), {}));
}

/// Sets the result to `y`, quantized. Without a zero point it has the type of input `like`.
static LogicalResult quantizedResult(Node &n, Value y, unsigned scale, unsigned zero,
                                     unsigned like) {
  if (!y || failed(checkScale(n, scale, zero)))
    return failure();
  Type bytes = n.in(n.has(zero) ? zero : like).element;
  Value shift;
  if (n.has(zero) && !(shift = n.cast(n.reshape(n.operand(zero), {}), n.b.getF32Type())))
    return failure();
  Value quotient = n.binary<DivOp>(y, n.reshape(n.operand(scale), {}));
  Value result = quotient ? quantize(n, quotient, shift, bytes) : Value();
  return result ? n.result(result) : failure();
}

/// Inputs of an op on one tensor.
enum : unsigned { X, ScaleX, ZeroX, ScaleY, ZeroY };

template <typename Op> static LogicalResult importBinary(Node &n) {
  if (failed(n.expectInputs(7, 8)))
    return failure();
  Value a = dequantized(n, 0, 1, 2), b = a ? dequantized(n, 3, 4, 5) : Value();
  return quantizedResult(n, b ? n.binary<Op>(a, b) : Value(), 6, 7, 0);
}

static LogicalResult importSigmoid(Node &n) {
  if (failed(n.expectInputs(4, 5)))
    return failure();
  return quantizedResult(n, n.unary<SigmoidOp>(dequantized(n, X, ScaleX, ZeroX)), ScaleY, ZeroY, X);
}

static LogicalResult importQLinearLeakyRelu(Node &n) {
  if (failed(n.expectInputs(4, 5)))
    return failure();
  double alpha = n.getFloat("alpha", 0.01);
  Value x = dequantized(n, X, ScaleX, ZeroX);
  if (!x)
    return failure();
  Value isPositive = n.compare(Predicate::GE, x, n.scalar(0, x));
  return quantizedResult(n, n.select(isPositive, x, n.binary<MulOp>(x, n.scalar(alpha, x))), ScaleY,
                         ZeroY, X);
}

static LogicalResult importSoftmax(Node &n) {
  if (failed(n.expectInputs(4, 5)))
    return failure();
  int64_t version = n.getInt("opset", 0), given = n.getInt("axis", version < 13 ? 1 : -1);
  Value x = dequantized(n, X, ScaleX, ZeroX);
  if (!x || n.failed())
    return failure();
  FailureOr<int64_t> axis = n.normalizeAxis(given, rankOf(x));
  if (failed(axis))
    return failure();
  if (version >= 13)
    return quantizedResult(n, n.softmax(x, *axis), ScaleY, ZeroY, X);
  // Below operator set 13, the dimensions from the axis on are one.
  Sizes sizes = getSizes(x), merged(sizes.begin(), sizes.begin() + *axis);
  merged.push_back(product(ArrayRef(sizes).drop_front(*axis)));
  Value y = n.softmax(n.reshape(x, merged), *axis);
  return quantizedResult(n, y ? n.reshape(y, sizes) : y, ScaleY, ZeroY, X);
}

static LogicalResult importReduceMean(Node &n) {
  if (failed(n.expectInputs(4, 5)))
    return failure();
  bool keep = n.getInt("keepdims", 1);
  auto given = n.getInts("axes");
  Value x = dequantized(n, X, ScaleX, ZeroX);
  if (!x || n.failed())
    return failure();
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  FailureOr<SmallVector<int64_t>> axes = n.normalizeAxes(given ? *given : all, rankOf(x));
  if (failed(axes))
    return failure();
  Value y = n.reduce(ReduceFunction::Mean, x, *axes, keep);
  return quantizedResult(n, y, ScaleY, ZeroY, X);
}

/// Inputs: the scale and zero point of the result, then each operand with its own.
static LogicalResult importQLinearConcat(Node &n) {
  if (failed(n.expectInputs(5, 10000)))
    return failure();
  int64_t given = n.getInt("axis", 0);
  SmallVector<Value> values;
  for (unsigned i = 2; i + 2 < n.numInputs(); i += 3) {
    if (!n.has(i))
      return n.error() << "lacks input " << i;
    values.push_back(dequantized(n, i, i + 1, i + 2));
    if (!values.back())
      return failure();
  }
  FailureOr<int64_t> axis = n.normalizeAxis(given, rankOf(values[0]));
  if (failed(axis))
    return failure();
  return quantizedResult(n, n.concat(values, *axis), 0, 1, 2);
}

static LogicalResult importQLinearWhere(Node &n) {
  if (failed(n.expectInputs(8, 9)))
    return failure();
  if (!n.in(0).isBool())
    return n.error() << "has a condition of " << n.in(0).element << "; it must be boolean";
  Value a = dequantized(n, 1, 2, 3), b = a ? dequantized(n, 4, 5, 6) : Value();
  return quantizedResult(n, b ? n.select(n.operand(0), a, b) : Value(), 7, 8, 1);
}

/// (alpha a b + c) of integers, where c is an int32 in units of alpha times both scales. The result
/// is of float32 if it has no scale.
static LogicalResult importQGemm(Node &n) {
  enum : unsigned { A, ScaleA, ZeroA, B, ScaleB, ZeroB, C, Result, ZeroResult };
  if (failed(n.expectInputs(6, 9)))
    return failure();
  double alpha = n.getFloat("alpha", 1);
  bool transA = n.getInt("transA", 0), transB = n.getInt("transB", 0);
  if (n.failed() || failed(checkScale(n, ScaleA, ZeroA)))
    return failure();
  if (n.in(A).rank() != 2 || n.in(B).rank() != 2 || (n.has(C) && !n.in(C).element.isInteger(32)))
    return n.error() << "has operands " << str(n.in(A).shape) << " and " << str(n.in(B).shape)
                     << " and a bias of other types; it needs two matrices and a bias of int32";
  Value a = makeFactor(n, A, ZeroA, transA), b = a ? makeFactor(n, B, ZeroB, !transB) : Value();
  if (!b)
    return failure();
  if (transA)
    a = n.transpose(a, {1, 0});
  if (transB)
    b = n.transpose(b, {1, 0});
  Value y = multiplyFactors(n, a, b, ScaleA, ScaleB);
  if (y && n.has(C)) {
    Value unit = n.binary<MulOp>(n.reshape(n.operand(ScaleA), {}), n.operand(ScaleB));
    y = n.binary<AddOp>(y, n.binary<MulOp>(n.cast(n.operand(C), n.b.getF32Type()), unit));
  }
  if (y && alpha != 1)
    y = n.binary<MulOp>(y, n.scalar(alpha, y));
  if (!y)
    return failure();
  return n.has(Result) ? quantizedResult(n, y, Result, ZeroResult, A) : n.result(y);
}

/// Imports DynamicQuantizeMatMul: DynamicQuantizeLinear of A, then MatMulIntegerToFloat.
static LogicalResult importDynamicMatMul(Node &n) {
  enum : unsigned { A, B, ScaleB, ZeroB, Bias };
  if (failed(n.expectInputs(3, 5)))
    return failure();
  if (!n.in(A).element.isF32() || !n.in(ScaleB).element.isF32() || n.in(ScaleB).rank() > 1)
    return n.error() << "has A of " << n.in(A).element << " and scales " << str(n.in(ScaleB).shape)
                     << " of " << n.in(ScaleB).element
                     << "; A must be of float32, and scales one number or one for each column";
  if (failed(checkScales(n, ScaleB)))
    return failure();
  Value b = makeFactor(n, B, ZeroB, true);
  auto [bytes, scale, zero] = b ? quantizeDynamically(n, n.operand(A)) : DynamicQuantization();
  if (!bytes)
    return failure();
  Type single = n.b.getF32Type();
  Value a = n.binary<SubOp>(n.cast(bytes, single), n.cast(zero, single));
  Value y = n.binary<MulOp>(n.matmul(a, b), n.binary<MulOp>(scale, n.operand(ScaleB)));
  if (n.has(Bias))
    y = n.binary<AddOp>(y, n.operand(Bias));
  return y ? n.result(y) : failure();
}

Value mlir::tpc::frontend::multiplyFactors(Node &n, Value a, Value b, unsigned scaleA,
                                           unsigned scaleB, std::optional<Columns> columns) {
  for (unsigned i : {scaleA, scaleB})
    if (!n.has(i) || !n.in(i).element.isF32() || n.in(i).rank() > 1 ||
        (i == scaleA && !isSingle(n.in(i).shape))) {
      n.error() << "has an input " << i << " that is no scale of float32: one number, or of the "
                << "right matrix one for each column";
      return {};
    } else if (failed(checkScales(n, i))) {
      return {};
    }
  Value scale = n.operand(scaleB);
  if (columns && !isSingle(n.in(scaleB).shape))
    scale = n.slice(scale, 0, columns->start, columns->size);
  Value unit = n.binary<MulOp>(n.reshape(n.operand(scaleA), {}), scale);
  return n.binary<MulOp>(n.matmul(a, b), unit);
}

void mlir::tpc::frontend::addQOperators(OpTable &t) {
  constexpr StringLiteral single = "one scale of float32 for each tensor";
  t.addMicrosoft("QLinearAdd", importBinary<AddOp>, single);
  t.addMicrosoft("QLinearMul", importBinary<MulOp>, single);
  t.addMicrosoft("QLinearSigmoid", importSigmoid, single);
  t.addMicrosoft("QLinearLeakyRelu", importQLinearLeakyRelu, single);
  t.addMicrosoft("QLinearSoftmax", importSoftmax, single);
  t.addMicrosoft("QLinearReduceMean", importReduceMean, single);
  t.addMicrosoft("QLinearConcat", importQLinearConcat, single);
  t.addMicrosoft("QLinearWhere", importQLinearWhere, single);
  t.addMicrosoft("QGemm", importQGemm,
                 "one scale for A and the result, and one for each column of B; bias of int32");
  t.addMicrosoft("DynamicQuantizeMatMul", importDynamicMatMul,
                 "one scale for B, or one for each column");
}
