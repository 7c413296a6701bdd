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

SymExpr::BodyRef SymExpr::makeConstant(int64_t value) {
  auto make = [](int64_t v) {
    auto body = std::make_shared<Body>();
    if (v)
      body->terms.push_back({v, {}});
    return body;
  };
  // Fast path: most intermediate results are small numbers.
  static const std::vector<BodyRef> small = [&] {
    std::vector<BodyRef> bodies;
    for (int64_t v = 0; v < 256; ++v)
      bodies.push_back(make(v));
    return bodies;
  }();
  return value >= 0 && size_t(value) < small.size() ? small[value] : make(value);
}

SymExpr::SymExpr(int64_t value) : body(makeConstant(value)) {}

SymExpr SymExpr::overflowed() { return fromTerms({}, true); }

SymExpr SymExpr::fromAtom(Atom atom) {
  std::vector<Term> terms(1, Term{1, {}});
  terms[0].atoms.push_back(std::move(atom));
  return fromTerms(std::move(terms));
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
  if (a.isOverflow() || b.isOverflow())
    return overflowed();
  std::string key = std::string(functionName(kind)) + "(" + a.str() + ", " + b.str() + ")";
  return fromAtom({kind, "", std::make_shared<std::pair<SymExpr, SymExpr>>(a, b), std::move(key)});
}

/// Compares terms by the texts of their atoms, in order.
static int compareAtoms(const SymExpr::Term &x, const SymExpr::Term &y) {
  for (size_t i = 0; i < std::min(x.atoms.size(), y.atoms.size()); ++i)
    if (int order = x.atoms[i].key.compare(y.atoms[i].key))
      return order;
  return x.atoms.size() < y.atoms.size() ? -1 : x.atoms.size() > y.atoms.size();
}

/// Graded lexicographic order: by descending degree, then by atoms. The first term of a product is
/// then the product of the first terms.
static bool comesBefore(const SymExpr::Term &x, const SymExpr::Term &y) {
  if (x.atoms.size() != y.atoms.size())
    return x.atoms.size() > y.atoms.size();
  return compareAtoms(x, y) < 0;
}

/// Sorts terms, merges equal ones and drops zeros.
SymExpr SymExpr::fromTerms(std::vector<Term> terms, bool overflow) {
  for (Term &t : terms)
    std::sort(t.atoms.begin(), t.atoms.end(),
              [](const Atom &x, const Atom &y) { return x.key < y.key; });
  std::sort(terms.begin(), terms.end(), comesBefore);
  auto body = std::make_shared<Body>();
  body->overflow = overflow;
  for (size_t i = 0; i < terms.size();) {
    Term sum = std::move(terms[i]);
    for (++i; i < terms.size() && compareAtoms(terms[i], sum) == 0; ++i)
      if (__builtin_add_overflow(sum.coefficient, terms[i].coefficient, &sum.coefficient))
        body->overflow = true;
    if (sum.coefficient)
      body->terms.push_back(std::move(sum));
  }
  return SymExpr(std::move(body));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

SymExpr SymExpr::operator+(const SymExpr &o) const {
  if (isConstant(0))
    return o;
  if (o.isConstant(0))
    return *this;
  std::vector<Term> terms = getTerms();
  terms.insert(terms.end(), o.getTerms().begin(), o.getTerms().end());
  return fromTerms(std::move(terms), isOverflow() || o.isOverflow());
}

SymExpr SymExpr::operator-(const SymExpr &o) const { return *this + SymExpr(-1) * o; }

SymExpr SymExpr::operator*(const SymExpr &o) const {
  if (isConstant(1))
    return o;
  if (o.isConstant(1))
    return *this;
  bool overflow = isOverflow() || o.isOverflow();
  std::vector<Term> terms;
  for (const Term &x : getTerms())
    for (const Term &y : o.getTerms()) {
      Term t = x;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &t.coefficient))
        overflow = true;
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      terms.push_back(std::move(t));
    }
  return fromTerms(std::move(terms), overflow);
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
  if (isOverflow() || o.isOverflow())
    return false;
  return body == o.body ||
         std::equal(getTerms().begin(), getTerms().end(), o.getTerms().begin(), o.getTerms().end(),
                    [](const Term &x, const Term &y) {
                      return x.coefficient == y.coefficient && compareAtoms(x, y) == 0;
                    });
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

bool SymExpr::isConstant() const { return asConstant().has_value(); }

std::optional<int64_t> SymExpr::asConstant() const {
  if (isOverflow())
    return std::nullopt;
  if (getTerms().empty())
    return 0;
  if (getTerms().size() == 1 && getTerms()[0].atoms.empty())
    return getTerms()[0].coefficient;
  return std::nullopt;
}

std::vector<SymExpr> SymExpr::monomialFactors() const {
  std::vector<SymExpr> factors;
  if (getTerms().empty())
    return {SymExpr(0)};
  const Term &t = getTerms()[0];
  if (t.coefficient != 1 || t.atoms.empty())
    factors.push_back(SymExpr(t.coefficient));
  for (const Atom &a : t.atoms)
    factors.push_back(fromAtom(a));
  return factors;
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
  if (isOverflow() || d.isOverflow() || d.getTerms().empty())
    return std::nullopt;
  // Long division. Each step removes the first term of the remainder, and adds only terms that are
  // later in the order, of which there are finitely many. If *this is q * d, the number of steps is
  // the number of terms of q.
  SymExpr rest = *this, quotient;
  while (!rest.getTerms().empty()) {
    std::optional<Term> term = divideTerm(rest.getTerms().front(), d.getTerms().front());
    if (!term)
      return std::nullopt;
    SymExpr step = fromTerms({std::move(*term)});
    rest = rest - step * d;
    quotient = quotient + step;
    if (rest.isOverflow() || quotient.isOverflow())
      return std::nullopt;
  }
  return quotient;
}

std::optional<int64_t> SymExpr::evaluate(const std::map<std::string, int64_t> &values) const {
  if (isOverflow())
    return std::nullopt;
  int64_t sum = 0;
  for (const Term &t : getTerms()) {
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
  if (isOverflow())
    return *this;
  SymExpr sum;
  for (const Term &t : getTerms()) {
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
  for (const Term &t : getTerms())
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
  if (isOverflow())
    return std::nullopt;
  int64_t sum = 0;
  for (const Term &t : getTerms()) {
    int64_t product = t.coefficient;
    if (!t.atoms.empty() && product < 0)
      return std::nullopt; // unbounded below
    for (const Atom &a : t.atoms) {
      int64_t lower = 0;
      if (a.kind == AtomKind::Symbol) {
        lower = atLeast;
      } else {
        auto x = a.args->first.lowerBound(atLeast);
        auto y = a.args->second.lowerBound(atLeast);
        if (a.kind == AtomKind::Max && (x || y))
          lower = x && y ? std::max(*x, *y) : (x ? *x : *y);
        else if (a.kind == AtomKind::Min && x && y)
          lower = std::min(*x, *y);
        else if (a.kind == AtomKind::FloorDiv && x && *x >= 0)
          lower = 0;
        else if (a.kind != AtomKind::Mod)
          return std::nullopt;
      }
      if (lower < 0 || __builtin_mul_overflow(product, lower, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}
