//===- RaiseActivations.cpp - Recognition of GELU and SiLU ----------------===//
//
// A decomposed activation has one transcendental function t = erf(u), tanh(u) or sigmoid(u), where
// u is a polynomial in x, and the result is a polynomial in x and t. Decompositions are recognized
// by these polynomials, which do not depend on the order and grouping of multiplications.
//
//   GELU, erf      u = x / sqrt 2                          x/2 + x t/2
//   GELU, tanh     u = sqrt(2/pi) x + 0.0356774 x^3        x/2 + x t/2
//   quick GELU     u = 1.702 x (sigmoid)                   x t
//   SiLU           u = x (sigmoid)                         x t
//
//===----------------------------------------------------------------------===//

#include "Constants.h"
#include "Movement.h"
#include "mlir/Transforms/RegionUtils.h"
#include "tpc/Transforms/Model/Passes.h"

#include <cmath>

namespace mlir::tpc {
#define GEN_PASS_DEF_RAISEACTIVATIONS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Coefficients by powers of x and t.
using Polynomial = std::map<std::pair<int, int>, double>;
constexpr int kMaxTermDepth = 10;
constexpr size_t kMaxTerms = 8;

std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (auto &[p, x] : a)
    for (auto &[q, y] : b)
      result[{p.first + q.first, p.second + q.second}] += x * y;
  if (result.size() > kMaxTerms)
    return std::nullopt;
  return result;
}

/// Returns `v` as a polynomial over `x` and `t` (which may be null).
std::optional<Polynomial> polynomialOf(Value v, Value x, Value t, int depth = 0) {
  if (v == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (v == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (auto constant = getSplat(v))
    return Polynomial{{{0, 0}, *constant}};
  Operation *op = v.getDefiningOp();
  if (!op || depth > kMaxTermDepth || !isa<AddOp, SubOp, MulOp, DivOp, NegOp>(op))
    return std::nullopt;
  // tpc-simplify keeps x + 0 only if it differs visibly from x: -0 + 0 is 0.
  bool isSum = isa<AddOp>(op);
  if ((isSum || isa<SubOp>(op)) &&
      (isSplat(op->getOperand(1), 0) || (isSum && isSplat(op->getOperand(0), 0))))
    return std::nullopt;
  auto a = polynomialOf(op->getOperand(0), x, t, depth + 1);
  if (!a)
    return std::nullopt;
  if (isa<NegOp>(op))
    return multiply(*a, {{{0, 0}, -1.0}});
  auto b = polynomialOf(op->getOperand(1), x, t, depth + 1);
  if (!b)
    return std::nullopt;
  if (isa<MulOp>(op))
    return multiply(*a, *b);
  if (isa<DivOp>(op)) {
    if (b->size() != 1 || b->begin()->first != std::make_pair(0, 0) || b->begin()->second == 0)
      return std::nullopt;
    return multiply(*a, {{{0, 0}, 1.0 / b->begin()->second}});
  }
  for (auto &[power, coefficient] : *b)
    (*a)[power] += isa<SubOp>(op) ? -coefficient : coefficient;
  return a;
}

bool equal(const Polynomial &a, const Polynomial &b) {
  auto covers = [](const Polynomial &p, const Polynomial &q) {
    return llvm::all_of(p, [&](const auto &term) {
      auto it = q.find(term.first);
      double other = it == q.end() ? 0.0 : it->second;
      return std::abs(term.second - other) <= 1e-4 * std::abs(term.second) + 1e-9;
    });
  };
  return covers(a, b) && covers(b, a);
}

/// Collects the values in the expression of `v` that may be the x of an activation, deepest first,
/// because x itself may be a sum.
void collectCandidates(Value v, SmallVectorImpl<Value> &out, int depth = 0) {
  if (getSplat(v) || out.size() > 64)
    return;
  Operation *op = v.getDefiningOp();
  if (op && depth < kMaxTermDepth && isa<AddOp, SubOp, MulOp, DivOp, NegOp>(op))
    for (Value operand : op->getOperands())
      collectCandidates(operand, out, depth + 1);
  if (!llvm::is_contained(out, v))
    out.push_back(v);
}

struct Activation {
  Polynomial argument;
  Polynomial result;
  std::optional<GeluApproximation> gelu; // absent: SiLU
};

const Polynomial kHalves{{{1, 0}, 0.5}, {{1, 1}, 0.5}}; // x/2 + x t/2
const Polynomial kProduct{{{1, 1}, 1.0}};               // x t

SmallVector<Activation> activationsOf(Operation *op) {
  double root = std::sqrt(2.0 / M_PI);
  if (isa<ErfOp>(op))
    return {{{{{1, 0}, std::sqrt(0.5)}}, kHalves, GeluApproximation::None}};
  if (isa<TanhOp>(op))
    return {{{{{1, 0}, root}, {{3, 0}, root * 0.044715}}, kHalves, GeluApproximation::Tanh}};
  return {{{{{1, 0}, 1.702}}, kProduct, GeluApproximation::Sigmoid},
          {{{{1, 0}, 1.0}}, kProduct, std::nullopt}};
}

/// Returns the user of `t`, direct or indirect, that computes `wanted`.
Operation *findResult(Value t, Value x, const Polynomial &wanted) {
  SmallVector<Value> frontier{t};
  for (int step = 0; step < 6; ++step) {
    SmallVector<Value> next;
    for (Value v : frontier)
      for (Operation *user : v.getUsers()) {
        if (!isa<AddOp, SubOp, MulOp, DivOp>(user) || next.size() > 16)
          continue;
        Value result = user->getResult(0);
        auto polynomial = polynomialOf(result, x, t);
        if (!polynomial)
          continue;
        if (equal(*polynomial, wanted) && sameSizes(getSizes(result), getSizes(x)))
          return user;
        next.push_back(result);
      }
    frontier = next;
  }
  return nullptr;
}

/// Converts 1 / (1 + exp(-x)) to a sigmoid.
struct SigmoidFromExp : public RewritePattern {
  SigmoidFromExp(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value denominator;
    if (auto reciprocal = dyn_cast<ReciprocalOp>(op))
      denominator = reciprocal.getOperand();
    else if (auto div = dyn_cast<DivOp>(op); div && isSplat(div.getLhs(), 1.0))
      denominator = div.getRhs();
    auto add = denominator ? denominator.getDefiningOp<AddOp>() : AddOp();
    if (!add)
      return failure();
    for (int side : {0, 1}) {
      auto exp = add->getOperand(side).getDefiningOp<ExpOp>();
      auto neg = exp ? exp.getOperand().getDefiningOp<NegOp>() : NegOp();
      if (!neg || !isSplat(add->getOperand(1 - side), 1.0) ||
          neg.getOperand().getType() != op->getResult(0).getType())
        continue;
      rewriter.replaceOpWithNewOp<SigmoidOp>(op, op->getResult(0).getType(), neg.getOperand());
      return success();
    }
    return failure();
  }
};

struct RaiseActivations : public mlir::tpc::impl::RaiseActivationsBase<RaiseActivations> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SigmoidFromExp>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();

    SmallVector<Operation *> functions;
    getOperation().walk([&](Operation *op) {
      if (isa<ErfOp, TanhOp, SigmoidOp>(op))
        functions.push_back(op);
    });
    for (Operation *op : functions)
      raise(op);
    // Erase dead ops at the end, because ops that become dead may still be in the list of
    // candidates.
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }

  void raise(Operation *op) {
    SmallVector<Value> candidates;
    collectCandidates(op->getOperand(0), candidates);
    for (const Activation &activation : activationsOf(op))
      for (Value x : candidates) {
        auto argument = polynomialOf(op->getOperand(0), x, Value());
        if (!argument || !equal(*argument, activation.argument))
          continue;
        Operation *result = findResult(op->getResult(0), x, activation.result);
        if (!result)
          continue;
        OpBuilder builder(result);
        Value v =
            activation.gelu
                ? (Value)GeluOp::create(builder, result->getLoc(), x.getType(), x, *activation.gelu)
                : (Value)SiluOp::create(builder, result->getLoc(), x.getType(), x);
        result->getResult(0).replaceAllUsesWith(v);
        return;
      }
  }
};

} // namespace
