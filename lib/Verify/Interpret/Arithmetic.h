//===- Arithmetic.h - Arithmetic domains of the interpreter -----*- C++ -*-===//
//
// The interpreter runs a program either with doubles or with elements of the prime field of size p
// = 2^61 - 1. Linear ops are exact in the field, so reordered sums are equal. A non-linear op is a
// keyed hash of its inputs: different inputs have different outputs, except with a probability of
// about 2^-61. Integers and booleans are exact in both domains.
//
// Both classes have the same members; they are template arguments of the interpreter.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H
#define TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Interfaces/ShardingRule.h"

#include <cmath>

namespace mlir::tpc::interpret {

inline constexpr uint64_t prime = (uint64_t(1) << 61) - 1;

/// Returns a pseudorandom function of `key` and `x`, less than the prime.
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

/// Scalar function of an element-wise op, with one element of each operand.
template <typename Element> using Scalar = std::function<Element(ArrayRef<Element>)>;

struct Doubles {
  using Element = double;
  /// Prefix of error messages.
  static constexpr llvm::StringLiteral what = "evaluated, ";
  /// Whether random masks may hide all keys of a query. Not with doubles, because an imported model
  /// may divide by the number of visible keys.
  static constexpr bool masksHideRows = false;

  /// Accumulator of a sum of products.
  struct Sum {
    double sum = 0;
    void add(double a, double b) { sum += a * b; }
    double get() const { return sum; }
  };
  static double add(double a, double b) { return a + b; }
  static double negate(double a) { return -a; }
  static double multiply(double a, double b) { return a * b; }
  static bool less(double a, double b) { return a < b; }
  static double lowest() { return -INFINITY; }
  static double largest() { return INFINITY; }
  static double fromInteger(int64_t x) { return double(x); }
  static int64_t toInteger(double x) { return int64_t(x); }
  static double fromNumber(double x) { return x; }
  /// Returns 1/n.
  static double inverse(int64_t n) { return 1 / double(n); }
  /// Returns the result of a lookup that is out of bounds.
  static double nowhere(bool /*isNumber*/) { return NAN; }
  /// Returns whether an element's values on two ranks are equal, up to rounding.
  static bool agree(double a, double b) {
    return a == b || std::fabs(a - b) <= 1e-9 * std::max(1.0, std::fabs(a)) ||
           (std::isnan(a) && std::isnan(b));
  }
  static double random(uint64_t key, uint64_t x) { // [-1, 1)
    return double(hash(key, x)) / double(uint64_t(1) << 60) - 1;
  }
  /// Returns a random element of a weight; `fanIn`: size of the dimension that a matmul reduces.
  static double makeWeight(uint64_t key, int64_t element, int64_t fanIn, double gain);

  /// Computes the softmax of a row of scaled scores. If no key is visible, the results are zero, or
  /// equal if `uniform`.
  static void softmax(MutableArrayRef<double> row, ArrayRef<char> visible, bool uniform);
  /// Returns whether an addend of a score hides the key.
  static bool hides(double score) { return score == -INFINITY; }
  static double cap(double score, double limit) {
    return limit == 0 ? score : limit * std::tanh(score / limit);
  }
  /// Returns the magnitude of a number, for Coverage.h.
  static double measure(double x) { return std::fabs(x); }
  /// Returns the largest visible score minus the smallest.
  static double getSpread(ArrayRef<double> row, ArrayRef<char> visible);
  /// Subtracts the mean (if `center`) and divides by the standard deviation.
  static void normalize(MutableArrayRef<double> row, double epsilon, bool center);
};

struct Field {
  using Element = uint64_t; // less than `prime`
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
      if (++count == 32) { // each product is below 2^122
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
  /// Elements greater than prime / 2 are negative.
  static bool less(uint64_t a, uint64_t b) { return toInteger(a) < toInteger(b); }
  static uint64_t lowest() { return prime / 2 + 1; }
  static uint64_t largest() { return prime / 2; }
  static uint64_t fromInteger(int64_t x) {
    int64_t rest = x % int64_t(prime);
    return rest < 0 ? rest + prime : rest;
  }
  static int64_t toInteger(uint64_t x) { return x > prime / 2 ? -int64_t(prime - x) : int64_t(x); }
  /// Maps 0 to 0, and 1/n to the inverse of n. Other numbers are hashed.
  static uint64_t fromNumber(double x);
  static uint64_t inverse(int64_t n);
  /// Returns zero for floats, because lookups of floats are summed over ranks; otherwise an
  /// arbitrary constant.
  static uint64_t nowhere(bool isNumber) { return isNumber ? 0 : 0x5EED; }
  static bool agree(uint64_t a, uint64_t b) { return a == b; }
  static uint64_t random(uint64_t key, uint64_t x) { return hash(key, x); }
  static uint64_t makeWeight(uint64_t key, int64_t element, int64_t /*fanIn*/, double /*gain*/) {
    return hash(key, fromInteger(element));
  }

  static void softmax(MutableArrayRef<uint64_t> row, ArrayRef<char> visible, bool uniform);
  static bool hides(uint64_t /*score*/) { return false; }
  static uint64_t cap(uint64_t score, double limit);
  // Elements of the field have no magnitude.
  static double measure(uint64_t /*x*/) { return INFINITY; }
  static double getSpread(ArrayRef<uint64_t>, ArrayRef<char>) { return INFINITY; }
  static void normalize(MutableArrayRef<uint64_t> row, double epsilon, bool center);
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_ARITHMETIC_H
