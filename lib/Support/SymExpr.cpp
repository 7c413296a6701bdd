//===- SymExpr.cpp - Symbolic sizes ---------------------------------------===//

#include "tpc/Support/SymExpr.h"

#include <algorithm>

using namespace tpc;

//===----------------------------------------------------------------------===//
// Construction and canonical form
//===----------------------------------------------------------------------===//

std::string SymExpr::Term::key() const {
  std::string text;
  for (const Atom &atom : atoms)
    text += (text.empty() ? "" : "*") + atom.key;
  return text;
}

SymExpr::SymExpr(int64_t value) {
  if (value)
    terms.push_back({value, {}});
}

SymExpr SymExpr::overflowed() {
  SymExpr e;
  e.overflow = true;
  return e;
}

SymExpr SymExpr::fromAtom(Atom atom) {
  SymExpr e;
  e.terms.push_back({1, {std::move(atom)}});
  return e;
}

SymExpr SymExpr::symbol(std::string_view name) {
  return fromAtom({AtomKind::Symbol, std::string(name), nullptr, std::string(name)});
}

static const char *functionName(SymExpr::AtomKind kind) {
  switch (kind) {
  case SymExpr::AtomKind::FloorDiv:
    return "floordiv";
  case SymExpr::AtomKind::Mod:
    return "mod";
  case SymExpr::AtomKind::Min:
    return "min";
  case SymExpr::AtomKind::Max:
    return "max";
  case SymExpr::AtomKind::Symbol:
    break;
  }
  return "";
}

SymExpr SymExpr::function(AtomKind kind, const SymExpr &a, const SymExpr &b) {
  if (a.overflow || b.overflow)
    return overflowed();
  std::string key = std::string(functionName(kind)) + "(" + a.str() + ", " + b.str() + ")";
  return fromAtom({kind, "", std::make_shared<std::pair<SymExpr, SymExpr>>(a, b), std::move(key)});
}

/// Sorts terms (higher degree first, then by text), merges equal ones and
/// drops zeros.
void SymExpr::normalize() {
  auto sortAtoms = [](Term &t) {
    std::sort(t.atoms.begin(), t.atoms.end(),
              [](const Atom &x, const Atom &y) { return x.key < y.key; });
  };
  if (terms.size() <= 1) { // most are, and texts are not needed
    if (!terms.empty() && terms[0].coefficient == 0)
      terms.clear();
    std::for_each(terms.begin(), terms.end(), sortAtoms);
    return;
  }
  std::vector<std::pair<std::string, Term>> keyed;
  for (Term &t : terms) {
    sortAtoms(t);
    std::string key = t.key();
    keyed.push_back({std::move(key), std::move(t)});
  }
  std::sort(keyed.begin(), keyed.end(), [](const auto &x, const auto &y) {
    if (x.second.atoms.size() != y.second.atoms.size())
      return x.second.atoms.size() > y.second.atoms.size();
    return x.first < y.first;
  });
  terms.clear();
  for (size_t i = 0; i < keyed.size();) {
    Term sum = keyed[i].second;
    size_t j = i + 1;
    for (; j < keyed.size() && keyed[j].first == keyed[i].first; ++j)
      if (__builtin_add_overflow(sum.coefficient, keyed[j].second.coefficient, &sum.coefficient))
        overflow = true;
    if (sum.coefficient)
      terms.push_back(std::move(sum));
    i = j;
  }
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

SymExpr SymExpr::operator+(const SymExpr &o) const {
  if (isConstant(0))
    return o;
  SymExpr r = *this;
  r.overflow |= o.overflow;
  r.terms.insert(r.terms.end(), o.terms.begin(), o.terms.end());
  r.normalize();
  return r;
}

SymExpr SymExpr::operator-(const SymExpr &o) const { return *this + SymExpr(-1) * o; }

SymExpr SymExpr::operator*(const SymExpr &o) const {
  if (isConstant(1))
    return o;
  if (o.isConstant(1))
    return *this;
  SymExpr r;
  r.overflow = overflow || o.overflow;
  for (const Term &x : terms)
    for (const Term &y : o.terms) {
      Term t = x;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &t.coefficient))
        r.overflow = true;
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      r.terms.push_back(std::move(t));
    }
  r.normalize();
  return r;
}

static int64_t floorDivide(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

SymExpr SymExpr::floorDiv(const SymExpr &a, const SymExpr &b) {
  if (auto exact = a.divideExact(b))
    return *exact;
  auto x = a.asConstant(), y = b.asConstant();
  if (x && y && *y > 0)
    return SymExpr(floorDivide(*x, *y));
  return function(AtomKind::FloorDiv, a, b);
}

SymExpr SymExpr::mod(const SymExpr &a, const SymExpr &b) {
  if (a.divideExact(b))
    return SymExpr(0);
  auto x = a.asConstant(), y = b.asConstant();
  if (x && y && *y > 0)
    return SymExpr(*x - floorDivide(*x, *y) * *y);
  return function(AtomKind::Mod, a, b);
}

SymExpr SymExpr::min(const SymExpr &a, const SymExpr &b) {
  // Exporters write "to the end" as the largest integer.
  if (a.isConstant(INT64_MAX) || b.isConstant(INT64_MIN))
    return b;
  if (b.isConstant(INT64_MAX) || a.isConstant(INT64_MIN))
    return a;
  if (auto d = (b - a).lowerBound())
    if (*d >= 0)
      return a;
  if (auto d = (a - b).lowerBound())
    if (*d >= 0)
      return b;
  return b < a ? function(AtomKind::Min, b, a) : function(AtomKind::Min, a, b);
}

SymExpr SymExpr::max(const SymExpr &a, const SymExpr &b) {
  if (a.isConstant(INT64_MIN) || b.isConstant(INT64_MAX))
    return b;
  if (b.isConstant(INT64_MIN) || a.isConstant(INT64_MAX))
    return a;
  if (auto d = (b - a).lowerBound())
    if (*d >= 0)
      return b;
  if (auto d = (a - b).lowerBound())
    if (*d >= 0)
      return a;
  return b < a ? function(AtomKind::Max, b, a) : function(AtomKind::Max, a, b);
}

bool SymExpr::operator==(const SymExpr &o) const {
  if (overflow || o.overflow || terms.size() != o.terms.size())
    return false;
  for (size_t i = 0; i < terms.size(); ++i)
    if (terms[i].coefficient != o.terms[i].coefficient ||
        !std::equal(terms[i].atoms.begin(), terms[i].atoms.end(), o.terms[i].atoms.begin(),
                    o.terms[i].atoms.end(),
                    [](const Atom &x, const Atom &y) { return x.key == y.key; }))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

bool SymExpr::isConstant() const { return asConstant().has_value(); }

std::optional<int64_t> SymExpr::asConstant() const {
  if (overflow)
    return std::nullopt;
  if (terms.empty())
    return 0;
  if (terms.size() == 1 && terms[0].atoms.empty())
    return terms[0].coefficient;
  return std::nullopt;
}

std::vector<SymExpr> SymExpr::monomialFactors() const {
  std::vector<SymExpr> factors;
  if (terms.empty())
    return {SymExpr(0)};
  const Term &t = terms[0];
  if (t.coefficient != 1 || t.atoms.empty())
    factors.push_back(SymExpr(t.coefficient));
  for (const Atom &a : t.atoms)
    factors.push_back(fromAtom(a));
  return factors;
}

/// The leading term: of the highest degree, and of these the first where atoms are compared one by
/// one. In this (graded lexicographic) order the leading term of a product is the product of the
/// leading terms, which the canonical order, by text, does not give.
static const SymExpr::Term &leadingTerm(const std::vector<SymExpr::Term> &terms) {
  return *std::max_element(
      terms.begin(), terms.end(), [](const SymExpr::Term &x, const SymExpr::Term &y) {
        if (x.atoms.size() != y.atoms.size())
          return x.atoms.size() < y.atoms.size();
        return std::lexicographical_compare(
            y.atoms.begin(), y.atoms.end(), x.atoms.begin(), x.atoms.end(),
            [](const SymExpr::Atom &a, const SymExpr::Atom &b) { return a.key < b.key; });
      });
}

static std::optional<SymExpr::Term> divideTerm(SymExpr::Term term, const SymExpr::Term &by) {
  if (by.coefficient == -1 ? term.coefficient == INT64_MIN : term.coefficient % by.coefficient)
    return std::nullopt;
  term.coefficient /= by.coefficient;
  for (const SymExpr::Atom &a : by.atoms) {
    auto it = std::find_if(term.atoms.begin(), term.atoms.end(),
                           [&](const SymExpr::Atom &x) { return x.key == a.key; });
    if (it == term.atoms.end())
      return std::nullopt;
    term.atoms.erase(it);
  }
  return term;
}

std::optional<SymExpr> SymExpr::divideExact(const SymExpr &d) const {
  if (overflow || d.overflow || d.terms.empty())
    return std::nullopt;
  // Long division. Each step takes the leading term from the rest and adds lesser ones, of which
  // there are finitely many; if *this is q * d, it takes as many steps as q has terms.
  const Term &by = leadingTerm(d.terms);
  SymExpr rest = *this, quotient;
  while (!rest.terms.empty()) {
    std::optional<Term> term = divideTerm(leadingTerm(rest.terms), by);
    if (!term)
      return std::nullopt;
    SymExpr step;
    step.terms.push_back(std::move(*term));
    rest = rest - step * d;
    quotient = quotient + step;
    if (rest.overflow || quotient.overflow)
      return std::nullopt;
  }
  return quotient;
}

std::optional<int64_t> SymExpr::evaluate(const std::map<std::string, int64_t> &values) const {
  if (overflow)
    return std::nullopt;
  int64_t sum = 0;
  for (const Term &t : terms) {
    int64_t product = t.coefficient;
    for (const Atom &atom : t.atoms) {
      std::optional<int64_t> value;
      if (atom.kind == AtomKind::Symbol) {
        auto it = values.find(atom.name);
        if (it != values.end())
          value = it->second;
      } else {
        auto a = atom.args->first.evaluate(values);
        auto b = atom.args->second.evaluate(values);
        if (a && b) {
          if (atom.kind == AtomKind::Min)
            value = std::min(*a, *b);
          else if (atom.kind == AtomKind::Max)
            value = std::max(*a, *b);
          else if (*b > 0 && atom.kind == AtomKind::FloorDiv)
            value = floorDivide(*a, *b);
          else if (*b > 0)
            value = *a - floorDivide(*a, *b) * *b;
        }
      }
      if (!value || __builtin_mul_overflow(product, *value, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

SymExpr SymExpr::substitute(const std::map<std::string, SymExpr> &values) const {
  if (overflow)
    return *this;
  SymExpr sum;
  for (const Term &t : terms) {
    SymExpr product(t.coefficient);
    for (const Atom &atom : t.atoms) {
      if (atom.kind == AtomKind::Symbol) {
        auto it = values.find(atom.name);
        product = product * (it == values.end() ? fromAtom(atom) : it->second);
        continue;
      }
      SymExpr a = atom.args->first.substitute(values);
      SymExpr b = atom.args->second.substitute(values);
      switch (atom.kind) {
      case AtomKind::FloorDiv:
        product = product * floorDiv(a, b);
        break;
      case AtomKind::Mod:
        product = product * mod(a, b);
        break;
      case AtomKind::Min:
        product = product * min(a, b);
        break;
      default:
        product = product * max(a, b);
        break;
      }
    }
    sum = sum + product;
  }
  return sum;
}

void SymExpr::collectSymbols(std::set<std::string> &out) const {
  for (const Term &t : terms)
    for (const Atom &a : t.atoms) {
      if (a.kind == AtomKind::Symbol) {
        out.insert(a.name);
        continue;
      }
      a.args->first.collectSymbols(out);
      a.args->second.collectSymbols(out);
    }
}

std::optional<int64_t> SymExpr::lowerBound(int64_t atLeast) const {
  if (overflow)
    return std::nullopt;
  int64_t sum = 0;
  for (const Term &t : terms) {
    int64_t product = t.coefficient;
    if (!t.atoms.empty() && product < 0)
      return std::nullopt; // unbounded below
    for (const Atom &a : t.atoms) {
      int64_t least = 0;
      if (a.kind == AtomKind::Symbol) {
        least = atLeast;
      } else {
        auto x = a.args->first.lowerBound(atLeast);
        auto y = a.args->second.lowerBound(atLeast);
        if (a.kind == AtomKind::Max && (x || y))
          least = x && y ? std::max(*x, *y) : (x ? *x : *y);
        else if (a.kind == AtomKind::Min && x && y)
          least = std::min(*x, *y);
        else if (a.kind == AtomKind::FloorDiv && x && *x >= 0)
          least = 0;
        else if (a.kind != AtomKind::Mod)
          return std::nullopt;
      }
      if (least < 0 || __builtin_mul_overflow(product, least, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}
