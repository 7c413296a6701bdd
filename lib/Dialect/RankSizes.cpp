//===- RankSizes.cpp - Symbolic local sizes of a rank ---------------------===//

#include "tpc/Dialect/RankSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static int64_t countRanks(StringRef axis, MeshAttr grid) {
  return grid && grid.hasAxis(axis) ? grid.getAxisSize(axis) : 1;
}

std::optional<NamedSize> mlir::tpc::getNamedSize(StringRef symbol) {
  NamedSize named{};
  auto [word, axis] = symbol.split('.');
  if ((word == "rank" || word == "ranks") && !axis.empty()) {
    named.kind = word == "rank" ? NamedSize::Rank : NamedSize::Ranks;
    named.axes.push_back(axis);
    return named;
  }
  if (word == "window" && !axis.getAsInteger(10, named.size) && named.size > 0) {
    named.kind = NamedSize::Window;
    return named;
  }
  if (!symbol.consume_front("_") || symbol.consumeInteger(10, named.size))
    return std::nullopt;
  named.kind = NamedSize::Size;
  if (symbol.consume_front(".at") && !symbol.consumeInteger(10, named.offset)) {
    named.kind = NamedSize::Offset;
    return symbol.empty() ? std::optional(named) : std::nullopt;
  }
  while (symbol.consume_front(".")) {
    named.axes.push_back(symbol.take_until([](char c) { return c == '.'; }));
    symbol = symbol.drop_front(named.axes.back().size());
    if (named.axes.back().empty())
      return std::nullopt;
  }
  return symbol.empty() ? std::optional(named) : std::nullopt;
}

SymExpr mlir::tpc::toNamedSize(const SymExpr &size) {
  if (size.isOverflow() || size.getTerms().size() != 1 || size.getTerms()[0].coefficient <= 1)
    return size;
  int64_t c = size.getTerms()[0].coefficient;
  return SymExpr::symbol("_" + std::to_string(c)) * *size.divideExact(c);
}

SymExpr mlir::tpc::getNamedOffset(int64_t offset, int64_t size) {
  if (offset == 0 || offset == size)
    return toNamedSize(offset);
  return SymExpr::symbol("_" + std::to_string(size) + ".at" + std::to_string(offset));
}

SymExpr mlir::tpc::getNamedWindow(const SymExpr &window) {
  std::optional<int64_t> size = window.asConstant();
  return size && *size > 0 ? SymExpr::symbol("window." + std::to_string(*size)) : window;
}

SymExpr mlir::tpc::getCoordinate(StringRef axis, MeshAttr grid) {
  return countRanks(axis, grid) == 1 ? SymExpr(0) : SymExpr::symbol(("rank." + axis).str());
}

SymExpr mlir::tpc::getNumRanks(StringRef axis, MeshAttr grid) {
  return countRanks(axis, grid) == 1 ? SymExpr(1) : SymExpr::symbol(("ranks." + axis).str());
}

namespace {
/// Minimum and maximum of an expression over all ranks, if known.
struct Bounds {
  std::optional<int64_t> min, max;
};

struct NumberSubstitution {
  MeshAttr grid;

  SymExpr get(const SymExpr::Atom &atom) {
    if (atom.kind == SymExpr::AtomKind::Symbol) {
      std::optional<NamedSize> named = getNamedSize(atom.name);
      if (!named || named->kind == NamedSize::Rank)
        return SymExpr::symbol(atom.name);
      if (named->kind == NamedSize::Offset)
        return named->offset;
      int64_t ranks = 1;
      for (StringRef axis : named->axes)
        ranks *= countRanks(axis, grid);
      return named->kind == NamedSize::Ranks ? ranks : named->size / ranks;
    }
    SymExpr a = get(atom.args->first), b = get(atom.args->second);
    Bounds x = getBounds(a), y = getBounds(b);
    switch (atom.kind) {
    case SymExpr::AtomKind::FloorDiv:
      if (x.min && x.max && b.asConstant().value_or(0) > 0) {
        int64_t d = *b.asConstant();
        if (llvm::divideFloorSigned(*x.min, d) == llvm::divideFloorSigned(*x.max, d))
          return llvm::divideFloorSigned(*x.min, d);
      }
      return SymExpr::floorDiv(a, b);
    case SymExpr::AtomKind::Mod:
      return SymExpr::mod(a, b);
    case SymExpr::AtomKind::Min:
      if (x.max && y.min && *x.max <= *y.min)
        return a;
      if (y.max && x.min && *y.max <= *x.min)
        return b;
      return SymExpr::min(a, b);
    default:
      if (x.max && y.min && *x.max <= *y.min)
        return b;
      if (y.max && x.min && *y.max <= *x.min)
        return a;
      return SymExpr::max(a, b);
    }
  }

  SymExpr get(const SymExpr &expr) {
    if (expr.isOverflow())
      return expr;
    SymExpr sum;
    for (const SymExpr::Term &term : expr.getTerms()) {
      SymExpr product(term.coefficient);
      for (const SymExpr::Atom &atom : term.atoms)
        product = product * get(atom);
      sum = sum + product;
    }
    return sum;
  }

  /// Supports expressions of the form 3 - 2*rank.tp.
  Bounds getBounds(const SymExpr &expr) {
    if (expr.isOverflow())
      return {};
    Bounds range{0, 0};
    for (const SymExpr::Term &term : expr.getTerms()) {
      int64_t min = 1, max = 1;
      if (term.atoms.size() > 1)
        return {};
      if (term.atoms.size() == 1) {
        const SymExpr::Atom &atom = term.atoms[0];
        auto named = atom.kind == SymExpr::AtomKind::Symbol ? getNamedSize(atom.name)
                                                            : std::optional<NamedSize>();
        if (!named || named->kind != NamedSize::Rank)
          return {};
        min = 0;
        max = countRanks(named->axes[0], grid) - 1;
      }
      if (term.coefficient < 0)
        std::swap(min, max);
      int64_t low, high;
      if (llvm::MulOverflow(term.coefficient, min, low) ||
          llvm::MulOverflow(term.coefficient, max, high) ||
          llvm::AddOverflow(*range.min, low, *range.min) ||
          llvm::AddOverflow(*range.max, high, *range.max))
        return {};
    }
    return range;
  }
};
} // namespace

SymExpr mlir::tpc::substituteNumbers(const SymExpr &expr, MeshAttr grid) {
  return NumberSubstitution{grid}.get(expr);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Returns the symbol of the shard of a named size if all shards are equal.
static std::optional<SymExpr> getEvenPart(const SymExpr &n, StringRef axis, MeshAttr grid) {
  if (!n.isMonomial() || n.isConstant() || n.monomialFactors().size() != 1)
    return std::nullopt;
  std::optional<int64_t> value = substituteNumbers(n, grid).asConstant();
  std::string name = n.str();
  auto named = getNamedSize(name);
  if (!named || named->kind != NamedSize::Size || !value || *value % countRanks(axis, grid) != 0)
    return std::nullopt;
  return SymExpr::symbol(name + "." + axis.str());
}

SymExpr mlir::tpc::getShardSize(const SymExpr &n, StringRef axis, MeshAttr grid) {
  if (countRanks(axis, grid) == 1)
    return n;
  if (std::optional<SymExpr> part = getEvenPart(n, axis, grid))
    return *part;
  // Equals n / N + (c < n % N), but without a comparison: the number of k with k * N + c < n.
  SymExpr all = getNumRanks(axis, grid);
  return SymExpr::floorDiv(n + all - 1 - getCoordinate(axis, grid), all);
}

SymExpr mlir::tpc::getShardBegin(const SymExpr &n, StringRef axis, MeshAttr grid) {
  if (countRanks(axis, grid) == 1)
    return 0;
  if (std::optional<SymExpr> part = getEvenPart(n, axis, grid))
    return getCoordinate(axis, grid) * *part;
  SymExpr c = getCoordinate(axis, grid), all = getNumRanks(axis, grid);
  return c * SymExpr::floorDiv(n, all) + SymExpr::min(c, SymExpr::mod(n, all));
}

static SymExpr split(SymExpr n, ArrayRef<StringAttr> axes, MeshAttr grid) {
  for (StringAttr axis : axes)
    n = getShardSize(n, axis, grid);
  return n;
}

static SymExpr begin(SymExpr n, ArrayRef<StringAttr> axes, MeshAttr grid) {
  SymExpr begin = 0;
  for (StringAttr axis : axes) {
    begin = begin + getShardBegin(n, axis, grid);
    n = getShardSize(n, axis, grid);
  }
  return begin;
}

SymExpr mlir::tpc::getLocalSize(FactorAttr factor, MeshAttr grid, std::optional<unsigned> axes) {
  ArrayRef<StringAttr> all = factor.getAxes();
  return split(toNamedSize(factor.getExpr()), all.take_front(axes.value_or(all.size())), grid);
}

SymExpr mlir::tpc::getBegin(FactorAttr factor, MeshAttr grid) {
  return begin(toNamedSize(factor.getExpr()), factor.getAxes(), grid);
}

SymExpr mlir::tpc::getGlobalSize(DimAttr dim) {
  SymExpr size = 1;
  for (FactorAttr factor : dim.getFactors())
    size = size * toNamedSize(factor.getExpr());
  return size;
}

SymExpr mlir::tpc::getFactorsSize(DimAttr dim, MeshAttr grid) {
  SymExpr size = 1;
  for (FactorAttr factor : dim.getFactors())
    size = size * getLocalSize(factor, grid);
  return size;
}

SymExpr mlir::tpc::getLocalSize(DimAttr dim, MeshAttr grid, std::optional<unsigned> productAxes) {
  ArrayRef<StringAttr> all = dim.getAxes();
  return split(getFactorsSize(dim, grid), all.take_front(productAxes.value_or(all.size())), grid);
}

SymExpr mlir::tpc::getProductBegin(DimAttr dim, MeshAttr grid) {
  return begin(getFactorsSize(dim, grid), dim.getAxes(), grid);
}

SmallVector<SymExpr> mlir::tpc::getLocalSizes(Type tensor, MeshAttr grid) {
  return llvm::map_to_vector(getDist(tensor).getDims(),
                             [&](DimAttr dim) { return getLocalSize(dim, grid); });
}

SymExpr mlir::tpc::getNumElements(Type tensor, MeshAttr grid) {
  SymExpr elements = 1;
  for (const SymExpr &size : getLocalSizes(tensor, grid))
    elements = elements * size;
  return elements;
}
