//===- Activations.h - What a model works on --------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H
#define TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::tpc {

/// Values of @main that depend on embedded tokens, or, where nothing is embedded, on the
/// floating-point inputs that go into norms and products. All others are parameters, or context:
/// what depends on masks, positions, shapes and constants alone, and is the same for all layers.
llvm::DenseSet<Value> findActivations(func::FuncOp main);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H
