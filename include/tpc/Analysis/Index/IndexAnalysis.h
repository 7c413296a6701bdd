//===- IndexAnalysis.h - Symbolic elements of mask tensors ------*- C++ -*-===//
//
// Computes the elements of a mask or position tensor as an expression over its indices, the model's
// symbols, and elements of other tensors. Exporters build masks from Range, Expand, Concat, CumSum,
// GatherND and comparisons. The analysis recovers the closed form of an element, such as `j <= i
// and attention_mask[b, j] != 0`.
//
//   IndexAnalysis analysis({batch, 1, sequence, sequence});
//   IndexExpr e = analysis.at(mask, analysis.getIndices());
//   e.str()   // "_i3 - _i2 <= 0"
//
// `at` maps result indices to operand indices through each op (IndexOpInterface): element (i, j) of
// a transpose is element (j, i) of its operand; an element of a concatenation is a select between
// elements of the operands. The result of an op without a model is an opaque element, which is
// always correct. Simplification assumes that indices are in bounds and that indexed dimensions are
// not empty. Integers are treated as unbounded (shapes and positions fit their types), and
// integer-to-float conversions as exact.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_INDEX_INDEXANALYSIS_H
#define TPC_ANALYSIS_INDEX_INDEXANALYSIS_H

#include "tpc/Dialect/CoverageColumn.h"
#include "tpc/Dialect/Dist.h"

#include <set>

namespace mlir::tpc {

/// An immutable expression over indices.
class IndexExpr {
public:
  enum class Kind {
    Integer, // a polynomial over indices, symbols and integer elements
    Number,  // floating-point constant
    Truth,   // true or false
    Compare, // polynomial == 0, != 0 or <= 0
    And,
    Or,
    Select,  // condition, value, value
    Element, // floating-point or boolean element of a tensor; a boolean may be negated
    Scaled,  // a polynomial times floating-point elements and a number (slopes)
  };
  struct Node;

  IndexExpr() = default;
  static IndexExpr integer(const ::tpc::SymExpr &e);
  static IndexExpr number(double value);
  static IndexExpr truth(bool value);
  static IndexExpr element(Value tensor, ArrayRef<IndexExpr> indices, bool negated = false);
  /// Returns e * number * the product of `elements`.
  static IndexExpr scaled(ArrayRef<IndexExpr> elements, double number, const ::tpc::SymExpr &e);

  Kind getKind() const;
  bool isInteger() const { return getKind() == Kind::Integer; }
  bool isTrue() const;
  bool isFalse() const;
  /// Returns the constant of an integer, a number or a truth value.
  std::optional<double> getConstant() const;
  double getNumber() const; // Number, Scaled
  /// Returns the polynomial of an Integer or a Scaled, or the polynomial that a Compare compares
  /// with zero.
  const ::tpc::SymExpr &getPolynomial() const;
  Predicate getPredicate() const;      // Compare: EQ, NE or LE
  ArrayRef<IndexExpr> getArgs() const; // And, Or, Select, Element, Scaled: the elements
  Value getTensor() const;             // Element
  bool isNegated() const;              // Element
  /// Returns the canonical text, which is equal for equal expressions.
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

  /// Creates an analysis with one index for each dimension of `sizes`. Assumes that no dimension is
  /// empty.
  explicit IndexAnalysis(ArrayRef<SymExpr> sizes);

  ArrayRef<IndexExpr> getIndices() const { return indices; }
  /// Returns the symbol of index `dim` in polynomials.
  static std::string indexName(unsigned dim) { return "_i" + std::to_string(dim); }

  /// Whether `e` has only symbols of the model, no indices and no elements. Names of indices and
  /// elements begin with an underscore; names of symbols do not.
  static bool isSize(const SymExpr &e);

  /// Returns the element of `v` at these indices.
  IndexExpr at(Value v, ArrayRef<IndexExpr> where);
  /// Broadcasts `v` to the sizes of the analysis, and returns its element at getIndices().
  IndexExpr atBroadcast(Value v);

  /// Returns the tensor element that a symbol of a polynomial represents, or null.
  const IndexExpr *getElement(StringRef symbol) const;

  // Proofs from the ranges of indices and symbols; false means unknown.
  bool isNonNegative(const SymExpr &e);
  bool isAtMost(const SymExpr &a, const SymExpr &b) { return isNonNegative(b - a); }
  /// Returns (a, b) with e = a * name + b; nothing if `e` is not linear in `name`.
  static std::optional<std::pair<SymExpr, SymExpr>> linearIn(const SymExpr &e,
                                                             const std::string &name);
  /// Returns a bound of an integer over all indices, as an expression over symbols only.
  std::optional<SymExpr> lowerBound(const SymExpr &e);
  std::optional<SymExpr> upperBound(const SymExpr &e);

  // Builders with simplification.
  IndexExpr compare(Predicate predicate, const SymExpr &difference);
  IndexExpr conjunction(ArrayRef<IndexExpr> terms);
  IndexExpr disjunction(ArrayRef<IndexExpr> terms);
  IndexExpr negation(const IndexExpr &e);
  IndexExpr select(const IndexExpr &c, const IndexExpr &a, const IndexExpr &b);
  /// Simplifies `e` under the assumption that the boolean `fact` is true.
  IndexExpr assume(const IndexExpr &e, const IndexExpr &fact);
  IndexExpr floorDiv(const SymExpr &a, const SymExpr &b);
  IndexExpr mod(const SymExpr &a, const SymExpr &b);
  IndexExpr substitute(const IndexExpr &e, const std::string &name, const SymExpr &by);
  /// Collects all symbols and indices in `e` and in the indices of its elements.
  void collectSymbols(const IndexExpr &e, std::set<std::string> &out) const;

  // Used by the index models of ops.

  /// Returns a new index variable in [0, size).
  IndexExpr freshIndex(const SymExpr &size);
  /// Applies `f` to the leaves of a tree of selects.
  IndexExpr mapLeaves(const IndexExpr &e, llvm::function_ref<IndexExpr(const IndexExpr &)> f);
  IndexExpr constantAt(ConstantOp op, ArrayRef<IndexExpr> where);

private:
  struct Variable {
    std::string name;
    SymExpr upper; // inclusive; the lower bound is zero
  };
  /// Returns the floor quotient and the remainder if they can be derived.
  std::optional<std::pair<SymExpr, SymExpr>> divide(const SymExpr &a, const SymExpr &b);
  bool hasElements(const SymExpr &e) const;
  bool assumeOthers(SmallVectorImpl<IndexExpr> &terms, bool assumed);
  bool implies(const IndexExpr &a, const IndexExpr &b);
  bool dropImplied(SmallVectorImpl<IndexExpr> &terms, bool all);
  void assumeNotEmpty(const SymExpr &size);

  IndexExpr compute(Value v, ArrayRef<IndexExpr> where);
  IndexExpr opaque(Value v, ArrayRef<IndexExpr> where);

  SmallVector<IndexExpr> indices;
  std::vector<Variable> variables;
  std::set<std::string> positive; // symbols that are at least 1
  SmallVector<SymExpr> notEmpty;  // sums that are at least 1
  std::map<std::string, IndexExpr> elements;
  std::map<std::string, std::string> elementNames;
  std::map<std::string, IndexExpr> cache;
  unsigned depth = 0;

  /// Limit for adversarial files. After this number of steps, expressions are correct but not
  /// simplified.
  static constexpr unsigned kMaxSteps = 10000;
  unsigned steps = 0;
  bool isOutOfSteps() const { return steps > kMaxSteps; }
};

/// Attaches the index models of ops.
void registerIndexModels(DialectRegistry &registry);
SmallVector<CoverageColumn> getIndexCoverage();

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_INDEXANALYSIS_H
