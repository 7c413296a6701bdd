//===- BufferModelsAttention.cpp - Attention and its gradient on buffers --===//

#include "AttentionModels.h"
#include "BufferPlanner.h"
#include "MergedResults.h"
#include "tpc/Buffer/Training.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/LocalIndex.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// Returns whether the target's libraries support the element types of the values.
bool areComputed(Operation *op, ValueRange values) {
  const TargetTraits &target = TargetTraits::get(op);
  return llvm::all_of(
      values, [&](Value v) { return !v || target.computesMatmuls(getElementTypeOrSelf(v)); });
}

/// Attributes of a call that depend on the positions of a rank's queries and on masks.
struct AttentionCall {
  buffer::ExprAttr causal, after, slopesAt;
  ArrayAttr maskStrides, biasStrides;

  // Queries and keys of a rank have the same KV heads, and the rank has the same shard of each
  // group of query heads. So the local query heads of [2 * 4{tp}] form groups, although they are
  // not contiguous in the global dimension.
  template <typename OpT> AttentionCall(OpT op, BufferPlanner &p) {
    // Position of this rank's first query. If the rank's queries are not contiguous, only slopes
    // use the position, in slope * (key - position). Then any position is correct: it adds a
    // constant to each row of scores, which softmax cancels.
    DimAttr queries = getDist(op.getQ()).getDims()[1];
    SymExpr position = toNamedSize(op.getCausalOffset());
    if (isRange(queries))
      position = position + getFirstIndex(queries, p.grid());
    if (op.getCausal())
      causal = p.expr(position);
    if (std::optional<SymExpr> window = op.getWindow())
      after = p.expr(position - getNamedWindow(*window));
    if (op.getSlopes())
      slopesAt = p.expr(position);
    maskStrides = getStrides(op.getMask(), p);
    biasStrides = getStrides(op.getBias(), p);
  }

  static ArrayAttr getStrides(Value mask, BufferPlanner &p) {
    if (!mask)
      return {};
    SmallVector<SymExpr> m = p.sizes(mask.getType());
    auto all = getSizes(mask);
    return p.exprs({all[0].isConstant(1) ? SymExpr(0) : m[1] * m[2] * m[3],
                    all[1].isConstant(1) ? SymExpr(0) : m[2] * m[3]});
  }
};

struct AttentionModel : HostOpInterface::ExternalModel<AttentionModel, AttentionOp> {
  bool isHostOp(Operation *op) const {
    auto attention = cast<AttentionOp>(op);
    return areComputed(op, {attention.getQ(), attention.getK(), attention.getV(),
                            attention.getBias(), attention.getSlopes(), attention.getSinks()});
  }

  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AttentionOp>(base);
    if (op.getLengths() && !op.getCausal())
      return op.emitOpError("must be causal, because it has lengths: otherwise it would read cache "
                            "entries that were never written");
    if (op.getLengths() && !getElementTypeOrSelf(op.getLengths()).isInteger(64))
      return op.emitOpError("must have lengths of type i64");
    SmallVector<SymExpr> q = p.sizes(op.getQ().getType()), k = p.sizes(op.getK().getType()),
                         v = p.sizes(op.getV().getType());
    AttentionCall call(op, p);
    // In a cache, the tokens of a head are contiguous; in other tensors, the heads of a token are.
    // Queries, and keys and values outside of caches, may be columns of merged results.
    SymExpr queryRow = getElementStrides(op.getQ(), p.grid())[1];
    SymExpr keyRow = k[2] * k[3], valueRow = v[2] * v[3];
    SmallVector<SymExpr> cacheStrides;
    auto setStrides = [&](Value tensor, ArrayRef<SymExpr> sizes, SymExpr &row) {
      Operation *transpose = tensor.getDefiningOp();
      bool byHeads = transpose && transpose->hasAttr(kAliasedAttr);
      if (byHeads)
        row = sizes[3];
      cacheStrides.push_back(sizes[1] * sizes[2] * sizes[3]);
      cacheStrides.push_back(byHeads ? sizes[1] * sizes[3] : sizes[3]);
    };
    if (op.getLengths()) {
      setStrides(op.getK(), k, keyRow);
      setStrides(op.getV(), v, valueRow);
    } else {
      keyRow = getElementStrides(op.getK(), p.grid())[1];
      valueRow = getElementStrides(op.getV(), p.grid())[1];
    }
    auto bufferOf = [&](Value tensor) { return tensor ? p.getBuffer(tensor) : Value(); };
    Value from[] = {p.getBuffer(op.getQ()), p.getBuffer(op.getK()), p.getBuffer(op.getV())};
    Value keyMask = bufferOf(op.getKeyMask()), mask = bufferOf(op.getMask()),
          bias = bufferOf(op.getBias()), slopes = bufferOf(op.getSlopes()),
          sinks = bufferOf(op.getSinks()), lengths = bufferOf(op.getLengths()),
          to = p.getBuffer(op.getResult());
    buffer::AttentionOp::create(
        p.builder(), p.getLoc(), from[0], from[1], from[2], keyMask, mask, bias, slopes, sinks,
        lengths, to, p.expr(q[0]), p.expr(q[1]), p.expr(k[1]), p.expr(q[2]), p.expr(k[2]),
        p.expr(q[3]), p.expr(v[3]), p.exprs({queryRow, keyRow, valueRow, q[2] * v[3]}),
        call.maskStrides, call.biasStrides, call.slopesAt,
        lengths ? p.exprs(cacheStrides) : ArrayAttr(), call.causal, call.after, op.getScaleAttr(),
        op.getSoftcapAttr(),
        op.getMaskedRow() == MaskedRow::Uniform ? p.builder().getUnitAttr() : UnitAttr());
    return success();
  }
};

/// One call computes the merged ops. Its results are live from the first op on (BufferSlots.cpp).
struct AttentionGradModel : HostOpInterface::ExternalModel<AttentionGradModel, AttentionGradOp> {
  bool isHostOp(Operation *) const { return true; }

  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AttentionGradOp>(base);
    if (!areComputed(
            op, {op.getQ(), op.getK(), op.getV(), op.getBias(), op.getSlopes(), op.getCotangent()}))
      return op.emitOpError("is of a type that no library computes");
    SmallVector<AttentionGradOp, 3> merged = op.getMerged();
    if (merged.front() != op)
      return success();
    SmallVector<SymExpr> q = p.sizes(op.getQ().getType()), k = p.sizes(op.getK().getType()),
                         v = p.sizes(op.getV().getType());
    AttentionCall call(op, p);
    auto bufferOf = [&](Value tensor) { return tensor ? p.getBuffer(tensor) : Value(); };
    Value from[] = {p.getBuffer(op.getQ()), p.getBuffer(op.getK()), p.getBuffer(op.getV()),
                    p.getBuffer(op.getCotangent())};
    Value keyMask = bufferOf(op.getKeyMask()), mask = bufferOf(op.getMask()),
          bias = bufferOf(op.getBias()), slopes = bufferOf(op.getSlopes());
    llvm::sort(merged, [](AttentionGradOp a, AttentionGradOp b) { return a.getOf() < b.getOf(); });
    SmallVector<Value> to;
    SmallVector<int64_t> of;
    for (AttentionGradOp each : merged) {
      to.push_back(p.getBuffer(each.getResult()));
      of.push_back(each.getOf());
    }
    auto getRow = [&](Value tensor) { return getElementStrides(tensor, p.grid())[1]; };
    buffer::AttentionGradOp::create(
        p.builder(), p.getLoc(), from[0], from[1], from[2], from[3], keyMask, mask, bias, slopes,
        to, p.builder().getDenseI64ArrayAttr(of), p.expr(q[0]), p.expr(q[1]), p.expr(k[1]),
        p.expr(q[2]), p.expr(k[2]), p.expr(q[3]), p.expr(v[3]),
        p.exprs({getRow(op.getQ()), getRow(op.getK()), getRow(op.getV())}), call.maskStrides,
        call.biasStrides, call.slopesAt, call.causal, call.after, op.getScaleAttr(),
        op.getSoftcapAttr(), op.getUniformRows() ? p.builder().getUnitAttr() : UnitAttr());
    return success();
  }
};
} // namespace

void mlir::tpc::attachAttentionModels(MLIRContext *context) {
  AttentionOp::attachInterface<AttentionModel>(*context);
  AttentionGradOp::attachInterface<AttentionGradModel>(*context);
}
