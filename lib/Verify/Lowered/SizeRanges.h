//===- SizeRanges.h - Intervals of sizes on any rank ------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_SIZERANGES_H
#define TPC_LIB_VERIFY_LOWERED_SIZERANGES_H

#include "../Equivalence/BoundsChecker.h"

#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc::lowered {

/// Intervals of expressions on any rank.
class SizeRanges {
public:
  using SymExpr = ::tpc::SymExpr;
  using Interval = equivalence::Interval;
  using Wide = equivalence::Wide;

  /// The largest value of an unconstrained symbol, as in tpc-verify-bounds.
  static constexpr int64_t symbolMax = 32768;

  explicit SizeRanges(ModuleOp module)
      : grid(MeshAttr::lookup(module)), constraints(module, symbolMax, /*budget=*/0) {}

  /// `canBeEmpty`: symbols of the model can also be 0, like the number of past tokens.
  Interval get(const SymExpr &expr, bool canBeEmpty = false) {
    std::set<std::string> names;
    expr.collectSymbols(names);
    equivalence::BoundsChecker::Ranges ranges;
    for (const std::string &name : names) {
      Interval range = getSymbol(name);
      if (canBeEmpty && !getNamedSize(name))
        range.low = std::min(range.low, Wide(0));
      ranges[name] = range;
    }
    return equivalence::BoundsChecker::evaluate(expr, ranges, constraints.getRange(""));
  }

  /// Returns the range of a symbol of the model, or of a name of RankSizes.h: one value, except for
  /// the coordinate of a rank.
  Interval getSymbol(StringRef name) {
    std::optional<NamedSize> named = getNamedSize(name);
    if (!named)
      return constraints.getRange(name);
    auto countRanks = [&](StringRef axis) -> int64_t {
      return grid && (axis == kMicroBatchAxis || grid.hasAxis(axis)) ? grid.getAxisSize(axis) : 1;
    };
    auto exactly = [](int64_t n) { return Interval{Wide(n), Wide(n)}; };
    switch (named->kind) {
    case NamedSize::Size: {
      int64_t size = named->size;
      for (StringRef axis : named->axes)
        size /= std::max<int64_t>(1, countRanks(axis));
      return exactly(size);
    }
    case NamedSize::Offset:
      return exactly(named->offset);
    case NamedSize::Window:
      return exactly(named->size);
    case NamedSize::Ranks:
      return exactly(countRanks(named->axes[0]));
    case NamedSize::Rank:
      return {Wide(0), Wide(countRanks(named->axes[0]) - 1)};
    }
    llvm_unreachable("all kinds are listed");
  }

private:
  MeshAttr grid;
  equivalence::BoundsChecker constraints;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_SIZERANGES_H
