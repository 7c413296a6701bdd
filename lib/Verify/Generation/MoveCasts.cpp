//===- MoveCasts.cpp - Casts before movements ------------------------------===//

#include "EmptyCaches.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Replaces the cast of a transpose or reshape by the transpose or reshape of a cast. A step reads
/// a 16-bit cache in f32, and may convert it before or after the movement.
struct CastFirst : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    Operation *movement = op.getOperand().getDefiningOp();
    if (!isa_and_nonnull<TransposeOp, ReshapeOp>(movement))
      return failure();
    Value operand = movement->getOperand(0);
    Type type = makeTensorType(elementTypeOf(op.getResult()), getSizes(operand));
    IRMapping mapping;
    mapping.map(operand, CastOp::create(rewriter, op.getLoc(), type, operand).getResult());
    Operation *moved = rewriter.clone(*movement, mapping);
    moved->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, moved->getResult(0));
    return success();
  }
};
} // namespace

void mlir::tpc::generation::populateCastPatterns(RewritePatternSet &patterns) {
  patterns.add<CastFirst>(patterns.getContext());
}
