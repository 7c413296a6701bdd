//===- LayerBackward.h - Backward functions of layers -----------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_LAYERBACKWARD_H
#define TPC_LIB_TRANSFORMS_BACKWARD_LAYERBACKWARD_H

#include "GradientOp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// The backward function of a layer, `@layer_backward`. Its arguments are arguments of the layer,
/// saved activations, and cotangents of the layer's active results. Its results are cotangents of
/// the layer's active arguments.
struct LayerBackward {
  func::FuncOp function;
  SmallVector<unsigned> arguments; // arguments of the layer that the backward function reads
  SmallVector<unsigned> saved;     // results of the layer that the backward function reads
  SmallVector<unsigned> results;   // results of the layer with a cotangent
  SmallVector<unsigned> gradients; // arguments of the layer with a cotangent
};

/// Accumulates the cotangents of all values of a block, in reverse order of its ops, down to its
/// arguments. `onCall` processes calls.
LogicalResult buildBackward(GradientBuilder &b, ArrayRef<Operation *> ops,
                            function_ref<LogicalResult(func::CallOp)> onCall);

/// Derives the backward function of a layer, and adds results for saved activations to the layer.
/// Calls of the layer are not updated. `active`: see Activity; `decomposesAttention`: see
/// GradientBuilder.
FailureOr<LayerBackward> deriveLayerBackward(func::FuncOp layer, const DenseSet<Value> &active,
                                             SymbolTable &symbols, bool decomposesAttention);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_LAYERBACKWARD_H
