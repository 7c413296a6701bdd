//===- Simplify.cpp - Simplification of exported programs -----------------===//

#include "Simplify.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SIMPLIFY
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct Simplify : public mlir::tpc::impl::SimplifyBase<Simplify> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet list(context);
    populateMovementPatterns(list);
    populateGatherPatterns(list);
    populateArithmeticPatterns(list);
    populateMatmulPatterns(list);
    populateLengthPatterns(list);
    populateMaskPatterns(list);
    patterns = std::move(list);
    return success();
  }

  void runOnOperation() override {
    GreedyRewriteConfig config;
    // Every pattern shortens a chain or moves an op in one direction, so the rewriting terminates.
    config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
    if (failed(applyPatternsGreedily(getOperation(), patterns, config)))
      signalPassFailure();
  }

  FrozenRewritePatternSet patterns;
};
} // namespace
