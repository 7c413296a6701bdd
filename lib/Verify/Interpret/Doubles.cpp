//===- Doubles.cpp - Arithmetic of the interpreter with doubles -----------===//

#include "Arithmetic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

double Doubles::makeWeight(uint64_t key, int64_t element, int64_t fanIn, double gain) {
  double uniform = random(key, uint64_t(element));
  // Vectors are biases and scales, around one third; matrices preserve the magnitude of
  // activations.
  return gain * (fanIn == 0 ? 0.3 + 0.3 * uniform : 1.7 * uniform / std::sqrt(double(fanIn)));
}

void Doubles::softmax(MutableArrayRef<double> row, ArrayRef<char> visible, bool uniform) {
  double top = -INFINITY, total = 0;
  for (auto [x, sees] : llvm::zip(row, visible))
    top = sees ? std::max(top, x) : top;
  bool none = top == -INFINITY && !llvm::is_contained(visible, char(true));
  for (auto [x, sees] : llvm::zip(row, visible))
    total += x = none ? uniform : sees ? std::exp(x - top) : 0;
  for (double &x : row)
    x = none && !uniform ? 0 : x / total;
}

double Doubles::getSpread(ArrayRef<double> row, ArrayRef<char> visible) {
  double lowest = INFINITY, largest = -INFINITY;
  for (auto [x, sees] : llvm::zip(row, visible)) {
    lowest = sees ? std::min(lowest, x) : lowest;
    largest = sees ? std::max(largest, x) : largest;
  }
  return largest - lowest;
}

void Doubles::normalize(MutableArrayRef<double> row, double epsilon, bool center) {
  double mean = 0, variance = 0, n = row.size();
  for (double x : row)
    mean += center ? x / n : 0;
  for (double x : row)
    variance += (x - mean) * (x - mean) / n;
  for (double &x : row)
    x = (x - mean) / std::sqrt(variance + epsilon);
}
