//===- LimitExperts.cpp - Capacity of experts -----------------------------===//
//
// Drops the tokens of a sample that exceed an expert's capacity. Samples are groups of the model,
// not of ranks, so that every grid drops the same tokens.
//
//===----------------------------------------------------------------------===//

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Transforms/Model/CapacityFactor.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

namespace mlir::tpc {
#define GEN_PASS_DEF_LIMITEXPERTS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

std::optional<CapacityFactor> CapacityFactor::parse(StringRef text) {
  auto [whole, fraction] = text.split('.');
  auto isNumber = [](StringRef digits) {
    return digits.size() <= 6 && llvm::all_of(digits, llvm::isDigit);
  };
  if (whole.empty() || !isNumber(whole) || !isNumber(fraction) || text.ends_with("."))
    return std::nullopt;
  CapacityFactor factor{0, 1};
  for (char digit : (whole + fraction).str())
    factor.numerator = factor.numerator * 10 + (digit - '0');
  for (size_t i = 0; i < fraction.size(); ++i)
    factor.denominator *= 10;
  int64_t common = std::gcd(factor.numerator, factor.denominator);
  factor.numerator /= common, factor.denominator /= common;
  return factor.numerator > 0 ? std::optional(factor) : std::nullopt;
}

namespace {
struct LimitExperts : public mlir::tpc::impl::LimitExpertsBase<LimitExperts> {
  using LimitExpertsBase::LimitExpertsBase;

  void runOnOperation() override {
    limited.clear();
    std::optional<CapacityFactor> given = CapacityFactor::parse(capacity.getValue());
    if (!given) {
      getOperation().emitError() << "'" << capacity.getValue()
                                 << "' is not a capacity factor, such as 1.25";
      return signalPassFailure();
    }
    WalkResult walk = getOperation().walk([&](MoeOp op) {
      bool isDone = llvm::is_contained(limited, op.getRouting());
      return WalkResult(isDone ? success() : limit(op, *given));
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    if (limited.empty()) {
      getOperation().emitError("has no mixture of experts, so an expert capacity has no effect");
      signalPassFailure();
    }
  }

  /// Returns the sizes [samples, tokens of a sample], whose product is the number of tokens.
  std::optional<std::pair<SymExpr, SymExpr>> getSampleSizes(const SymExpr &tokens) {
    for (BlockArgument input : getOperation().getArguments())
      if (SmallVector<SymExpr> own = getSizes(input); own.size() >= 2 && own[0] * own[1] == tokens)
        return std::pair(own[0], own[1]);
    return std::nullopt;
  }

  LogicalResult limit(MoeOp op, const CapacityFactor &given) {
    Value routing = op.getRouting();
    SmallVector<SymExpr> sizes = getSizes(routing);
    auto samples = getSampleSizes(sizes[0]);
    if (!samples)
      return op.emitError() << "'" << getSourceName(op.getLoc()) << "' has " << sizes[0].str()
                            << " tokens, which is not batch * sequence of an input: an expert's "
                               "capacity is per sample, so the number of tokens of a sample must "
                               "be known";
    OpBuilder b(op);
    b.setInsertionPointAfterValue(routing);
    Location loc = op.getLoc();
    Type element = elementTypeOf(routing);
    // ceil(factor * k * sequence / experts)
    SymExpr rows = SymExpr(given.numerator) * SymExpr(int64_t(op.getTopK())) * samples->second;
    SymExpr by = SymExpr(given.denominator) * sizes[1];
    Value limit = SizeOp::create(b, loc, RankedTensorType::get({}, b.getI64Type()),
                                 SymExpr::floorDiv(rows + by - 1, by));
    SmallVector<SymExpr> grouped{samples->first, samples->second, sizes[1]};
    auto typed = [&](Type type) { return makeTensorType(type, grouped); };
    Value weights = createReshape(b, loc, routing, grouped),
          zero = createScalar(b, loc, element, 0);
    Value uses = CmpOp::create(b, loc, typed(b.getI1Type()), Predicate::NE, weights, zero);
    Value ones = CastOp::create(b, loc, typed(b.getI64Type()), uses);
    Value count = CumSumOp::create(b, loc, typed(b.getI64Type()), ones, 1, false, false);
    Value fits = CmpOp::create(b, loc, typed(b.getI1Type()), Predicate::LE, count, limit);
    Value kept = SelectOp::create(b, loc, typed(element), fits, weights, zero);
    kept = createReshape(b, loc, kept, sizes);
    limited.push_back(kept);
    // Biases after the experts are a matmul of the routing.
    routing.replaceUsesWithIf(kept, [&](OpOperand &use) {
      return isa<MoeOp>(use.getOwner()) ||
             (isa<MatmulOp>(use.getOwner()) && use.getOperandNumber() == 0);
    });
    return success();
  }

  SmallVector<Value> limited; // routing weights after the limit
};
} // namespace
