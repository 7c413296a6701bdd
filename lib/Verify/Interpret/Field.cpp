//===- Field.cpp - Arithmetic of the interpreter over a prime field -------===//

#include "Arithmetic.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/fnv1a.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

uint64_t interpret::hashText(StringRef text) {
  uint64_t h = ::tpc::fnv1a(text);
  return h ^ h >> 31;
}

static uint64_t hashNumber(uint64_t key, double x) {
  return hash(key, llvm::bit_cast<uint64_t>(x) % prime);
}

/// Returns x to the power of prime - 2, by Fermat the inverse of x.
static uint64_t invert(uint64_t x) {
  uint64_t result = 1;
  for (uint64_t power = prime - 2; power; power >>= 1, x = Field::multiply(x, x))
    if (power & 1)
      result = Field::multiply(result, x);
  return result;
}

uint64_t Field::fromNumber(double x) {
  static const uint64_t key = hashText("number");
  if (x == 0)
    return 0;
  // Constants 1/n, in f64 or f32, are inverses of n, so that the mean of repeated values is exact.
  double n = std::round(1 / x);
  if (n >= 2 && n <= 1 << 22 && (x == 1 / n || x == double(float(1 / n))))
    return invert(fromInteger(int64_t(n)));
  return hashNumber(key, x);
}

uint64_t Field::inverse(int64_t n) {
  static const uint64_t key = hashText("inverse");
  return hash(key, fromInteger(n));
}

/// A result is the hash of the score, times a hash of the sum of all hashes.
void Field::softmax(MutableArrayRef<uint64_t> row, ArrayRef<char> visible, bool uniform) {
  static const uint64_t key = hashText("softmax");
  bool none = !llvm::is_contained(visible, char(true));
  uint64_t total = 0;
  for (auto [x, sees] : llvm::zip(row, visible))
    total = add(total, x = none ? uniform : sees ? hash(key, x) : 0);
  uint64_t factor = hash(key + 1, total);
  for (uint64_t &x : row)
    x = multiply(x, factor);
}

uint64_t Field::cap(uint64_t score, double limit) {
  static const uint64_t key = hashText("cap");
  return limit == 0 ? score : hash(hashNumber(key, limit), score);
}

/// Replaces x by (x - f(sum of x)) g(sum of x, sum of x^2), where f and g are hashes. Without
/// `center`, f is 0 and g depends only on the sum of x^2.
void Field::normalize(MutableArrayRef<uint64_t> row, double epsilon, bool center) {
  static const uint64_t text = hashText("norm");
  uint64_t key = hashNumber(text + center, epsilon);
  Sum sum, squares;
  for (uint64_t x : row) {
    sum.add(x, 1);
    squares.add(x, x);
  }
  uint64_t mean = center ? hash(key + 1, sum.get()) : 0;
  uint64_t factor = hash(key + 2, add(squares.get(), hash(key + 3, mean)));
  for (uint64_t &x : row)
    x = multiply(add(x, negate(mean)), factor);
}
