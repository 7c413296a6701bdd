//===- Activations.h - Activations of a model -------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H
#define TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::tpc {

/// Returns the values of @main that depend on embedded tokens. Without an embedding, they depend on
/// the floating-point inputs of norms and matmuls. All other values are parameters or context.
/// Context depends only on masks, positions, shapes and constants, and is equal for all layers.
llvm::DenseSet<Value> findActivations(func::FuncOp main);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ACTIVATIONS_H
