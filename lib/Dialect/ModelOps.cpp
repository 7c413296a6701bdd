//===- ModelOps.cpp - Transformer ops -------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::tpc;

using Dims = ShardingRule::Dims;

#define TPC_COMPATIBLE(OP)                                                                         \
  bool OP::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }
#define TPC_INFER_TYPES(OP)                                                                        \
  LogicalResult OP::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,            \
                                     Adaptor adaptor, SmallVectorImpl<Type> &types)
#define TPC_INFER(OP)                                                                              \
  TPC_COMPATIBLE(OP)                                                                               \
  TPC_INFER_TYPES(OP)

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

static bool isHalf(Type element) { return element.isF16() || element.isBF16(); }

/// A matmul of 16-bit floats may return f32, without rounding.
bool MatmulOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange given) {
  if (inferred.size() != 1 || given.size() != 1)
    return false;
  auto own = dyn_cast<RankedTensorType>(inferred[0]), type = dyn_cast<RankedTensorType>(given[0]);
  return compatibleTypes(inferred, given) ||
         (own && type && isHalf(own.getElementType()) && type.getElementType().isF32() &&
          getSizes(own) == getSizes(type));
}

TPC_INFER_TYPES(MatmulOp) {
  Sizes a = getSizes(adaptor.getLhs()), b = getSizes(adaptor.getRhs());
  if (a.empty() || b.size() < 2)
    return inferError(loc, "matmul needs lhs [.., m, k] or [k] and rhs [.., k, n], not " +
                               describe(a) + " and " + describe(b));
  if (a.back() != b[b.size() - 2])
    return inferError(loc, "matmul of " + describe(a) + " and " + describe(b) + ": inner sizes " +
                               a.back().str() + " and " + b[b.size() - 2].str() + " differ");
  Type element = elementTypeOf(adaptor.getLhs());
  if (elementTypeOf(adaptor.getRhs()) != element)
    return inferError(loc, "matmul operands have different element types");
  bool vector = a.size() == 1;
  Sizes batchA(a.begin(), a.end() - (vector ? 1 : 2));
  Sizes batchB(b.begin(), b.end() - 2);
  auto out = broadcastSizes(batchA, batchB);
  if (failed(out))
    return inferError(loc, "batch dimensions of " + describe(a) + " and " + describe(b) +
                               " do not broadcast");
  if (!vector)
    out->push_back(a[a.size() - 2]);
  out->push_back(b.back());
  if (Value bias = adaptor.getBias())
    if (getSizes(bias) != Sizes{b.back()} || elementTypeOf(bias) != element)
      return inferError(loc, "bias of matmul must be [" + b.back().str() + "], not " +
                                 describe(getSizes(bias)));
  types.push_back(makeTensorType(element, *out));
  return success();
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule;
  Sizes a = getSizes(getLhs()), b = getSizes(getRhs());
  Sizes out = getSizes(getResult());
  bool vector = a.size() == 1;
  Dims result = addDims(rule, out);
  int k = rule.addFactor(a.back(), getBias() ? FactorKind::Unsplittable : FactorKind::ReductionSum);
  size_t rows = vector ? 1 : 2;
  Dims batch(result.begin(), result.end() - rows);
  ArrayRef<SymExpr> outBatch = ArrayRef(out).drop_back(rows);
  Dims lhs = broadcastDims(ArrayRef(a).drop_back(rows), outBatch, batch);
  if (!vector)
    lhs.push_back(result[result.size() - 2]);
  lhs.push_back({k});
  Dims rhs = broadcastDims(ArrayRef(b).drop_back(2), outBatch, batch);
  rhs.push_back({k});
  rhs.push_back(result.back());
  rule.operands = {lhs, rhs};
  if (getBias())
    rule.operands.push_back({result.back()});
  else
    rule.linear = {{{0}, false}, {{1}, false}};
  rule.results = {result};
  return rule;
}
double MatmulOp::getFlopsPerPoint() { return 2.0; }
LogicalResult MatmulOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

TPC_INFER(AttentionOp) {
  Sizes q = getSizes(adaptor.getQ()), k = getSizes(adaptor.getK());
  Sizes v = getSizes(adaptor.getV());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return inferError(loc, "attention needs q, k and v as [batch, sequence, heads, size]");
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3])
    return inferError(loc, "attention: q " + describe(q) + ", k " + describe(k) + " and v " +
                               describe(v) +
                               " must be [b, sq, hq, d], [b, sk, hkv, d] and [b, sk, hkv, dv]");
  if (k[2].isConstant(0) || !q[2].divideExact(k[2]))
    return inferError(loc, "attention: " + q[2].str() + " query heads are not a multiple of " +
                               k[2].str() + " kv heads");
  if (Value mask = adaptor.getKeyMask())
    if (getSizes(mask) != Sizes{k[0], k[1]})
      return inferError(loc, "attention: key_mask " + describe(getSizes(mask)) + " must be " +
                                 describe({k[0], k[1]}));
  Sizes full = {q[0], q[2], q[1], k[1]};
  for (Value mask : {adaptor.getMask(), adaptor.getBias()}) {
    if (!mask)
      continue;
    Sizes m = getSizes(mask);
    bool fits = m.size() == 4 && m[2] == full[2] && m[3] == full[3];
    for (int i = 0; fits && i < 2; ++i)
      fits = m[i] == full[i] || m[i].isConstant(1);
    if (!fits)
      return inferError(loc, "attention: mask or bias " + describe(m) +
                                 " must be [1 or b, 1 or hq, sq, sk], for the scores " +
                                 describe(full));
  }
  if (Value slopes = adaptor.getSlopes())
    if (getSizes(slopes) != Sizes{q[2]})
      return inferError(loc, "attention: slopes " + describe(getSizes(slopes)) + " must be " +
                                 describe({q[2]}) + ", one for each query head");
  if (Value sinks = adaptor.getSinks())
    if (getSizes(sinks) != Sizes{q[2]})
      return inferError(loc, "attention: sinks " + describe(getSizes(sinks)) + " must be " +
                                 describe({q[2]}) + ", one for each query head");
  if (Value lengths = adaptor.getLengths())
    if (getSizes(lengths) != Sizes{q[0]})
      return inferError(loc, "attention: lengths " + describe(getSizes(lengths)) + " must be " +
                                 describe({q[0]}) + ", one for each sequence");
  types.push_back(makeTensorType(elementTypeOf(adaptor.getQ()), Sizes{q[0], q[1], q[2], v[3]}));
  return success();
}

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  Sizes q = getSizes(getQ()), k = getSizes(getK()), v = getSizes(getV());
  int b = rule.addFactor(q[0]), sq = rule.addFactor(q[1]);
  int kv = rule.addFactor(k[2]);
  SymExpr groupSize = *q[2].divideExact(k[2]);
  ShardingRule::Dim heads = {kv};
  if (!groupSize.isConstant(1))
    heads.push_back(rule.addFactor(groupSize));
  int d = rule.addFactor(q[3], FactorKind::Unsplittable);
  int sk = rule.addFactor(k[1], FactorKind::Unsplittable);
  int dv = rule.addFactor(v[3]);
  rule.operands = {{{b}, {sq}, heads, {d}}, {{b}, {sk}, {kv}, {d}}, {{b}, {sk}, {kv}, {dv}}};
  if (getKeyMask())
    rule.operands.push_back({{b}, {sk}});
  for (Value mask : {getMask(), getBias()}) {
    if (!mask)
      continue;
    Sizes m = getSizes(mask);
    rule.operands.push_back({m[0] == q[0] ? ShardingRule::Dim{b} : ShardingRule::Dim{},
                             m[1] == q[2] ? heads : ShardingRule::Dim{},
                             {sq},
                             {sk}});
  }
  for (Value ofHeads : {getSlopes(), getSinks()})
    if (ofHeads)
      rule.operands.push_back({heads});
  if (getLengths())
    rule.operands.push_back({{b}});
  rule.results = {{{b}, {sq}, heads, {dv}}};
  return rule;
}
// Attention has two matmuls, of 2 flops per point of their own iteration spaces. The rule's
// iteration space is b, sq, heads, d, sk, dv; the first matmul (with k) has no dv, and the second
// (with v) no d.
double AttentionOp::getFlopsPerPoint() {
  auto d = getSizes(getQ())[3].asConstant(), dv = getSizes(getV())[3].asConstant();
  if (!d || !dv || *d == 0 || *dv == 0)
    return 4.0;
  return 2.0 / *d + 2.0 / *dv;
}

LogicalResult AttentionOp::verify() {
  if (std::optional<SymExpr> window = getWindow();
      window && failed(checkSize(*this, *window, "window")))
    return failure();
  if (Value lengths = getLengths(); lengths && !isLengths(lengths))
    return emitOpError() << "takes lengths of i64 or i32, not " << lengths.getType();
  if (getSinks() && getMaskedRow() != MaskedRow::Zero)
    return emitOpError("has sinks, so a row without visible keys must be zero");
  return checkSize(*this, getCausalOffset(), "causal_offset");
}

//===----------------------------------------------------------------------===//
// Norms and softmax
//===----------------------------------------------------------------------===//

static LogicalResult inferNorm(std::optional<Location> loc, Value x, Value scale, Value bias,
                               SmallVectorImpl<Type> &types) {
  Sizes sizes = getSizes(x);
  if (sizes.empty())
    return inferError(loc, "a normalization needs an operand with at least one dimension");
  // The operand of a 16-bit normalization may be f32.
  Type element = elementTypeOf(scale);
  bool fits = element == elementTypeOf(x) || (isHalf(element) && elementTypeOf(x).isF32());
  for (Value v : {scale, bias}) {
    if (!v)
      continue;
    if (getSizes(v) != Sizes{sizes.back()})
      return inferError(loc, "scale and bias of a normalization over " + describe(sizes) +
                                 " must be [" + sizes.back().str() + "], not " +
                                 describe(getSizes(v)));
    if (elementTypeOf(v) != element || !fits)
      return inferError(loc, "scale and bias of a normalization must have the element type of the "
                             "operand, or both be 16-bit floats if it is f32");
  }
  types.push_back(makeTensorType(element, sizes));
  return success();
}

static ShardingRule normRule(Operation *op) {
  ShardingRule rule;
  Dims x = addDims(rule, getSizes(op->getOperand(0)));
  rule.factors[x.back()[0]].kind = FactorKind::Unsplittable;
  rule.operands.push_back(x);
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    rule.operands.push_back({x.back()});
  rule.results.push_back(x);
  return rule;
}

TPC_INFER(LayerNormOp) {
  return inferNorm(loc, adaptor.getX(), adaptor.getScale(), adaptor.getBias(), types);
}
ShardingRule LayerNormOp::getShardingRule() { return normRule(*this); }
double LayerNormOp::getFlopsPerPoint() { return 8.0; }
LogicalResult LayerNormOp::verify() { return success(); }

TPC_INFER(RmsNormOp) { return inferNorm(loc, adaptor.getX(), adaptor.getScale(), {}, types); }
ShardingRule RmsNormOp::getShardingRule() { return normRule(*this); }
double RmsNormOp::getFlopsPerPoint() { return 5.0; }
LogicalResult RmsNormOp::verify() { return success(); }

TPC_INFER(SoftmaxOp) {
  types.push_back(
      makeTensorType(elementTypeOf(adaptor.getOperand()), getSizes(adaptor.getOperand())));
  return success();
}
ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule;
  Dims x = addDims(rule, getSizes(getOperand()));
  rule.factors[x[getDim()][0]].kind = FactorKind::Unsplittable;
  rule.operands.push_back(x);
  rule.results.push_back(x);
  return rule;
}
double SoftmaxOp::getFlopsPerPoint() { return 5.0; }
LogicalResult SoftmaxOp::verify() { return checkDim(*this, getOperand(), getDim(), "dim"); }

//===----------------------------------------------------------------------===//
// Embedding, rotary, reduce
//===----------------------------------------------------------------------===//

TPC_INFER(EmbeddingOp) {
  Sizes table = getSizes(adaptor.getTable()), ids = getSizes(adaptor.getIds());
  if (table.size() != 2)
    return inferError(loc, "an embedding table has rank 2, not " + describe(table));
  ids.push_back(table[1]);
  types.push_back(makeTensorType(elementTypeOf(adaptor.getTable()), ids));
  return success();
}
SmallVector<int64_t> EmbeddingOp::getLookupDims() { return {0}; }
ShardingRule EmbeddingOp::getShardingRule() {
  ShardingRule rule;
  Sizes table = getSizes(getTable());
  Dims ids = addDims(rule, getSizes(getIds()));
  int v = rule.addFactor(table[0], FactorKind::ReductionSum);
  int h = rule.addFactor(table[1]);
  Dims out = ids;
  out.push_back({h});
  rule.operands = {{{v}, {h}}, ids};
  rule.results = {out};
  rule.linear = {{{0}, true}};
  return rule;
}
// Cost of copying a row; independent of the table's size.
double EmbeddingOp::getFlopsPerPoint() {
  auto rows = getSizes(getTable())[0].asConstant();
  return rows && *rows ? 1.0 / *rows : 0.0;
}
LogicalResult EmbeddingOp::verify() { return success(); }

TPC_INFER(RotaryOp) {
  Sizes x = getSizes(adaptor.getX()), cos = getSizes(adaptor.getCos());
  if (x.size() != 4 || cos.size() != 3 || getSizes(adaptor.getSin()) != cos)
    return inferError(loc,
                      "rotary needs x [b, s, heads, d] and equal cos and sin [1 or b, s, r/2]");
  auto d = x[3].asConstant(), half = cos[2].asConstant();
  if ((cos[0] != x[0] && !cos[0].isConstant(1)) || cos[1] != x[1] || !d || !half || *half * 2 > *d)
    return inferError(loc, "rotary: cos " + describe(cos) +
                               " must be [1 or b, s, r/2] with r <= d for x " + describe(x));
  types.push_back(makeTensorType(elementTypeOf(adaptor.getX()), x));
  return success();
}
ShardingRule RotaryOp::getShardingRule() {
  ShardingRule rule;
  Sizes cos = getSizes(getCos());
  Dims x = addDims(rule, getSizes(getX()));
  rule.factors[x[3][0]].kind = FactorKind::Unsplittable;
  int half = rule.addFactor(cos[2], FactorKind::Unsplittable);
  Dims table = {cos[0] == getSizes(getX())[0] ? x[0] : ShardingRule::Dim{}, x[1], {half}};
  rule.operands = {x, table, table};
  rule.results = {x};
  rule.linear = {{{0}, false}};
  return rule;
}
LogicalResult RotaryOp::verify() { return success(); }

TPC_INFER(ReduceOp) {
  Sizes in = getSizes(adaptor.getOperand()), out;
  SmallVector<bool> reduced(in.size(), false);
  for (int64_t d : adaptor.getDims()) {
    if (d < 0 || d >= (int64_t)in.size() || reduced[d])
      return inferError(loc, "reduce: dimensions must be distinct dimensions of " + describe(in));
    reduced[d] = true;
  }
  for (auto [i, size] : llvm::enumerate(in))
    if (!reduced[i])
      out.push_back(size);
    else if (adaptor.getKeepDims())
      out.push_back(SymExpr(1));
  types.push_back(makeTensorType(elementTypeOf(adaptor.getOperand()), out));
  return success();
}
ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  Dims in = addDims(rule, getSizes(getOperand())), out;
  static constexpr FactorKind kinds[] = {FactorKind::ReductionSum, FactorKind::Unsplittable,
                                         FactorKind::ReductionMax, FactorKind::ReductionMin};
  for (auto [i, dim] : llvm::enumerate(in)) {
    if (!llvm::is_contained(getDims(), (int64_t)i)) {
      out.push_back(dim);
      continue;
    }
    rule.factors[dim[0]].kind = kinds[(int)getFunction()];
    if (getKeepDims())
      out.push_back({});
  }
  rule.operands = {in};
  rule.results = {out};
  if (getFunction() == ReduceFunction::Sum || getFunction() == ReduceFunction::Mean)
    rule.linear = {{{0}, false}};
  return rule;
}
LogicalResult ReduceOp::verify() { return success(); }
