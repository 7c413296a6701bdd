//===- EvaluateScalars.cpp - Element-wise ops on paper --------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::evaluator;

static bool isInteger(Value value) {
  return isa<IntegerType>(cast<RankedTensorType>(value.getType()).getElementType());
}

static double gelu(GeluApproximation kind, double x) {
  switch (kind) {
  case GeluApproximation::None:
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  case GeluApproximation::Tanh:
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case GeluApproximation::Sigmoid:
    return x / (1 + std::exp(-1.702 * x));
  }
  return 0;
}

static bool compare(Predicate predicate, double x, double y) {
  switch (predicate) {
  case Predicate::EQ:
    return x == y;
  case Predicate::NE:
    return x != y;
  case Predicate::LT:
    return x < y;
  case Predicate::LE:
    return x <= y;
  case Predicate::GT:
    return x > y;
  case Predicate::GE:
    return x >= y;
  }
  return false;
}

static double modulo(double x, double y, bool integer) {
  double r = std::fmod(x, y);
  return integer && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double minMax(double x, double y, bool larger) {
  if (std::isnan(x) || std::isnan(y))
    return NAN;
  return larger ? std::max(x, y) : std::min(x, y);
}

static double cast(double x, Type to) {
  if (to.isInteger(1))
    return x != 0;
  return isa<IntegerType>(to) ? std::trunc(x) : x;
}

using Scalar = std::function<double(const double *)>;

/// What an op computes for one element; null if it is not element-wise.
static Scalar getScalar(Operation *op) {
  bool integer = op->getNumOperands() && isInteger(op->getOperand(0));
  using D = const double *;
  return llvm::TypeSwitch<Operation *, Scalar>(op)
      .Case([](NegOp) { return [](D x) { return -x[0]; }; })
      .Case([](AbsOp) { return [](D x) { return std::fabs(x[0]); }; })
      .Case([](ExpOp) { return [](D x) { return std::exp(x[0]); }; })
      .Case([](LogOp) { return [](D x) { return std::log(x[0]); }; })
      .Case([](SqrtOp) { return [](D x) { return std::sqrt(x[0]); }; })
      .Case([](RsqrtOp) { return [](D x) { return 1 / std::sqrt(x[0]); }; })
      .Case([](ReciprocalOp) { return [](D x) { return 1 / x[0]; }; })
      .Case([](TanhOp) { return [](D x) { return std::tanh(x[0]); }; })
      .Case([](ErfOp) { return [](D x) { return std::erf(x[0]); }; })
      .Case([](SigmoidOp) { return [](D x) { return 1 / (1 + std::exp(-x[0])); }; })
      .Case([](ReluOp) { return [](D x) { return x[0] < 0 ? 0 : x[0]; }; })
      .Case([](SinOp) { return [](D x) { return std::sin(x[0]); }; })
      .Case([](CosOp) { return [](D x) { return std::cos(x[0]); }; })
      .Case([](FloorOp) { return [](D x) { return std::floor(x[0]); }; })
      .Case([](CeilOp) { return [](D x) { return std::ceil(x[0]); }; })
      .Case([](SiluOp) { return [](D x) { return x[0] / (1 + std::exp(-x[0])); }; })
      .Case([](NotOp) { return [](D x) -> double { return x[0] == 0; }; })
      .Case([](IsNanOp) { return [](D x) -> double { return std::isnan(x[0]); }; })
      .Case([](GeluOp g) { return [kind = g.getApproximate()](D x) { return gelu(kind, x[0]); }; })
      .Case([](CastOp c) {
        return [to = mlir::cast<RankedTensorType>(c.getType()).getElementType()](D x) {
          return ::cast(x[0], to);
        };
      })
      .Case([](AddOp) { return [](D x) { return x[0] + x[1]; }; })
      .Case([](SubOp) { return [](D x) { return x[0] - x[1]; }; })
      .Case([](MulOp) { return [](D x) { return x[0] * x[1]; }; })
      .Case([=](DivOp) {
        return [=](D x) { return integer ? std::trunc(x[0] / x[1]) : x[0] / x[1]; };
      })
      .Case([](PowOp) { return [](D x) { return std::pow(x[0], x[1]); }; })
      .Case([](MaxOp) { return [](D x) { return minMax(x[0], x[1], true); }; })
      .Case([](MinOp) { return [](D x) { return minMax(x[0], x[1], false); }; })
      .Case([=](ModOp) { return [=](D x) { return modulo(x[0], x[1], integer); }; })
      .Case([](AndOp) { return [](D x) -> double { return x[0] != 0 && x[1] != 0; }; })
      .Case([](OrOp) { return [](D x) -> double { return x[0] != 0 || x[1] != 0; }; })
      .Case([](XorOp) { return [](D x) -> double { return (x[0] != 0) != (x[1] != 0); }; })
      .Case([](CmpOp c) {
        return [predicate = c.getPredicate()](D x) -> double {
          return compare(predicate, x[0], x[1]);
        };
      })
      .Case([](SelectOp) { return [](D x) { return x[0] != 0 ? x[1] : x[2]; }; })
      .Default([](Operation *) { return Scalar(); });
}

std::optional<Tensor> evaluator::evaluateScalarOp(Operation *op, ArrayRef<const Tensor *> operands,
                                                  ArrayRef<int64_t> shape) {
  Scalar scalar = getScalar(op);
  if (!scalar)
    return std::nullopt;
  Tensor result(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    double x[3] = {};
    for (auto [i, operand] : llvm::enumerate(operands)) {
      // Dimensions of size 1 broadcast, missing leading ones as well.
      ArrayRef<int64_t> own = index.take_back(operand->shape.size());
      int64_t at = 0;
      for (auto [position, size] : llvm::zip(own, operand->shape))
        at = at * size + (size == 1 ? 0 : position);
      x[i] = operand->data[at];
    }
    result.data[next++] = scalar(x);
  });
  return result;
}
