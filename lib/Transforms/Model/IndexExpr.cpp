//===- IndexExpr.cpp - Expressions over indices, and proofs ---------------===//

#include "tpc/Transforms/Model/IndexAnalysis.h"

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
  bool flag = false; // Truth: its value. Element: negated.
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

IndexExpr::Kind IndexExpr::getKind() const { return node->kind; }
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
// Variables and ranges
//===----------------------------------------------------------------------===//

IndexAnalysis::IndexAnalysis(ArrayRef<SymExpr> sizes) {
  for (auto [i, size] : llvm::enumerate(sizes)) {
    assumeNotEmpty(size);
    if (size.isConstant(1)) {
      indices.push_back(IndexExpr::integer(0));
      continue;
    }
    variables.push_back({indexName(i), size - 1});
    indices.push_back(IndexExpr::integer(SymExpr::symbol(indexName(i))));
  }
}

void IndexAnalysis::assumeNotEmpty(const SymExpr &size) {
  // A product is at least 1 only if each factor (none is negative) is.
  if (size.isConstant())
    return;
  if (size.isMonomial())
    size.collectSymbols(positive);
  else
    notEmpty.push_back(size);
}

IndexExpr IndexAnalysis::freshIndex(const SymExpr &size) {
  std::string name = "_c" + std::to_string(variables.size());
  variables.push_back({name, size - 1});
  return IndexExpr::integer(SymExpr::symbol(name));
}

const IndexExpr *IndexAnalysis::getElement(StringRef symbol) const {
  auto it = elements.find(symbol.str());
  return it == elements.end() ? nullptr : &it->second;
}

bool IndexAnalysis::hasElements(const SymExpr &e) const {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return llvm::any_of(symbols, [&](const std::string &s) { return elements.count(s) != 0; });
}

/// e as coefficient * variable + rest; nothing where the variable occurs in
/// another way.
static std::optional<std::pair<SymExpr, SymExpr>> linearIn(const SymExpr &e,
                                                           const std::string &name) {
  SymExpr zero = e.substitute({{name, SymExpr(0)}});
  SymExpr one = e.substitute({{name, SymExpr(1)}});
  SymExpr coefficient = one - zero;
  std::set<std::string> symbols;
  coefficient.collectSymbols(symbols);
  if (symbols.count(name) || coefficient * SymExpr::symbol(name) + zero != e)
    return std::nullopt;
  return std::make_pair(coefficient, zero);
}

// Each variable in turn takes the end of its range at which the expression is
// least; what remains is a polynomial over symbols with a plain lower bound.
bool IndexAnalysis::isNonNegative(const SymExpr &e) {
  if (e.isOverflow() || hasElements(e))
    return false;
  if (auto n = e.asConstant())
    return *n >= 0;
  SymExpr least = e;
  for (const Variable &variable : llvm::reverse(variables)) {
    std::set<std::string> symbols;
    least.collectSymbols(symbols);
    if (!symbols.count(variable.name))
      continue;
    auto linear = linearIn(least, variable.name);
    if (!linear)
      return false;
    if (isNonNegative(linear->first))
      least = linear->second;
    else if (isNonNegative(-linear->first))
      least = least.substitute({{variable.name, variable.upper}});
    else
      return false;
  }
  // Sizes of dimensions that are indexed are positive: s = 1 + s', s' >= 0.
  std::map<std::string, SymExpr> shifted;
  for (const std::string &name : positive)
    shifted.insert({name, SymExpr::symbol(name) + 1});
  auto isAtLeastZero = [&](const SymExpr &e) {
    auto bound = e.substitute(shifted).lowerBound(0);
    return bound && *bound >= 0;
  };
  // Of sums it is known as a whole: p + s - 1 >= 0.
  return isAtLeastZero(least) || llvm::any_of(notEmpty, [&](const SymExpr &size) {
           return isAtLeastZero(least - (size - 1));
         });
}

std::optional<SymExpr> IndexAnalysis::upperBound(const SymExpr &e) {
  if (e.isOverflow() || hasElements(e))
    return std::nullopt;
  SymExpr most = e;
  for (const Variable &variable : llvm::reverse(variables)) {
    std::set<std::string> symbols;
    most.collectSymbols(symbols);
    if (!symbols.count(variable.name))
      continue;
    auto linear = linearIn(most, variable.name);
    if (!linear)
      return std::nullopt;
    if (isNonNegative(linear->first))
      most = most.substitute({{variable.name, variable.upper}});
    else if (isNonNegative(-linear->first))
      most = linear->second;
    else
      return std::nullopt;
  }
  return most;
}

// a = quotient * b + rest, where the quotient is made of what b divides: terms,
// or, if b is a sum, coefficients of symbols. Decided if 0 <= rest < b.
std::optional<std::pair<SymExpr, SymExpr>> IndexAnalysis::divide(const SymExpr &a,
                                                                 const SymExpr &b) {
  if (a.isOverflow() || b.isOverflow() || !isNonNegative(b - 1))
    return std::nullopt;
  SymExpr quotient(0), rest = a;
  auto take = [&](const SymExpr &q) {
    quotient = quotient + q;
    rest = rest - q * b;
  };
  if (b.isMonomial()) {
    for (const SymExpr::Term &term : a.getTerms()) {
      auto one = SymExpr::parse(term.atoms.empty() ? "1" : term.key());
      if (auto q = one ? (*one * SymExpr(term.coefficient)).divideExact(b) : std::nullopt)
        take(*q);
    }
  } else {
    std::set<std::string> symbols;
    a.collectSymbols(symbols);
    for (const std::string &name : symbols)
      if (auto linear = linearIn(rest, name))
        if (auto q = linear->first.divideExact(b))
          take(*q * SymExpr::symbol(name));
  }
  if (!isNonNegative(rest) || !isNonNegative(b - 1 - rest))
    return std::nullopt;
  return std::make_pair(quotient, rest);
}

IndexExpr IndexAnalysis::floorDiv(const SymExpr &a, const SymExpr &b) {
  if (auto r = divide(a, b))
    return IndexExpr::integer(r->first);
  return IndexExpr::integer(SymExpr::floorDiv(a, b));
}

IndexExpr IndexAnalysis::mod(const SymExpr &a, const SymExpr &b) {
  if (auto r = divide(a, b))
    return IndexExpr::integer(r->second);
  return IndexExpr::integer(SymExpr::mod(a, b));
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
    break;
  }
  llvm_unreachable("not a truth value");
}

/// Flattened, sorted, without duplicates; `absorbing` decides at once.
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

IndexExpr IndexAnalysis::conjunction(ArrayRef<IndexExpr> terms) {
  auto list = gatherTerms(terms, IndexExpr::Kind::And, false);
  if (!list)
    return IndexExpr::truth(false);
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

/// Whether `b` equals `a` wherever the comparison holds: solved for a variable
/// that occurs with factor 1 or -1, which then is substituted.
static bool equalWhere(IndexAnalysis &analysis, const IndexExpr &condition, const IndexExpr &a,
                       const IndexExpr &b) {
  if (condition.getKind() != IndexExpr::Kind::Compare || condition.getPredicate() != Predicate::EQ)
    return false;
  std::set<std::string> symbols;
  condition.getPolynomial().collectSymbols(symbols);
  for (const std::string &name : symbols) {
    auto linear = linearIn(condition.getPolynomial(), name);
    if (!linear || !(linear->first.isConstant(1) || linear->first.isConstant(-1)))
      continue;
    SymExpr solved = linear->first.isConstant(1) ? -linear->second : linear->second;
    if (analysis.substitute(a, name, solved) == analysis.substitute(b, name, solved))
      return true;
  }
  return false;
}

IndexExpr IndexAnalysis::select(const IndexExpr &c, const IndexExpr &a, const IndexExpr &b) {
  if (c.isTrue() || a == b)
    return a;
  if (c.isFalse())
    return b;
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
  if (e.getKind() == IndexExpr::Kind::Integer || e.getKind() == IndexExpr::Kind::Compare) {
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
