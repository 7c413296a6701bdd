//===- LocalSizes.cpp - Values of symbolic sizes on one rank --------------===//

#include "tpc/Cost/LocalSizes.h"

#include "tpc/Dialect/RankSizes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

LocalSizes::LocalSizes(MeshAttr grid, const Symbols &symbols) : grid(grid) {
  for (const auto &[name, value] : symbols)
    values[name] = value;
}

int64_t LocalSizes::getValue(StringRef name) {
  auto [it, isNew] = values.try_emplace(name, 0);
  std::optional<NamedSize> named = isNew ? getNamedSize(name) : std::nullopt;
  if (!named || named->kind == NamedSize::Rank)
    return it->second;
  int64_t ranks = 1;
  for (StringRef axis : named->axes)
    ranks *= grid && grid.hasAxis(axis) ? grid.getAxisSize(axis) : 1;
  if (named->kind == NamedSize::Offset)
    it->second = named->offset;
  else if (named->kind == NamedSize::Ranks)
    it->second = ranks;
  else
    it->second = (named->size + ranks - 1) / ranks;
  return it->second;
}

std::optional<int64_t> LocalSizes::evaluate(const SymExpr &size) {
  if (size.isOverflow())
    return std::nullopt;
  int64_t sum = 0;
  for (const SymExpr::Term &term : size.getTerms()) {
    int64_t product = term.coefficient;
    for (const SymExpr::Atom &atom : term.atoms) {
      int64_t value = 0;
      if (atom.kind == SymExpr::AtomKind::Symbol) {
        value = getValue(atom.name);
      } else {
        std::optional<int64_t> a = evaluate(atom.args->first), b = evaluate(atom.args->second);
        bool isMinMax = atom.kind == SymExpr::AtomKind::Min || atom.kind == SymExpr::AtomKind::Max;
        if (!a || !b || (!isMinMax && *b <= 0))
          return std::nullopt;
        if (isMinMax)
          value = atom.kind == SymExpr::AtomKind::Min ? std::min(*a, *b) : std::max(*a, *b);
        else if (atom.kind == SymExpr::AtomKind::FloorDiv)
          value = llvm::divideFloorSigned(*a, *b);
        else
          value = *a - llvm::divideFloorSigned(*a, *b) * *b;
      }
      if (llvm::MulOverflow(product, value, product))
        return std::nullopt;
    }
    if (llvm::AddOverflow(sum, product, sum))
      return std::nullopt;
  }
  return sum;
}
