//===- Lemmas.cpp - Lemmas of compute ops ---------------------------------===//

#include "Models.h"
#include "RelationChecker.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using Letter = Lemma::Letter;
using Letters = SmallVector<int, 4>;

/// Returns whether the cast is between float types and exact, and therefore linear.
static bool isWidening(CastOp op) {
  if (!isFloatTensor(op.getOperand()) || !isFloatTensor(op.getResult()))
    return false;
  auto semantics = [](Value value) -> const llvm::fltSemantics & {
    return cast<FloatType>(getElementTypeOrSelf(value.getType())).getFloatSemantics();
  };
  return APFloat::isRepresentableBy(semantics(op.getOperand()), semantics(op.getResult()));
}

static Letters addLetters(Lemma &lemma, int64_t count) {
  Letters letters;
  for (int64_t i = 0; i < count; ++i)
    letters.push_back(lemma.add());
  return letters;
}

/// Returns letters of an operand that broadcasts to `letters` (with sizes `sizes`) as in numpy.
static Letters broadcastTo(Value operand, ArrayRef<int> letters, ArrayRef<::tpc::SymExpr> sizes) {
  SmallVector<::tpc::SymExpr> ofOperand = getSizes(operand);
  Letters result;
  size_t missing = letters.size() - std::min(letters.size(), ofOperand.size());
  for (size_t d = 0; d < ofOperand.size(); ++d) {
    bool single = missing + d < sizes.size() && ofOperand[d].isConstant(1) &&
                  !sizes[missing + d].isConstant(1);
    result.push_back(single || missing + d >= letters.size() ? Lemma::broadcast
                                                             : letters[missing + d]);
  }
  return result;
}

/// z[i..] = f(x[i..], y[i..], …).
static Lemma elementwise(Operation *op, ArrayRef<Lemma::Linear> linear = {}) {
  Lemma lemma;
  Value result = op->getResult(0);
  lemma.result = addLetters(lemma, rankOf(result));
  SmallVector<::tpc::SymExpr> sizes = getSizes(result);
  for (Value operand : op->getOperands())
    lemma.operands.push_back(broadcastTo(operand, lemma.result, sizes));
  lemma.linear.assign(linear.begin(), linear.end());
  return lemma;
}

/// z[b.., m, n] = sum over k of x[b.., m, k] y[b.., k, n], + bias[n].
static Lemma getFormula(MatmulOp op) {
  Lemma lemma;
  bool vector = rankOf(op.getLhs()) == 1;
  lemma.result = addLetters(lemma, rankOf(op.getResult()));
  int k = lemma.add(Letter::Sum), n = lemma.result.back();
  unsigned inner = vector ? 1 : 2;
  ArrayRef<int> batch = ArrayRef(lemma.result).drop_back(inner);
  SmallVector<::tpc::SymExpr> sizes = getSizes(op.getResult());
  ArrayRef<::tpc::SymExpr> batchSizes = ArrayRef(sizes).drop_back(inner);
  auto leading = [&](Value operand, unsigned numMatrixDims) {
    Letters letters = broadcastTo(operand, lemma.result, sizes);
    SmallVector<::tpc::SymExpr> all = getSizes(operand);
    size_t count = all.size() - numMatrixDims;
    letters.clear();
    for (size_t d = 0; d < count; ++d) {
      size_t at = batch.size() - count + d;
      bool single = all[d].isConstant(1) && !batchSizes[at].isConstant(1);
      letters.push_back(single ? Lemma::broadcast : batch[at]);
    }
    return letters;
  };
  Letters lhs, rhs = leading(op.getRhs(), 2);
  if (!vector) {
    lhs = leading(op.getLhs(), 2);
    lhs.push_back(lemma.result[lemma.result.size() - 2]);
  }
  lhs.push_back(k);
  rhs.append({k, n});
  lemma.operands = {lhs, rhs};
  if (op.getBias()) {
    // With a bias, k cannot be split, because the bias would be added on every rank.
    lemma.letters[k] = Letter::All;
    lemma.operands.push_back({n});
  } else {
    lemma.linear = {{{0}}, {{1}}};
  }
  return lemma;
}

/// z[d.., i, j] = (bits j of x[d.., i] - zero[d.., i, j]) * scale[d.., i, j]. All bits of a byte
/// are on one rank.
static Lemma getFormula(DequantizeOp op) {
  Lemma lemma;
  lemma.result = addLetters(lemma, rankOf(op.getResult()));
  lemma.letters[lemma.result.back()] = Letter::All;
  lemma.operands = {Letters(ArrayRef(lemma.result).drop_back())};
  SmallVector<::tpc::SymExpr> sizes = getSizes(op.getResult());
  for (Value operand : op->getOperands().drop_front())
    lemma.operands.push_back(broadcastTo(operand, lemma.result, sizes));
  return lemma;
}

/// z[t, o] = sum over e and f of routing[t, e] h(x[t, :], up[e, f, :], gate[e, f, :], biases[e, f])
/// down[e, o, f]. The columns of `routing` are global indices of experts, and a rank derives those
/// of its experts from its layout. Both sums are over terms that are zero where a rank has no
/// expert.
static Lemma getFormula(MoeOp op) {
  Lemma lemma;
  int t = lemma.add(), o = lemma.add(), e = lemma.add(Letter::Sum), f = lemma.add(Letter::Sum);
  int h = lemma.add(Letter::All), all = lemma.add(Letter::All);
  lemma.operands = {{t, h}, {t, all}, {e, f, h}, {e, o, f}};
  if (op.getGate())
    lemma.operands.push_back({e, f, h});
  for (Value bias : {op.getUpBias(), op.getGateBias()})
    if (bias)
      lemma.operands.push_back({e, f});
  lemma.result = {t, o};
  lemma.linear = {{{1}}, {{3}}};
  return lemma;
}

/// Adds the masks and the bias of attention, [b or 1, h or 1, i, j].
template <typename OpT> static void addMasks(OpT op, Lemma &lemma, int b, int h, int i, int j) {
  if (op.getKeyMask())
    lemma.operands.push_back({b, j});
  SmallVector<::tpc::SymExpr> q = getSizes(op.getQ());
  for (Value mask : {op.getMask(), op.getBias()}) {
    if (!mask)
      continue;
    SmallVector<::tpc::SymExpr> sizes = getSizes(mask);
    int batch = sizes[0].isConstant(1) && !q[0].isConstant(1) ? Lemma::broadcast : b;
    int heads = sizes[1].isConstant(1) && !q[2].isConstant(1) ? Lemma::broadcast : h;
    lemma.operands.push_back({batch, heads, i, j});
  }
}

/// z[b, i, h, x] = sum over j of p[b, i, h, j] v[b, j, kv(h), x]. Probabilities p are the softmax
/// over j of the scores q[b, i, h, :] k[b, j, kv(h), :] and, with sinks, of one more score,
/// sinks[h]. With `causal`, `window` and `slopes`, i and j are global indices, which a rank derives
/// from its layout. Lengths offset the i of their own b.
static Lemma getFormula(AttentionOp op) {
  Lemma lemma;
  int b = lemma.add(), i = lemma.add(), h = lemma.add(), kv = lemma.add(), x = lemma.add();
  int j = lemma.add(Letter::All), d = lemma.add(Letter::All);
  lemma.queryHeads = h;
  lemma.kvHeads = kv;
  lemma.operands = {{b, i, h, d}, {b, j, kv, d}, {b, j, kv, x}};
  addMasks(op, lemma, b, h, i, j);
  for (Value ofHeads : {op.getSlopes(), op.getSinks()})
    if (ofHeads)
      lemma.operands.push_back({h});
  if (op.getLengths())
    lemma.operands.push_back({b});
  lemma.result = {b, i, h, x};
  return lemma;
}

/// Cotangents of q [b, i, h, d], of k [b, j, kv, d] or of v [b, j, kv, x], from that of z[b, i, h,
/// x] above. Cotangents of k and v are sums over queries and over the query heads of a kv head. The
/// cotangent of a score needs all of x; a probability needs all of j and d.
static Lemma getFormula(AttentionGradOp op) {
  Lemma lemma;
  Letter perQuery = op.getOf() == 0 ? Letter::Each : Letter::Sum;
  int b = lemma.add(), i = lemma.add(perQuery), h = lemma.add(perQuery), kv = lemma.add();
  int x = lemma.add(op.getOf() == 2 ? Letter::Each : Letter::All);
  int j = lemma.add(Letter::All), d = lemma.add(Letter::All);
  lemma.queryHeads = h;
  lemma.kvHeads = kv;
  lemma.operands = {{b, i, h, d}, {b, j, kv, d}, {b, j, kv, x}};
  if (op.getOf() < 3)
    lemma.result = lemma.operands[op.getOf()];
  addMasks(op, lemma, b, h, i, j);
  if (op.getSlopes())
    lemma.operands.push_back({h});
  lemma.linear = {{{int(lemma.operands.size())}}};
  lemma.operands.push_back({b, i, h, x});
  return lemma;
}

/// z[b, h, j, d] is fresh[b, h, j - lengths[b], d] or cache[b, h, j, d]. Neither token dimension
/// can be split.
static Lemma getFormula(AppendOp op) {
  Lemma lemma;
  int b = lemma.add(), h = lemma.add(), d = lemma.add();
  int j = lemma.add(Letter::All), i = lemma.add(Letter::All);
  lemma.operands = {{b, h, j, d}, {b, h, i, d}, {b}};
  lemma.result = {b, h, j, d};
  return lemma;
}

/// Norm over the last dimension, with scale and bias vectors of its size.
static Lemma norm(Operation *op) {
  Lemma lemma;
  lemma.result = addLetters(lemma, rankOf(op->getResult(0)));
  int h = lemma.result.back();
  lemma.letters[h] = Letter::All;
  lemma.operands.push_back(lemma.result);
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    lemma.operands.push_back({h});
  return lemma;
}

/// Op whose operand and result have the same shape, and whose dimensions `dims` cannot be split.
static Lemma along(Operation *op, ArrayRef<int64_t> dims, ArrayRef<Lemma::Linear> linear = {}) {
  Lemma lemma = elementwise(op, linear);
  for (int64_t dim : dims)
    if (dim >= 0 && dim < int64_t(lemma.result.size()))
      lemma.letters[lemma.result[dim]] = Letter::All;
  return lemma;
}

/// Op whose operand and result have the same shape except dimension `dim`, which cannot be split.
static Lemma replace(Operation *op, int64_t dim, Lemma::Linear linear) {
  Lemma lemma;
  lemma.result = addLetters(lemma, rankOf(op->getResult(0)));
  lemma.letters[lemma.result[dim]] = Letter::All;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    lemma.operands.push_back(lemma.result);
    lemma.operands.back()[dim] = lemma.add(Letter::All);
  }
  lemma.linear = {linear};
  return lemma;
}

static Lemma getFormula(SliceOp op) {
  int64_t dim = op.getDim();
  bool all = getSizes(op.getOperand())[dim] == getSizes(op.getResult())[dim] &&
             op.getStart().isConstant(0) && op.getStep() == 1;
  return all ? elementwise(op, {{{0}, true}}) : replace(op, dim, {{0}, true});
}

static Lemma getFormula(ConcatOp op) {
  Lemma::Linear together{{}, true};
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    together.operands.push_back(i);
  return replace(op, op.getDim(), together);
}

/// Broadcast dimensions of the result may have any split.
static Lemma getFormula(ExpandOp op) { return elementwise(op, {{{0}, true}}); }

static Lemma getFormula(TransposeOp op) {
  Lemma lemma;
  Letters operand = addLetters(lemma, rankOf(op.getOperand()));
  for (int64_t from : op.getPermutation())
    lemma.result.push_back(operand[from]);
  lemma.operands = {operand};
  lemma.linear = {{{0}, true}};
  return lemma;
}

static Lemma getFormula(ReduceOp op) {
  Lemma lemma;
  Letters operand = addLetters(lemma, rankOf(op.getOperand()));
  Letter kind = op.getFunction() == ReduceFunction::Sum   ? Letter::Sum
                : op.getFunction() == ReduceFunction::Max ? Letter::Max
                : op.getFunction() == ReduceFunction::Min ? Letter::Min
                                                          : Letter::All;
  for (auto [d, letter] : llvm::enumerate(operand)) {
    if (!llvm::is_contained(op.getDims(), int64_t(d))) {
      lemma.result.push_back(letter);
      continue;
    }
    lemma.letters[letter] = kind;
    if (op.getKeepDims())
      lemma.result.push_back(Lemma::broadcast);
  }
  lemma.operands = {operand};
  if (kind == Letter::Sum || kind == Letter::All)
    lemma.linear = {{{0}}};
  return lemma;
}

/// z[i.., h] = table[ids[i..], h]. A rank with a shard of the rows returns zero for other ids, so
/// the results are operands of a sum.
static Lemma getFormula(EmbeddingOp op) {
  Lemma lemma;
  Letters ids = addLetters(lemma, rankOf(op.getIds()));
  int v = lemma.add(Letter::Sum), h = lemma.add();
  lemma.operands = {{v, h}, ids};
  lemma.result = ids;
  lemma.result.push_back(h);
  lemma.linear = {{{0}, true}};
  return lemma;
}

/// z[v, h] = sum over i of updates[i.., h] where ids[i..] = v. A rank computes its rows v from all
/// updates. Ranks with shards of the updates have operands of a sum.
static Lemma getFormula(ScatterAddOp op) {
  Lemma lemma;
  int v = lemma.add(), h = lemma.add();
  Letters ids;
  for (int64_t i = 0; i < rankOf(op.getIds()); ++i)
    ids.push_back(lemma.add(Letter::Sum));
  Letters updates = ids;
  updates.push_back(h);
  lemma.operands = {updates, ids};
  lemma.result = {v, h};
  lemma.linear = {{{0}}};
  return lemma;
}

/// If the data are floats, lookups outside of a rank's shard return zero, as for an embedding. Data
/// of other types cannot be split.
static Letter getLookupLetter(Value data) {
  return isFloatTensor(data) ? Letter::Sum : Letter::All;
}

static Lemma getFormula(GatherOp op) {
  Lemma lemma;
  Letters data = addLetters(lemma, rankOf(op.getData()));
  Letters indices = addLetters(lemma, rankOf(op.getIndices()));
  int64_t dim = op.getDim();
  lemma.letters[data[dim]] = getLookupLetter(op.getData());
  lemma.result.append(data.begin(), data.begin() + dim);
  lemma.result.append(indices);
  lemma.result.append(data.begin() + dim + 1, data.end());
  lemma.operands = {data, indices};
  lemma.linear = {{{0}, true}};
  return lemma;
}

static Lemma getFormula(GatherNDOp op) {
  Lemma lemma;
  int64_t batch = op.getBatchDims(), rank = rankOf(op.getIndices());
  int64_t k = getSizes(op.getIndices()).back().asConstant().value_or(0);
  Letters data = addLetters(lemma, rankOf(op.getData()));
  Letters indices(data.begin(), data.begin() + batch);
  for (int64_t d = batch; d < rank; ++d)
    indices.push_back(lemma.add(d == rank - 1 ? Letter::All : Letter::Each));
  for (int64_t d = batch; d < batch + k; ++d)
    lemma.letters[data[d]] = getLookupLetter(op.getData());
  lemma.result.append(indices.begin(), indices.end() - 1);
  lemma.result.append(data.begin() + batch + k, data.end());
  lemma.operands = {data, indices};
  lemma.linear = {{{0}, true}};
  return lemma;
}

/// x [b, s, heads, d], cos and sin [1 or b, s, r/2]. Pairs of elements of a head are combined, so d
/// cannot be split.
static Lemma getFormula(RotaryOp op) {
  Lemma lemma;
  int b = lemma.add(), s = lemma.add(), h = lemma.add(), d = lemma.add(Letter::All);
  int r = lemma.add(Letter::All);
  lemma.operands.push_back({b, s, h, d});
  for (Value table : {op.getCos(), op.getSin()}) {
    bool single = getSizes(table)[0].isConstant(1) && !getSizes(op.getX())[0].isConstant(1);
    lemma.operands.push_back({single ? Lemma::broadcast : b, s, r});
  }
  lemma.result = {b, s, h, d};
  lemma.linear = {{{0}}};
  return lemma;
}

/// Op without operands. Each rank computes its own slice of the result.
static Lemma source(Operation *op, Letter kind = Letter::Each) {
  Lemma lemma = elementwise(op);
  lemma.letters.assign(lemma.letters.size(), kind);
  return lemma;
}

static Lemma getFormula(LayerNormOp op) { return norm(op); }
static Lemma getFormula(RmsNormOp op) { return norm(op); }
static Lemma getFormula(SoftmaxOp op) { return along(op, {int64_t(op.getDim())}); }
static Lemma getFormula(CumSumOp op) { return along(op, {int64_t(op.getDim())}, {{{0}}}); }
static Lemma getFormula(TriluOp op) {
  int64_t rank = rankOf(op.getOperand());
  return along(op, {rank - 2, rank - 1}, {{{0}}});
}
static Lemma getFormula(ParameterOp op) { return source(op); }
static Lemma getFormula(IotaOp op) { return source(op); }
static Lemma getFormula(ConstantOp op) { return source(op, Letter::All); }
static Lemma getFormula(SizeOp op) { return source(op, Letter::All); }

// Element-wise ops. Only linear ops propagate partial sums.
static Lemma getFormula(ScalarOpInterface op) { return elementwise(op); }
static Lemma getFormula(NegOp op) { return elementwise(op, {{{0}}}); }
static Lemma getFormula(AddOp op) { return elementwise(op, {{{0, 1}}}); }
static Lemma getFormula(SubOp op) { return elementwise(op, {{{0, 1}}}); }
static Lemma getFormula(MulOp op) { return elementwise(op, {{{0}}, {{1}}}); }
static Lemma getFormula(DivOp op) {
  return isFloatTensor(op.getLhs()) ? elementwise(op, {{{0}}}) : elementwise(op);
}
static Lemma getFormula(CastOp op) {
  return isWidening(op) ? elementwise(op, {{{0}}}) : elementwise(op);
}
static Lemma getFormula(SelectOp op) { return elementwise(op, {{{1, 2}, true}}); }

namespace {
template <typename OpT> struct Formula : LemmaOpInterface::ExternalModel<Formula<OpT>, OpT> {
  std::optional<Lemma> getFormula(Operation *op) const { return ::getFormula(cast<OpT>(op)); }
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return c.checkFormula(op, ::getFormula(cast<OpT>(op)));
  }
};
} // namespace

void equivalence::attachFormulas(MLIRContext *context) {
  attachToScalarOps<Formula>(context);
  attachModels<Formula, MatmulOp, DequantizeOp, MoeOp, AttentionOp, AttentionGradOp, LayerNormOp,
               RmsNormOp, SoftmaxOp, ReduceOp, CumSumOp, TriluOp, TransposeOp, ExpandOp, SliceOp,
               ConcatOp, EmbeddingOp, ScatterAddOp, GatherOp, GatherNDOp, RotaryOp, AppendOp,
               ParameterOp, IotaOp, ConstantOp, SizeOp>(context);
}
