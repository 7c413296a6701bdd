//===- RaiseNorms.cpp - Recognition of layer norm and RMS norm ------------===//

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

namespace mlir::tpc {
#define GEN_PASS_DEF_RAISENORMS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Returns x, if `v` is the mean of x over its last dimension, kept as size 1.
Value meanOperand(Value v) {
  Value result = v;
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape.getOperand();
  std::optional<double> factor;
  // sum / n, sum * (1/n)
  if (auto div = v.getDefiningOp<DivOp>()) {
    if (auto n = getSplat(div.getRhs()); n && *n != 0) {
      factor = 1.0 / *n;
      v = div.getLhs();
    }
  } else if (auto mul = v.getDefiningOp<MulOp>()) {
    if ((factor = getSplat(mul.getRhs())))
      v = mul.getLhs();
    else if ((factor = getSplat(mul.getLhs())))
      v = mul.getRhs();
  }
  auto reduce = v.getDefiningOp<ReduceOp>();
  if (!reduce)
    return {};
  SmallVector<SymExpr> sizes = getSizes(reduce.getOperand());
  if (sizes.empty() || !llvm::equal(reduce.getDims(), ArrayRef<int64_t>{(int64_t)sizes.size() - 1}))
    return {};
  if (factor) {
    auto n = sizes.back().asConstant();
    if (reduce.getFunction() != ReduceFunction::Sum || !n || std::abs(*factor * *n - 1.0) > 1e-6)
      return {};
  } else if (reduce.getFunction() != ReduceFunction::Mean) {
    return {};
  }
  sizes.back() = SymExpr(1);
  return sameSizes(getSizes(result), sizes) ? reduce.getOperand() : Value();
}

/// Returns x, if `v` is x * x.
Value squareOperand(Value v) {
  auto mul = v.getDefiningOp<MulOp>();
  return mul && mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
}

/// Returns x, if `v` is x - mean x.
Value centeredOperand(Value v) {
  auto sub = v.getDefiningOp<SubOp>();
  return sub && meanOperand(sub.getRhs()) == sub.getLhs() ? sub.getLhs() : Value();
}

/// Returns a, if `v` is 1 / sqrt(a).
Value inverseRootOperand(Value v) {
  if (auto rsqrt = v.getDefiningOp<RsqrtOp>())
    return rsqrt.getOperand();
  Value root;
  if (auto reciprocal = v.getDefiningOp<ReciprocalOp>())
    root = reciprocal.getOperand();
  else if (auto div = v.getDefiningOp<DivOp>(); div && isSplat(div.getLhs(), 1.0))
    root = div.getRhs();
  auto sqrt = root ? root.getDefiningOp<SqrtOp>() : SqrtOp();
  if (sqrt)
    return sqrt.getOperand();
  // sqrt(1 / a)
  if (auto outer = v.getDefiningOp<SqrtOp>())
    if (auto reciprocal = outer.getOperand().getDefiningOp<ReciprocalOp>())
      return reciprocal.getOperand();
  return {};
}

struct Norm {
  Value x;
  bool centered;
  double epsilon;
};

/// Returns the norm that `d` / sqrt(`a`) computes, if any.
std::optional<Norm> matchNorm(Value d, Value a) {
  double epsilon = 0;
  Value variance = a;
  if (auto add = a.getDefiningOp<AddOp>())
    for (int side : {0, 1})
      if (auto splat = getSplat(add->getOperand(side))) {
        epsilon = *splat;
        variance = add->getOperand(1 - side);
      }
  if (epsilon < 0)
    return std::nullopt;
  if (Value squared = meanOperand(variance)) {
    if (squareOperand(squared) != d)
      return std::nullopt;
    if (Value x = centeredOperand(d))
      return Norm{x, true, epsilon};
    return Norm{d, false, epsilon};
  }
  // Variance as mean x^2 - (mean x)^2.
  Value x = centeredOperand(d);
  auto sub = variance.getDefiningOp<SubOp>();
  if (!x || !sub)
    return std::nullopt;
  Value squared = meanOperand(sub.getLhs()), mean = squareOperand(sub.getRhs());
  if (squared && mean && squareOperand(squared) == x && meanOperand(mean) == x)
    return Norm{x, true, epsilon};
  return std::nullopt;
}

/// Returns an operand that does not depend on the model's input and has one element per element of
/// the last dimension.
Value vectorOperand(Operation *op, Value other, const SymExpr &n) {
  if (!op)
    return {};
  for (int side : {0, 1})
    if (op->getOperand(1 - side) == other && op->getOperand(side) != other &&
        isConstantVector(op->getOperand(side), n))
      return op->getOperand(side);
  return {};
}

/// Returns the only user of the op's result, or null.
Operation *getOnlyUser(Operation *op) {
  SmallVector<OpOperand *> uses = getModelUses(op->getResult(0));
  return uses.size() == 1 ? uses[0]->getOwner() : nullptr;
}

struct RaiseNorm : public RewritePattern {
  RaiseNorm(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    std::optional<Norm> norm;
    Value scale;
    SymExpr n;
    if (isa<DivOp, MulOp>(op)) {
      if (rankOf(op->getResult(0)) == 0)
        return failure();
      n = getSizes(op->getResult(0)).back();
    }
    if (auto div = dyn_cast<DivOp>(op)) {
      if (auto sqrt = div.getRhs().getDefiningOp<SqrtOp>())
        norm = matchNorm(div.getLhs(), sqrt.getOperand());
    } else if (auto mul = dyn_cast<MulOp>(op)) {
      for (int side : {0, 1}) {
        Value d = mul->getOperand(side), w = mul->getOperand(1 - side);
        Value a = inverseRootOperand(w);
        // d * (w * scale)
        if (auto scaled = w.getDefiningOp<MulOp>(); !a && scaled)
          for (int inner : {0, 1})
            if (Value root = inverseRootOperand(scaled->getOperand(inner)))
              if ((scale = vectorOperand(scaled, scaled->getOperand(inner), n)))
                a = root;
        if (a && (norm = matchNorm(d, a)))
          break;
        scale = {};
      }
    }
    if (!norm || !sameSizes(getSizes(norm->x), getSizes(op->getResult(0))) ||
        !isa<FloatType>(elementTypeOf(norm->x)))
      return failure();

    // Follows a multiplication by a scale, and then an addition of a bias.
    Operation *last = op;
    if (!scale)
      if (auto mul = dyn_cast_or_null<MulOp>(getOnlyUser(last)))
        if ((scale = vectorOperand(mul, last->getResult(0), n)))
          last = mul;
    Value bias;
    if (norm->centered && scale)
      if (auto add = dyn_cast_or_null<AddOp>(getOnlyUser(last)))
        if ((bias = vectorOperand(add, last->getResult(0), n)))
          last = add;
    Location loc = op->getLoc();
    if (!scale && !n.asConstant())
      return failure();
    rewriter.setInsertionPoint(last);
    if (!scale) {
      auto type = RankedTensorType::get({*n.asConstant()}, elementTypeOf(norm->x));
      scale = ConstantOp::create(
          rewriter, loc, type,
          DenseElementsAttr::get(type, (Attribute)rewriter.getFloatAttr(type.getElementType(), 1)));
    }
    scale = createReshape(rewriter, loc, scale, {n});
    if (bias)
      bias = createReshape(rewriter, loc, bias, {n});
    Type type = norm->x.getType();
    auto epsilon = rewriter.getF64FloatAttr(norm->epsilon);
    Value v = norm->centered
                  ? (Value)LayerNormOp::create(rewriter, loc, type, norm->x, scale, bias, epsilon)
                  : (Value)RmsNormOp::create(rewriter, loc, type, norm->x, scale, epsilon);
    rewriter.replaceOp(last, v);
    return success();
  }
};

struct RaiseNorms : public mlir::tpc::impl::RaiseNormsBase<RaiseNorms> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseNorm>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
