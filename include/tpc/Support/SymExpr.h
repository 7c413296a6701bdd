//===- SymExpr.h - Symbolic sizes -------------------------------*- C++ -*-===//
//
// A size that is a polynomial with integer coefficients over named symbols (`batch`, `sequence`).
// floordiv, mod, min and max of two such sizes may appear as atoms. Two expressions are equal
// exactly if their canonical forms are the same text, so sizes can be compared, hashed and stored
// as text. Copies share their representation, so they are cheap. Plain C++: used by the dialect,
// the importer, the driver and tests.
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
  /// Returns nothing, and a message in `error` if given, for any other text and for a coefficient
  /// that exceeds 64 bits.
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

  /// Whether a coefficient exceeded 64 bits. Such an expression is not equal to any other, not even
  /// to itself, and evaluates to nothing.
  bool isOverflow() const { return body->overflow; }
  bool isConstant() const;
  bool isConstant(int64_t v) const { return asConstant() == v; }
  std::optional<int64_t> asConstant() const;
  /// True for c * s1 * s2 * ... (a single term).
  bool isMonomial() const { return !isOverflow() && getTerms().size() <= 1; }
  /// Returns the factors of a monomial, the coefficient first unless it is 1.
  std::vector<SymExpr> monomialFactors() const;

  /// Returns q with q * d == *this, as polynomials with integer coefficients (d not zero), if it
  /// exists.
  std::optional<SymExpr> divideExact(const SymExpr &d) const;

  /// Evaluates for given symbols. Nothing if a symbol is missing, a value exceeds 64 bits, or a
  /// divisor is not positive.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t> &values) const;
  SymExpr substitute(const std::map<std::string, SymExpr> &values) const;
  void collectSymbols(std::set<std::string> &out) const;

  /// Returns the minimum over all symbols >= `atLeast`, if the signs of the terms determine it;
  /// nothing otherwise.
  std::optional<int64_t> lowerBound(int64_t atLeast = 0) const;

  //===--- structure, for code that lowers expressions --------------------===//
  struct Atom {
    AtomKind kind;
    std::string name; // of a symbol
    std::shared_ptr<const std::pair<SymExpr, SymExpr>> args;
    std::string key; // canonical text
  };
  struct Term {
    int64_t coefficient;
    std::vector<Atom> atoms; // sorted by key, repeated for powers
    std::string key() const;
  };
  const std::vector<Term> &getTerms() const { return body->terms; }
  /// Returns the expression that consists of this term.
  static SymExpr fromTerm(const Term &term) { return fromTerms({term}); }

private:
  /// Shared representation of an expression. Immutable, as copies share it.
  struct Body {
    std::vector<Term> terms; // higher degrees first, then by atoms; none is zero
    bool overflow = false;
  };
  using BodyRef = std::shared_ptr<const Body>;
  explicit SymExpr(BodyRef body) : body(std::move(body)) {}
  static BodyRef makeConstant(int64_t value);
  /// Brings the terms into canonical form.
  static SymExpr fromTerms(std::vector<Term> terms, bool overflow = false);
  static SymExpr fromAtom(Atom atom);
  static SymExpr function(AtomKind kind, const SymExpr &a, const SymExpr &b);
  static SymExpr overflowed();
  BodyRef body;
};

inline SymExpr operator*(int64_t a, const SymExpr &b) { return SymExpr(a) * b; }
inline SymExpr operator+(int64_t a, const SymExpr &b) { return SymExpr(a) + b; }

/// Number of elements of shard `coordinate` when `size` is split over `parts`, and its offset. This
/// is the only balanced split in the project (docs/design/types.md).
inline int64_t shardSize(int64_t size, int64_t parts, int64_t coordinate) {
  return size / parts + (coordinate < size % parts ? 1 : 0);
}
inline int64_t shardBegin(int64_t size, int64_t parts, int64_t coordinate) {
  int64_t rest = size % parts;
  return coordinate * (size / parts) + (coordinate < rest ? coordinate : rest);
}

} // namespace tpc

#endif // TPC_SUPPORT_SYMEXPR_H
