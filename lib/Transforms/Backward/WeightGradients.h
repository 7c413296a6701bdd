//===- WeightGradients.h - Gradients of weights from their uses -*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_WEIGHTGRADIENTS_H
#define TPC_LIB_TRANSFORMS_BACKWARD_WEIGHTGRADIENTS_H

#include "GradientOp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// A result of @main and its name.
struct NamedValue {
  std::string name;
  Value value;
};

/// Appends the gradient of each weight to `results`, in the order of the weights: one for each view
/// of the weight. A view that is the transpose of an earlier one adds to its gradient. Emits an
/// error for views that overlap otherwise.
LogicalResult collectWeightGradients(GradientBuilder &b, ModuleOp module, func::FuncOp main,
                                     SmallVectorImpl<NamedValue> &results);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_WEIGHTGRADIENTS_H
