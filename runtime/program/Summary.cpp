//===- Summary.cpp - One-line summary of an output ------------------------===//

#include "program/Summary.h"
#include <cmath>
#include <cstdio>

namespace tpc::rt {
namespace {

bool isFloat(tpc_dtype dtype) {
  return dtype == TPC_F32 || dtype == TPC_F64 || dtype == TPC_F16 || dtype == TPC_BF16;
}

struct Statistics {
  int64_t finite = 0, nan = 0, infinite = 0, firstNan = -1;
  double low = INFINITY, high = -INFINITY, sum = 0;

  explicit Statistics(const Tensor &tensor) {
    for (int64_t i = 0, count = tensor.count(); i < count; ++i) {
      double value = tensor.dtype == TPC_F32 ? tensor.as<float>()[i] : numberAt(tensor, i);
      if (std::isnan(value)) {
        firstNan = nan++ ? firstNan : i;
      } else if (std::isinf(value)) {
        ++infinite;
      } else {
        ++finite;
        sum += value;
        low = std::fmin(low, value);
        high = std::fmax(high, value);
      }
    }
  }
};

} // namespace

std::string summaryOf(const std::string &name, const Tensor &tensor) {
  std::string text = name + "  " + dtypeName(tensor.dtype) + shapeText(tensor.shape);
  if (!isFloat(tensor.dtype))
    return text;
  Statistics all(tensor);
  if (all.finite > 0) {
    char numbers[128];
    std::snprintf(numbers, sizeof numbers, "  min %.6g  max %.6g  mean %.6g", all.low, all.high,
                  all.sum / static_cast<double>(all.finite));
    text += numbers;
  }
  if (all.nan + all.infinite == 0)
    return text;
  return text + (all.finite ? "  of " + std::to_string(all.finite) + " finite elements" : "") +
         "; not finite: " + std::to_string(all.nan) + " NaN, " + std::to_string(all.infinite) +
         " infinite";
}

std::string warningOf(const std::string &name, const Tensor &tensor) {
  if (!isFloat(tensor.dtype))
    return "";
  Statistics all(tensor);
  if (all.nan == 0)
    return "";
  return "output '" + name + "': " + std::to_string(all.nan) + " of " +
         std::to_string(tensor.count()) + " elements are NaN, the first at " +
         shapeText(positionOf(all.firstNan, tensor.shape)) +
         " (are there NaN among the inputs or the weights?)";
}

} // namespace tpc::rt
