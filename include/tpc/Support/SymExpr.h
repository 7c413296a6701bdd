//===- SymExpr.h - Symbolic sizes -------------------------------*- C++ -*-===//
//
// A SymExpr is a polynomial with integer coefficients over atoms: named symbols (`batch`,
// `sequence`), and floordiv, mod, min and max of two SymExprs. Expressions are equal if and only if
// their canonical texts are equal, so they can be compared, hashed and stored as text. Copies are
// cheap, because they share an immutable representation. Does not depend on MLIR.
//
//   SymExpr b = SymExpr::symbol("batch"), s = SymExpr::symbol("sequence");
//   (b * s + 2 * s).str()            // "batch*sequence + 2*sequence"
//   (b * s).divideExact(s)->str()    // "batch"
//   SymExpr::parse("((seq**2)//seq)")->str()   // "seq"
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_SYMEXPR_H
#define TPC_SUPPORT_SYMEXPR_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

class SymExpr {
public:
  enum class AtomKind { Symbol, FloorDiv, Mod, Min, Max };

  /// The constant `value`.
  SymExpr(int64_t value = 0);
  static SymExpr symbol(std::string_view name);

  /// Parses integers, symbols ([A-Za-z_][A-Za-z0-9_.]*), `+ - *`, `//` or
  /// infix `floordiv`, `%` or infix `mod`, `**` with a small constant,
  /// `min(a, b)`, `max(a, b)`, `floordiv(a, b)`, `mod(a, b)` and parentheses.
  /// On a syntax error, or if a coefficient exceeds 64 bits, returns nothing and sets `error` (if
  /// not null).
  static std::optional<SymExpr> parse(std::string_view text, std::string *error = nullptr);

  /// Returns the canonical text; parse(str()) == *this.
  std::string str() const;

  SymExpr operator+(const SymExpr &o) const;
  SymExpr operator-(const SymExpr &o) const;
  SymExpr operator*(const SymExpr &o) const;
  SymExpr operator-() const { return SymExpr(0) - *this; }
  static SymExpr floorDiv(const SymExpr &a, const SymExpr &b);
  static SymExpr mod(const SymExpr &a, const SymExpr &b);
  static SymExpr min(const SymExpr &a, const SymExpr &b);
  static SymExpr max(const SymExpr &a, const SymExpr &b);

  bool operator==(const SymExpr &o) const;
  bool operator!=(const SymExpr &o) const { return !(*this == o); }
  bool operator<(const SymExpr &o) const { return str() < o.str(); }

  /// Whether a coefficient exceeded 64 bits. Such an expression is not equal to any expression,
  /// including itself, and has no value.
  bool isOverflow() const { return body->overflow; }
  bool isConstant() const;
  bool isConstant(int64_t v) const { return asConstant() == v; }
  std::optional<int64_t> asConstant() const;
  /// Whether the expression has at most one term: c * s1 * s2 * ...
  bool isMonomial() const { return !isOverflow() && getTerms().size() <= 1; }
  /// Returns the factors of a monomial, the coefficient first unless it is 1.
  std::vector<SymExpr> monomialFactors() const;

  /// Returns the polynomial q with integer coefficients and q * d == *this, if it exists. Requires
  /// d != 0.
  std::optional<SymExpr> divideExact(const SymExpr &d) const;

  /// Evaluates the expression; nothing if a symbol is missing in `values`, a value exceeds 64 bits,
  /// or a divisor is not positive.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t> &values) const;
  SymExpr substitute(const std::map<std::string, SymExpr> &values) const;
  void collectSymbols(std::set<std::string> &out) const;

  /// Returns the minimum under the assumption that all symbols are >= `atLeast`; nothing if the
  /// signs of the terms do not determine it.
  std::optional<int64_t> lowerBound(int64_t atLeast = 0) const;

  //===--- structure, for lowering of expressions -------------------------===//
  struct Atom {
    AtomKind kind;
    std::string name; // if the atom is a symbol
    std::shared_ptr<const std::pair<SymExpr, SymExpr>> args;
    std::string key; // canonical text
  };
  struct Term {
    int64_t coefficient;
    std::vector<Atom> atoms; // sorted by key, repeated for powers
    std::string key() const;
  };
  const std::vector<Term> &getTerms() const { return body->terms; }
  /// Returns an expression with only this term.
  static SymExpr fromTerm(const Term &term) { return fromTerms({term}); }

private:
  /// Shared representation of an expression. Immutable, as copies share it.
  struct Body {
    std::vector<Term> terms; // by descending degree, then by atoms; no zero coefficients
    bool overflow = false;
  };
  using BodyRef = std::shared_ptr<const Body>;
  explicit SymExpr(BodyRef body) : body(std::move(body)) {}
  static BodyRef makeConstant(int64_t value);
  /// Canonicalizes the terms.
  static SymExpr fromTerms(std::vector<Term> terms, bool overflow = false);
  static SymExpr fromAtom(Atom atom);
  static SymExpr function(AtomKind kind, const SymExpr &a, const SymExpr &b);
  static SymExpr overflowed();
  BodyRef body;
};

inline SymExpr operator*(int64_t a, const SymExpr &b) { return SymExpr(a) * b; }
inline SymExpr operator+(int64_t a, const SymExpr &b) { return SymExpr(a) + b; }

/// Returns the size (or the offset) of shard `coordinate` in a balanced split of `size` elements
/// into `shards` shards (docs/design/types.md). All splits in the project are of this form.
inline int64_t shardSize(int64_t size, int64_t shards, int64_t coordinate) {
  return size / shards + (coordinate < size % shards ? 1 : 0);
}
inline int64_t shardBegin(int64_t size, int64_t shards, int64_t coordinate) {
  int64_t remainder = size % shards;
  return coordinate * (size / shards) + (coordinate < remainder ? coordinate : remainder);
}

} // namespace tpc

#endif // TPC_SUPPORT_SYMEXPR_H
