//===- IndexExpr.cpp - Simplified expressions over indices ----------------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

struct IndexExpr::Node {
  Kind kind = Kind::Truth;
  SymExpr polynomial;
  double number = 0;
  bool flag = false; // Truth: the value. Element: whether it is negated.
  Predicate predicate = Predicate::EQ;
  Value tensor;
  SmallVector<IndexExpr> args;
  std::string text;
  unsigned size = 1;
};

static std::string joinTexts(ArrayRef<IndexExpr> args, StringRef separator) {
  std::string text;
  for (const IndexExpr &arg : args)
    text += (text.empty() ? "" : separator.str()) + arg.str();
  return text;
}

IndexExpr IndexExpr::integer(const SymExpr &e) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::Integer;
  node->polynomial = e;
  node->size = e.getTerms().size() + 1;
  node->text = e.str();
  return IndexExpr(node);
}

IndexExpr IndexExpr::number(double value) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::Number;
  node->number = value;
  llvm::raw_string_ostream(node->text) << "float " << llvm::format("%.17g", value);
  return IndexExpr(node);
}

IndexExpr IndexExpr::truth(bool value) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::Truth;
  node->flag = value;
  node->text = value ? "true" : "false";
  return IndexExpr(node);
}

IndexExpr IndexExpr::element(Value tensor, ArrayRef<IndexExpr> indices, bool negated) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::Element;
  node->tensor = tensor;
  node->flag = negated;
  node->args.assign(indices.begin(), indices.end());
  for (const IndexExpr &arg : indices)
    node->size += arg.getSize();
  llvm::raw_string_ostream(node->text)
      << (negated ? "not " : "") << "%" << tensor.getAsOpaquePointer() << "["
      << joinTexts(indices, ", ") << "]";
  return IndexExpr(node);
}

IndexExpr IndexExpr::scaled(ArrayRef<IndexExpr> elements, double number, const SymExpr &e) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::Scaled;
  node->args.assign(elements.begin(), elements.end());
  llvm::sort(node->args, [](const IndexExpr &a, const IndexExpr &b) { return a.str() < b.str(); });
  node->number = number;
  node->polynomial = e;
  node->size = e.getTerms().size() + 1;
  for (const IndexExpr &arg : elements)
    node->size += arg.getSize();
  llvm::raw_string_ostream(node->text)
      << "float " << llvm::format("%.17g", number) << " * (" << e.str() << ")"
      << (elements.empty() ? "" : " * ") << joinTexts(node->args, " * ");
  return IndexExpr(node);
}

IndexExpr::Kind IndexExpr::getKind() const { return node->kind; }
double IndexExpr::getNumber() const { return node->number; }
bool IndexExpr::isTrue() const { return node->kind == Kind::Truth && node->flag; }
bool IndexExpr::isFalse() const { return node->kind == Kind::Truth && !node->flag; }
const SymExpr &IndexExpr::getPolynomial() const { return node->polynomial; }
Predicate IndexExpr::getPredicate() const { return node->predicate; }
ArrayRef<IndexExpr> IndexExpr::getArgs() const { return node->args; }
Value IndexExpr::getTensor() const { return node->tensor; }
bool IndexExpr::isNegated() const { return node->flag; }
const std::string &IndexExpr::str() const { return node->text; }
unsigned IndexExpr::getSize() const { return node->size; }

std::optional<double> IndexExpr::getConstant() const {
  switch (node->kind) {
  case Kind::Number:
    return node->number;
  case Kind::Truth:
    return node->flag ? 1.0 : 0.0;
  case Kind::Integer:
    if (auto n = node->polynomial.asConstant())
      return (double)*n;
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Simplified logic
//===----------------------------------------------------------------------===//

IndexExpr IndexAnalysis::compare(Predicate predicate, const SymExpr &difference) {
  SymExpr d = difference;
  switch (predicate) {
  case Predicate::LT: // d < 0  <=>  d + 1 <= 0
    return compare(Predicate::LE, d + 1);
  case Predicate::GT:
    return compare(Predicate::LE, SymExpr(1) - d);
  case Predicate::GE:
    return compare(Predicate::LE, -d);
  case Predicate::NE:
    return negation(compare(Predicate::EQ, d));
  case Predicate::LE:
    if (isNonNegative(-d))
      return IndexExpr::truth(true);
    if (isNonNegative(d - 1))
      return IndexExpr::truth(false);
    if (isNonNegative(d))
      return compare(Predicate::EQ, d);
    break;
  case Predicate::EQ:
    if (d.isConstant(0))
      return IndexExpr::truth(true);
    if (isNonNegative(d - 1) || isNonNegative(-d - 1))
      return IndexExpr::truth(false);
    if (!d.getTerms().empty() && d.getTerms()[0].coefficient < 0)
      d = -d;
    break;
  }
  auto node = std::make_shared<IndexExpr::Node>();
  node->kind = IndexExpr::Kind::Compare;
  node->predicate = predicate;
  node->polynomial = d;
  node->size = d.getTerms().size() + 1;
  node->text = d.str() + (predicate == Predicate::EQ ? " == 0" : " <= 0");
  return IndexExpr(node);
}

IndexExpr IndexAnalysis::negation(const IndexExpr &e) {
  switch (e.getKind()) {
  case IndexExpr::Kind::Truth:
    return IndexExpr::truth(!e.isTrue());
  case IndexExpr::Kind::Element:
    return IndexExpr::element(e.getTensor(), e.getArgs(), !e.isNegated());
  case IndexExpr::Kind::Select:
    return select(e.getArgs()[0], negation(e.getArgs()[1]), negation(e.getArgs()[2]));
  case IndexExpr::Kind::And:
  case IndexExpr::Kind::Or: {
    SmallVector<IndexExpr> terms;
    for (const IndexExpr &arg : e.getArgs())
      terms.push_back(negation(arg));
    return e.getKind() == IndexExpr::Kind::And ? disjunction(terms) : conjunction(terms);
  }
  case IndexExpr::Kind::Compare: {
    if (e.getPredicate() == Predicate::LE)
      return compare(Predicate::LE, SymExpr(1) - e.getPolynomial());
    if (e.getPredicate() == Predicate::NE)
      return compare(Predicate::EQ, e.getPolynomial());
    auto node = std::make_shared<IndexExpr::Node>();
    node->kind = IndexExpr::Kind::Compare;
    node->predicate = Predicate::NE;
    node->polynomial = e.getPolynomial();
    node->size = e.getSize();
    node->text = e.getPolynomial().str() + " != 0";
    return IndexExpr(node);
  }
  case IndexExpr::Kind::Integer:
  case IndexExpr::Kind::Number:
  case IndexExpr::Kind::Scaled:
    break;
  }
  llvm_unreachable("not a truth value");
}

/// Flattens and sorts terms, and removes duplicates. Returns nothing if a term is `absorbing`.
static std::optional<SmallVector<IndexExpr>> gatherTerms(ArrayRef<IndexExpr> terms,
                                                         IndexExpr::Kind kind, bool absorbing) {
  std::map<std::string, IndexExpr> unique;
  for (const IndexExpr &term : terms) {
    if (term.getKind() == IndexExpr::Kind::Truth) {
      if (term.isTrue() == absorbing)
        return std::nullopt;
      continue;
    }
    if (term.getKind() == kind)
      for (const IndexExpr &arg : term.getArgs())
        unique.insert({arg.str(), arg});
    else
      unique.insert({term.str(), term});
  }
  SmallVector<IndexExpr> list;
  for (auto &[text, term] : unique)
    list.push_back(term);
  return list;
}

// For example, under the assumption a, `not a or b` simplifies to b.
IndexExpr IndexAnalysis::assume(const IndexExpr &e, const IndexExpr &fact) {
  ++steps;
  if (isOutOfSteps())
    return e;
  SmallVector<IndexExpr> args;
  switch (e.getKind()) {
  case IndexExpr::Kind::Select:
  case IndexExpr::Kind::And:
  case IndexExpr::Kind::Or:
    for (const IndexExpr &arg : e.getArgs())
      args.push_back(assume(arg, fact));
    if (llvm::equal(args, e.getArgs()))
      return e;
    if (e.getKind() == IndexExpr::Kind::Select)
      return select(args[0], args[1], args[2]);
    return e.getKind() == IndexExpr::Kind::And ? conjunction(args) : disjunction(args);
  case IndexExpr::Kind::Compare:
  case IndexExpr::Kind::Element:
    if (e == fact)
      return IndexExpr::truth(true);
    return e == negation(fact) ? IndexExpr::truth(false) : e;
  case IndexExpr::Kind::Integer:
  case IndexExpr::Kind::Number:
  case IndexExpr::Kind::Truth:
  case IndexExpr::Kind::Scaled:
    return e;
  }
  llvm_unreachable("all kinds are handled");
}

/// Simplifies a term under the assumption that another term has the value `assumed`. Returns
/// whether a term changed.
bool IndexAnalysis::assumeOthers(SmallVectorImpl<IndexExpr> &terms, bool assumed) {
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].getKind() == IndexExpr::Kind::Compare ||
        terms[i].getKind() == IndexExpr::Kind::Element)
      continue;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (i == j)
        continue;
      IndexExpr under = assume(terms[i], assumed ? terms[j] : negation(terms[j]));
      if (under == terms[i])
        continue;
      terms[i] = under;
      return true;
    }
  }
  return false;
}

/// Returns the operands of `term` if it is of kind `inner`, else `term`.
static SmallVector<IndexExpr> getLiterals(const IndexExpr &term, IndexExpr::Kind inner) {
  return term.getKind() == inner ? SmallVector<IndexExpr>(term.getArgs())
                                 : SmallVector<IndexExpr>{term};
}

/// Whether `a` implies `b`; false means unknown.
bool IndexAnalysis::implies(const IndexExpr &a, const IndexExpr &b) {
  auto isBound = [](const IndexExpr &e) {
    return e.getKind() == IndexExpr::Kind::Compare && e.getPredicate() == Predicate::LE;
  };
  return a == b ||
         (isBound(a) && isBound(b) && isNonNegative(a.getPolynomial() - b.getPolynomial()));
}

/// Removes redundant terms of a disjunction of conjunctions; with `all`, of a conjunction of
/// disjunctions, by the dual rules. Returns whether a term was removed. Rules:
///
///   a term that implies another term is redundant: `(i <= j and m) or m` is `m`;
///   l in `(l and r) or t` is redundant if `not l and r` implies t:
///   `(i > j and m) or (i <= j and m)` is `m or (i <= j and m)`.
bool IndexAnalysis::dropImplied(SmallVectorImpl<IndexExpr> &terms, bool all) {
  // The comparison of terms is quadratic, so long lists are not simplified.
  constexpr unsigned maxTerms = 64;
  unsigned literals = 0;
  for (const IndexExpr &term : terms)
    literals += term.getSize();
  if (literals > maxTerms || isOutOfSteps())
    return false;
  auto inner = all ? IndexExpr::Kind::Or : IndexExpr::Kind::And;
  // Whether the term `from` implies the term `to`. For a conjunction: whether `to` implies `from`.
  auto follows = [&](ArrayRef<IndexExpr> from, ArrayRef<IndexExpr> to) {
    return llvm::all_of(to, [&](const IndexExpr &b) {
      return llvm::any_of(from,
                          [&](const IndexExpr &a) { return all ? implies(b, a) : implies(a, b); });
    });
  };
  for (size_t i = 0; i < terms.size(); ++i) {
    SmallVector<IndexExpr> own = getLiterals(terms[i], inner);
    auto anyOther = [&](ArrayRef<IndexExpr> from) {
      for (size_t k = 0; k < terms.size(); ++k)
        if (k != i && follows(from, getLiterals(terms[k], inner)))
          return true;
      return false;
    };
    if (anyOther(own)) {
      terms.erase(terms.begin() + i);
      return true;
    }
    for (size_t l = 0; own.size() > 1 && l < own.size(); ++l) {
      SmallVector<IndexExpr> rest = own, other = own;
      rest.erase(rest.begin() + l);
      other[l] = negation(own[l]);
      if (!anyOther(other))
        continue;
      terms[i] = all ? disjunction(rest) : conjunction(rest);
      return true;
    }
  }
  return false;
}

IndexExpr IndexAnalysis::conjunction(ArrayRef<IndexExpr> terms) {
  auto list = gatherTerms(terms, IndexExpr::Kind::And, false);
  if (!list)
    return IndexExpr::truth(false);
  if (assumeOthers(*list, true) || dropImplied(*list, true))
    return conjunction(*list);
  if (list->empty())
    return IndexExpr::truth(true);
  if (list->size() == 1)
    return list->front();
  auto node = std::make_shared<IndexExpr::Node>();
  node->kind = IndexExpr::Kind::And;
  node->args = *list;
  for (const IndexExpr &term : *list)
    node->size += term.getSize();
  node->text = "(" + joinTexts(*list, " and ") + ")";
  return IndexExpr(node);
}

IndexExpr IndexAnalysis::disjunction(ArrayRef<IndexExpr> terms) {
  auto list = gatherTerms(terms, IndexExpr::Kind::Or, true);
  if (!list)
    return IndexExpr::truth(true);
  if (assumeOthers(*list, false) || dropImplied(*list, false))
    return disjunction(*list);
  if (list->empty())
    return IndexExpr::truth(false);
  if (list->size() == 1)
    return list->front();
  auto node = std::make_shared<IndexExpr::Node>();
  node->kind = IndexExpr::Kind::Or;
  node->args = *list;
  for (const IndexExpr &term : *list)
    node->size += term.getSize();
  node->text = "(" + joinTexts(*list, " or ") + ")";
  return IndexExpr(node);
}

/// Whether `a` equals `b` if the comparison `condition` is true. Solves the comparison for a
/// variable with coefficient 1 or -1, and substitutes the solution.
static bool equalWhere(IndexAnalysis &analysis, const IndexExpr &condition, const IndexExpr &a,
                       const IndexExpr &b) {
  if (condition.getKind() != IndexExpr::Kind::Compare || condition.getPredicate() != Predicate::EQ)
    return false;
  std::set<std::string> symbols;
  condition.getPolynomial().collectSymbols(symbols);
  for (const std::string &name : symbols) {
    auto linear = IndexAnalysis::linearIn(condition.getPolynomial(), name);
    if (!linear || !(linear->first.isConstant(1) || linear->first.isConstant(-1)))
      continue;
    SymExpr solved = linear->first.isConstant(1) ? -linear->second : linear->second;
    if (analysis.substitute(a, name, solved) == analysis.substitute(b, name, solved))
      return true;
  }
  return false;
}

IndexExpr IndexAnalysis::select(const IndexExpr &c, const IndexExpr &ifTrue,
                                const IndexExpr &ifFalse) {
  if (c.isTrue())
    return ifTrue;
  if (c.isFalse())
    return ifFalse;
  IndexExpr a = assume(ifTrue, c), b = assume(ifFalse, negation(c));
  if (a == b)
    return a;
  if (a.getKind() == IndexExpr::Kind::Truth && b.getKind() == IndexExpr::Kind::Truth)
    return a.isTrue() ? c : negation(c);
  if (a.getKind() == IndexExpr::Kind::Truth)
    return a.isTrue() ? disjunction({c, b}) : conjunction({negation(c), b});
  if (b.getKind() == IndexExpr::Kind::Truth)
    return b.isTrue() ? disjunction({negation(c), a}) : conjunction({c, a});
  if (equalWhere(*this, c, a, b))
    return b;
  if (equalWhere(*this, negation(c), a, b))
    return a;
  auto node = std::make_shared<IndexExpr::Node>();
  node->kind = IndexExpr::Kind::Select;
  node->args = {c, a, b};
  node->size = 1 + c.getSize() + a.getSize() + b.getSize();
  node->text = "(" + c.str() + " ? " + a.str() + " : " + b.str() + ")";
  return IndexExpr(node);
}

//===----------------------------------------------------------------------===//
// Substitution
//===----------------------------------------------------------------------===//

void IndexAnalysis::collectSymbols(const IndexExpr &e, std::set<std::string> &out) const {
  if (e.getKind() == IndexExpr::Kind::Integer || e.getKind() == IndexExpr::Kind::Compare ||
      e.getKind() == IndexExpr::Kind::Scaled) {
    std::set<std::string> own;
    e.getPolynomial().collectSymbols(own);
    for (const std::string &name : own) {
      if (const IndexExpr *element = getElement(name))
        collectSymbols(*element, out);
      else
        out.insert(name);
    }
  }
  for (const IndexExpr &arg : e.getArgs())
    collectSymbols(arg, out);
}

IndexExpr IndexAnalysis::substitute(const IndexExpr &e, const std::string &name,
                                    const SymExpr &by) {
  SmallVector<IndexExpr> args;
  for (const IndexExpr &arg : e.getArgs())
    args.push_back(substitute(arg, name, by));
  auto polynomial = [&]() {
    std::map<std::string, SymExpr> map{{name, by}};
    std::set<std::string> own;
    e.getPolynomial().collectSymbols(own);
    for (const std::string &symbol : own) {
      auto it = elements.find(symbol);
      if (it == elements.end())
        continue;
      IndexExpr element = it->second;
      SmallVector<IndexExpr> where;
      for (const IndexExpr &arg : element.getArgs())
        where.push_back(substitute(arg, name, by));
      map.insert({symbol, opaque(element.getTensor(), where).getPolynomial()});
    }
    return e.getPolynomial().substitute(map);
  };
  switch (e.getKind()) {
  case IndexExpr::Kind::Number:
  case IndexExpr::Kind::Truth:
    return e;
  case IndexExpr::Kind::Integer:
    return IndexExpr::integer(polynomial());
  case IndexExpr::Kind::Scaled:
    return IndexExpr::scaled(args, e.getNumber(), polynomial());
  case IndexExpr::Kind::Compare:
    return compare(e.getPredicate(), polynomial());
  case IndexExpr::Kind::And:
    return conjunction(args);
  case IndexExpr::Kind::Or:
    return disjunction(args);
  case IndexExpr::Kind::Select:
    return select(args[0], args[1], args[2]);
  case IndexExpr::Kind::Element:
    return IndexExpr::element(e.getTensor(), args, e.isNegated());
  }
  llvm_unreachable("all kinds are handled");
}
