//===- ModelGradients.cpp - Gradients of matmuls, row ops and lookups -----===//
//
// Norms recompute their normalized rows from x, with sums instead of means, so that a width within
// a layer can be split.
//
//===----------------------------------------------------------------------===//

#include "GradientOp.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using B = GradientBuilder;

namespace {
struct MatmulGradient : GradientOpInterface::ExternalModel<MatmulGradient, MatmulOp> {
  /// Returns [rows, last dimension].
  static Value flatten(B &b, Value v) {
    SmallVector<SymExpr> sizes = getSizes(v);
    if (sizes.size() == 2)
      return v;
    SymExpr last = sizes.pop_back_val();
    return b.reshape(v, {product(sizes), last});
  }

  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<MatmulOp>(base);
    Value lhs = op.getLhs(), rhs = op.getRhs(), d = b.getCotangent(op.getResult());
    if (op.getBias())
      b.accumulateSum(op.getBias(), d);
    if (rankOf(rhs) == 2) {
      if (b.isActive(lhs))
        b.accumulate(lhs, b.matmul(d, b.transposeMatrix(rhs)));
      if (b.isActive(rhs))
        b.accumulate(rhs, b.matmul(b.transposeMatrix(flatten(b, lhs)), flatten(b, d)));
      return success();
    }
    if (rankOf(lhs) == 1)
      return emitError(op.getLoc())
             << "'" << getSourceName(op.getLoc())
             << "' (tpc.matmul) has no gradient for a vector and a batch of matrices";
    if (b.isActive(lhs))
      b.accumulateSum(lhs, b.matmul(d, b.transposeMatrix(rhs)));
    if (b.isActive(rhs))
      b.accumulateSum(rhs, b.matmul(b.transposeMatrix(lhs), d));
    return success();
  }
};

/// Gradients of a norm: x [.., n] with normalized rows z = (x - mean) r, or x r for an RMS norm,
/// where r is the reciprocal of the root. With e = d scale, the cotangent of x is
/// r (e - mean(e) - z mean(e z)), without mean(e) for an RMS norm.
template <typename OpT>
struct NormGradient : GradientOpInterface::ExternalModel<NormGradient<OpT>, OpT> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<OpT>(base);
    constexpr bool centers = std::is_same_v<OpT, LayerNormOp>;
    Value x = op.getX(), scale = op.getScale(), d = b.getCotangent(op.getResult());
    int64_t last = rankOf(x) - 1;
    Value n = b.size(getSizes(x)[last]);
    auto mean = [&](Value v) { return b.div(b.sumKeep(v, {last}), n); };
    Value centered = x;
    if constexpr (centers)
      centered = b.sub(x, mean(x));
    Value variance = mean(b.mul(centered, centered));
    double epsilon = op.getEpsilon().convertToDouble();
    Value root = b.template apply<RsqrtOp>(b.add(variance, b.number(epsilon)));
    Value z = b.mul(centered, root);
    b.accumulateSum(scale, b.mul(d, z));
    if constexpr (centers)
      if (op.getBias())
        b.accumulateSum(op.getBias(), d);
    if (!b.isActive(x))
      return success();
    Value e = b.mul(d, scale);
    Value result = b.sub(e, b.mul(z, mean(b.mul(e, z))));
    if constexpr (centers)
      result = b.sub(result, mean(e));
    b.accumulate(x, b.mul(result, root));
    return success();
  }
};

struct SoftmaxGradient : GradientOpInterface::ExternalModel<SoftmaxGradient, SoftmaxOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<SoftmaxOp>(base);
    Value y = op.getResult(), d = b.getCotangent(y);
    Value sum = b.sumKeep(b.mul(d, y), {int64_t(op.getDim())});
    b.accumulate(op.getOperand(), b.mul(y, b.sub(d, sum)));
    return success();
  }
};

struct ReduceGradient : GradientOpInterface::ExternalModel<ReduceGradient, ReduceOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<ReduceOp>(base);
    Value x = op.getOperand(), y = op.getResult(), d = b.getCotangent(y);
    if (!b.isActive(x))
      return success();
    SmallVector<SymExpr> kept = getSizes(x);
    SymExpr count(1);
    for (int64_t dim : op.getDims()) {
      count = count * kept[dim];
      kept[dim] = SymExpr(1);
    }
    d = b.reshape(d, kept);
    if (op.getFunction() == ReduceFunction::Mean)
      d = b.div(d, b.size(count));
    if (op.getFunction() == ReduceFunction::Max || op.getFunction() == ReduceFunction::Min) {
      // Equal extrema share the cotangent, as in PyTorch.
      Value equal = CmpOp::create(b.getBuilder(), b.getLoc(), Predicate::EQ, x, b.reshape(y, kept));
      Value ties =
          b.sumKeep(b.toFloat(equal, elementTypeOf(x)), SmallVector<int64_t>(op.getDims()));
      b.accumulate(x, b.select(equal, b.div(d, ties), b.number(0)));
      return success();
    }
    b.accumulate(x, ExpandOp::create(b.getBuilder(), b.getLoc(),
                                     makeTensorType(elementTypeOf(x), getSizes(x)), d));
    return success();
  }
};

/// Rotates the cotangent by the negative angle. Tables of positions are constants.
struct RotaryGradient : GradientOpInterface::ExternalModel<RotaryGradient, RotaryOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<RotaryOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getX(), RotaryOp::create(b.getBuilder(), b.getLoc(), d, op.getCos(),
                                             b.neg(op.getSin()), op.getInterleaved()));
    return success();
  }
  bool isDifferentiable(Operation *, unsigned operand) const { return operand == 0; }
};

struct EmbeddingGradient : GradientOpInterface::ExternalModel<EmbeddingGradient, EmbeddingOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<EmbeddingOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getTable(), b.scatterAdd(d, op.getIds(), getSizes(op.getTable())[0]));
    return success();
  }
};

struct ScatterAddGradient : GradientOpInterface::ExternalModel<ScatterAddGradient, ScatterAddOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<ScatterAddOp>(base);
    b.accumulate(op.getUpdates(), EmbeddingOp::create(b.getBuilder(), b.getLoc(),
                                                      b.getCotangent(op.getResult()), op.getIds()));
    return success();
  }
};

struct GatherGradient : GradientOpInterface::ExternalModel<GatherGradient, GatherOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<GatherOp>(base);
    if (!b.isActive(op.getData()))
      return success();
    Value d = b.getCotangent(op.getResult());
    SmallVector<SymExpr> sizes = getSizes(op.getData());
    int64_t dim = op.getDim(), count = rankOf(op.getIndices());
    // [a.., i.., b..] -> [i.., a.., b..]; back: [n, a.., b..] -> [a.., n, b..].
    SmallVector<int64_t> front, back;
    for (int64_t i = 0; i < rankOf(d); ++i)
      front.push_back(i < count ? dim + i : i < count + dim ? i - count : i);
    for (int64_t i = 0; i < rankOf(op.getData()); ++i)
      back.push_back(i < dim ? i + 1 : i == dim ? 0 : i);
    SmallVector<SymExpr> others(sizes);
    others.erase(others.begin() + dim);
    if (dim > 0)
      d = b.transpose(d, front);
    SymExpr indices = product(getSizes(op.getIndices()));
    Value sum = b.scatterAdd(b.reshape(d, {indices, product(others)}),
                             b.reshape(op.getIndices(), {indices}), sizes[dim]);
    others.insert(others.begin(), sizes[dim]);
    sum = b.reshape(sum, others);
    b.accumulate(op.getData(), dim > 0 ? b.transpose(sum, back) : sum);
    return success();
  }
};

struct AttentionGradient : GradientOpInterface::ExternalModel<AttentionGradient, AttentionOp> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    return buildAttentionGradient(cast<AttentionOp>(op), b);
  }
  /// The slopes of ALiBi biases are constants.
  bool isDifferentiable(Operation *base, unsigned operand) const {
    auto op = cast<AttentionOp>(base);
    return !op.getSlopes() || op->getOperand(operand) != op.getSlopes();
  }
};
} // namespace

void mlir::tpc::attachModelGradients(MLIRContext *context) {
  MatmulOp::attachInterface<MatmulGradient>(*context);
  LayerNormOp::attachInterface<NormGradient<LayerNormOp>>(*context);
  RmsNormOp::attachInterface<NormGradient<RmsNormOp>>(*context);
  SoftmaxOp::attachInterface<SoftmaxGradient>(*context);
  ReduceOp::attachInterface<ReduceGradient>(*context);
  RotaryOp::attachInterface<RotaryGradient>(*context);
  GatherOp::attachInterface<GatherGradient>(*context);
  EmbeddingOp::attachInterface<EmbeddingGradient>(*context);
  ScatterAddOp::attachInterface<ScatterAddGradient>(*context);
  AttentionOp::attachInterface<AttentionGradient>(*context);
}
