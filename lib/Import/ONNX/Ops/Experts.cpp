//===- Experts.cpp - Import of com.microsoft.MoE --------------------------===//
//
// The router's part, softmax and selection, becomes ops on [tokens, experts]; the experts become
// one tpc.moe. Matrices of two projections, fused in one input, are slices of it.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Experts.h"
#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
enum : unsigned { X, Logits, Fc1, Fc1Bias, Fc2, Fc2Bias, Fc3, Fc3Bias };

/// Attributes of a node. Their defaults are those of the operator.
struct Attributes {
  std::string activation;
  int64_t k, fusion;
  bool normalizes;
  double alpha, beta, limit;
};
} // namespace

static FailureOr<Attributes> readAttributes(Node &n) {
  Attributes a;
  a.activation = n.getString("activation_type", "relu");
  a.k = n.getInt("k", 1);
  a.fusion = n.getInt("swiglu_fusion", 0);
  a.normalizes = n.getInt("normalize_routing_weights", 0);
  a.alpha = n.getFloat("activation_alpha", 1);
  a.beta = n.getFloat("activation_beta", 0);
  a.limit = n.getFloat("swiglu_limit", 0);
  int64_t sparse = n.getInt("use_sparse_mixer", 0);
  if (n.failed())
    return failure();
  if (sparse != 0)
    return n.error() << "has use_sparse_mixer = " << sparse
                     << "; tpc supports the softmax router only";
  if (!(a.limit >= 0))
    return n.error() << "has swiglu_limit = " << a.limit << "; it must be 0 (none) or positive";
  if (a.fusion < 0 || a.fusion > 2)
    return n.error() << "has swiglu_fusion = " << a.fusion << "; it must be 0, 1 or 2";
  return a;
}

/// Returns the activation of the gate, which is then multiplied with the other projection.
static std::optional<ExpertActivation> getActivation(StringRef name) {
  if (name == "relu")
    return ExpertActivation::Relu;
  if (name == "gelu")
    return ExpertActivation::GeluTanh;
  if (name == "silu" || name == "swiglu")
    return ExpertActivation::Silu;
  if (name == "identity")
    return ExpertActivation::Identity;
  return std::nullopt;
}

/// Returns the weight of each token for each expert, 0 for all but the k experts with the largest
/// logits.
static Value makeRouting(Node &n, Value logits, const Attributes &a) {
  FailureOr<Selection> selected = selectExtremes(n, logits, ReduceFunction::Max, 1, a.k);
  Value p = n.softmax(logits, 1);
  if (failed(selected) || !p)
    return {};
  Value routing = n.select(selected->taken, p, n.scalar(0, p));
  if (routing && a.normalizes)
    routing = n.binary<DivOp>(routing, n.reduce(ReduceFunction::Sum, routing, {1}, /*keep=*/true));
  return routing;
}

static LogicalResult importMoE(Node &n) {
  if (failed(n.expectInputs(3, 8)) || failed(n.expectFloat(X)))
    return failure();
  FailureOr<Attributes> attributes = readAttributes(n);
  if (failed(attributes))
    return failure();
  Attributes &a = *attributes;
  std::optional<ExpertActivation> activation = getActivation(a.activation);
  if (!activation)
    return n.error() << "has activation_type = '" << a.activation
                     << "'; it must be relu, gelu, silu, swiglu or identity";
  if (!n.has(Fc2))
    return n.error() << "has no fc2_experts_weights";
  for (unsigned i : {Logits, Fc1, Fc1Bias, Fc2, Fc2Bias, Fc3, Fc3Bias})
    if (n.has(i) && n.in(i).element != n.in(X).element)
      return n.error() << "has inputs of " << n.in(X).element << " and " << n.in(i).element
                       << "; they must be of one type";
  const Tensor &x = n.in(X);
  if (x.rank() < 2 || n.in(Fc1).rank() != 3 || n.in(Fc2).rank() != 3)
    return n.error() << "has input " << str(x.shape) << " and weights " << str(n.in(Fc1).shape)
                     << " and " << str(n.in(Fc2).shape)
                     << "; they must be [tokens, hidden], [experts, inner, hidden] and "
                        "[experts, hidden, inner]";
  const Sizes &fc1 = n.in(Fc1).shape, &fc2 = n.in(Fc2).shape;
  const SymExpr hidden = x.shape.back(), inner = fc2[2];
  SymExpr tokens = product(ArrayRef(x.shape).drop_back());
  std::optional<int64_t> experts = fc1[0].asConstant();
  if (!experts)
    return n.error() << "has " << fc1[0].str() << " experts; their number must be constant";
  bool isSwiGlu = a.activation == "swiglu", isFused = isSwiGlu && !n.has(Fc3);
  SymExpr width = isFused ? inner * SymExpr(2) : inner;
  auto expect = [&](unsigned input, StringRef name, const Sizes &wanted) -> LogicalResult {
    if (!n.has(input) || n.in(input).shape == wanted)
      return success();
    return n.error() << "has " << name << " " << str(n.in(input).shape) << "; it must be "
                     << str(wanted);
  };
  if (failed(expect(Fc1, "fc1_experts_weights", {fc1[0], width, hidden})) ||
      failed(expect(Fc2, "fc2_experts_weights", {fc1[0], fc2[1], inner})) ||
      failed(expect(Fc3, "fc3_experts_weights", {fc1[0], inner, hidden})) ||
      failed(expect(Fc1Bias, "fc1_experts_bias", {fc1[0], width})) ||
      failed(expect(Fc2Bias, "fc2_experts_bias", {fc1[0], fc2[1]})) ||
      failed(expect(Fc3Bias, "fc3_experts_bias", {fc1[0], inner})) ||
      failed(expect(Logits, "router_probs", {tokens, fc1[0]})))
    return failure();
  if (n.has(Fc3Bias) && !n.has(Fc3))
    return n.error() << "has fc3_experts_bias, but no fc3_experts_weights";
  if (a.k < 1 || a.k > *experts)
    return n.error() << "has k = " << a.k << "; it must be 1 to the number of experts, "
                     << *experts;
  if (isFused && a.fusion == 0)
    return n.error() << "has activation_type = 'swiglu' with swiglu_fusion = 0, but no "
                        "fc3_experts_weights; write swiglu_fusion = 1 (interleaved) or 2 (halves)";

  Value rows = n.reshape(n.operand(X), {tokens, hidden});
  Value routing = makeRouting(n, n.operand(Logits), a);
  // `gate` is activated. fc1 is the gate where there are two projections.
  auto part = [&](unsigned input, int64_t which) -> Value {
    if (!n.has(input))
      return {};
    Value all = n.weight(input);
    return a.fusion == 1 ? n.slice(all, 1, SymExpr(which), inner, 2)
                         : n.slice(all, 1, inner * SymExpr(which), inner);
  };
  auto whole = [&](unsigned input) { return n.has(input) ? n.weight(input) : Value(); };
  Value up, gate, upBias, gateBias;
  if (isFused) {
    gate = part(Fc1, 0), gateBias = part(Fc1Bias, 0);
    up = part(Fc1, 1), upBias = part(Fc1Bias, 1);
  } else if (n.has(Fc3)) {
    gate = whole(Fc1), gateBias = whole(Fc1Bias);
    up = whole(Fc3), upBias = whole(Fc3Bias);
  } else {
    up = whole(Fc1), upBias = whole(Fc1Bias);
  }
  Value down = n.weight(Fc2);
  if (!rows || !routing || !up || !down || n.failed())
    return failure();
  auto number = [&](double x) { return n.b.getF64FloatAttr(x); };
  Value result = MoeOp::create(
      n.b, n.loc, n.type(x.element, {tokens, fc2[1]}), rows, routing, up, down, gate, upBias,
      gateBias, *activation, uint64_t(a.k), number(isSwiGlu ? a.alpha : 1).getValue(),
      number(isSwiGlu ? a.beta : 0).getValue(), number(isSwiGlu ? a.limit : 0).getValue());
  if (Value bias = whole(Fc2Bias))
    result = n.binary<AddOp>(result, n.matmul(routing, bias));
  Sizes out = x.shape;
  out.back() = fc2[1];
  return n.result(n.reshape(result, out));
}

void mlir::tpc::frontend::addExpertOps(OpTable &t) {
  t.addMicrosoft(
      "MoE", importMoE,
      "softmax router; number of experts known while importing; no use_sparse_mixer; swiglu "
      "without fc3 needs swiglu_fusion");
}
