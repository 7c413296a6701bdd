//===- Activity.h - Values that depend on trainable weights -----*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_ACTIVITY_H
#define TPC_LIB_TRANSFORMS_BACKWARD_ACTIVITY_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Values of a module that depend on a trainable weight: parameters, and float results of ops that
/// are differentiable in an active operand. An argument of a function is active if it is active in
/// any call.
struct Activity {
  DenseSet<Value> values;

  /// Analyzes @main and the functions that it calls. Emits an error for an op without a gradient
  /// that has an active operand, and for weights whose type cannot be trained.
  LogicalResult analyze(ModuleOp module);
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_ACTIVITY_H
