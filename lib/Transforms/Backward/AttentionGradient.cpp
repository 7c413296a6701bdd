//===- AttentionGradient.cpp - Gradient of attention ----------------------===//
//
// The gradient is tpc.attention_grad, unless the target lacks it or the bias has a gradient, whose
// size is quadratic in the sequence. Then the gradients are computed from matrices of
// probabilities. Query heads are grouped by their kv head, and groups are merged with query
// positions:
//
//   q, do [b, kv, group * sq, d]    k, v [b, kv, sk, d]    p, ds [b, kv, group * sq, sk]
//
//   dv = p^T do      dp = do v^T      ds = p (dp - rowsum(p dp))      dq = ds k      dk = ds^T q
//
//===----------------------------------------------------------------------===//

#include "GradientOp.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
class AttentionBackward {
public:
  AttentionBackward(AttentionOp op, GradientBuilder &b)
      : op(op), b(b), batch(getSizes(op.getQ())[0]), queries(getSizes(op.getQ())[1]),
        heads(getSizes(op.getQ())[2]), keys(getSizes(op.getK())[1]),
        kvHeads(getSizes(op.getK())[2]) {}

  LogicalResult run();

private:
  /// Computes the cotangents with tpc.attention_grad.
  void buildFused();
  LogicalResult emitNoGradient(const Twine &what) {
    return emitError(op.getLoc()) << "'" << getSourceName(op.getLoc())
                                  << "' (tpc.attention) has no gradient " << what;
  }
  bool isGrouped() const { return group != SymExpr(1); }

  /// [b, sq, heads, d] -> [b, kv, group * sq, d].
  Value groupQueries(Value v) {
    SymExpr d = getSizes(v)[3];
    if (!isGrouped())
      return b.transpose(v, {0, 2, 1, 3});
    Value split = b.reshape(v, {batch, queries, kvHeads, group, d});
    return b.reshape(b.transpose(split, {0, 2, 3, 1, 4}), {batch, kvHeads, group * queries, d});
  }
  Value ungroupQueries(Value v) {
    SymExpr d = getSizes(v)[3];
    if (!isGrouped())
      return b.transpose(v, {0, 2, 1, 3});
    Value split = b.reshape(v, {batch, kvHeads, group, queries, d});
    return b.reshape(b.transpose(split, {0, 3, 1, 2, 4}), {batch, queries, heads, d});
  }
  /// [b, kv, group * sq, sk] -> [b, kv, group, sq, sk] (without groups: unchanged).
  Value widen(Value v) {
    return isGrouped() ? b.reshape(v, {batch, kvHeads, group, queries, keys}) : v;
  }
  Value narrow(Value v) {
    return isGrouped() ? b.reshape(v, {batch, kvHeads, group * queries, keys}) : v;
  }
  /// Reshapes a mask or bias [1 or b, 1 or heads, sq, sk] for broadcasting to wide scores.
  Value widenMask(Value v) {
    if (!isGrouped())
      return v;
    SmallVector<SymExpr> s = getSizes(v);
    bool whole = s[1] == heads;
    return b.reshape(v,
                     {s[0], whole ? kvHeads : SymExpr(1), whole ? group : SymExpr(1), s[2], s[3]});
  }

  int64_t getRank() const { return isGrouped() ? 5 : 4; }
  /// Returns positions of queries among the keys, or of keys, for broadcasting to wide scores.
  Value makePositions(const SymExpr &size, int64_t dim) {
    SmallVector<SymExpr> sizes(getRank(), SymExpr(1));
    sizes[dim] = size;
    return IotaOp::create(b.getBuilder(), b.getLoc(),
                          makeTensorType(b.getBuilder().getI64Type(), sizes), uint64_t(dim));
  }
  Value makeSize(const SymExpr &size) {
    if (std::optional<int64_t> number = size.asConstant())
      return b.integer(*number);
    return SizeOp::create(b.getBuilder(), b.getLoc(),
                          RankedTensorType::get({}, b.getBuilder().getI64Type()), size);
  }
  Value compare(Predicate predicate, Value x, Value y) {
    return CmpOp::create(b.getBuilder(), b.getLoc(), predicate, x, y);
  }
  /// Returns the condition under which a key is visible; null if all are.
  Value makeVisible();
  /// Adds the biases to scores.
  Value addBiases(Value scores);

  AttentionOp op;
  GradientBuilder &b;
  SymExpr batch, queries, heads, keys, kvHeads, group;
  Value queryPositions, keyPositions;
};

Value AttentionBackward::makeVisible() {
  Value visible;
  auto require = [&](Value condition) {
    visible =
        visible ? Value(AndOp::create(b.getBuilder(), b.getLoc(), visible, condition)) : condition;
  };
  if (op.getCausal())
    require(compare(Predicate::LE, keyPositions, queryPositions));
  if (std::optional<SymExpr> window = op.getWindow())
    require(compare(Predicate::GT, b.add(keyPositions, makeSize(*window)), queryPositions));
  if (Value mask = op.getKeyMask()) {
    SmallVector<SymExpr> sizes(getRank(), SymExpr(1));
    sizes.front() = getSizes(mask)[0];
    sizes.back() = keys;
    require(b.reshape(mask, sizes));
  }
  if (Value mask = op.getMask())
    require(widenMask(mask));
  return visible;
}

Value AttentionBackward::addBiases(Value scores) {
  if (Value bias = op.getBias())
    scores = b.add(scores, widenMask(bias));
  if (Value slopes = op.getSlopes()) {
    SmallVector<SymExpr> sizes(getRank(), SymExpr(1));
    sizes[1] = kvHeads;
    if (isGrouped())
      sizes[2] = group;
    Value distance = b.toFloat(b.sub(keyPositions, queryPositions), elementTypeOf(scores));
    scores = b.add(scores, b.mul(b.reshape(slopes, sizes), distance));
  }
  return scores;
}

void AttentionBackward::buildFused() {
  Value cotangent = b.getCotangent(op.getResult()), operands[] = {op.getQ(), op.getK(), op.getV()};
  SmallVector<std::pair<Value, Value>> terms;
  for (auto [i, operand] : llvm::enumerate(operands))
    if (b.isActive(operand))
      terms.push_back(
          {operand, AttentionGradOp::create(
                        b.getBuilder(), b.getLoc(), i, op.getQ(), op.getK(), op.getV(),
                        op.getKeyMask(), op.getMask(), op.getBias(), op.getSlopes(), cotangent,
                        op.getScale(), op.getCausal(), op.getCausalOffset(), op.getWindowAttr(),
                        op.getSoftcap(), op.getMaskedRow() == MaskedRow::Uniform)});
  for (auto [operand, term] : terms)
    b.accumulate(operand, term);
}

LogicalResult AttentionBackward::run() {
  if (op.getLengths())
    return emitNoGradient("on caches");
  if (op.getSinks())
    return emitNoGradient("with sinks");
  std::optional<SymExpr> quotient = heads.divideExact(kvHeads);
  if (!quotient)
    return emitNoGradient("for " + Twine(heads.str()) + " query heads and " + kvHeads.str() +
                          " kv heads");
  group = *quotient;
  if (!b.decomposesAttention && (!op.getBias() || !b.isActive(op.getBias()))) {
    buildFused();
    return success();
  }
  keyPositions = makePositions(keys, getRank() - 1);
  queryPositions = makePositions(queries, getRank() - 2);
  if (op.getCausalOffset() != SymExpr(0))
    queryPositions = b.add(queryPositions, makeSize(op.getCausalOffset()));

  double scale = op.getScale().convertToDouble(), cap = op.getSoftcap().convertToDouble();
  Value q = groupQueries(op.getQ()), out = groupQueries(b.getCotangent(op.getResult()));
  Value k = b.transpose(op.getK(), {0, 2, 1, 3});
  Value raw = b.mul(widen(b.matmul(q, b.transpose(op.getK(), {0, 2, 3, 1}))), scale);
  Value capped, scores = raw;
  if (cap != 0) {
    capped = b.apply<TanhOp>(b.mul(raw, 1 / cap));
    scores = b.mul(capped, cap);
  }
  scores = addBiases(scores);
  Value visible = makeVisible(), zero = b.number(0);
  if (visible)
    scores = b.select(visible, scores, b.number(-1e30));
  Value p = SoftmaxOp::create(b.getBuilder(), b.getLoc(), scores, uint64_t(getRank() - 1));
  if (visible && op.getMaskedRow() == MaskedRow::Zero)
    p = b.select(visible, p, zero);

  if (b.isActive(op.getV())) {
    Value dv = b.matmul(b.transposeMatrix(narrow(p)), out);
    b.accumulate(op.getV(), b.transpose(dv, {0, 2, 1, 3}));
  }
  Value dp = widen(b.matmul(out, b.transpose(op.getV(), {0, 2, 3, 1})));
  Value ds = b.mul(p, b.sub(dp, b.sumKeep(b.mul(p, dp), {getRank() - 1})));
  if (visible && op.getMaskedRow() == MaskedRow::Uniform)
    ds = b.select(visible, ds, zero);
  if (Value bias = op.getBias(); bias && b.isActive(bias)) {
    Value term = b.sumTo(ds, getSizes(widenMask(bias)));
    b.accumulate(bias, b.reshape(term, getSizes(bias)));
  }
  if (capped)
    ds = b.mul(ds, b.sub(b.number(1), b.mul(capped, capped)));
  ds = narrow(b.mul(ds, scale));
  if (b.isActive(op.getQ()))
    b.accumulate(op.getQ(), ungroupQueries(b.matmul(ds, k)));
  if (b.isActive(op.getK()))
    b.accumulate(op.getK(), b.transpose(b.matmul(b.transposeMatrix(ds), q), {0, 2, 1, 3}));
  return success();
}
} // namespace

LogicalResult mlir::tpc::buildAttentionGradient(AttentionOp op, GradientBuilder &b) {
  return AttentionBackward(op, b).run();
}
