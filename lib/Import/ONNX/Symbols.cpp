//===- Symbols.cpp - Equalities and constraints of sizes ------------------===//
//
// An Add of [first, 4] and [second, 4] implies first = second. Symbols with replacements (another
// symbol or an expression) form a forest, as in union-find. `resolve` follows it to a root and
// compresses the path.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

/// Maximum number of terms after substitution into products of sums.
static constexpr double kMaxTerms = 4096;

SmallVector<std::string> Importer::findReplaced(const SymExpr &e) const {
  SmallVector<std::string> found;
  if (replaced.empty())
    return found;
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  llvm::copy_if(symbols, std::back_inserter(found),
                [&](const std::string &symbol) { return replaced.count(symbol) > 0; });
  return found;
}

/// Returns an upper bound on the number of terms of `e` after substitution. Operands of floordiv
/// and similar atoms count only if they exceed kMaxTerms on their own.
static double boundTerms(const SymExpr &e, const std::map<std::string, SymExpr> &replaced) {
  double sum = 0;
  for (const SymExpr::Term &term : e.getTerms()) {
    double product = 1;
    for (const SymExpr::Atom &atom : term.atoms) {
      if (auto it = replaced.find(atom.name); !atom.args && it != replaced.end())
        product *= std::max<size_t>(1, it->second.getTerms().size());
      if (atom.args)
        for (const SymExpr &arg : {atom.args->first, atom.args->second})
          if (double inner = boundTerms(arg, replaced); inner > kMaxTerms)
            product *= inner;
    }
    sum += product;
  }
  return sum;
}

SymExpr Importer::substitute(const SymExpr &e) const {
  // `findFault` reports such a size (of repeated squaring, for example) as too complex.
  const SymExpr overflow = SymExpr(INT64_MAX) * SymExpr(2);
  if (boundTerms(e, replaced) > kMaxTerms)
    return overflow;
  SymExpr result = e.substitute(replaced);
  return isReasonable(result) ? result : overflow;
}

SymExpr Importer::resolve(const SymExpr &e) {
  // Replacements have no cycles: each replacement was resolved when it was added, and does not
  // contain its own symbol. Not recursive, because a path may be as long as the number of inputs.
  SmallVector<std::string> pending = findReplaced(e);
  if (pending.empty())
    return e;
  while (!pending.empty()) {
    SymExpr &value = replaced.at(pending.back());
    SmallVector<std::string> inner = findReplaced(value);
    llvm::erase_if(inner, [&](const std::string &symbol) {
      return findReplaced(replaced.at(symbol)).empty();
    });
    if (inner.empty()) {
      value = substitute(value);
      pending.pop_back();
    }
    pending.append(inner);
  }
  return substitute(e);
}

/// Returns the name if the expression is a symbol.
static std::optional<std::string> nameOf(const SymExpr &e) {
  if (e.isOverflow() || e.getTerms().size() != 1)
    return std::nullopt;
  const SymExpr::Term &term = e.getTerms()[0];
  if (term.coefficient != 1 || term.atoms.size() != 1 ||
      term.atoms[0].kind != SymExpr::AtomKind::Symbol)
    return std::nullopt;
  return term.atoms[0].name;
}

bool Importer::replaceSymbol(const SymExpr &symbol, const SymExpr &value) {
  SymExpr e = resolve(value);
  std::optional<std::string> name = nameOf(symbol);
  if (!name || e.isOverflow())
    return false;
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  if (symbols.count(*name) || !replaced.insert({*name, e}).second)
    return false;
  ++equalities;
  return true;
}

bool Importer::assumeEmptyPast(const SymExpr &difference) {
  if (!sizeNames.emptyPast)
    return false;
  // Caches are [batch, heads, past, size], and their length is not that of other inputs.
  auto isCache = [](BlockArgument input) {
    return getSizes(input).size() >= 4 && isa<FloatType>(elementOf(input));
  };
  for (const SymExpr &past : {difference, -difference}) {
    auto has = [&](BlockArgument input) { return llvm::is_contained(getSizes(input), past); };
    bool ofCaches = false, ofOthers = false;
    for (BlockArgument input : main.getArguments())
      (isCache(input) ? ofCaches : ofOthers) |= has(input);
    if (ofCaches && !ofOthers && replaceSymbol(past, SymExpr(0)))
      return true;
  }
  return false;
}

/// Returns true for a size that cannot be negative, whatever its symbols are.
static bool isNonNegativeForAll(const SymExpr &e) { return e.lowerBound(0).value_or(-1) >= 0; }

bool Importer::equate(const SymExpr &a, const SymExpr &b) {
  if (a.isOverflow() || b.isOverflow())
    return false;
  // Symbols that stand for unused names are replaced first, so that names in use are kept.
  auto isOwn = [&](const SymExpr &e) {
    std::optional<std::string> name = nameOf(e);
    return name && ownSymbols.count(*name);
  };
  SmallVector<std::pair<SymExpr, SymExpr>> sides{{a, b}, {b, a}};
  if (isOwn(b) && !isOwn(a))
    std::swap(sides[0], sides[1]);
  for (auto &[symbol, value] : sides)
    if (isNonNegativeForAll(value) && replaceSymbol(symbol, value))
      return true;
  // m + 1 = past + sequence + 1: terms that are on both sides are dropped. A size is replaced only
  // by another size, not by a number: an equality with a number may be a mistake in the file.
  SymExpr difference = a - b;
  for (const SymExpr::Term &term : difference.getTerms()) {
    if (term.coefficient != 1 && term.coefficient != -1)
      continue;
    SymExpr symbol = SymExpr::fromTerm({1, term.atoms});
    SymExpr rest = difference - SymExpr::fromTerm(term);
    SymExpr value = term.coefficient > 0 ? -rest : rest;
    if (!value.isConstant() && isNonNegativeForAll(value) && replaceSymbol(symbol, value))
      return true;
  }
  if (replaceFactor(difference))
    return true;
  return llvm::any_of(sides, [&](auto &side) { return replaceSymbol(side.first, side.second); });
}

bool Importer::replaceFactor(const SymExpr &difference) {
  ArrayRef<SymExpr::Term> terms = difference.getTerms();
  if (terms.size() != 2 || terms[0].coefficient + terms[1].coefficient != 0)
    return false;
  SmallVector<SymExpr::Atom> rest[2] = {{terms[0].atoms.begin(), terms[0].atoms.end()},
                                        {terms[1].atoms.begin(), terms[1].atoms.end()}};
  for (size_t i = 0; i < rest[0].size();) {
    auto *same = llvm::find_if(rest[1], [&](auto &atom) { return atom.key == rest[0][i].key; });
    if (same == rest[1].end()) {
      ++i;
      continue;
    }
    rest[1].erase(same);
    rest[0].erase(rest[0].begin() + i);
  }
  if (rest[0].size() != 1 || rest[1].size() != 1)
    return false;
  return replaceSymbol(SymExpr::fromTerm({1, {rest[0][0]}}), SymExpr::fromTerm({1, {rest[1][0]}}));
}

//===----------------------------------------------------------------------===//
// min and max
//===----------------------------------------------------------------------===//

/// Replaces the atom with key `key` by `operand` in `e`, also within other atoms.
static SymExpr choose(const SymExpr &e, const std::string &key, const SymExpr &operand) {
  auto isLess = [](const SymExpr &a, const SymExpr &b) {
    return (b - a).lowerBound().value_or(-1) >= 0;
  };
  auto rebuild = [&](const SymExpr::Atom &atom) -> SymExpr {
    if (atom.key == key)
      return operand;
    if (!atom.args)
      return SymExpr::symbol(atom.name);
    SymExpr a = choose(atom.args->first, key, operand), b = choose(atom.args->second, key, operand);
    switch (atom.kind) {
    case SymExpr::AtomKind::FloorDiv:
      return SymExpr::floorDiv(a, b);
    case SymExpr::AtomKind::Mod:
      return SymExpr::mod(a, b);
    case SymExpr::AtomKind::Min:
      return isLess(a, b) ? a : isLess(b, a) ? b : SymExpr::min(a, b);
    default:
      return isLess(a, b) ? b : isLess(b, a) ? a : SymExpr::max(a, b);
    }
  };
  SymExpr sum(0);
  for (const SymExpr::Term &term : e.getTerms()) {
    SymExpr product(term.coefficient);
    for (const SymExpr::Atom &atom : term.atoms)
      product = product * rebuild(atom);
    sum = sum + product;
  }
  return sum;
}

/// Collects all min and max atoms in `e`.
static void collectChoices(const SymExpr &e, std::map<std::string, SymExpr::Atom> &found) {
  for (const SymExpr::Term &term : e.getTerms())
    for (const SymExpr::Atom &atom : term.atoms) {
      if (!atom.args)
        continue;
      if (atom.kind == SymExpr::AtomKind::Min || atom.kind == SymExpr::AtomKind::Max)
        found.insert({atom.key, atom});
      collectChoices(atom.args->first, found);
      collectChoices(atom.args->second, found);
    }
}

bool Importer::chooseOperand(const SymExpr &a, const SymExpr &b) {
  if (a.isOverflow() || b.isOverflow())
    return false;
  std::map<std::string, SymExpr::Atom> found;
  collectChoices(a, found);
  collectChoices(b, found);
  for (const auto &[key, atom] : found)
    for (const SymExpr &operand : {atom.args->first, atom.args->second})
      if (choose(a, key, operand) == choose(b, key, operand) &&
          choices.insert({key, operand}).second) {
        ++equalities;
        return true;
      }
  return false;
}

const SymExpr *Importer::findChoice(const SymExpr &minOrMax) const {
  auto it = choices.find(minOrMax.str());
  return it == choices.end() ? nullptr : &it->second;
}

//===----------------------------------------------------------------------===//
// Known equalities
//===----------------------------------------------------------------------===//

SymExpr Importer::update(const SymExpr &e) {
  SymExpr result = resolve(e);
  // A replacement may expose a min or max that has a choice.
  for (bool changed = !choices.empty(); changed && isReasonable(result);) {
    changed = false;
    std::map<std::string, SymExpr::Atom> found;
    collectChoices(result, found);
    for (const auto &[key, atom] : found)
      if (auto it = choices.find(key); !changed && it != choices.end()) {
        result = choose(result, key, resolve(it->second));
        changed = true;
      }
  }
  return result;
}

FailureOr<const Tensor *> Importer::lookup(Scope &scope, StringRef name) {
  Tensor *tensor = scope.lookup(name);
  if (!tensor || tensor->equalities == equalities)
    return tensor;
  for (SymExpr &size : tensor->shape)
    size = update(size);
  if (!findFault(tensor->shape).empty())
    return failure(); // the next pass reports the error
  if (tensor->contents && !tensor->contents->isFloat) {
    auto contents = std::make_shared<Contents>(*tensor->contents);
    for (SymExpr &e : contents->ints)
      e = update(e);
    tensor->contents = std::move(contents);
  }
  if (tensor->interval)
    tensor->interval = Interval{update(tensor->interval->low), update(tensor->interval->high)};
  // Existing users now have wrong types, but no later code reads them.
  if (tensor->value)
    tensor->value.setType(makeTensorType(tensor->element, tensor->shape));
  tensor->equalities = equalities;
  return tensor;
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

void Importer::constrain(const SymExpr &expr, int64_t low, int64_t high, const Twine &why) {
  auto [it, isNew] = constraints.insert({expr.str(), {expr, low, high, why.str()}});
  if (isNew)
    return;
  Constraint &c = it->second;
  if (low > c.low && high < c.high)
    c.why = why.str();
  else if (low > c.low || high < c.high)
    c.why += "; " + why.str();
  c.low = std::max(c.low, low);
  c.high = std::min(c.high, high);
}
