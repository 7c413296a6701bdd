//===- ExpertOps.cpp - Mixture of experts ---------------------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Experts.h"

#include <cmath>

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
    // Matrices may stay in 16 bits where x is f32.
    Type element = elementTypeOf(v), other = elementTypeOf(adaptor.getX());
    bool isMatrix = wanted.size() == 3;
    if (element != other && !(isMatrix && other.isF32() && (element.isF16() || element.isBF16())))
      return inferError(loc, "moe: " + what + " and x have different element types");
    if (isMatrix && element != elementTypeOf(adaptor.getUp()))
      return inferError(loc, "moe: " + what + " and up have different element types");
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

//===----------------------------------------------------------------------===//
// Exchange of tokens
//===----------------------------------------------------------------------===//

static LogicalResult checkExperts(Operation *op, ArrayAttr axes, DimAttr experts, int64_t topK) {
  if (axes.size() != 1)
    return op->emitOpError("must be over one axis");
  StringAttr axis = cast<StringAttr>(axes[0]);
  std::optional<int64_t> count = experts.getExpr().asConstant();
  if (!count || experts.getFactors().size() != 1 ||
      (!experts.getAxes().empty() && !experts.getFactors()[0].getAxes().empty()))
    return op->emitOpError() << "needs a constant number of experts, split over axes one after "
                             << "the other";
  if (!experts.usesAxis(axis))
    return op->emitOpError() << "its experts are not split over '" << axis.getValue() << "'";
  if (topK < 1 || topK > *count)
    return op->emitOpError() << "has top_k " << topK << "; must be 1 to the number of experts, "
                             << *count;
  return success();
}

/// The axis must split the outermost factor of dimension 0, so that a rank's rows are adjacent.
static LogicalResult checkRows(Operation *op, Value split, ArrayAttr axes) {
  DistAttr dist = getDist(split);
  DimAttr tokens = dist.getDims()[0];
  StringAttr axis = cast<StringAttr>(axes[0]);
  if (dist.getDims().size() != 2 || dist.getDims()[1].isSharded())
    return op->emitOpError("needs a matrix whose columns are not split");
  if (tokens.getAxes().empty() && !llvm::is_contained(tokens.getFactors()[0].getAxes(), axis))
    return op->emitOpError() << "needs adjacent rows: '" << axis.getValue()
                             << "' must split the outermost factor";
  return success();
}

LogicalResult DispatchOp::verify() {
  if (rankOf(getOperand()) != 2)
    return emitOpError("needs rows");
  if (failed(checkExperts(*this, getAxesAttr(), getExperts(), getTopK())) ||
      failed(checkGather(*this, getAxesAttr(), 0)) ||
      failed(checkRows(*this, getOperand(), getAxesAttr())))
    return failure();
  auto width = getSizes(getOperand())[1].asConstant();
  int64_t column = getColumn(), count = *getExperts().getExpr().asConstant();
  if (!width || column < 0 || count > *width - column)
    return emitOpError() << "has no columns " << column << " to " << column + count - 1;
  return success();
}

LogicalResult CombineOp::verify() {
  if (rankOf(getOperand()) != 2)
    return emitOpError("needs rows");
  PartialAttr partial = getDist(getOperand()).getPartial();
  if (partial && partial.getKind() != ReductionKind::Sum)
    return emitOpError("needs an operand that is unreduced by sum");
  return failure(failed(checkExperts(*this, getAxesAttr(), getExperts(), getTopK())) ||
                 failed(checkScatter(*this, getAxesAttr(), 0)) ||
                 failed(checkRows(*this, getResult(), getAxesAttr())));
}

std::optional<int64_t> DispatchOp::getOperandSplitDim() { return 0; }
std::optional<int64_t> CombineOp::getResultSplitDim() { return 0; }
bool DispatchOp::sendsOnlyMissing() { return true; }
bool CombineOp::sendsOnlyMissing() { return true; }

using Numbers = std::map<std::string, int64_t>;

double mlir::tpc::getExpectedShare(int64_t all, int64_t experts, int64_t topK) {
  double none = 1; // probability that no expert of the rank is selected
  for (int64_t i = 0; i < topK; ++i)
    none *= double(std::max<int64_t>(0, all - experts - i)) / double(all - i);
  return 1 - none;
}

/// Returns the expected bytes that a member sends or receives, whichever is more, if each set of
/// `topK` experts is equally likely. `split`: operand or result whose rows the axis splits.
static std::optional<int64_t> getExpectedBytes(Value split, ArrayAttr axes, DimAttr experts,
                                               int64_t topK, bool isDispatch, MeshAttr grid,
                                               Numbers coordinates, const Numbers &symbols) {
  std::string axis = cast<StringAttr>(axes[0]).getValue().str();
  auto width = getDist(split).getDims()[1].getLocalSize(grid, coordinates, symbols);
  int64_t all = *experts.getExpr().asConstant(), members = grid.getAxisSize(axis);
  if (!width)
    return std::nullopt;
  double element = double(getElementTypeOrSelf(split).getIntOrFloatBitWidth()) / 8;
  std::vector<double> sent(members), received(members);
  for (int64_t from = 0; from < members; ++from) { // the tokens of `from`, at the experts of `to`
    coordinates[axis] = from;
    auto rows = getDist(split).getDims()[0].getLocalSize(grid, coordinates, symbols);
    for (int64_t to = 0; to < members; ++to) {
      coordinates[axis] = to;
      auto own = experts.getLocalSize(grid, coordinates, symbols);
      if (!rows || !own)
        return std::nullopt;
      if (from == to || *rows == 0)
        continue;
      double count = double(*rows), share = getExpectedShare(all, *own, topK);
      double bytes =
          isDispatch ? std::ceil(count * double(*own) / 8) +
                           element * count *
                               (share * double(*width - all) + double(topK * *own) / double(all))
                     : std::ceil(count / 8) + element * count * share * double(*width);
      sent[isDispatch ? from : to] += bytes;
      received[isDispatch ? to : from] += bytes;
    }
  }
  return int64_t(std::ceil(std::max(*llvm::max_element(sent), *llvm::max_element(received))));
}

std::optional<int64_t> DispatchOp::getMaxMemberBytes(MeshAttr grid, const Numbers &coordinates,
                                                     const Numbers &symbols) {
  return getExpectedBytes(getOperand(), getAxesAttr(), getExperts(), getTopK(), true, grid,
                          coordinates, symbols);
}
std::optional<int64_t> CombineOp::getMaxMemberBytes(MeshAttr grid, const Numbers &coordinates,
                                                    const Numbers &symbols) {
  return getExpectedBytes(getResult(), getAxesAttr(), getExperts(), getTopK(), false, grid,
                          coordinates, symbols);
}
