//===- Bounds.cpp - Proof that expressions are not negative ---------------===//

#include "Bounds.h"
#include "tpc/Dialect/RankSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

// Limit on the steps of a query, after which it fails. Queries of real programs take less than ten
// steps.
static constexpr unsigned maxSteps = 400;

void Bounds::assume(const SymExpr &size) {
  if (llvm::all_of(size.getTerms(), [](const SymExpr::Term &t) { return t.coefficient > 0; }))
    return; // no term is subtracted: such sizes are used without a fact
  if (!llvm::is_contained(facts, size)) {
    facts.push_back(size);
    known.clear();
    knownAtoms.clear();
  }
}

bool Bounds::isNeverNegative(const SymExpr &expr) {
  auto [it, isNew] = known.try_emplace(expr.str(), false);
  if (!isNew)
    return it->second;
  unsigned outer = std::exchange(steps, 0);
  bool result = !expr.isOverflow() && prove(expr);
  steps = outer;
  return known[expr.str()] = result;
}

bool Bounds::isNeverNegative(const SymExpr::Atom &atom) {
  if (!atom.args || atom.kind == SymExpr::AtomKind::Mod)
    return true;
  auto [it, isNew] = knownAtoms.try_emplace(atom.key, false);
  if (!isNew)
    return it->second;
  auto decide = [&] {
    const auto &[x, y] = *atom.args;
    switch (atom.kind) {
    case SymExpr::AtomKind::FloorDiv: // assumes a positive divisor
      return prove(x);
    case SymExpr::AtomKind::Min:
      return prove(x) && prove(y);
    default:
      return prove(x) || prove(y);
    }
  };
  bool result = decide();
  return knownAtoms[atom.key] = result;
}

/// Returns whether `term` may cancel after `atom` (min, max or floordiv), a factor of `whole`, is
/// replaced by a bound: each atom of `term` is in `atom` or in `whole`.
static bool mayCancel(const SymExpr::Atom &atom, const SymExpr::Term &whole,
                      const SymExpr::Term &term) {
  return llvm::all_of(term.atoms, [&](const SymExpr::Atom &other) {
    return atom.key.find(other.key) != std::string::npos ||
           llvm::any_of(whole.atoms,
                        [&](const SymExpr::Atom &factor) { return factor.key == other.key; });
  });
}

static SymExpr makeTerm(int64_t coefficient, ArrayRef<SymExpr::Atom> atoms) {
  SymExpr product(coefficient);
  for (const SymExpr::Atom &atom : atoms) {
    if (atom.kind == SymExpr::AtomKind::Symbol) {
      product = product * SymExpr::symbol(atom.name);
      continue;
    }
    const auto &[x, y] = *atom.args;
    product = product * (atom.kind == SymExpr::AtomKind::FloorDiv ? SymExpr::floorDiv(x, y)
                         : atom.kind == SymExpr::AtomKind::Mod    ? SymExpr::mod(x, y)
                         : atom.kind == SymExpr::AtomKind::Min    ? SymExpr::min(x, y)
                                                                  : SymExpr::max(x, y));
  }
  return product;
}

static SymExpr makeTerm(const SymExpr::Term &term) {
  return makeTerm(term.coefficient, term.atoms);
}

/// Returns the term without one of its atoms.
static SymExpr without(const SymExpr::Term &term, size_t atom) {
  SmallVector<SymExpr::Atom> rest(term.atoms.begin(), term.atoms.end());
  rest.erase(rest.begin() + atom);
  return makeTerm(term.coefficient, rest);
}

/// Returns whether replacing atom number `atom` of `whole` by one of its arguments adds a positive
/// multiple of `term`.
static bool cancels(const SymExpr::Term &whole, size_t atom, const SymExpr::Term &term) {
  SymExpr rest = without(whole, atom);
  const auto &[x, y] = *whole.atoms[atom].args;
  bool isDivision = whole.atoms[atom].kind == SymExpr::AtomKind::FloorDiv;
  auto has = [&](const SymExpr &argument) {
    SymExpr product = rest * argument;
    return llvm::any_of(product.getTerms(), [&](const SymExpr::Term &t) {
      return t.coefficient > 0 && t.key() == term.key();
    });
  };
  return has(x) || (!isDivision && has(y));
}

/// Replaces subtracted coordinates by their maximum, if no other factor can be negative.
SymExpr Bounds::boundCoordinates(const SymExpr &expr) {
  SymExpr sum(0);
  for (const SymExpr::Term &term : expr.getTerms()) {
    SymExpr value = makeTerm(term);
    if (term.coefficient < 0)
      for (auto [i, atom] : llvm::enumerate(term.atoms)) {
        auto named = atom.kind == SymExpr::AtomKind::Symbol ? getNamedSize(atom.name)
                                                            : std::optional<NamedSize>();
        if (!named || named->kind != NamedSize::Rank)
          continue;
        auto isOther = [&, i = i](size_t k) { return k != i && !isNeverNegative(term.atoms[k]); };
        if (llvm::any_of(llvm::seq<size_t>(0, term.atoms.size()), isOther))
          continue;
        int64_t ranks = grid ? grid.getAxisSize(named->axes[0]) : 1;
        value = without(term, i) * SymExpr(ranks - 1);
        break;
      }
    sum = sum + value;
  }
  return sum;
}

// Steps remove a function or use a fact. maxSteps limits them, as facts may be used again.
bool Bounds::prove(const SymExpr &given) {
  if (given.isOverflow() || ++steps > maxSteps)
    return false;
  SymExpr expr = boundCoordinates(given);
  const SymExpr::Term *negative = nullptr;
  for (const SymExpr::Term &term : expr.getTerms()) {
    if (term.coefficient < 0)
      negative = &term;
    else if (!llvm::all_of(term.atoms,
                           [&](const SymExpr::Atom &atom) { return isNeverNegative(atom); }))
      return false;
  }
  if (!negative)
    return true;
  // Replaces added functions by lower bounds: first functions whose bound cancels the subtracted
  // term, then functions whose bound may do so after more steps.
  for (bool isExact : {true, false})
    for (const SymExpr::Term &term : expr.getTerms())
      for (size_t i = 0; i < term.atoms.size(); ++i)
        if (term.coefficient > 0 && term.atoms[i].args &&
            (isExact ? cancels(term, i, *negative) : mayCancel(term.atoms[i], term, *negative)) &&
            replaceAtom(expr, term, i))
          return true;
  for (const SymExpr &fact : facts)
    for (const SymExpr::Term &term : fact.getTerms())
      if (term.coefficient < 0 && term.key() == negative->key() &&
          negative->coefficient % term.coefficient == 0 &&
          prove(expr - SymExpr(negative->coefficient / term.coefficient) * fact))
        return true;
  // Replaces subtracted functions by upper bounds.
  for (const SymExpr::Term &term : expr.getTerms())
    for (size_t i = 0; i < term.atoms.size(); ++i)
      if (term.coefficient < 0 && term.atoms[i].args && replaceAtom(expr, term, i))
        return true;
  return false;
}

/// Returns whether all terms are added, and none of their atoms can be negative.
bool Bounds::hasNoNegativeTerm(const SymExpr &expr) {
  return !expr.isOverflow() && llvm::all_of(expr.getTerms(), [&](const SymExpr::Term &term) {
    return term.coefficient > 0 && llvm::all_of(term.atoms, [&](const SymExpr::Atom &atom) {
             return isNeverNegative(atom);
           });
  });
}

/// Replaces an atom by a bound that does not increase the expression, and proves the result.
bool Bounds::replaceAtom(const SymExpr &expr, const SymExpr::Term &term, size_t i) {
  const SymExpr::Atom &atom = term.atoms[i];
  const auto &[x, y] = *atom.args;
  // The other factors must not be negative, so that a bound of the atom is a bound of the term.
  for (size_t k = 0; k < term.atoms.size(); ++k)
    if (k != i && !isNeverNegative(term.atoms[k]))
      return false;
  SymExpr others = expr - makeTerm(term), rest = without(term, i);
  bool isAdded = term.coefficient > 0;
  switch (atom.kind) {
  case SymExpr::AtomKind::FloorDiv: {
    auto divisor = y.asConstant();
    if (!divisor || *divisor <= 0 || term.coefficient % *divisor)
      return false;
    // x - (d - 1) <= d * (x floordiv d) <= x
    auto scaled = rest.divideExact(SymExpr(*divisor));
    return scaled && prove(others + *scaled * (isAdded ? x - SymExpr(*divisor - 1) : x));
  }
  case SymExpr::AtomKind::Min:
  case SymExpr::AtomKind::Max: {
    // For a maximum that is added, or a minimum that is subtracted, a proof with either operand in
    // its place is sufficient. The other cases need a proof with each operand.
    bool either = isAdded == (atom.kind == SymExpr::AtomKind::Max);
    if (either) {
      // Finds an operand of max(a, max(b, c)) that cancels all other terms.
      SmallVector<const SymExpr *> leaves{&x, &y};
      for (size_t k = 0; k < leaves.size(); ++k) {
        const std::vector<SymExpr::Term> &terms = leaves[k]->getTerms();
        if (hasNoNegativeTerm(others + rest * *leaves[k]))
          return true;
        if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1 &&
            terms[0].atoms[0].kind == atom.kind)
          leaves.append({&terms[0].atoms[0].args->first, &terms[0].atoms[0].args->second});
      }
    }
    bool first = prove(others + rest * x);
    if (either ? first : !first)
      return first;
    return prove(others + rest * y);
  }
  default:
    return false;
  }
}
