//===- SampleValues.cpp - Comparison of tensors by samples ----------------===//

#include "SampleValues.h"

#include <cmath>
#include <random>
#include <set>

using namespace mlir;
using namespace mlir::tpc::frontend;

/// Number of elements that a comparison reads.
static constexpr int kSamples = 64;

/// Calls `callback` with numbers of the same elements, NaN if they cannot be read, until it returns
/// false.
static void sample(TensorReader &reader, const TensorSource &own, const TensorSource &stored,
                   bool isTransposed, llvm::function_ref<bool(double, double)> callback) {
  ArrayRef<int64_t> shape = own.type.getShape();
  int64_t count = own.elements(), columns = shape.empty() ? 1 : shape.back(),
          rows = shape.size() < 2 ? 1 : shape[shape.size() - 2], block = rows * columns;
  std::mt19937_64 random(1);
  auto read = [&](const TensorSource &source, int64_t index) {
    llvm::Expected<double> number = reader.readNumber(source, index);
    if (number)
      return *number;
    llvm::consumeError(number.takeError()); // reported when the weight is loaded
    return double(NAN);
  };
  for (int i = 0; i < kSamples; ++i) {
    int64_t index = int64_t(random() % uint64_t(count)), within = index % block,
            transposed = index - within + within % columns * rows + within / columns;
    if (!callback(read(own, index), read(stored, isTransposed ? transposed : index)))
      return;
  }
}

bool mlir::tpc::frontend::haveSameValues(TensorReader &reader, const TensorSource &own,
                                         const TensorSource &stored, bool isTransposed) {
  bool isEqual = true;
  std::set<double> values;
  sample(reader, own, stored, isTransposed, [&](double a, double b) {
    isEqual = std::abs(a - b) <= std::abs(b) / 128; // false for NaN
    if (isEqual)
      values.insert(a);
    return isEqual;
  });
  return isEqual && values.size() > kSamples / 4;
}

double mlir::tpc::frontend::correlate(TensorReader &reader, const TensorSource &own,
                                      const TensorSource &stored, bool isTransposed) {
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  sample(reader, own, stored, isTransposed, [&](double a, double b) {
    x += a;
    y += b;
    xx += a * a;
    yy += b * b;
    xy += a * b;
    return true;
  });
  return (kSamples * xy - x * y) / std::sqrt((kSamples * xx - x * x) * (kSamples * yy - y * y));
}
