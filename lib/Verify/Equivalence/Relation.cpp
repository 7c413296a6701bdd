//===- Relation.cpp - Relation of local to global values --------------------===//

#include "Relation.h"

#include "../Interpret/World.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

bool Layout::isWhole() const {
  return product.empty() && llvm::all_of(atoms, [](const Atom &atom) { return atom.axes.empty(); });
}

bool Layout::uses(StringAttr axis) const {
  return llvm::is_contained(product, axis) ||
         llvm::any_of(atoms, [&](const Atom &atom) { return llvm::is_contained(atom.axes, axis); });
}

Axes Layout::getAxes() const {
  Axes all;
  for (const Atom &atom : atoms)
    llvm::append_range(all, atom.axes);
  llvm::append_range(all, product);
  return all;
}

SymExpr Layout::getSize() const {
  SymExpr size(1);
  for (const Atom &atom : atoms)
    size = size * atom.size;
  return size;
}

Layout Layout::getWhole() const {
  Layout whole;
  whole.atoms.push_back({getSize(), {}});
  whole.canonicalize();
  return whole;
}

void Layout::canonicalize() {
  SmallVector<Atom, 2> merged;
  for (Atom &atom : atoms) {
    if (atom.axes.empty() && atom.size.isConstant(1))
      continue;
    if (!merged.empty() && merged.back().axes.empty() && atom.axes.empty())
      merged.back().size = merged.back().size * atom.size;
    else
      merged.push_back(std::move(atom));
  }
  if (merged.empty() && !product.empty())
    merged.push_back({SymExpr(1), {}});
  if (merged.size() == 1) {
    llvm::append_range(merged[0].axes, product);
    product.clear();
  }
  atoms = std::move(merged);
}

std::string equivalence::toText(ArrayRef<StringAttr> axes) {
  std::string text;
  for (StringAttr axis : axes)
    text += (text.empty() ? "" : ", ") + axis.getValue().str();
  return text;
}

std::string Layout::str() const {
  std::string text;
  for (const Atom &atom : atoms) {
    std::string size = atom.size.str();
    bool sum = size.find(' ') != std::string::npos;
    text += (text.empty() ? "" : "*") + (sum ? "(" + size + ")" : size);
    if (!atom.axes.empty())
      text += "{" + toText(atom.axes) + "}";
  }
  if (!product.empty())
    text = "(" + text + "){" + toText(product) + "}";
  return text.empty() ? "1" : text;
}

std::vector<int64_t>
Layout::getIndices(MeshAttr grid, const std::map<std::string, int64_t> &at,
                   llvm::function_ref<int64_t(const SymExpr &)> evaluate) const {
  SmallVector<interpret::DimFactor> factors;
  for (const Atom &atom : atoms)
    factors.push_back({evaluate(atom.size), atom.axes});
  return interpret::getIndices(factors, product, grid, [&](StringAttr axis) {
    auto it = at.find(axis.getValue().str());
    return it == at.end() ? 0 : it->second;
  });
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

bool Relation::isWhole() const {
  return partial.empty() && llvm::all_of(dims, [](const Layout &dim) { return dim.isWhole(); });
}

bool Relation::uses(StringAttr axis) const {
  return isPartial(axis) || llvm::any_of(dims, [&](const Layout &dim) { return dim.uses(axis); });
}

Relation equivalence::readRelation(Type type, MeshAttr grid) {
  Relation relation;
  DistAttr dist = getDist(type);
  // Axes of size 1 have no effect.
  auto dropTrivial = [&](ArrayRef<StringAttr> axes) {
    Axes rest;
    for (StringAttr axis : axes)
      if (!grid || grid.getAxisSize(axis.getValue()) != 1 ||
          !(grid.hasAxis(axis.getValue()) || axis.getValue() == kMicroBatchAxis))
        rest.push_back(axis);
    return rest;
  };
  for (DimAttr dim : dist.getDims()) {
    Layout layout;
    for (FactorAttr factor : dim.getFactors())
      layout.atoms.push_back({factor.getExpr(), dropTrivial(factor.getAxes())});
    layout.product = dropTrivial(dim.getAxes());
    layout.canonicalize();
    relation.dims.push_back(std::move(layout));
  }
  if (PartialAttr partial = dist.getPartial()) {
    relation.partial = dropTrivial(partial.getAxes());
    relation.kind = partial.getKind();
    llvm::sort(relation.partial,
               [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
  }
  relation.local = dist.getLocal();
  return relation;
}

bool equivalence::isSplitFurther(const Layout &base, ArrayRef<StringAttr> axes,
                                 const Layout &split) {
  if (axes.empty())
    return base == split;
  auto endsWith = [&](const Axes &list) {
    return list.size() >= axes.size() && ArrayRef(list).take_back(axes.size()) == axes;
  };
  auto drop = [&](Axes &list) { list.truncate(list.size() - axes.size()); };
  if (endsWith(split.product)) {
    Layout without = split;
    drop(without.product);
    without.canonicalize();
    return without == base;
  }
  // The axes of a product split it after the axes of its atoms.
  if (!split.product.empty())
    return false;
  for (unsigned i = 0; i < split.atoms.size(); ++i) {
    if (!endsWith(split.atoms[i].axes))
      continue;
    Layout without = split;
    drop(without.atoms[i].axes);
    without.canonicalize();
    if (without == base)
      return true;
  }
  return false;
}

/// Returns the union of the layouts in a group over `axes`, which is the layout without these axes.
/// Returns nothing if another axis splits the same factor after them.
static std::optional<Layout> getGroupLayout(const Layout &layout, ArrayRef<StringAttr> axes) {
  Layout rest = layout;
  auto drop = [&](Axes &list) {
    while (!list.empty() && llvm::is_contained(axes, list.back()))
      list.pop_back();
  };
  drop(rest.product);
  // The axes of a product split it after the axes of its atoms.
  if (rest.product.empty())
    for (Layout::Atom &atom : rest.atoms)
      drop(atom.axes);
  if (llvm::any_of(axes, [&](StringAttr axis) { return rest.uses(axis); }))
    return std::nullopt;
  rest.canonicalize();
  return rest;
}

std::string equivalence::explainExchange(const Layout &from, const Layout &to,
                                         ArrayRef<StringAttr> axes) {
  auto before = getGroupLayout(from, axes), after = getGroupLayout(to, axes);
  if (before && after && *before == *after)
    return "";
  return (axes.empty() ? "a rank" : "a group over {" + toText(axes) + "}") +
         " does not have the same elements before (" + from.str() + ") and after it (" + to.str() +
         ")";
}

std::string equivalence::explainShift(const Layout &from, const Layout &to,
                                      ArrayRef<StringAttr> axes,
                                      const std::optional<SymExpr> &every) {
  std::string wrong = explainExchange(from, to, axes);
  if (!wrong.empty())
    return wrong;
  for (StringAttr axis : axes)
    if (!from.uses(axis) || !to.uses(axis))
      return "'" + axis.getValue().str() + "' does not split both " + from.str() + " and " +
             to.str();
  auto before = getGroupLayout(from, axes);
  std::string group = axes.empty() ? "a rank" : "a group over {" + toText(axes) + "}";
  if (!every || before->isWhole())
    return "";
  bool whole = !every->isConstant(0) && before->product.empty() &&
               before->atoms.back().axes.empty() && before->atoms.back().size.divideExact(*every);
  return whole
             ? ""
             : group + " has only parts of runs of " + every->str() + " elements, " + before->str();
}

static std::string describeRange(const std::vector<int64_t> &list) {
  if (list.empty())
    return "nothing";
  if (list.size() == 1)
    return "element " + std::to_string(list[0]);
  bool contiguous = list.back() - list.front() + 1 == int64_t(list.size());
  return std::to_string(list.size()) + " elements from " + std::to_string(list.front()) +
         (contiguous ? "" : " (not contiguous)");
}

std::string equivalence::describeDifference(const Layout &derived, const Layout &stated,
                                            MeshAttr grid) {
  if (!grid)
    return "";
  Axes axes = derived.getAxes();
  for (StringAttr axis : stated.getAxes())
    if (!llvm::is_contained(axes, axis))
      axes.push_back(axis);
  // Values of symbols that expose uneven splits. Larger sizes would expose no further differences.
  auto evaluate = [](const SymExpr &size) -> int64_t {
    std::set<std::string> names;
    size.collectSymbols(names);
    std::map<std::string, int64_t> symbols;
    int64_t value = 7;
    for (const std::string &name : names)
      symbols[name] = value, value += 4;
    return size.evaluate(symbols).value_or(1);
  };
  if (std::max(evaluate(derived.getSize()), evaluate(stated.getSize())) > (1 << 17))
    return "";
  int64_t count = 1;
  for (StringAttr axis : axes)
    count *= std::min<int64_t>(grid.getAxisSize(axis.getValue()), 64);
  for (int64_t i = 0; i < std::min<int64_t>(count, 256); ++i) {
    std::map<std::string, int64_t> at;
    int64_t rest = i;
    std::string where;
    for (StringAttr axis : axes) {
      int64_t size = std::min<int64_t>(grid.getAxisSize(axis.getValue()), 64);
      at[axis.getValue().str()] = rest % size;
      where +=
          (where.empty() ? "" : ", ") + axis.getValue().str() + "=" + std::to_string(rest % size);
      rest /= size;
    }
    auto a = derived.getIndices(grid, at, evaluate), b = stated.getIndices(grid, at, evaluate);
    if (a != b)
      return "at " + where + ": " + describeRange(a) + ", not " + describeRange(b);
  }
  return "";
}
