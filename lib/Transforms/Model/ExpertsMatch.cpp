//===- ExpertsMatch.cpp - Formula of mixtures of experts ------------------===//

#include "ExpertsMatch.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

Value mlir::tpc::peelReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape.getOperand();
  return v;
}

/// Matches an activation of `argument`, with its alpha.
bool ExpertsMatch::matchActivation(Value v, Value &argument) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (auto gelu = dyn_cast<GeluOp>(op)) {
    activation = gelu.getApproximate() == GeluApproximation::None   ? ExpertActivation::GeluErf
                 : gelu.getApproximate() == GeluApproximation::Tanh ? ExpertActivation::GeluTanh
                                                                    : ExpertActivation::Silu;
    if (gelu.getApproximate() == GeluApproximation::Sigmoid)
      alpha = 1.702;
  } else if (isa<SiluOp>(op)) {
    activation = ExpertActivation::Silu;
  } else if (isa<ReluOp>(op)) {
    activation = ExpertActivation::Relu;
  } else {
    return false;
  }
  argument = op->getOperand(0);
  return true;
}

/// Strips a maximum or minimum with a number.
template <typename OpT> Value stripLimit(Value v, std::optional<double> &number) {
  auto op = v.getDefiningOp<OpT>();
  for (int i : {0, 1})
    if (op && (number = getSplat(op->getOperand(i))))
      return op->getOperand(1 - i);
  return v;
}

bool ExpertsMatch::matchGated(Value activated, Value other) {
  Value argument;
  if (!matchActivation(activated, argument))
    return false;
  beta = 0;
  if (auto add = other.getDefiningOp<AddOp>())
    for (int i : {0, 1})
      if (auto number = getSplat(add->getOperand(i))) {
        beta = *number;
        other = add->getOperand(1 - i);
        break;
      }
  std::optional<double> gateMax, low, high;
  argument = stripLimit<MinOp>(argument, gateMax);
  other = stripLimit<MinOp>(other, high);
  other = stripLimit<MaxOp>(other, low);
  if (!high)
    other = stripLimit<MinOp>(other, high);
  limit = gateMax.value_or(0);
  bool hasLimit = gateMax && *gateMax > 0 && high == gateMax && low && *low == -*gateMax;
  if (!hasLimit && (gateMax || low || high))
    return false;
  gate = getProjection(argument);
  std::optional<Projection> linear = getProjection(other);
  if (!gate || !linear || !matchRows(gate->input) || !matchRows(linear->input))
    return false;
  up = *linear;
  return true;
}

bool ExpertsMatch::matchInner(Value v) {
  if (auto mul = v.getDefiningOp<MulOp>())
    for (int i : {0, 1})
      if (matchGated(mul->getOperand(i), mul->getOperand(1 - i)))
        return true;
  gate.reset();
  alpha = 1, beta = 0, limit = 0;
  Value argument = v;
  if (!matchActivation(v, argument))
    activation = ExpertActivation::Identity;
  std::optional<Projection> single = getProjection(argument);
  if (!single || !matchRows(single->input))
    return false;
  up = *single;
  return true;
}

/// Returns the weight as [experts, n, k].
Value ExpertsMatch::getWeight(OpBuilder &b, const Projection &p) {
  Value v = p.weight;
  Location loc = sum->getLoc();
  if (p.isTransposed) {
    SmallVector<SymExpr> sizes = getSizes(v);
    std::swap(sizes[1], sizes[2]);
    v = TransposeOp::create(b, loc, makeTensorType(getElementTypeOrSelf(v), sizes), v,
                            ArrayRef<int64_t>{0, 2, 1});
  }
  SmallVector<SymExpr> sizes = getSizes(v);
  if (sizes[1] == p.size)
    return v;
  sizes[1] = p.size;
  return SliceOp::create(b, loc, makeTensorType(getElementTypeOrSelf(v), sizes), v, 1, p.start,
                         p.step);
}

Value ExpertsMatch::getBias(OpBuilder &b, const Projection &p) {
  if (!p.bias || getSizes(p.bias)[1] == p.size)
    return p.bias;
  SmallVector<SymExpr> sizes{getSizes(p.bias)[0], p.size};
  return SliceOp::create(b, sum->getLoc(), makeTensorType(getElementTypeOrSelf(p.bias), sizes),
                         p.bias, 1, p.start, p.step);
}

void ExpertsMatch::replaceBy(OpBuilder &b, Value rows, Value routing, int64_t k) {
  // Reports find the experts by the names of their matmuls, too.
  SmallVector<Location> locs = {sum->getLoc()};
  for (const Projection *projection : {&up, gate ? &*gate : nullptr, &down})
    if (projection)
      llvm::append_range(locs, projection->locs);
  Location loc = FusedLoc::get(b.getContext(), locs);
  Type element = getElementTypeOrSelf(sum->getResult(0));
  SymExpr hidden = getSizes(up.weight)[up.isTransposed ? 1 : 2];
  rows = createReshape(b, loc, rows, {tokens, hidden});
  Value gateWeight = gate ? getWeight(b, *gate) : Value(),
        gateBias = gate ? getBias(b, *gate) : Value();
  Value result =
      MoeOp::create(b, loc, makeTensorType(element, {tokens, down.size}), rows, routing,
                    getWeight(b, up), getWeight(b, down), gateWeight, getBias(b, up), gateBias,
                    activation, uint64_t(k), APFloat(alpha), APFloat(beta), APFloat(limit));
  if (down.bias) {
    Type type = result.getType();
    Value bias = MatmulOp::create(b, loc, type, routing, down.bias, Value());
    result = AddOp::create(b, loc, type, result, bias);
  }
  sum->getResult(0).replaceAllUsesWith(createReshape(b, loc, result, getSizes(sum->getResult(0))));
}
