//===- PlannedAttention.cpp - Attention and its gradient on buffers -------===//

#include "PlannedMatmuls.h"
#include "tpc/Buffer/Training.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// Sizes of a tensor on a rank.
SmallVector<SymExpr> getPartSizes(Value tensor, PlanChecker &c) {
  return llvm::map_to_vector(getDist(tensor).getDims(),
                             [&](DimAttr d) { return c.sizes().size(d); });
}

/// Checks the sizes, scale and softcap of a call.
template <typename OpT, typename CallT>
LogicalResult checkSizes(OpT op, CallT call, PlanChecker &c) {
  SmallVector<SymExpr> q = getPartSizes(op.getQ(), c), k = getPartSizes(op.getK(), c),
                       v = getPartSizes(op.getV(), c);
  return failure(failed(c.compare(call, "batch", call.getBatch(), q[0])) ||
                 failed(c.compare(call, "queries", call.getQueries(), q[1])) ||
                 failed(c.compare(call, "keys", call.getKeys(), k[1])) ||
                 failed(c.compare(call, "heads", call.getHeads(), q[2])) ||
                 failed(c.compare(call, "kv heads", call.getKvHeads(), k[2])) ||
                 failed(c.compare(call, "head size", call.getHeadSize(), q[3])) ||
                 failed(c.compare(call, "value size", call.getValueSize(), v[3])) ||
                 failed(c.compare(call, "a scale", call.getScaleAttr(), op.getScaleAttr())) ||
                 failed(c.compare(call, "a softcap", call.getSoftcapAttr(), op.getSoftcapAttr())));
}

/// Checks which keys are visible by their positions, and where slopes are 0.
template <typename OpT, typename CallT>
LogicalResult checkPositions(OpT op, CallT call, PlanChecker &c) {
  const PartSizes &sizes = c.sizes();
  if (call.getUniformRows() != (op.getMaskedRow() == MaskedRow::Uniform))
    return call.emitOpError("must treat rows without visible keys as the op on tensors does");
  if (call.getCausal().has_value() != op.getCausal())
    return call.emitOpError("must be causal if and only if the op on tensors is");
  if (call.getAfter().has_value() != op.getWindow().has_value())
    return call.emitOpError("must have a window if and only if the op on tensors has one");
  if (call.getSlopesAt().has_value() != bool(call.getSlopes()))
    return call.emitOpError(
        "must have slopes if and only if it has the position at which they are 0");
  // The call's query positions begin at this rank's first query, and must be contiguous.
  DimAttr dim = getDist(op.getQ()).getDims()[1];
  SymExpr first = sizes.begin(sizes.inner(dim), dim.getAxes()), unit(1);
  bool isContiguous = true;
  for (FactorAttr factor : llvm::reverse(dim.getFactors())) {
    isContiguous &= factor.getAxes().empty() || factor == dim.getFactors().front();
    first = first + unit * sizes.begin(factor.getExpr(), factor.getAxes());
    unit = unit * factor.getExpr();
  }
  SymExpr position = first + op.getCausalOffset();
  if (!isContiguous && (op.getCausal() || op.getWindow()))
    return op.emitOpError("is causal or has a window, over queries that are not contiguous");
  if (op.getCausal() && failed(c.compare(call, "a causal offset", *call.getCausal(), position)))
    return failure();
  if (op.getWindow() && failed(c.compare(call, "a window that begins after", *call.getAfter(),
                                         position - *op.getWindow())))
    return failure();
  // If queries are not contiguous, the position only adds a constant to each row, so it is not
  // compared.
  if (op.getSlopes() && isContiguous && call.getSlopesAt() &&
      failed(c.compare(call, "slopes that are 0 at", *call.getSlopesAt(), position)))
    return failure();
  return success();
}

/// Checks the operands that are added to scores or hide them.
template <typename OpT, typename CallT>
LogicalResult checkMasks(OpT op, CallT call, PlanChecker &c) {
  auto checkMask = [&](StringRef what, Value buffer, std::optional<ArrayAttr> strides,
                       Value tensor) -> LogicalResult {
    if (failed(checkOptional(c, call, what, buffer, tensor)) || !tensor)
      return failure(bool(buffer) != bool(tensor));
    SmallVector<SymExpr> m = getPartSizes(tensor, c);
    auto global = getSizes(tensor);
    SymExpr row = m[2] * m[3];
    return c.compare(call, "strides of a mask", strides.value_or(ArrayAttr()),
                     {global[0].isConstant(1) ? SymExpr(0) : m[1] * row,
                      global[1].isConstant(1) ? SymExpr(0) : row});
  };
  return failure(failed(checkOptional(c, call, "key mask", call.getKeyMask(), op.getKeyMask())) ||
                 failed(checkMask("mask", call.getMask(), call.getMaskStrides(), op.getMask())) ||
                 failed(checkMask("bias", call.getBias(), call.getBiasStrides(), op.getBias())) ||
                 failed(checkOptional(c, call, "slopes", call.getSlopes(), op.getSlopes())));
}

struct Attention : PlannedOpInterface::ExternalModel<Attention, AttentionOp> {
  static Value getInCacheLayout(AttentionOp op, Value tensor) {
    Value byHeads = op.getLengths() ? getByHeads(tensor) : Value();
    return byHeads ? byHeads : tensor;
  }

  /// With lengths, keys and values may have the layout of a cache, [b, h, tokens, d].
  static LogicalResult checkStrides(AttentionOp op, buffer::AttentionOp call, ArrayRef<SymExpr> q,
                                    ArrayRef<SymExpr> k, ArrayRef<SymExpr> v, PlanChecker &c) {
    auto queryRow = c.getRowStride(call, call.getQ(), q, 2);
    auto keyRows = c.getRowStride(call, call.getK(), k, 2);
    auto valueRows = c.getRowStride(call, call.getV(), v, 2);
    if (failed(queryRow) || failed(keyRows) || failed(valueRows))
      return failure();
    SymExpr keyRow = *keyRows, valueRow = *valueRows;
    bool hasLengths = bool(op.getLengths());
    if (hasLengths != bool(call.getLengths()) || hasLengths != call.getCacheStrides().has_value())
      return call.emitOpError(
          "must have lengths and strides of a cache if and only if the op on tensors has lengths");
    if (hasLengths) {
      if (!op.getCausal() || !getElementTypeOrSelf(op.getLengths()).isInteger(64))
        return op.emitOpError(
            "must be causal and have lengths of type i64, because no other call takes lengths");
      SmallVector<SymExpr> strides;
      auto add = [&](Value tensor, ArrayRef<SymExpr> sizes, SymExpr &row) {
        SymExpr head = sizes[3];
        if (getByHeads(tensor)) {
          row = sizes[3];
          head = sizes[1] * sizes[3];
        }
        strides.push_back(sizes[1] * sizes[2] * sizes[3]);
        strides.push_back(head);
      };
      add(op.getK(), k, keyRow);
      add(op.getV(), v, valueRow);
      if (failed(c.compare(call, "strides of a cache", *call.getCacheStrides(), strides)))
        return failure();
    }
    return c.compare(call, "strides", call.getStrides(),
                     {*queryRow, keyRow, valueRow, q[2] * v[3]});
  }

  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AttentionOp>(base);
    auto call = c.next<buffer::AttentionOp>(op);
    if (!call)
      return failure();
    if (failed(checkComputed(op, {op.getQ(), op.getBias(), op.getSlopes(), op.getSinks()})) ||
        failed(checkOneType(op, {op.getQ(), op.getK(), op.getV()})))
      return failure();
    SmallVector<SymExpr> q = getPartSizes(op.getQ(), c), k = getPartSizes(op.getK(), c),
                         v = getPartSizes(op.getV(), c);
    // With lengths, keys and values are in caches.
    auto rows = PlanChecker::Access::ByRows,
         ofKeys = op.getLengths() ? PlanChecker::Access::Dense : rows;
    return failure(failed(checkSizes(op, call, c)) || failed(checkStrides(op, call, q, k, v, c)) ||
                   failed(checkPositions(op, call, c)) ||
                   failed(c.read(call, call.getQ(), op.getQ(), {}, rows)) ||
                   failed(c.read(call, call.getK(), getInCacheLayout(op, op.getK()), {}, ofKeys)) ||
                   failed(c.read(call, call.getV(), getInCacheLayout(op, op.getV()), {}, ofKeys)) ||
                   failed(checkOptional(c, call, "lengths", call.getLengths(), op.getLengths())) ||
                   failed(checkMasks(op, call, c)) ||
                   failed(checkOptional(c, call, "sinks", call.getSinks(), op.getSinks())) ||
                   failed(c.write(call, call.getTo(), op.getResult())));
  }
};

/// Returns whether two ops differ at most in `of`, the operand whose cotangent they compute.
bool isSameGradient(AttentionGradOp a, AttentionGradOp b) {
  return a.getOperands() == b.getOperands() && a.getScaleAttr() == b.getScaleAttr() &&
         a.getCausal() == b.getCausal() && a.getCausalOffset() == b.getCausalOffset() &&
         a.getWindow() == b.getWindow() && a.getSoftcapAttr() == b.getSoftcapAttr() &&
         a.getUniformRows() == b.getUniformRows() && a.getKeyMask() == b.getKeyMask() &&
         a.getMask() == b.getMask() && a.getBias() == b.getBias() && a.getSlopes() == b.getSlopes();
}

/// One call computes all ops that differ only in `of`.
struct AttentionGrad : PlannedOpInterface::ExternalModel<AttentionGrad, AttentionGradOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AttentionGradOp>(base);
    auto call = c.next<buffer::AttentionGradOp>(op);
    if (!call)
      return failure();
    if (failed(checkComputed(op, {op.getQ(), op.getBias(), op.getSlopes()})) ||
        failed(checkOneType(op, {op.getQ(), op.getK(), op.getV(), op.getCotangent()})))
      return failure();
    SmallVector<SymExpr> strides;
    for (auto [buffer, tensor] :
         {std::pair(call.getQ(), op.getQ()), std::pair(call.getK(), op.getK()),
          std::pair(call.getV(), op.getV())}) {
      auto row = c.getRowStride(call, buffer, getPartSizes(tensor, c), 2);
      if (failed(row))
        return failure();
      strides.push_back(*row);
    }
    auto rows = PlanChecker::Access::ByRows;
    bool computesOp = false;
    if (failed(checkSizes(op, call, c)) ||
        failed(c.compare(call, "strides", call.getStrides(), strides)) ||
        failed(checkPositions(op, call, c)) ||
        failed(c.read(call, call.getQ(), op.getQ(), {}, rows)) ||
        failed(c.read(call, call.getK(), op.getK(), {}, rows)) ||
        failed(c.read(call, call.getV(), op.getV(), {}, rows)) ||
        failed(c.read(call, call.getCotangent(), op.getCotangent())) ||
        failed(checkMasks(op, call, c)))
      return failure();
    // All operands are read before any result is written. The checker finds the ops of the call by
    // its own comparison.
    for (auto [number, buffer] : llvm::zip_equal(call.getOf(), call.getTo())) {
      AttentionGradOp found;
      for (Operation *at = op; at && !found; at = at->getNextNode())
        if (auto other = dyn_cast<AttentionGradOp>(at);
            other && int64_t(other.getOf()) == number && isSameGradient(op, other))
          found = other;
      if (!found)
        return call.emitOpError() << "computes the gradient of operand " << number
                                  << ", but no op on tensors does";
      if (failed(c.write(call, buffer, found.getResult())))
        return failure();
      if (found != op)
        c.setDone(found);
      computesOp |= found == op;
    }
    if (!computesOp)
      return call.emitOpError() << "does not compute the gradient of operand " << op.getOf();
    return success();
  }
};
} // namespace

void mlir::tpc::attachPlannedAttention(MLIRContext *context) {
  AttentionOp::attachInterface<Attention>(*context);
  AttentionGradOp::attachInterface<AttentionGrad>(*context);
}
