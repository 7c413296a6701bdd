//===- EvaluateScalars.cpp - Element-wise ops on paper --------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::evaluator;

std::optional<Tensor> evaluator::evaluateScalarOp(Operation *op, ArrayRef<const Tensor *> operands,
                                                  ArrayRef<int64_t> shape) {
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar)
    return std::nullopt;
  Tensor result(shape);
  size_t next = 0;
  SmallVector<double, 3> x(operands.size());
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    for (auto [i, operand] : llvm::enumerate(operands)) {
      // Dimensions of size 1 broadcast, missing leading ones as well.
      ArrayRef<int64_t> own = index.take_back(operand->shape.size());
      int64_t at = 0;
      for (auto [position, size] : llvm::zip(own, operand->shape))
        at = at * size + (size == 1 ? 0 : position);
      x[i] = operand->data[at];
    }
    result.data[next++] = scalar.evaluateScalar(x);
  });
  return result;
}
