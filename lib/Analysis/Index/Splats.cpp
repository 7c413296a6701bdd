//===- Splats.cpp - Splat values ------------------------------------------===//

#include "tpc/Analysis/Index/Splats.h"
#include "tpc/Dialect/Elements.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static std::optional<double> integerAsDouble(int64_t n) {
  if (std::abs((double)n) > 9007199254740992.0) // 2^53
    return std::nullopt;
  return (double)n;
}

/// Limit on the length of op chains, because files are untrusted.
static constexpr int kMaxSplatDepth = 64;

static std::optional<double> findSplat(Value v, int depth) {
  Operation *op = v.getDefiningOp();
  if (!op || depth > kMaxSplatDepth)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || !dense.isSplat())
      return std::nullopt;
    Type element = dense.getElementType();
    if (isa<FloatType>(element))
      return dense.getSplatValue<llvm::APFloat>().convertToDouble();
    llvm::APInt value = dense.getSplatValue<llvm::APInt>();
    return integerAsDouble(isUnsigned(element) ? (int64_t)value.getZExtValue()
                                               : value.getSExtValue());
  }
  if (auto size = dyn_cast<SizeOp>(op)) {
    auto n = size.getExpr().asConstant();
    return n ? integerAsDouble(*n) : std::nullopt;
  }
  if (isa<MovementOpInterface>(op))
    return findSplat(op->getOperand(0), depth + 1);
  // Only unary ops: chains of binary ops could have exponentially many paths.
  if (isa<ScalarOpInterface>(op) && op->getNumOperands() == 1)
    if (auto inner = findSplat(op->getOperand(0), depth + 1))
      return evaluateScalar(op, {*inner});
  return std::nullopt;
}

std::optional<double> mlir::tpc::getSplat(Value v) { return findSplat(v, 0); }

bool mlir::tpc::isSplatNear(Value v, double number, double tolerance) {
  auto splat = getSplat(v);
  return splat && std::abs(*splat - number) <= tolerance * std::abs(number);
}

std::optional<double> mlir::tpc::evaluateScalar(Operation *op, ArrayRef<double> x) {
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar)
    return std::nullopt;
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  double r = roundTo(element, scalar.evaluateScalar(x));
  // An integer result must be in the range of its type, and exactly representable as a double.
  if (!isa<FloatType>(element)) {
    unsigned width = element.getIntOrFloatBitWidth();
    double limit = std::ldexp(1.0, std::min(53u, width == 1 ? 1 : width - 1));
    if (!(r < limit && r >= -limit))
      return std::nullopt;
  }
  return r;
}
