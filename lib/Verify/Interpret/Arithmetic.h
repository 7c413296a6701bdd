//===- Arithmetic.h - Two kinds of numbers to run programs with -*- C++ -*-===//
//
// A program is run either with doubles, as it is meant, or with elements of the field of
// p = 2^61 - 1 elements. What is linear is exact in the field, so that sums in another order are
// the same sums; what is not linear is a keyed hash of its exact inputs, so that any other input
// gives, but for a chance of about 2^-61, another output. Integers and truth values are themselves
// in both.
//
// Both classes have the same members; the interpreter takes one of them as its parameter.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H
#define TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Interfaces/ShardingRule.h"

#include <cmath>

namespace mlir::tpc::interpret {

inline constexpr uint64_t prime = (uint64_t(1) << 61) - 1;

/// A random function of `key` and `x`, below the prime.
inline uint64_t hash(uint64_t key, uint64_t x) {
  uint64_t h = (x + key * 0x9E3779B97F4A7C15ull) ^ 0xD6E8FEB86659FD93ull;
  for (int i = 0; i < 3; ++i) {
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull + 2 * key;
    h ^= h >> 29;
  }
  return h % prime;
}
uint64_t hashText(StringRef text);

/// What an element-wise op computes of one element of each operand.
template <typename Element> using Scalar = std::function<Element(ArrayRef<Element>)>;

struct Doubles {
  using Element = double;
  /// How errors begin.
  static constexpr llvm::StringLiteral what = "evaluated, ";
  /// Rows of a mask hide some keys, never all: a model as it was imported may divide by their sum.
  static constexpr bool masksHideRows = false;

  /// A sum of products.
  struct Sum {
    double sum = 0;
    void add(double a, double b) { sum += a * b; }
    double get() const { return sum; }
  };
  static double add(double a, double b) { return a + b; }
  static double negate(double a) { return -a; }
  static double multiply(double a, double b) { return a * b; }
  static bool less(double a, double b) { return a < b; }
  static double least() { return -INFINITY; }
  static double largest() { return INFINITY; }
  static double fromInteger(int64_t x) { return double(x); }
  static int64_t toInteger(double x) { return int64_t(x); }
  static double fromNumber(double x) { return x; }
  /// One part of n.
  static double inverse(int64_t n) { return 1 / double(n); }
  /// What an index outside of a table gives.
  static double nowhere(bool /*isNumber*/) { return NAN; }
  /// Whether ranks may both have this for one element.
  static bool agree(double a, double b) {
    return a == b || std::fabs(a - b) <= 1e-9 * std::max(1.0, std::fabs(a)) ||
           (std::isnan(a) && std::isnan(b));
  }
  static double random(uint64_t key, uint64_t x) { // [-1, 1)
    return double(hash(key, x)) / double(uint64_t(1) << 60) - 1;
  }
  /// An element of a weight; `fanIn` elements of it are added up in a product.
  static double makeWeight(uint64_t key, int64_t element, int64_t fanIn, double gain);

  /// Scores, scaled, become weights that add up to one. If none is visible they are all zero, or
  /// all the same.
  static void softmax(MutableArrayRef<double> row, ArrayRef<char> visible, bool uniform);
  /// Whether an addend of a score hides the key.
  static bool hides(double score) { return score == -INFINITY; }
  static double cap(double score, double limit) {
    return limit == 0 ? score : limit * std::tanh(score / limit);
  }
  /// How large a number is, for facts that depend on it.
  static double measure(double x) { return std::fabs(x); }
  /// The largest of the visible scores less the smallest.
  static double getSpread(ArrayRef<double> row, ArrayRef<char> visible);
  /// Subtracts the mean (if `center`) and divides by the deviation.
  static void normalize(MutableArrayRef<double> row, double epsilon, bool center);
};

struct Field {
  using Element = uint64_t; // below prime
  static constexpr llvm::StringLiteral what = "run at small sizes, ";
  static constexpr bool masksHideRows = true;

  static uint64_t reduce(unsigned __int128 x) {
    x = (x & prime) + (x >> 61);
    x = (x & prime) + (x >> 61);
    return uint64_t(x >= prime ? x - prime : x);
  }
  struct Sum {
    unsigned __int128 sum = 0;
    unsigned count = 0;
    void add(uint64_t a, uint64_t b) {
      sum += (unsigned __int128)a * b;
      if (++count == 32) { // of below 2^122 each
        sum = reduce(sum);
        count = 0;
      }
    }
    uint64_t get() const { return reduce(sum); }
  };
  static uint64_t add(uint64_t a, uint64_t b) {
    uint64_t sum = a + b;
    return sum >= prime ? sum - prime : sum;
  }
  static uint64_t negate(uint64_t a) { return a == 0 ? 0 : prime - a; }
  static uint64_t multiply(uint64_t a, uint64_t b) { return reduce((unsigned __int128)a * b); }
  /// Those above the middle are negative.
  static bool less(uint64_t a, uint64_t b) { return toInteger(a) < toInteger(b); }
  static uint64_t least() { return prime / 2 + 1; }
  static uint64_t largest() { return prime / 2; }
  static uint64_t fromInteger(int64_t x) {
    int64_t rest = x % int64_t(prime);
    return rest < 0 ? rest + prime : rest;
  }
  static int64_t toInteger(uint64_t x) { return x > prime / 2 ? -int64_t(prime - x) : int64_t(x); }
  /// Zero is zero, 1/n the inverse of n; other numbers are hashes of themselves.
  static uint64_t fromNumber(double x);
  static uint64_t inverse(int64_t n);
  /// Of numbers parts are added: zero, which counts nothing.
  static uint64_t nowhere(bool isNumber) { return isNumber ? 0 : 0x5EED; }
  static bool agree(uint64_t a, uint64_t b) { return a == b; }
  static uint64_t random(uint64_t key, uint64_t x) { return hash(key, x); }
  static uint64_t makeWeight(uint64_t key, int64_t element, int64_t /*fanIn*/, double /*gain*/) {
    return hash(key, fromInteger(element));
  }

  static void softmax(MutableArrayRef<uint64_t> row, ArrayRef<char> visible, bool uniform);
  static bool hides(uint64_t /*score*/) { return false; }
  static uint64_t cap(uint64_t score, double limit);
  // Any two numbers are far from each other, and from all others.
  static double measure(uint64_t /*x*/) { return INFINITY; }
  static double getSpread(ArrayRef<uint64_t>, ArrayRef<char>) { return INFINITY; }
  static void normalize(MutableArrayRef<uint64_t> row, double epsilon, bool center);
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H
