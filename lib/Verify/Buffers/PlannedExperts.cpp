//===- PlannedExperts.cpp - Model of mixtures of experts on buffers -------===//

#include "PlanChecker.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static LogicalResult checkOptional(PlanChecker &c, Operation *call, StringRef what, Value buffer,
                                   Value tensor) {
  if (!buffer && !tensor)
    return success();
  if (!buffer || !tensor)
    return call->emitOpError() << (buffer ? "has a " : "has no ") << what
                               << ", but the op on tensors has " << (tensor ? "one" : "none");
  return c.read(call, buffer, tensor);
}

namespace {
/// A call on the experts of this rank, which are adjacent columns of the routing.
struct Moe : PlannedOpInterface::ExternalModel<Moe, MoeOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<MoeOp>(base);
    auto call = c.next<buffer::ExpertsOp>(op);
    if (!call)
      return failure();
    if (!TargetTraits::get(op).computesExperts || !getElementTypeOrSelf(op.getResult()).isF32())
      return op.emitOpError("is of a type that no library computes");
    const PartSizes &sizes = c.sizes();
    ArrayRef<DimAttr> up = getDist(op.getUp()).getDims(), x = getDist(op.getX()).getDims(),
                      down = getDist(op.getDown()).getDims(),
                      routing = getDist(op.getRouting()).getDims(),
                      result = getDist(op.getResult()).getDims();
    // If an inner factor is split, the experts of a rank are not adjacent.
    ArrayRef<FactorAttr> factors = up[0].getFactors();
    if (llvm::any_of(factors.drop_front(),
                     [](FactorAttr factor) { return !factor.getAxes().empty(); }) ||
        (factors.size() > 1 && !factors.front().getAxes().empty() && !up[0].getAxes().empty()))
      return op.emitOpError("has experts on a rank that are not adjacent");
    SymExpr first = sizes.begin(sizes.inner(up[0]), up[0].getAxes()), unit(1);
    for (FactorAttr factor : llvm::reverse(factors)) {
      first = first + unit * sizes.begin(factor.getExpr(), factor.getAxes());
      unit = unit * factor.getExpr();
    }
    return failure(
        failed(c.compare(call, "tokens", call.getTokens(), sizes.size(x[0]))) ||
        failed(c.compare(call, "hidden", call.getHidden(), sizes.size(x[1]))) ||
        failed(c.compare(call, "hidden", call.getHidden(), sizes.size(up[2]))) ||
        failed(c.compare(call, "experts", call.getExperts(), sizes.size(up[0]))) ||
        failed(c.compare(call, "experts", call.getExperts(), sizes.size(down[0]))) ||
        failed(c.compare(call, "all experts", call.getAll(), sizes.size(routing[1]))) ||
        failed(c.compare(call, "a first expert", call.getFirst(), first)) ||
        failed(c.compare(call, "inner", call.getInner(), sizes.size(up[1]))) ||
        failed(c.compare(call, "inner", call.getInner(), sizes.size(down[2]))) ||
        failed(c.compare(call, "outputs", call.getOutputs(), sizes.size(result[1]))) ||
        failed(
            c.compare(call, "an activation", call.getActivationAttr(), op.getActivationAttr())) ||
        failed(c.compare(call, "alpha", call.getAlphaAttr(), op.getAlphaAttr())) ||
        failed(c.compare(call, "beta", call.getBetaAttr(), op.getBetaAttr())) ||
        failed(c.compare(call, "a limit", call.getLimitAttr(), op.getLimitAttr())) ||
        failed(c.read(call, call.getX(), op.getX())) ||
        failed(c.read(call, call.getRouting(), op.getRouting())) ||
        failed(c.read(call, call.getUp(), op.getUp())) ||
        failed(c.read(call, call.getDown(), op.getDown())) ||
        failed(checkOptional(c, call, "gate", call.getGate(), op.getGate())) ||
        failed(checkOptional(c, call, "up_bias", call.getUpBias(), op.getUpBias())) ||
        failed(checkOptional(c, call, "gate_bias", call.getGateBias(), op.getGateBias())) ||
        failed(c.write(call, call.getTo(), op.getResult())));
  }
};

/// Compares the rows of a call, which dimension 0 of `split` divides. A rank's rows are adjacent.
template <typename CallT>
LogicalResult checkRows(PlanChecker &c, CallT call, Value split, ArrayAttr axes) {
  ArrayRef<DimAttr> dims = getDist(split).getDims();
  auto shape = c.sizes().findSplit(dims, 0, cast<StringAttr>(axes[0]).getValue());
  if (!shape || !shape->outer.isConstant(1))
    return call.emitOpError("is of rows that are not adjacent");
  return failure(failed(c.compare(call, "axes", call.getAxes(), axes)) ||
                 failed(c.compare(call, "n", call.getN(), shape->n)) ||
                 failed(c.compare(call, "inner", call.getInner(), shape->inner)) ||
                 failed(c.compare(call, "width", call.getWidth(), c.sizes().size(dims[1]))));
}

/// Rows of the experts of each member: the call must have the split of the experts and the columns
/// of their weights.
struct Dispatch : PlannedOpInterface::ExternalModel<Dispatch, DispatchOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<DispatchOp>(base);
    auto call = c.next<buffer::DispatchOp>(op);
    if (!call)
      return failure();
    SmallVector<Attribute> split;
    for (StringAttr axis : op.getExperts().getAllAxes())
      split.push_back(axis);
    return failure(
        failed(checkRows(c, call, op.getOperand(), op.getAxes())) ||
        failed(c.compare(call, "a column", call.getColumn(), SymExpr(int64_t(op.getColumn())))) ||
        failed(c.compare(call, "experts", call.getExperts(), op.getExperts().getExpr())) ||
        failed(c.compare(call, "split", call.getSplit(), ArrayAttr::get(op.getContext(), split))) ||
        failed(c.read(call, call.getFrom(), op.getOperand())) ||
        failed(c.write(call, call.getTo(), op.getResult())));
  }
};

struct Combine : PlannedOpInterface::ExternalModel<Combine, CombineOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<CombineOp>(base);
    auto call = c.next<buffer::CombineOp>(op);
    return failure(!call || failed(checkRows(c, call, op.getResult(), op.getAxes())) ||
                   failed(c.read(call, call.getFrom(), op.getOperand())) ||
                   failed(c.write(call, call.getTo(), op.getResult())));
  }
};
} // namespace

void mlir::tpc::attachPlannedExperts(MLIRContext *context) {
  MoeOp::attachInterface<Moe>(*context);
  DispatchOp::attachInterface<Dispatch>(*context);
  CombineOp::attachInterface<Combine>(*context);
}
