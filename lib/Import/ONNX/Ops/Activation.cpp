//===- Activation.cpp - Activations, Softmax, Clip, Dropout ---------------===//

#include "OpTable.h"

#include "onnx.pb.h"

#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static LogicalResult importRelu(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  Value x = n.operand(0);
  if (!n.in(0).isFloat())
    return n.result(n.binary<MaxOp>(x, n.scalar(0, x)));
  return n.result(n.unary<ReluOp>(x));
}

static Value gelu(Node &n, Value x, GeluApproximation approximation) {
  return x ? Value(GeluOp::create(n.b, n.loc, x.getType(), x, approximation)) : x;
}

static LogicalResult importGelu(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  std::string how = n.domain.empty() ? n.getString("approximate", "none") : "none";
  if (how != "none" && how != "tanh")
    return n.error() << "has approximate = '" << how << "'; it must be none or tanh";
  return n.result(
      gelu(n, n.operand(0), how == "tanh" ? GeluApproximation::Tanh : GeluApproximation::None));
}

/// GELU of x + bias; the bias is optional.
template <GeluApproximation approximation> static LogicalResult importBiasGelu(Node &n) {
  if (failed(n.expectInputs(1, 2)) || failed(n.expectFloat(0)))
    return failure();
  Value x = n.operand(0);
  if (n.has(1))
    x = n.binary<AddOp>(x, n.operand(1));
  return n.result(gelu(n, x, approximation));
}

/// x sigmoid(alpha x): QuickGelu (alpha = 1.702), Swish (alpha = 1).
static LogicalResult importSwish(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  bool quick = n.proto.op_type() == "QuickGelu";
  double alpha = n.getFloat("alpha", quick ? 1.702 : 1.0);
  Value x = n.operand(0);
  if ((float)alpha == 1.702f)
    return n.result(gelu(n, x, GeluApproximation::Sigmoid));
  if (alpha == 1)
    return n.result(n.unary<SiluOp>(x));
  Value scaled = n.binary<MulOp>(x, n.scalar(alpha, x));
  return n.result(n.binary<MulOp>(x, n.unary<SigmoidOp>(scaled)));
}

static LogicalResult importLeakyRelu(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  double alpha = n.getFloat("alpha", 0.01);
  Value x = n.operand(0);
  Value positive = n.compare(Predicate::GE, x, n.scalar(0, x));
  return n.result(n.select(positive, x, n.binary<MulOp>(x, n.scalar(alpha, x))));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow.
static Value softplus(Node &n, Value x) {
  Value small = n.unary<ExpOp>(n.unary<NegOp>(n.unary<AbsOp>(x)));
  Value log = n.unary<LogOp>(n.binary<AddOp>(small, n.scalar(1, x)));
  return n.binary<AddOp>(n.unary<ReluOp>(x), log);
}

static LogicalResult importSoftplus(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  return n.result(softplus(n, n.operand(0)));
}

static LogicalResult importMish(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  Value x = n.operand(0);
  return n.result(n.binary<MulOp>(x, n.unary<TanhOp>(softplus(n, x))));
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// `logarithm`: x - max - log(sum(e^(x - max))).
static Value softmaxAlong(Node &n, Value x, int64_t dim, bool logarithm) {
  if (!logarithm)
    return n.softmax(x, dim);
  Value shifted = n.binary<SubOp>(x, n.reduce(ReduceFunction::Max, x, {dim}, /*keep=*/true));
  Value sum = n.reduce(ReduceFunction::Sum, n.unary<ExpOp>(shifted), {dim}, /*keep=*/true);
  return n.binary<SubOp>(shifted, n.unary<LogOp>(sum));
}

template <bool logarithm> static LogicalResult importSoftmax(Node &n) {
  if (failed(n.expectInputs(1)) || failed(n.expectFloat(0)))
    return failure();
  const Tensor &x = n.in(0);
  bool flattens = n.version < 13;
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", flattens ? 1 : -1), x.rank());
  if (failed(axis))
    return failure();
  if (!flattens || *axis == x.rank() - 1)
    return n.result(softmaxAlong(n, n.operand(0), *axis, logarithm));
  // Up to operator set 12, softmax is over all dimensions from `axis` on, as one.
  ArrayRef<SymExpr> sizes(x.shape);
  Value rows =
      n.reshape(n.operand(0), {product(sizes.take_front(*axis)), product(sizes.drop_front(*axis))});
  return n.result(n.reshape(softmaxAlong(n, rows, 1, logarithm), x.shape));
}

//===----------------------------------------------------------------------===//
// Clip and Dropout
//===----------------------------------------------------------------------===//

static LogicalResult importClip(Node &n) {
  if (failed(n.expectInputs(1, n.version < 11 ? 1 : 3)))
    return failure();
  Value x = n.operand(0);
  if (n.version < 11) {
    if (failed(n.expectFloat(0)))
      return failure();
    // The defaults are the lowest and the highest float, which clip nothing.
    if (n.hasAttribute("min"))
      x = n.binary<MaxOp>(x, n.scalar(n.getFloat("min", 0), x));
    if (n.hasAttribute("max") && x)
      x = n.binary<MinOp>(x, n.scalar(n.getFloat("max", 0), x));
    return n.result(x);
  }
  for (unsigned i : {1, 2})
    if (n.has(i) && (n.in(i).rank() || n.in(i).element != n.in(0).element))
      return n.error() << "needs a scalar of type " << n.in(0).element << " for input " << i;
  if (n.has(1))
    x = n.binary<MaxOp>(x, n.operand(1));
  if (n.has(2))
    x = n.binary<MinOp>(x, n.operand(2));
  return n.result(x);
}

/// Imports dropout as the identity, because programs run inference.
static LogicalResult importDropout(Node &n) {
  if (failed(n.expectInputs(1, 3)))
    return failure();
  n.ignore("ratio");
  n.ignore("seed");
  if (n.version < 7 && !n.getInt("is_test", 0))
    return n.error() << "has is_test = 0: export the model for inference";
  if (n.has(2)) {
    std::optional<SymExpr> training = n.in(2).scalarInt();
    if (!training)
      return n.needsKnown(2, "training_mode");
    if (!training->isConstant(0))
      return n.error() << "has training_mode = 1: export the model for inference";
  }
  // The mask of kept elements is all true.
  if (n.isUsed(1)) {
    Type element = n.version < 10 ? n.in(0).element : Type(n.b.getI1Type());
    if (failed(n.set(1, n.wrap(n.expand(n.constant(element, 1), n.in(0).shape)))))
      return failure();
  }
  return n.result(n.in(0));
}

void mlir::tpc::frontend::addActivationOps(OpTable &t) {
  t.add("Relu", {1, 6, 13, 14}, importRelu);
  t.add("Gelu", {20}, importGelu, "approximate = none or tanh");
  t.addMicrosoft("Gelu", importGelu);
  t.addMicrosoft("BiasGelu", importBiasGelu<GeluApproximation::None>);
  t.addMicrosoft("FastGelu", importBiasGelu<GeluApproximation::Tanh>);
  t.addMicrosoft("QuickGelu", importSwish);
  t.add("Swish", {24}, importSwish);
  t.add("LeakyRelu", {1, 6, 16}, importLeakyRelu);
  t.add("Softplus", {1, 22}, importSoftplus);
  t.add("Mish", {18, 22}, importMish);
  t.add("Softmax", {1, 11, 13}, importSoftmax<false>);
  t.add("LogSoftmax", {1, 11, 13}, importSoftmax<true>);
  t.add("Clip", {1, 6, 11, 12, 13}, importClip, "min and max are scalars of the input's type");
  t.add("Dropout", {1, 6, 7, 10, 12, 13, 22}, importDropout,
        "inference: training_mode known and false (is_test = 1 below opset 7)");
}
