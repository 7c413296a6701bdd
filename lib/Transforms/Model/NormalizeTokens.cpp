//===- NormalizeTokens.cpp - Token-wise ops on [tokens, hidden] -----------===//

#include "Constants.h"
#include "Movement.h"
#include "Simplify.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_NORMALIZETOKENS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Sizes = SmallVector<SymExpr>;

namespace {

/// Merges all dimensions except the last.
Value flattenRows(OpBuilder &builder, Location loc, Value v) {
  Sizes sizes = getSizes(v);
  return createReshape(builder, loc, v, {product(ArrayRef(sizes).drop_back()), sizes.back()});
}

/// Converts a gather of a floating-point table's rows to an embedding.
struct GatherToEmbedding : public OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    if (op.getDim() != 0 || rankOf(op.getData()) != 2 || !isFloatTensor(op.getData()) ||
        !op.getData().getDefiningOp<ParameterOp>())
      return failure();
    rewriter.replaceOpWithNewOp<EmbeddingOp>(op, op.getResult().getType(), op.getData(),
                                             op.getIndices());
    return success();
  }
};

struct FlattenEmbedding : public OpRewritePattern<EmbeddingOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(EmbeddingOp op, PatternRewriter &rewriter) const override {
    if (rankOf(op.getIds()) == 1)
      return failure();
    Location loc = op.getLoc();
    Value ids = createReshape(rewriter, loc, op.getIds(), {product(getSizes(op.getIds()))});
    Value rows = EmbeddingOp::create(rewriter, loc, op.getTable(), ids);
    rewriter.replaceOp(op, createReshape(rewriter, loc, rows, getSizes(op.getResult())));
    return success();
  }
};

/// Flattens the left operand of [.., m, k] x [k, n].
struct FlattenMatmul : public OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    if (rankOf(op.getLhs()) < 3 || rankOf(op.getRhs()) != 2)
      return failure();
    Location loc = op.getLoc();
    Value rows = MatmulOp::create(rewriter, loc, flattenRows(rewriter, loc, op.getLhs()),
                                  op.getRhs(), op.getBias());
    rewriter.replaceOp(op, createReshape(rewriter, loc, rows, getSizes(op.getResult())));
    return success();
  }
};

/// Flattens norms of [b, s, h], but not norms of single heads, [b, s, H, d].
struct FlattenNorm : public RewritePattern {
  FlattenNorm(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<NormOpInterface>(op) || rankOf(op->getOperand(0)) != 3)
      return failure();
    Location loc = op->getLoc();
    Value rows = flattenRows(rewriter, loc, op->getOperand(0));
    Operation *flat = rewriter.clone(*op);
    flat->setOperand(0, rows);
    flat->getResult(0).setType(rows.getType());
    rewriter.replaceOp(
        op, createReshape(rewriter, loc, flat->getResult(0), getSizes(op->getResult(0))));
    return success();
  }
};

/// Converts an element-wise op on [b, s, h] to one on [b * s, h] if an operand is a reshape of a
/// value of that shape.
struct SinkReshape : public OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    Value result = op->getResult(0);
    Sizes sizes = getSizes(result);
    if (sizes.size() != 3)
      return failure();
    bool any = false;
    for (Value operand : op->getOperands())
      if (auto reshape = operand.getDefiningOp<ReshapeOp>()) {
        Sizes from = getSizes(reshape.getOperand()), to = getSizes(operand);
        any |=
            from.size() == 2 && isFloatTensor(operand) && sameSizes(to, sizes) && from[1] == to[2];
      }
    if (!any)
      return failure();
    Location loc = op->getLoc();
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, rowsOf(rewriter, loc, operand, sizes));
    Operation *flat = rewriter.clone(*op, mapping);
    flat->getResult(0).setType(
        makeTensorType(elementTypeOf(result), {sizes[0] * sizes[1], sizes[2]}));
    rewriter.replaceOp(op, createReshape(rewriter, loc, flat->getResult(0), sizes));
    return success();
  }

private:
  /// Converts an operand that broadcasts to [b, s, h] to one that broadcasts to [b*s, h].
  static Value rowsOf(OpBuilder &builder, Location loc, Value v, ArrayRef<SymExpr> sizes) {
    Sizes own = getSizes(v);
    Sizes padded(3 - own.size(), SymExpr(1));
    padded.append(own);
    // With a single token, an operand [1, 1, n] is the token's row: it becomes [1, n], not [n].
    bool isRow = own.size() == 3 && sizes[0].isConstant(1) && sizes[1].isConstant(1);
    if (padded[0].isConstant(1) && padded[1].isConstant(1) && !isRow) {
      if (own.size() <= 1)
        return v;
      return createReshape(builder, loc, v, {padded[2]});
    }
    v = createReshape(builder, loc, v, padded);
    v = createExpand(builder, loc, v, {sizes[0], sizes[1], padded[2]});
    return flattenRows(builder, loc, v);
  }
};

/// Converts a roll of [b, s, h] (or [b, y, x, h]) to one of [b * s, h]. `from` and `every` of outer
/// dimensions then count rows.
struct FlattenRoll : public OpRewritePattern<RollOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RollOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getOperand().getDefiningOp<ReshapeOp>();
    Sizes sizes = getSizes(op.getResult());
    int64_t dim = op.getDim(), last = int64_t(sizes.size()) - 1;
    if (!reshape || rankOf(reshape.getOperand()) != 2 || last < 2 ||
        getSizes(reshape.getOperand())[1] != sizes[last])
      return failure();
    SymExpr row(1);
    for (int64_t d = dim + 1; d < last; ++d)
      row = row * sizes[d];
    Value rows = RollOp::create(rewriter, op.getLoc(), reshape.getOperand(), dim == last ? 1 : 0,
                                op.getFrom() * row, op.getEvery() * row);
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), rows, sizes));
    return success();
  }
};

/// Replaces a lookup that is broadcast over the batch by a lookup of broadcast positions.
struct ExpandIds : public OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    Value v = op.getOperand();
    if (auto reshape = v.getDefiningOp<ReshapeOp>())
      v = reshape.getOperand();
    auto embedding = v.getDefiningOp<EmbeddingOp>();
    Sizes from = getSizes(op.getOperand()), to = getSizes(op.getResult());
    if (!embedding || from.empty() || from.back() != to.back() ||
        from.back() != getSizes(embedding.getTable())[1])
      return failure();
    from.pop_back();
    to.pop_back();
    Location loc = op.getLoc();
    Value ids = createReshape(rewriter, loc, embedding.getIds(), from);
    ids = createExpand(rewriter, loc, ids, to);
    rewriter.replaceOpWithNewOp<EmbeddingOp>(op, op.getResult().getType(), embedding.getTable(),
                                             ids);
    return success();
  }
};

struct NormalizeTokens : public mlir::tpc::impl::NormalizeTokensBase<NormalizeTokens> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<GatherToEmbedding, FlattenEmbedding, FlattenMatmul, FlattenNorm, FlattenRoll,
                 SinkReshape, ExpandIds>(&getContext());
    populateMovementPatterns(patterns);
    GreedyRewriteConfig config;
    config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
