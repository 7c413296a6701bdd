//===- BoundsChecker.h - Bounds of sizes and trip counts --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_BOUNDSCHECKER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_BOUNDSCHECKER_H

#include "Lemmas.h"

namespace mlir::tpc::equivalence {

/// Integer that saturates at ±2^100.
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

/// Checks that sizes of values and trip counts of ops (BoundsOpInterface) fit in 64 bits.
class BoundsChecker {
public:
  /// Symbols without a constraint are at most `symbolMax`, values at most `budget` bytes.
  BoundsChecker(ModuleOp module, int64_t symbolMax, int64_t budget);
  LogicalResult run();

  // For op models.
  InFlightDiagnostic fail(Operation *op) const;
  LogicalResult checkType(Operation *op, Type type);
  /// Checks the trip count of an op whose loop nest iterates over all letters of `lemma` except
  /// `others`.
  LogicalResult checkLoop(Operation *op, const Lemma &lemma, ArrayRef<int> others = {});
  /// Returns the bytes of the largest shard of a value.
  Interval countBytes(Type type) const;

  // For other verifiers.
  using Ranges = std::map<std::string, Interval>;
  /// Returns the interval of a symbol's values.
  Interval getRange(StringRef symbol) const {
    auto it = ranges.find(symbol.str());
    return it == ranges.end() ? anySymbol() : it->second;
  }
  /// Returns an interval that contains all values of an expression. It is not tight if a symbol
  /// occurs twice.
  static Interval evaluate(const ::tpc::SymExpr &e, const Ranges &symbols, Interval other);

private:
  void readConstraints();
  Interval anySymbol() const { return {Wide(1), Wide(std::max<int64_t>(1, symbolMax))}; }
  Interval evaluateSize(const ::tpc::SymExpr &size) const;
  LogicalResult checkOp(Operation *op);

  ModuleOp module;
  MeshAttr grid;
  int64_t symbolMax, budget;
  Ranges ranges;
  DenseSet<Type> checked;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_BOUNDSCHECKER_H
