//===- ExpertOps.cpp - Mixture of experts ---------------------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;

#include "tpc/Dialect/ExpertEnums.cpp.inc"

#define GET_OP_CLASSES
#include "tpc/Dialect/ExpertOps.cpp.inc"

bool MoeOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) { return compatibleTypes(a, b); }

LogicalResult MoeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  Sizes x = getSizes(adaptor.getX()), up = getSizes(adaptor.getUp()),
        down = getSizes(adaptor.getDown());
  if (x.size() != 2 || up.size() != 3 || down.size() != 3)
    return inferError(loc, "moe needs x [tokens, hidden], up [experts, inner, hidden] and down "
                           "[experts, outputs, inner], not " +
                               describe(x) + ", " + describe(up) + " and " + describe(down));
  const SymExpr &experts = up[0], &inner = up[1];
  auto expect = [&](StringRef what, Value v, const Sizes &wanted) -> LogicalResult {
    if (!v)
      return success();
    if (getSizes(v) != wanted)
      return inferError(loc, "moe: " + what + " " + describe(getSizes(v)) + " must be " +
                                 describe(wanted));
    if (elementTypeOf(v) != elementTypeOf(adaptor.getX()))
      return inferError(loc, "moe: " + what + " and x have different element types");
    return success();
  };
  if (failed(expect("up", adaptor.getUp(), {experts, inner, x[1]})) ||
      failed(expect("gate", adaptor.getGate(), up)) ||
      failed(expect("down", adaptor.getDown(), {experts, down[1], inner})) ||
      failed(expect("routing", adaptor.getRouting(), {x[0], experts})) ||
      failed(expect("up_bias", adaptor.getUpBias(), {experts, inner})) ||
      failed(expect("gate_bias", adaptor.getGateBias(), {experts, inner})))
    return failure();
  types.push_back(makeTensorType(elementTypeOf(adaptor.getX()), {x[0], down[1]}));
  return success();
}

ShardingRule MoeOp::getShardingRule() {
  ShardingRule rule;
  Sizes up = getSizes(getUp());
  ShardingRule::Dims result = addDims(rule, getSizes(getResult()));
  int hidden = rule.addFactor(up[2], FactorKind::Unsplittable),
      columns = rule.addFactor(up[0], FactorKind::Unsplittable),
      experts = rule.addFactor(up[0], FactorKind::ReductionSum),
      inner = rule.addFactor(up[1], FactorKind::ReductionSum);
  rule.operands = {{result[0], {hidden}},
                   {result[0], {columns}},
                   {{experts}, {inner}, {hidden}},
                   {{experts}, result[1], {inner}}};
  if (getGate())
    rule.operands.push_back({{experts}, {inner}, {hidden}});
  for (Value bias : {getUpBias(), getGateBias()})
    if (bias)
      rule.operands.push_back({{experts}, {inner}});
  rule.results = {result};
  rule.linear = {{{1}, false}, {{3}, false}};
  return rule;
}

LogicalResult MoeOp::verify() {
  if (!getGate() &&
      (getGateBias() || getBeta().convertToDouble() != 0 || getLimit().convertToDouble() != 0))
    return emitOpError("has a gate_bias, beta or limit, but no gate");
  if (getAlpha().convertToDouble() != 1 && getActivation() != ExpertActivation::Silu)
    return emitOpError("has alpha, but its activation is ")
           << stringifyExpertActivation(getActivation()) << ", not silu";
  if (!(getLimit().convertToDouble() >= 0))
    return emitOpError("has a negative limit");
  std::optional<int64_t> experts = getSizes(getUp())[0].asConstant();
  if (int64_t k = getTopK(); k < 1 || (experts && k > *experts))
    return emitOpError() << "has top_k " << k << "; must be 1 to the number of experts, "
                         << getSizes(getUp())[0].str();
  return success();
}
