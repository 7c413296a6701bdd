//===- SignedZeros.cpp - Values whose zeros have a visible sign -----------===//
//
// x + 0 equals x except for x = -0, where the sum is 0. Replacing the sum by x is exact if no user
// distinguishes the two zeros. Matmuls, softmaxes and comparisons do not distinguish them; 1/x and
// outputs of the program do.
//
// Whether an element-wise op distinguishes zeros is tested by evaluating the op at sample values of
// its other operands.
//
//===----------------------------------------------------------------------===//

#include "SignedZeros.h"

#include "tpc/Analysis/Index/Splats.h"
#include "tpc/Dialect/Annotations.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Effect of the sign of an operand's zeros on the result.
enum class ZeroSign { Lost, Kept, Visible };
} // namespace

/// Sample values of operands: zeros, both signs, magnitudes around 1, odd and even integers.
static constexpr double kSamples[] = {0.0,  -0.0, 1.0,  -1.0,     0.5,       -0.5, 2.0,
                                      -2.0, 3.0,  -3.0, INFINITY, -INFINITY, NAN};

static ZeroSign compareResults(double plus, double minus) {
  if (std::isnan(plus) && std::isnan(minus))
    return ZeroSign::Lost;
  if (plus != minus) // not for two zeros
    return ZeroSign::Visible;
  return std::signbit(plus) == std::signbit(minus) ? ZeroSign::Lost : ZeroSign::Kept;
}

/// Samples all operands from `next` on, except `operand`.
static ZeroSign sampleScalar(ScalarOpInterface op, unsigned operand,
                             SmallVectorImpl<double> &values, unsigned next = 0) {
  if (next == values.size()) {
    values[operand] = 0.0;
    double plus = op.evaluateScalar(values);
    values[operand] = -0.0;
    return compareResults(plus, op.evaluateScalar(values));
  }
  if (next == operand)
    return sampleScalar(op, operand, values, next + 1);
  ZeroSign worst = ZeroSign::Lost;
  auto sample = [&](double value) {
    values[next] = value;
    worst = std::max(worst, sampleScalar(op, operand, values, next + 1));
  };
  if (std::optional<double> splat = getSplat(op->getOperand(next)))
    sample(*splat);
  else
    llvm::for_each(kSamples, sample);
  return worst;
}

/// A sum of products starts at 0, and 0 + -0 is 0. In a softmax, exp 0 = exp -0.
static bool isSummed(OpOperand &use) {
  Operation *op = use.getOwner();
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getFunction() == ReduceFunction::Sum ||
           reduce.getFunction() == ReduceFunction::Mean;
  return isa<AttentionOp, SoftmaxOp>(op) || (isa<MatmulOp>(op) && use.getOperandNumber() < 2);
}

static ZeroSign getZeroSign(OpOperand &use) {
  Operation *op = use.getOwner();
  if (isSummed(use))
    return ZeroSign::Lost;
  if (isa<MovementOpInterface>(op))
    return ZeroSign::Kept;
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar)
    return ZeroSign::Visible;
  SmallVector<double> values(op->getNumOperands());
  return sampleScalar(scalar, use.getOperandNumber(), values);
}

bool mlir::tpc::hasVisibleZeroSigns(Value v) {
  constexpr unsigned kMaxValues = 64;
  llvm::SmallSetVector<Value, 8> values;
  values.insert(v);
  for (unsigned i = 0; i < values.size(); ++i) {
    if (i == kMaxValues)
      return true;
    if (!isa<FloatType>(getElementTypeOrSelf(values[i].getType())))
      continue; // integers have one zero
    for (OpOperand *use : getModelUses(values[i])) {
      ZeroSign sign = getZeroSign(*use);
      if (sign == ZeroSign::Visible)
        return true;
      if (sign == ZeroSign::Kept)
        values.insert(use->getOwner()->getResult(0));
    }
  }
  return false;
}

bool mlir::tpc::losesZeroSign(Operation *op, unsigned side, double number) {
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar || !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return false;
  double values[2];
  values[side] = number;
  values[1 - side] = -0.0;
  return !std::signbit(scalar.evaluateScalar(values));
}
