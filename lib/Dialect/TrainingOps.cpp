//===- TrainingOps.cpp - Ops of backward programs -------------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;

using Dims = ShardingRule::Dims;

#define GET_OP_CLASSES
#include "tpc/Dialect/TrainingOps.cpp.inc"

ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  Sizes out = getSizes(getResult());
  int v = rule.addFactor(out[0]), h = rule.addFactor(out[1]);
  Dims ids = addDims(rule, getSizes(getIds()));
  for (const ShardingRule::Dim &dim : ids)
    rule.factors[dim[0]].kind = FactorKind::ReductionSum;
  Dims updates = ids;
  updates.push_back({h});
  rule.operands = {updates, ids};
  rule.results = {{{v}, {h}}};
  rule.linear = {{{0}, false}};
  return rule;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

bool AttentionGradOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return compatibleTypes(a, b);
}

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                                Adaptor adaptor, SmallVectorImpl<Type> &types) {
  int64_t of = adaptor.getOfAttr().getInt();
  if (of < 0 || of > 2)
    return inferError(loc, "attention_grad: there is no gradient of operand " + Twine(of) +
                               "; expected 0 (q), 1 (k) or 2 (v)");
  Value operand = of == 0 ? adaptor.getQ() : of == 1 ? adaptor.getK() : adaptor.getV();
  types.push_back(makeTensorType(elementTypeOf(operand), getSizes(operand)));
  return success();
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  Sizes q = getSizes(getQ()), k = getSizes(getK()), v = getSizes(getV());
  bool ofQueries = getOf() == 0, ofValues = getOf() == 2;
  FactorKind perQuery = ofQueries ? FactorKind::Parallel : FactorKind::ReductionSum;
  int b = rule.addFactor(q[0]), sq = rule.addFactor(q[1], perQuery), kv = rule.addFactor(k[2]);
  SymExpr groupSize = *q[2].divideExact(k[2]);
  ShardingRule::Dim heads = {kv};
  if (!groupSize.isConstant(1))
    heads.push_back(rule.addFactor(groupSize, perQuery));
  int d = rule.addFactor(q[3], FactorKind::Unsplittable);
  int sk = rule.addFactor(k[1], FactorKind::Unsplittable);
  int dv = rule.addFactor(v[3], ofValues ? FactorKind::Parallel : FactorKind::Unsplittable);
  Dims ofQ = {{b}, {sq}, heads, {d}}, ofK = {{b}, {sk}, {kv}, {d}}, ofV = {{b}, {sk}, {kv}, {dv}};
  rule.operands = {ofQ, ofK, ofV};
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
  if (getSlopes())
    rule.operands.push_back({heads});
  rule.linear = {{{int(rule.operands.size())}, false}};
  rule.operands.push_back({{b}, {sq}, heads, {dv}});
  rule.results = {ofQueries ? ofQ : ofValues ? ofV : ofK};
  return rule;
}

// The shares of the three ops in the five matmuls of one call: scores and dv, dp and dq, and dk. As
// for tpc.attention, a matmul over d has no dv, and one over dv no d.
double AttentionGradOp::getFlopsPerPoint() {
  auto d = getSizes(getQ())[3].asConstant(), dv = getSizes(getV())[3].asConstant();
  if (!d || !dv || *d == 0 || *dv == 0)
    return 4.0;
  return 2.0 / *dv + (getOf() == 1 ? 0 : 2.0 / *d);
}

LogicalResult AttentionGradOp::verify() {
  // Operands have the shapes of tpc.attention.
  SmallVector<Value> operands{getQ(), getK(), getV()};
  AttentionOp::Properties properties;
  auto segments = MutableArrayRef<int32_t>(properties.operandSegmentSizes);
  std::fill(segments.begin(), segments.end(), 0);
  std::fill(segments.begin(), segments.begin() + 3, 1);
  Value masks[] = {getKeyMask(), getMask(), getBias(), getSlopes()};
  for (auto [i, value] : llvm::enumerate(masks))
    if (value) {
      operands.push_back(value);
      segments[3 + i] = 1;
    }
  SmallVector<Type> types;
  AttentionOp::Adaptor adaptor(ValueRange(operands), DictionaryAttr(), properties);
  if (failed(AttentionOp::inferReturnTypes(getContext(), getLoc(), adaptor, types)))
    return failure();
  if (!compatibleTypes(types, TypeRange(getCotangent().getType())))
    return emitOpError() << "has a cotangent " << describe(getSizes(getCotangent()))
                         << ", but the result of the attention is "
                         << describe(getSizes(types.front()));
  if (std::optional<SymExpr> window = getWindow();
      window && failed(checkSize(*this, *window, "window")))
    return failure();
  return checkSize(*this, getCausalOffset(), "causal_offset");
}

SmallVector<AttentionGradOp, 3> AttentionGradOp::getMerged() {
  SmallVector<AttentionGradOp, 3> merged;
  auto getAttributes = [](AttentionGradOp op) {
    NamedAttrList list(cast<DictionaryAttr>(op->getPropertiesAsAttribute()));
    list.erase("of");
    return list.getDictionary(op.getContext());
  };
  DictionaryAttr own = getAttributes(*this);
  for (Operation *user : getCotangent().getUsers())
    if (auto other = dyn_cast<AttentionGradOp>(user);
        other && other->getBlock() == (*this)->getBlock() &&
        other->getOperands() == (*this)->getOperands() && getAttributes(other) == own &&
        !llvm::is_contained(merged, other))
      merged.push_back(other);
  llvm::sort(merged, [](AttentionGradOp a, AttentionGradOp b) { return a->isBeforeInBlock(b); });
  // Only the first op of each number is merged.
  bool seen[3] = {};
  llvm::erase_if(merged, [&](AttentionGradOp op) { return std::exchange(seen[op.getOf()], true); });
  return llvm::is_contained(merged, *this) ? merged : SmallVector<AttentionGradOp, 3>{*this};
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

LogicalResult ScatterAddOp::verify() {
  Sizes updates = getSizes(getUpdates()), ids = getSizes(getIds()), out = getSizes(getResult());
  if (out.size() != 2)
    return emitOpError() << "has a result " << describe(out) << "; expected [rows, width]";
  ids.push_back(out[1]);
  if (updates != ids)
    return emitOpError() << "has updates " << describe(updates) << "; expected " << describe(ids)
                         << ", one row of the result for each id";
  if (elementTypeOf(getUpdates()) != elementTypeOf(getResult()))
    return emitOpError("must not change the element type");
  return success();
}
