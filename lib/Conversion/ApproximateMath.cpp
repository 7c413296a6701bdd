//===- ApproximateMath.cpp - Transcendental functions that vectorize ------===//

#include "tpc/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_APPROXIMATEMATH
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct ApproximateMath : mlir::tpc::impl::ApproximateMathBase<ApproximateMath> {
  void runOnOperation() override {
    // Products and sums may contract; nothing else may change what a NaN or an
    // infinity does. (Sums over rows may be reordered, see accumulate.)
    auto contract = arith::FastMathFlags::contract | arith::FastMathFlags::nsz;
    getOperation().walk([&](arith::ArithFastMathInterface op) {
      auto flags = op.getFastMathFlagsAttr();
      op->setAttr(op.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(
                      &getContext(),
                      (flags ? flags.getValue() : arith::FastMathFlags::none) |
                          contract));
    });
    RewritePatternSet patterns(&getContext());
    populateMathAlgebraicSimplificationPatterns(patterns);
    // sin and cos stay calls of libm: polynomials are poor far from 0.
    populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
      return name == "math.exp" || name == "math.tanh" || name == "math.erf" ||
             name == "math.log";
    });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
