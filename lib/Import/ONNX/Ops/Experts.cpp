//===- Experts.cpp - Import of com.microsoft.MoE and QMoE -----------------===//
//
// The router's part, softmax and selection, becomes ops on [tokens, experts]; the experts become
// one tpc.moe. Matrices of two projections, fused in one input, are slices of it. Weights of QMoE
// stay packed, and tpc.dequantize computes the matrices.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Experts.h"
#include "Importer.h"
#include "OpTable.h"

#include "onnx.pb.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
constexpr unsigned Rows = 0, Logits = 1;

/// Inputs of one matrix of all experts.
struct Matrix {
  unsigned weight, bias, scales = 0, zeros = 0; // `scales` and `zeros` of QMoE
  int64_t bits = 0;                             // of QMoE
};

/// Attributes of a node. Their defaults are those of the operator.
struct Attributes {
  std::string activation;
  int64_t k, fusion;
  bool normalizes;
  double alpha, beta, limit;
  int64_t block = 0; // of QMoE; 0: a row
  Matrix fc1{2, 3}, fc2{4, 5}, fc3{6, 7};
};
} // namespace

/// Reads the attributes that only QMoE has.
static LogicalResult readQuantization(Node &n, Attributes &a) {
  a.fc1 = {2, 4, 3, 11};
  a.fc2 = {5, 7, 6, 12};
  a.fc3 = {8, 10, 9, 13};
  int64_t bits = n.getInt("expert_weight_bits", 4);
  a.fc1.bits = n.getInt("fc1_expert_weight_bits", bits);
  a.fc2.bits = n.getInt("fc2_expert_weight_bits", bits);
  a.fc3.bits = n.getInt("fc3_expert_weight_bits", bits);
  a.block = std::max<int64_t>(n.getInt("block_size", 0), 0);
  std::string type = n.getString("quant_type", "int");
  int64_t packing = n.getInt("weights_prepacked", -1);
  n.ignore("accuracy_level"); // a lower bound
  if (n.failed())
    return failure();
  if (type != "int")
    return n.error() << "has quant_type = '" << type << "'; tpc supports int only";
  if (packing > 0)
    return n.error() << "has weights in the layout of a GPU (weights_prepacked = " << packing
                     << "); store them with weights_prepacked = 0";
  constexpr unsigned routerWeights = 14, lastInput = 20;
  for (unsigned i = routerWeights; i <= lastInput; ++i)
    if (n.has(i))
      return n.error() << "has '" << n.proto.input(i) << "' as input " << i
                       << ", router_weights or a scale, which tpc does not support";
  for (const Matrix &m : {a.fc1, a.fc2, a.fc3})
    if (m.bits != 2 && m.bits != 4 && m.bits != 8)
      return n.error() << "has weights of " << m.bits << " bits; they must be of 2, 4 or 8";
  return success();
}

/// Returns the shape [experts, rows, columns] of a matrix.
static Sizes getShape(Node &n, const Matrix &m) {
  Sizes shape = n.in(m.weight).shape;
  if (m.bits && !shape.empty())
    shape.back() = shape.back() * SymExpr(8 / m.bits);
  return shape;
}

/// Returns a matrix [experts, rows, columns]; null after an error.
static Value makeMatrix(Node &n, const Matrix &m, int64_t block) {
  Sizes shape = getShape(n, m);
  Value packed = n.weight(m.weight);
  if (!m.bits || !packed)
    return packed;
  Type element = n.in(Rows).element;
  auto fail = [&](unsigned input, const Twine &what) -> Value {
    n.error() << "has '" << n.proto.input(input) << "' of " << str(n.in(input).shape) << "; "
              << what;
    return {};
  };
  if (!n.has(m.scales) || n.in(m.scales).element != element) {
    n.error() << "has no scales of its input's type for '" << n.proto.input(m.weight) << "'";
    return {};
  }
  SymExpr one(1), each(8 / m.bits), blocks(1);
  if (block > 0) {
    auto count = shape[2].divideExact(SymExpr(block));
    if (!count || block * m.bits % 8)
      return fail(m.weight, "rows must consist of whole blocks of " + Twine(block));
    blocks = *count;
  }
  SymExpr bytes = *n.in(m.weight).shape[2].divideExact(blocks);
  if (product(n.in(m.scales).shape) != shape[0] * shape[1] * blocks)
    return fail(m.scales, "it must be " + str({shape[0], shape[1], blocks}));
  if (failed(checkScales(n, m.scales)))
    return {};
  Sizes perBlock = {shape[0], shape[1], blocks, one, one};
  Value zero;
  if (n.has(m.zeros)) {
    // Numbers of a row of blocks or, with one block, of all rows. The last byte may be used in
    // part.
    bool ofRows = block == 0;
    SymExpr count = ofRows ? shape[1] : blocks;
    Sizes packedZeros = {shape[0], ofRows ? one : shape[1], count};
    std::optional<int64_t> numbers = count.asConstant();
    if (numbers)
      packedZeros[2] = SymExpr(llvm::divideCeil(*numbers * m.bits, 8));
    if (!numbers || product(n.in(m.zeros).shape) != product(packedZeros))
      return fail(m.zeros, "it must be " + str(packedZeros));
    zero =
        n.dequantize(n.reshape(n.weight(m.zeros), packedZeros), n.constant(element, 1), {}, m.bits);
    SymExpr all = packedZeros[2] * each;
    packedZeros[2] = all;
    zero = n.reshape(zero, packedZeros);
    if (all != count)
      zero = n.slice(zero, 2, SymExpr(0), count);
    zero = n.reshape(zero, perBlock);
  }
  packed = n.reshape(packed, {shape[0], shape[1], blocks, bytes});
  Value scales = n.reshape(n.weight(m.scales), perBlock);
  return n.reshape(
      n.dequantize(packed, scales, zero, m.bits, zero ? 0 : int64_t(1) << (m.bits - 1)), shape);
}

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
  bool isQuantized = n.proto.op_type() == "QMoE";
  if (failed(n.expectInputs(3, isQuantized ? 21 : 8)) || failed(n.expectFloat(Rows)))
    return failure();
  FailureOr<Attributes> attributes = readAttributes(n);
  if (failed(attributes))
    return failure();
  Attributes &a = *attributes;
  if (isQuantized && failed(readQuantization(n, a)))
    return failure();
  const unsigned Fc1 = a.fc1.weight, Fc1Bias = a.fc1.bias, Fc2 = a.fc2.weight, Fc2Bias = a.fc2.bias,
                 Fc3 = a.fc3.weight, Fc3Bias = a.fc3.bias;
  std::optional<ExpertActivation> activation = getActivation(a.activation);
  if (!activation)
    return n.error() << "has activation_type = '" << a.activation
                     << "'; it must be relu, gelu, silu, swiglu or identity";
  if (!n.has(Fc2))
    return n.error() << "has no fc2_experts_weights";
  for (unsigned i : {Logits, Fc1, Fc1Bias, Fc2, Fc2Bias, Fc3, Fc3Bias})
    if (n.has(i) && n.in(i).element != n.in(Rows).element &&
        !(isQuantized && (i == Fc1 || i == Fc2 || i == Fc3) && isUnsigned(n.in(i).element)))
      return n.error() << "has inputs of " << n.in(Rows).element << " and " << n.in(i).element
                       << "; they must be of one type";
  const Tensor &x = n.in(Rows);
  if (x.rank() < 2 || n.in(Fc1).rank() != 3 || n.in(Fc2).rank() != 3)
    return n.error() << "has input " << str(x.shape) << " and weights " << str(n.in(Fc1).shape)
                     << " and " << str(n.in(Fc2).shape)
                     << "; they must be [tokens, hidden], [experts, inner, hidden] and "
                        "[experts, hidden, inner]";
  const Sizes fc1 = getShape(n, a.fc1), fc2 = getShape(n, a.fc2);
  const SymExpr hidden = x.shape.back(), inner = fc2[2];
  SymExpr tokens = product(ArrayRef(x.shape).drop_back());
  std::optional<int64_t> experts = fc1[0].asConstant();
  if (!experts)
    return n.error() << "has " << fc1[0].str() << " experts; their number must be constant";
  bool isSwiGlu = a.activation == "swiglu", isFused = isSwiGlu && !n.has(Fc3);
  SymExpr width = isFused ? inner * SymExpr(2) : inner;
  auto expectShape = [&](StringRef name, const Sizes &have, const Sizes &wanted) -> LogicalResult {
    if (have == wanted)
      return success();
    return n.error() << "has " << name << " " << str(have) << "; it must be " << str(wanted);
  };
  auto expect = [&](unsigned input, StringRef name, const Sizes &wanted) -> LogicalResult {
    return n.has(input) ? expectShape(name, n.in(input).shape, wanted) : success();
  };
  if (failed(expectShape("fc1_experts_weights", fc1, {fc1[0], width, hidden})) ||
      failed(expectShape("fc2_experts_weights", fc2, {fc1[0], fc2[1], inner})) ||
      (n.has(Fc3) &&
       failed(expectShape("fc3_experts_weights", getShape(n, a.fc3), {fc1[0], inner, hidden}))) ||
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

  Value rows = n.reshape(n.operand(Rows), {tokens, hidden});
  Value routing = makeRouting(n, n.operand(Logits), a);
  // `gate` is activated. fc1 is the gate where there are two projections.
  auto part = [&](Value all, int64_t which) -> Value {
    if (!all)
      return {};
    return a.fusion == 1 ? n.slice(all, 1, SymExpr(which), inner, 2)
                         : n.slice(all, 1, inner * SymExpr(which), inner);
  };
  auto whole = [&](unsigned input) { return n.has(input) ? n.weight(input) : Value(); };
  Value first = makeMatrix(n, a.fc1, a.block), firstBias = whole(Fc1Bias);
  Value up, gate, upBias, gateBias;
  if (isFused) {
    gate = part(first, 0), gateBias = part(firstBias, 0);
    up = part(first, 1), upBias = part(firstBias, 1);
  } else if (n.has(Fc3)) {
    gate = first, gateBias = firstBias;
    up = makeMatrix(n, a.fc3, a.block), upBias = whole(Fc3Bias);
  } else {
    up = first, upBias = firstBias;
  }
  Value down = makeMatrix(n, a.fc2, a.block);
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
  t.addMicrosoft("QMoE", importMoE,
                 "as MoE; quant_type int, weights of 2, 4 or 8 bits; no router_weights, no "
                 "prepacked weights; each step dequantizes all matrices");
}
