//===- IndexAnalysis.h - Values as functions of their indices ---*- C++ -*-===//
//
// Describes a mask or a position tensor as a function of its indices, of the symbols of the file,
// and of elements of other tensors. Exporters build masks with Range, Expand, Concat, CumSum,
// GatherND and comparisons. Their elements are still simple, such as `j <= i and attention_mask[b,
// j] != 0`; this analysis recovers that form.
//
//   IndexAnalysis analysis({batch, 1, sequence, sequence});
//   IndexExpr e = analysis.at(mask, analysis.getIndices());
//   e.str()   // "_i3 - _i2 <= 0"
//
// `at` pulls indices back through each op (IndexOpInterface): element (i, j) of a transpose is
// element (j, i) of its operand; an element of a concatenation selects between the operands. For an
// op without a model, the result is an opaque element of that op's result, which is always correct.
// Simplification assumes that indices are within their dimensions and that an indexed dimension is
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
  /// Returns the polynomial times the number, times all elements.
  static IndexExpr scaled(ArrayRef<IndexExpr> elements, double number, const ::tpc::SymExpr &e);

  Kind getKind() const;
  bool isInteger() const { return getKind() == Kind::Integer; }
  bool isTrue() const;
  bool isFalse() const;
  /// Returns the constant of an integer, a number or a truth value.
  std::optional<double> getConstant() const;
  double getNumber() const; // Number, Scaled
  /// Integer, Scaled: the polynomial. Compare: the polynomial that is compared with zero.
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

  /// Creates an analysis over one index for each of these dimensions, which are assumed not to be
  /// empty.
  explicit IndexAnalysis(ArrayRef<SymExpr> sizes);

  ArrayRef<IndexExpr> getIndices() const { return indices; }
  /// Returns the symbol of index `dim` in polynomials.
  static std::string indexName(unsigned dim) { return "_i" + std::to_string(dim); }

  /// Whether `e` consists only of sizes, without indices or elements. Names of indices and elements
  /// begin with an underscore; names of a file's symbols do not.
  static bool isSize(const SymExpr &e);

  /// Returns the element of `v` at these indices.
  IndexExpr at(Value v, ArrayRef<IndexExpr> where);
  /// Returns the element of `v`, broadcast to the analysis' sizes, at its indices.
  IndexExpr atBroadcast(Value v);

  /// Returns the tensor element that a symbol of a polynomial denotes, or null.
  const IndexExpr *getElement(StringRef symbol) const;

  // Proofs from the ranges of indices and symbols; false means "not proved".
  bool isNonNegative(const SymExpr &e);
  bool isAtMost(const SymExpr &a, const SymExpr &b) { return isNonNegative(b - a); }
  /// Returns e as first * name + second; nothing if the symbol occurs in another form.
  static std::optional<std::pair<SymExpr, SymExpr>> linearIn(const SymExpr &e,
                                                             const std::string &name);
  /// Bounds of an integer over all indices, as expressions over symbols only.
  std::optional<SymExpr> lowerBound(const SymExpr &e);
  std::optional<SymExpr> upperBound(const SymExpr &e);

  // Builders with simplification.
  IndexExpr compare(Predicate predicate, const SymExpr &difference);
  IndexExpr conjunction(ArrayRef<IndexExpr> terms);
  IndexExpr disjunction(ArrayRef<IndexExpr> terms);
  IndexExpr negation(const IndexExpr &e);
  IndexExpr select(const IndexExpr &c, const IndexExpr &a, const IndexExpr &b);
  /// Simplifies `e` under the assumption that `fact`, a truth value, is true.
  IndexExpr assume(const IndexExpr &e, const IndexExpr &fact);
  IndexExpr floorDiv(const SymExpr &a, const SymExpr &b);
  IndexExpr mod(const SymExpr &a, const SymExpr &b);
  IndexExpr substitute(const IndexExpr &e, const std::string &name, const SymExpr &by);
  /// Collects all symbols and indices in `e`, and those that its elements depend on.
  void collectSymbols(const IndexExpr &e, std::set<std::string> &out) const;

  // For models of ops.

  /// Returns a new variable with values from 0 to size - 1.
  IndexExpr freshIndex(const SymExpr &size);
  /// Applies `f` to the leaves of a tree of selects.
  IndexExpr mapLeaves(const IndexExpr &e, llvm::function_ref<IndexExpr(const IndexExpr &)> f);
  IndexExpr constantAt(ConstantOp op, ArrayRef<IndexExpr> where);

private:
  struct Variable {
    std::string name;
    SymExpr upper; // inclusive; the lower bound is zero
  };
  /// Returns floor quotient and remainder if they can be derived.
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
  SmallVector<SymExpr> notEmpty;  // sums that are at least 1
  std::map<std::string, IndexExpr> elements;
  std::map<std::string, std::string> elementNames;
  std::map<std::string, IndexExpr> cache;
  unsigned depth = 0;

  /// Limit for adversarial files. Beyond it, expressions are correct but no longer simplified.
  static constexpr unsigned kMaxSteps = 10000;
  unsigned steps = 0;
  bool isSpent() const { return steps > kMaxSteps; }
};

/// Attaches the index models of ops.
void registerIndexModels(DialectRegistry &registry);
SmallVector<CoverageColumn> getIndexCoverage();

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_INDEX_INDEXANALYSIS_H
