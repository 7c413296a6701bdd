//===- ApproximateMath.cpp - Vectorizable transcendental functions --------===//

#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Dialect/Arithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_APPROXIMATEMATH
#include "tpc/Conversion/Device/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Replaces `Op` on f32 or vectors of f32 by a formula of functions.h.
template <typename Op>
static LogicalResult approximate(Op op, PatternRewriter &rewriter,
                                 Value (*formula)(const Arithmetic &, Value)) {
  if (!getElementTypeOrSelf(op.getType()).isF32())
    return failure();
  Arithmetic arithmetic(rewriter, op.getLoc(), op.getType());
  rewriter.replaceOp(op, formula(arithmetic, op.getOperand()));
  return success();
}

namespace {
struct ApproximateMath : mlir::tpc::impl::ApproximateMathBase<ApproximateMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(+[](math::ExpOp op, PatternRewriter &rewriter) {
      return approximate(op, rewriter, ::tpc::approximateExp<Arithmetic, Value>);
    });
    patterns.add(+[](math::ErfOp op, PatternRewriter &rewriter) {
      return approximate(op, rewriter, ::tpc::approximateErf<Arithmetic, Value>);
    });
    patterns.add(+[](math::TanhOp op, PatternRewriter &rewriter) {
      return approximate(op, rewriter, ::tpc::approximateTanh<Arithmetic, Value>);
    });
    // sin and cos remain libm calls, because polynomials are inaccurate far from 0.
    populateMathPolynomialApproximationPatterns(patterns,
                                                [](StringRef name) { return name == "math.log"; });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
