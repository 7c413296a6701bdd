//===- LayerParts.h - Layers that a stage may begin within ------*- C++ -*-===//
//
// A layer is a function that @main calls. Where one value alone is live inside of it (the residual,
// between attention and MLP) it can be two functions, so that a stage may begin with the second.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_LAYERPARTS_H
#define TPC_LIB_TRANSFORMS_STAGES_LAYERPARTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

class LayerParts {
public:
  explicit LayerParts(ModuleOp module) : module(module), symbols(module) {}

  /// The ops of a layer's body that a part of it may begin with, in order; none if `call` is not of
  /// a layer.
  ArrayRef<Operation *> getPlaces(func::CallOp call);
  /// Replaces `call` by calls of parts, which begin with these ops and the first one.
  SmallVector<func::CallOp> split(func::CallOp call, ArrayRef<Operation *> places);
  /// Functions that were made in vain.
  void eraseUnused();

private:
  struct Part {
    func::FuncOp function;
    Value received;                  // of the part before it; null for the first
    SmallVector<unsigned> arguments; // of the layer, behind it
    SmallVector<unsigned> results;   // of the layer, behind what the next part gets
    SmallVector<unsigned> locs;      // of those fused to the layer's, and to that of its calls
  };
  ArrayRef<Part> makeParts(func::FuncOp layer, ArrayRef<Operation *> places);

  ModuleOp module;
  SymbolTable symbols;
  DenseMap<Operation *, SmallVector<Operation *>> places;      // by layer
  DenseMap<Operation *, DenseSet<Operation *>> free;           // ops that each part has for itself
  DenseMap<Operation *, DenseMap<Operation *, Value>> sent;    // by layer and place
  llvm::SetVector<Operation *> layers;                         // that have parts
  std::map<SmallVector<Operation *>, SmallVector<Part>> parts; // by places; the layer's own
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_LAYERPARTS_H
