//===- VerifyBounds.cpp - Bounds of sizes and trip counts -----------------===//

#include "tpc/Dialect/Elements.h"
#include "tpc/Verify/Passes.h"

#include "BoundsChecker.h"
#include "ProofOps.h"
#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYBOUNDS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

BoundsChecker::BoundsChecker(ModuleOp module, int64_t symbolMax, int64_t budget)
    : module(module), grid(MeshAttr::lookup(module)), symbolMax(symbolMax), budget(budget) {
  readConstraints();
}

/// Reads the ranges of symbols from constraints on a single symbol.
void BoundsChecker::readConstraints() {
  auto list = module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
  if (!list)
    return;
  for (auto dict : list.getAsRange<DictionaryAttr>()) {
    auto expr = dict.getAs<SymExprAttr>("expr");
    auto low = dict.getAs<IntegerAttr>("min"), high = dict.getAs<IntegerAttr>("max");
    ArrayRef<SymExpr::Term> terms = expr.getExpr().getTerms();
    if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].atoms.size() != 1 ||
        terms[0].atoms[0].kind != SymExpr::AtomKind::Symbol)
      continue;
    Interval &range = ranges.try_emplace(terms[0].atoms[0].name, anySymbol()).first->second;
    if (low && low.getInt() > range.low.get())
      range.low = Wide(low.getInt());
    // Ignores limits of 2^40 and more, such as INT64_MAX, which mean "unbounded".
    if (high && high.getInt() < (int64_t(1) << 40))
      range.high = Wide(std::max<int64_t>(high.getInt(), int64_t(range.low.get())));
  }
}

Interval BoundsChecker::evaluate(const SymExpr &e, const Ranges &symbols, Interval other) {
  if (e.isOverflow())
    return {Wide(0), Wide(__int128(1) << 100)};
  Interval sum;
  for (const SymExpr::Term &term : e.getTerms()) {
    Interval product{Wide(term.coefficient), Wide(term.coefficient)};
    for (const SymExpr::Atom &atom : term.atoms) {
      if (atom.kind == SymExpr::AtomKind::Symbol) {
        auto it = symbols.find(atom.name);
        product = product * (it == symbols.end() ? other : it->second);
        continue;
      }
      Interval a = evaluate(atom.args->first, symbols, other);
      Interval b = evaluate(atom.args->second, symbols, other);
      Interval value;
      switch (atom.kind) {
      case SymExpr::AtomKind::Min:
        value = {std::min(a.low, b.low), std::min(a.high, b.high)};
        break;
      case SymExpr::AtomKind::Max:
        value = {std::max(a.low, b.low), std::max(a.high, b.high)};
        break;
      case SymExpr::AtomKind::Mod:
        value = a.low >= Wide(0) && a.high < b.low
                    ? a
                    : Interval{Wide(0), std::max(Wide(0), b.high + Wide(-1))};
        break;
      default: { // divisors are positive
        __int128 smallest = std::max<__int128>(1, b.low.get());
        __int128 largest = std::max<__int128>(1, b.high.get());
        value = {Wide(a.low.get() >= 0 ? a.low.get() / largest : a.low.get()),
                 Wide(a.high.get() >= 0 ? a.high.get() / smallest : a.high.get())};
      }
      }
      product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

Interval BoundsChecker::evaluateSize(const SymExpr &size) const {
  Interval value = evaluate(size, ranges, anySymbol());
  return {std::max(Wide(0), value.low), std::max(Wide(0), value.high)};
}

Interval BoundsChecker::countBytes(Type type) const {
  int64_t each = getElementBytes(type);
  Interval count{Wide(each), Wide(each)};
  DistAttr dist = getDist(type);
  for (DimAttr dim : dist.getDims())
    for (FactorAttr factor : dim.getFactors()) {
      Interval size = evaluateSize(factor.getExpr());
      if (dist.getLocal() && grid)
        for (StringAttr axis : factor.getAxes()) {
          __int128 parts = std::max<int64_t>(1, grid.getAxisSize(axis.getValue()));
          auto divide = [&](Wide n) { return Wide((n.get() + parts - 1) / parts); };
          size = {divide(size.low), divide(size.high)};
        }
      count = count * size;
    }
  return count;
}

InFlightDiagnostic BoundsChecker::fail(Operation *op) const {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

LogicalResult BoundsChecker::checkType(Operation *op, Type type) {
  if (!isa<RankedTensorType>(type) || checked.contains(type))
    return success();
  for (const SymExpr &size : getSizes(type))
    if (size.isOverflow())
      return fail(op) << "has a size in " << type << " whose coefficients exceed 64 bits";
  auto [minimum, maximum] = countBytes(type);
  if (!maximum.fits64())
    return fail(op) << "makes a value " << type << " of up to " << maximum.str()
                    << " bytes, more than 64 bits can count (" << INT64_MAX
                    << "); constrain its sizes (symbols without a constraint are taken to be up to "
                    << symbolMax << ")";
  if (minimum > Wide(budget))
    return fail(op) << "makes a value " << type << " of at least " << minimum.str()
                    << " bytes, more than the budget of " << budget
                    << " for one value: is a size of the model wrong?";
  checked.insert(type);
  return success();
}

LogicalResult BoundsChecker::checkLoop(Operation *op, const Lemma &lemma, ArrayRef<int> others) {
  SmallVector<std::optional<Interval>> sizes(lemma.letters.size());
  auto visit = [&](ArrayRef<int> letters, Value value) {
    for (auto [letter, size] : llvm::zip(letters, getSizes(value)))
      if (letter != Lemma::broadcast && letter != lemma.kvHeads &&
          !llvm::is_contained(others, letter) && !sizes[letter])
        sizes[letter] = evaluateSize(size);
  };
  for (auto [letters, operand] : llvm::zip(lemma.operands, op->getOperands()))
    visit(letters, operand);
  visit(lemma.result, op->getResult(0));
  Interval count{Wide(1), Wide(1)};
  for (const auto &size : sizes)
    if (size)
      count = count * *size;
  if (!count.high.fits64())
    return fail(op) << "runs over up to " << count.high.str()
                    << " combinations of its indices, more than 64 bits can count (" << INT64_MAX
                    << "); constrain its sizes (symbols without a constraint are taken to be up to "
                    << symbolMax << ")";
  return success();
}

LogicalResult BoundsChecker::checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Type type : block.getArgumentTypes())
        if (failed(checkType(op, type)))
          return failure();
  auto known = dyn_cast<BoundsOpInterface>(op);
  if (!known)
    return fail(op) << "cannot be bounded: the verifier has no trip counts for this op";
  return known.checkBounds(*this);
}

LogicalResult BoundsChecker::run() {
  WalkResult result = module.walk([&](Operation *op) {
    return failed(checkOp(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct VerifyBounds : public mlir::tpc::impl::VerifyBoundsBase<VerifyBounds> {
  using VerifyBoundsBase::VerifyBoundsBase;
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(BoundsChecker(getOperation(), symbolMax, budget).run()))
      signalPassFailure();
  }
};
} // namespace
