//===- IndexRanges.cpp - Proofs from the ranges of indices and sizes ------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

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
  // A product of non-negative factors is at least 1 only if each factor is.
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

bool IndexAnalysis::isSize(const SymExpr &e) {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return llvm::none_of(symbols, [](StringRef name) { return name.starts_with("_"); });
}

std::optional<std::pair<SymExpr, SymExpr>> IndexAnalysis::linearIn(const SymExpr &e,
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

// Replaces each variable by the bound that minimizes the expression.
std::optional<SymExpr> IndexAnalysis::lowerBound(const SymExpr &e) {
  if (e.isOverflow() || hasElements(e))
    return std::nullopt;
  SymExpr bound = e;
  for (const Variable &variable : llvm::reverse(variables)) {
    std::set<std::string> symbols;
    bound.collectSymbols(symbols);
    if (!symbols.count(variable.name))
      continue;
    auto linear = linearIn(bound, variable.name);
    if (!linear)
      return std::nullopt;
    if (isNonNegative(linear->first))
      bound = linear->second;
    else if (isNonNegative(-linear->first))
      bound = bound.substitute({{variable.name, variable.upper}});
    else
      return std::nullopt;
  }
  return bound;
}

std::optional<SymExpr> IndexAnalysis::upperBound(const SymExpr &e) {
  std::optional<SymExpr> negated = lowerBound(-e);
  return negated ? std::optional(-*negated) : std::nullopt;
}

// Evaluates the lower bound of `e`, a polynomial over symbols, at the lower bounds of the symbols.
bool IndexAnalysis::isNonNegative(const SymExpr &e) {
  if (auto n = e.asConstant())
    return !e.isOverflow() && *n >= 0;
  std::optional<SymExpr> lower = lowerBound(e);
  if (!lower)
    return false;
  // Indexed dimensions are not empty: substitute s = 1 + s' with s' >= 0.
  std::map<std::string, SymExpr> shifted;
  for (const std::string &name : positive)
    shifted.insert({name, SymExpr::symbol(name) + 1});
  auto isAtLeastZero = [&](const SymExpr &e) {
    auto bound = e.substitute(shifted).lowerBound(0);
    return bound && *bound >= 0;
  };
  // Sizes in `notEmpty` are at least 1, so a bound of at least size - 1 is not negative.
  return isAtLeastZero(*lower) || llvm::any_of(notEmpty, [&](const SymExpr &size) {
           return isAtLeastZero(*lower - (size - 1));
         });
}

// Finds quotient and rest with a = quotient * b + rest and 0 <= rest < b. If b is one term, the
// quotient comes from the terms of `a` that are multiples of b. If b is a sum, it comes from the
// symbols whose coefficient is a multiple of b: for a = i * (s + 1) + j and b = s + 1, the quotient
// is i.
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
    for (const SymExpr::Term &term : a.getTerms())
      if (auto q = SymExpr::fromTerm(term).divideExact(b))
        take(*q);
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
