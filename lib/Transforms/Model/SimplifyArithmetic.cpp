//===- SimplifyArithmetic.cpp - Arithmetic with constants, identities -----===//

#include "Constants.h"
#include "Movement.h"
#include "SignedZeros.h"
#include "Simplify.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Replaces `op` by `v`, broadcast to the result's sizes.
static void replaceBroadcast(PatternRewriter &rewriter, Operation *op, Value v) {
  rewriter.replaceOp(op, createExpand(rewriter, op->getLoc(), v, getSizes(op->getResult(0))));
}

/// Folds arithmetic on splats.
struct FoldSplats : public OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    SmallVector<double> values;
    for (Value operand : op->getOperands()) {
      auto splat = getSplat(operand);
      if (!splat)
        return failure();
      values.push_back(*splat);
    }
    auto value = evaluateScalar(op, values);
    if (!value)
      return failure();
    rewriter.replaceOp(op, createSplat(rewriter, op->getLoc(),
                                       cast<RankedTensorType>(op->getResult(0).getType()), *value));
    return success();
  }
};

/// Replaces a moved splat by an expanded scalar.
struct FoldMovedSplat : public RewritePattern {
  FoldMovedSplat(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 3, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    bool isExpandedScalar = isa<ExpandOp>(op) && rankOf(op->getOperand(0)) == 0;
    if (isExpandedScalar || !isa<MovementOpInterface, SizeOp>(op))
      return failure();
    auto splat = getSplat(op->getResult(0));
    if (!splat)
      return failure();
    rewriter.replaceOp(op, createSplat(rewriter, op->getLoc(),
                                       cast<RankedTensorType>(op->getResult(0).getType()), *splat));
    return success();
  }
};

/// Folds x + 0, x - 0, x * 1, x / 1, and logic ops with a constant. -0 + 0 is 0: if that is
/// visible, the sum stays.
struct FoldIdentity : public OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    for (int side : {1, 0}) {
      auto identity = op.getIdentity(side);
      if (!identity)
        continue;
      std::optional<double> splat = getSplat(op->getOperand(side));
      if (splat != identity)
        continue;
      if (losesZeroSign(op, side, *splat) && hasVisibleZeroSigns(op->getResult(0)))
        continue;
      replaceBroadcast(rewriter, op, op->getOperand(1 - side));
      return success();
    }
    // Folds false and x, true or x, and 0 * x of integers.
    auto absorbing = op.getAbsorbing();
    if (!absorbing)
      return failure();
    for (Value operand : op->getOperands())
      if (getSplat(operand) == absorbing) {
        rewriter.replaceOp(op, createSplat(rewriter, op->getLoc(),
                                           cast<RankedTensorType>(op->getResult(0).getType()),
                                           *absorbing));
        return success();
      }
    return failure();
  }
};

struct FoldPow : public OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PowOp op, PatternRewriter &rewriter) const override {
    auto exponent = getSplat(op.getRhs());
    if (!exponent || !isFloatTensor(op.getLhs()))
      return failure();
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    Location loc = op.getLoc();
    Value x = op.getLhs(), v;
    if (*exponent == 1)
      v = x;
    else if (*exponent == 2)
      v = MulOp::create(rewriter, loc, x, x);
    else if (*exponent == 3)
      v = MulOp::create(rewriter, loc, MulOp::create(rewriter, loc, x, x), x);
    else if (*exponent == 0.5)
      v = SqrtOp::create(rewriter, loc, x);
    else if (*exponent == -0.5)
      v = RsqrtOp::create(rewriter, loc, x);
    else if (*exponent == -1)
      v = ReciprocalOp::create(rewriter, loc, x);
    else
      return failure();
    replaceBroadcast(rewriter, op, v);
    return success();
  }
};

/// Folds not not x, and - - x.
struct FoldInvolution : public RewritePattern {
  FoldInvolution(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<NotOp, NegOp>(op))
      return failure();
    Operation *inner = op->getOperand(0).getDefiningOp();
    if (!inner || inner->getName() != op->getName())
      return failure();
    rewriter.replaceOp(op, inner->getOperand(0));
    return success();
  }
};

/// Folds conversions to the same type, and pairs whose first conversion is exact.
struct FoldCast : public OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Returns true if `to` represents every value of `from`.
  static bool contains(Type from, Type to) {
    unsigned a = from.getIntOrFloatBitWidth(), b = to.getIntOrFloatBitWidth();
    if (from == to || from.isInteger(1))
      return true;
    bool floats = isa<FloatType>(from) && isa<FloatType>(to);
    bool mixed16 = (from.isF16() && to.isBF16()) || (from.isBF16() && to.isF16());
    if (floats && !mixed16)
      return a <= b;
    bool integers = !isa<FloatType>(from) && !isa<FloatType>(to);
    return integers && !isUnsigned(from) && !isUnsigned(to) && a <= b;
  }

  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    Type to = elementTypeOf(op.getResult());
    if (elementTypeOf(op.getOperand()) == to) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    auto inner = op.getOperand().getDefiningOp<CastOp>();
    if (!inner || !contains(elementTypeOf(inner.getOperand()), elementTypeOf(inner.getResult())))
      return failure();
    rewriter.replaceOpWithNewOp<CastOp>(op, op.getResult().getType(), inner.getOperand());
    return success();
  }
};

/// Converts positions counted in floating point to integers. OPT computes them as a running sum of
/// f32 ones, minus 1, sliced to the new tokens. As integers they are an iota and a size. (16-bit
/// floats represent too few positions exactly.)
struct CountInIntegers : public OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    Type from = elementTypeOf(op.getOperand()), to = type.getElementType();
    if (!isa<FloatType>(from) || from.getIntOrFloatBitWidth() < 32 || !isa<IntegerType>(to) ||
        to.isInteger(1))
      return failure();
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    IndexAnalysis analysis(sizes);
    IndexExpr element = analysis.at(op.getOperand(), analysis.getIndices());
    if (!element || !element.isInteger())
      return failure();
    for (unsigned dim = 0; dim < sizes.size(); ++dim) {
      SymExpr addend = element.getPolynomial() - SymExpr::symbol(IndexAnalysis::indexName(dim));
      if (!IndexAnalysis::isSize(addend))
        continue;
      Value count = IotaOp::create(rewriter, op.getLoc(), type, dim);
      auto scalar = RankedTensorType::get({}, to);
      Value first = SizeOp::create(rewriter, op.getLoc(), scalar, addend);
      rewriter.replaceOpWithNewOp<AddOp>(op, type, count, first);
      return success();
    }
    return failure();
  }
};

struct FoldSelect : public OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    if (auto condition = getSplat(op.getCondition())) {
      replaceBroadcast(rewriter, op, *condition != 0 ? op.getLhs() : op.getRhs());
      return success();
    }
    if (op.getLhs() == op.getRhs()) {
      replaceBroadcast(rewriter, op, op.getLhs());
      return success();
    }
    if (auto negated = op.getCondition().getDefiningOp<NotOp>()) {
      rewriter.replaceOpWithNewOp<SelectOp>(op, op.getResult().getType(), negated.getOperand(),
                                            op.getRhs(), op.getLhs());
      return success();
    }
    return failure();
  }
};

} // namespace

void mlir::tpc::populateArithmeticPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldSplats, FoldMovedSplat, FoldIdentity, FoldPow, FoldInvolution, FoldCast,
               CountInIntegers, FoldSelect>(patterns.getContext());
}
