//===- VerifyBounds.cpp - Are sizes within 64 bits and a budget? ----------===//

#include "tpc/Verify/Passes.h"

#include "Lemmas.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYBOUNDS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// An integer that stays where it is when it leaves ±2^100.
class Wide {
public:
  Wide(__int128 v = 0) : value(std::clamp(v, -limit, limit)) {}
  Wide operator+(Wide o) const { return Wide(value + o.value); }
  Wide operator*(Wide o) const {
    __int128 product;
    if (__builtin_mul_overflow(value, o.value, &product))
      return Wide((value < 0) == (o.value < 0) ? limit : -limit);
    return Wide(product);
  }
  auto operator<=>(const Wide &o) const = default;
  bool fits64() const { return value <= INT64_MAX && value >= INT64_MIN; }
  __int128 get() const { return value; }
  std::string str() const {
    if (value >= limit)
      return "2^100 or more";
    std::string digits;
    for (__int128 rest = value < 0 ? -value : value; rest > 0; rest /= 10)
      digits.insert(digits.begin(), char('0' + int(rest % 10)));
    return (value < 0 ? "-" : "") + (digits.empty() ? "0" : digits);
  }

private:
  static constexpr __int128 limit = __int128(1) << 100;
  __int128 value;
};

struct Interval {
  Wide low, high;
  Interval operator+(const Interval &o) const { return {low + o.low, high + o.high}; }
  Interval operator*(const Interval &o) const {
    Wide corners[] = {low * o.low, low * o.high, high * o.low, high * o.high};
    return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
  }
};

using Ranges = std::map<std::string, Interval>;

/// All values that an expression may take; wider than need be where a symbol occurs twice.
Interval evaluate(const SymExpr &e, const Ranges &symbols, Interval other) {
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
        value = {Wide(0), std::max(Wide(0), b.high + Wide(-1))};
        break;
      default: { // divisors are positive
        __int128 least = std::max<__int128>(1, b.low.get());
        __int128 largest = std::max<__int128>(1, b.high.get());
        value = {Wide(a.low.get() >= 0 ? a.low.get() / largest : a.low.get()),
                 Wide(a.high.get() >= 0 ? a.high.get() / least : a.high.get())};
      }
      }
      product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

struct VerifyBounds : public mlir::tpc::impl::VerifyBoundsBase<VerifyBounds> {
  using VerifyBoundsBase::VerifyBoundsBase;

  void runOnOperation() override {
    grid = GridAttr::lookup(getOperation());
    ranges.clear();
    readConstraints();
    WalkResult result = getOperation().walk([&](Operation *op) {
      return failed(checkOp(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    markAllAnalysesPreserved();
    if (result.wasInterrupted())
      signalPassFailure();
  }

  /// What a run's sizes can be: as constraints say where they are about one symbol.
  void readConstraints() {
    auto list = getOperation()->getAttrOfType<ArrayAttr>(kConstraintsAttr);
    for (auto dict : list ? list.getAsRange<DictionaryAttr>()
                          : ArrayAttr::get(&getContext(), {}).getAsRange<DictionaryAttr>()) {
      auto expr = dict.getAs<StringAttr>("expr");
      auto low = dict.getAs<IntegerAttr>("min"), high = dict.getAs<IntegerAttr>("max");
      auto parsed = expr ? SymExpr::parse(expr.getValue().str()) : std::nullopt;
      if (!parsed || parsed->getTerms().size() != 1 || parsed->getTerms()[0].coefficient != 1 ||
          parsed->getTerms()[0].atoms.size() != 1 ||
          parsed->getTerms()[0].atoms[0].kind != SymExpr::AtomKind::Symbol)
        continue;
      Interval &range =
          ranges.try_emplace(parsed->getTerms()[0].atoms[0].name, anySymbol()).first->second;
      if (low && low.getInt() > range.low.get())
        range.low = Wide(low.getInt());
      // Importers write "no limit" as the largest integer.
      if (high && high.getInt() < (int64_t(1) << 40))
        range.high = Wide(std::max<int64_t>(high.getInt(), int64_t(range.low.get())));
    }
  }
  Interval anySymbol() const { return {Wide(1), Wide(std::max<int64_t>(1, symbolMax))}; }

  Interval evaluateSize(const SymExpr &size) const {
    Interval value = evaluate(size, ranges, anySymbol());
    return {std::max(Wide(0), value.low), std::max(Wide(0), value.high)};
  }
  /// Elements that the fullest rank holds.
  Interval countElements(Type type) const {
    Interval count{Wide(1), Wide(1)};
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
  static int64_t getElementBytes(Type type) {
    return std::max<int64_t>(
        1, cast<RankedTensorType>(type).getElementType().getIntOrFloatBitWidth() / 8);
  }

  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
  }
  LogicalResult checkType(Operation *op, Type type);
  LogicalResult checkLoop(Operation *op);
  LogicalResult checkOp(Operation *op);

  GridAttr grid;
  Ranges ranges;
  DenseSet<Type> good;
};

LogicalResult VerifyBounds::checkType(Operation *op, Type type) {
  if (!isa<RankedTensorType>(type) || good.contains(type))
    return success();
  for (const SymExpr &size : getSizes(type))
    if (size.isOverflow())
      return fail(op) << "has a size in " << type << " whose coefficients leave 64 bits";
  Interval count = countElements(type);
  Wide bytes = Wide(getElementBytes(type));
  Wide least = count.low * bytes, most = count.high * bytes;
  if (!most.fits64())
    return fail(op) << "makes a value " << type << " of up to " << most.str()
                    << " bytes, more than 64 bits can count (" << INT64_MAX
                    << "); constrain its sizes (symbols without a constraint are taken to be up to "
                    << symbolMax.getValue() << ")";
  if (least > Wide(budget))
    return fail(op) << "makes a value " << type << " of at least " << least.str()
                    << " bytes, more than the budget of " << budget.getValue()
                    << " for one value: is a size of the model wrong?";
  good.insert(type);
  return success();
}

/// The loops of an op run over all combinations of its indices.
LogicalResult VerifyBounds::checkLoop(Operation *op) {
  std::optional<equivalence::Lemma> lemma = equivalence::getLemma(op);
  if (!lemma || op->getNumOperands() == 0)
    return success();
  SmallVector<std::optional<Interval>> sizes(lemma->letters.size());
  auto visit = [&](ArrayRef<int> letters, Value value) {
    for (auto [letter, size] : llvm::zip(letters, getSizes(value)))
      if (letter != equivalence::Lemma::broadcast && letter != lemma->kvHeads && !sizes[letter])
        sizes[letter] = evaluateSize(size);
  };
  for (auto [letters, operand] : llvm::zip(lemma->operands, op->getOperands()))
    visit(letters, operand);
  visit(lemma->result, op->getResult(0));
  Interval count{Wide(1), Wide(1)};
  // Scores and values are two loops, one after the other: the size of a head in one of them.
  if (isa<AttentionOp>(op))
    sizes[lemma->operands[0].back()] = std::nullopt;
  // A letter of a replaced dimension stands beside the one that it becomes: one loop for both.
  bool replaces = isa<SliceOp, ConcatOp, GatherOp, GatherNDOp, EmbeddingOp, RotaryOp>(op);
  if (replaces)
    return success(); // no more than the result, which is checked
  for (const auto &size : sizes)
    if (size)
      count = count * *size;
  if (!count.high.fits64())
    return fail(op) << "runs over up to " << count.high.str()
                    << " combinations of its indices, more than 64 bits can count (" << INT64_MAX
                    << "); constrain its sizes (symbols without a constraint are taken to be up to "
                    << symbolMax.getValue() << ")";
  return success();
}

LogicalResult VerifyBounds::checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  if (auto weight = dyn_cast<WeightOp>(op)) {
    if (failed(checkType(op, weight.getType())))
      return failure();
    Wide end = Wide(weight.getOffset()) +
               countElements(weight.getType()).high * Wide(getElementBytes(weight.getType()));
    if (!end.fits64())
      return fail(op) << "ends at byte " << end.str()
                      << " of its file, more than 64 bits can count (" << INT64_MAX << ")";
  }
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Type type : block.getArgumentTypes())
        if (failed(checkType(op, type)))
          return failure();
  return checkLoop(op);
}

} // namespace
