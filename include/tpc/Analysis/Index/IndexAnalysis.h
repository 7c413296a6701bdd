//===- IndexAnalysis.h - Values as functions of their indices ----*- C++ -*-===//
//
// What a mask or a position tensor is, as a function of its indices, of the
// symbols of the file, and of elements of other tensors. Exporters build masks
// with Range, Expand, Concat, CumSum, GatherND, comparisons: the elements still
// are simple, `j <= i and attention_mask[b, j] != 0`, and that is what is asked
// for here.
//
//   IndexAnalysis analysis({batch, 1, sequence, sequence});
//   IndexExpr e = analysis.at(mask, analysis.getIndices());
//   e.str()   // "_i3 - _i2 <= 0"
//
// `at` pulls indices back through each op (IndexOpInterface): the element (i, j) of a transpose is
// element (j, i) of its operand; an element of a concatenation is a choice
// between the operands. Where an op is not understood, the answer is that
// element of that op's result, which is always right. Simplification uses that
// indices lie within their dimensions and that a dimension that is indexed is
// not empty. Integers are taken as unbounded (shapes and positions fit theirs),
// and a conversion of an integer to floating point as exact.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_INDEX_INDEXANALYSIS_H
#define TPC_ANALYSIS_INDEX_INDEXANALYSIS_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/OpConcern.h"

#include <set>

namespace mlir::tpc {

/// An immutable expression over indices.
class IndexExpr {
public:
  enum class Kind {
    Integer, // a polynomial over indices, symbols and integer elements
    Number,  // a floating-point constant
    Truth,   // true or false
    Compare, // polynomial == 0, != 0 or <= 0
    And,
    Or,
    Select,  // condition, value, value
    Element, // a floating-point or boolean element of a tensor; may be negated
    Scaled,  // a polynomial times floating-point elements and a number (slopes)
  };
  struct Node;

  IndexExpr() = default;
  static IndexExpr integer(const ::tpc::SymExpr &e);
  static IndexExpr number(double value);
  static IndexExpr truth(bool value);
  static IndexExpr element(Value tensor, ArrayRef<IndexExpr> indices, bool negated = false);
  /// The polynomial times the number, times all elements.
  static IndexExpr scaled(ArrayRef<IndexExpr> elements, double number, const ::tpc::SymExpr &e);

  Kind getKind() const;
  bool isInteger() const { return getKind() == Kind::Integer; }
  bool isTrue() const;
  bool isFalse() const;
  /// The constant, of an integer, a number or a truth value.
  std::optional<double> getConstant() const;
  double getNumber() const; // Number, Scaled
  /// Integer, Scaled: the polynomial. Compare: what is compared with zero.
  const ::tpc::SymExpr &getPolynomial() const;
  Predicate getPredicate() const;      // Compare: EQ, NE or LE
  ArrayRef<IndexExpr> getArgs() const; // And, Or, Select, Element, Scaled: the elements
  Value getTensor() const;             // Element
  bool isNegated() const;              // Element
  /// Canonical text: equal texts mean equal expressions.
  const std::string &str() const;
  bool operator==(const IndexExpr &o) const { return str() == o.str(); }
  explicit operator bool() const { return node != nullptr; }
  unsigned getSize() const;

private:
  friend class IndexAnalysis;
  explicit IndexExpr(std::shared_ptr<const Node> node) : node(std::move(node)) {}
  std::shared_ptr<const Node> node;
};

class IndexAnalysis {
public:
  using SymExpr = ::tpc::SymExpr;

  /// Expressions over one index for each of these dimensions, which are taken
  /// not to be empty.
  explicit IndexAnalysis(ArrayRef<SymExpr> sizes);

  ArrayRef<IndexExpr> getIndices() const { return indices; }
  /// The symbol that stands for index `dim` in polynomials.
  static std::string indexName(unsigned dim) { return "_i" + std::to_string(dim); }

  /// Whether it is made of sizes alone, neither of indices nor of elements: their names begin with
  /// an underscore, and those of files do not.
  static bool isSize(const SymExpr &e);

  /// The element of `v` at these indices.
  IndexExpr at(Value v, ArrayRef<IndexExpr> where);
  /// The element of `v`, broadcast to the analysis' sizes, at its indices.
  IndexExpr atBroadcast(Value v);

  /// The tensor element that a symbol of a polynomial stands for, if it is one.
  const IndexExpr *getElement(StringRef symbol) const;

  // Proofs from the ranges of indices and symbols; false means "not proved".
  bool isNonNegative(const SymExpr &e);
  bool isAtMost(const SymExpr &a, const SymExpr &b) { return isNonNegative(b - a); }
  /// e as first * name + second; nothing where the symbol occurs in another way.
  static std::optional<std::pair<SymExpr, SymExpr>> linearIn(const SymExpr &e,
                                                             const std::string &name);
  /// Bounds of an integer over all indices, in symbols alone.
  std::optional<SymExpr> lowerBound(const SymExpr &e);
  std::optional<SymExpr> upperBound(const SymExpr &e);

  // Building, simplified.
  IndexExpr compare(Predicate predicate, const SymExpr &difference);
  IndexExpr conjunction(ArrayRef<IndexExpr> terms);
  IndexExpr disjunction(ArrayRef<IndexExpr> terms);
  IndexExpr negation(const IndexExpr &e);
  IndexExpr select(const IndexExpr &c, const IndexExpr &a, const IndexExpr &b);
  /// What `e` is where `fact`, a truth value, holds.
  IndexExpr assume(const IndexExpr &e, const IndexExpr &fact);
  IndexExpr floorDiv(const SymExpr &a, const SymExpr &b);
  IndexExpr mod(const SymExpr &a, const SymExpr &b);
  IndexExpr substitute(const IndexExpr &e, const std::string &name, const SymExpr &by);
  /// All symbols and indices in `e`, and those that its elements depend on.
  void collectSymbols(const IndexExpr &e, std::set<std::string> &out) const;

  // For models of ops.

  /// A variable with values from 0 to size - 1 that occurs nowhere else.
  IndexExpr freshIndex(const SymExpr &size);
  /// `f` of the leaves of a tree of selects.
  IndexExpr mapLeaves(const IndexExpr &e, llvm::function_ref<IndexExpr(const IndexExpr &)> f);
  IndexExpr constantAt(ConstantOp op, ArrayRef<IndexExpr> where);

private:
  struct Variable {
    std::string name;
    SymExpr upper; // inclusive; the lower bound is zero
  };
  /// Floor division and remainder where they can be decided.
  std::optional<std::pair<SymExpr, SymExpr>> divide(const SymExpr &a, const SymExpr &b);
  bool hasElements(const SymExpr &e) const;
  bool assumeOthers(SmallVectorImpl<IndexExpr> &terms, bool hold);
  bool implies(const IndexExpr &a, const IndexExpr &b);
  bool dropImplied(SmallVectorImpl<IndexExpr> &terms, bool all);
  void assumeNotEmpty(const SymExpr &size);

  IndexExpr compute(Value v, ArrayRef<IndexExpr> where);
  IndexExpr opaque(Value v, ArrayRef<IndexExpr> where);

  SmallVector<IndexExpr> indices;
  std::vector<Variable> variables;
  std::set<std::string> positive; // symbols that are at least 1
  SmallVector<SymExpr> notEmpty;  // sums that are
  std::map<std::string, IndexExpr> elements;
  std::map<std::string, std::string> elementNames;
  std::map<std::string, IndexExpr> cache;
  unsigned depth = 0;

  /// Simplification comes to its end in files that are not sensible: what is built then is right,
  /// and not simple.
  static constexpr unsigned kMaxSteps = 10000;
  unsigned steps = 0;
  bool isSpent() const { return steps > kMaxSteps; }
};

/// Attaches what ops' elements are as functions of their indices.
void registerIndexModels(DialectRegistry &registry);
SmallVector<OpConcern> getIndexConcerns();

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_INDEXANALYSIS_H
