//===- LayerSplitter.h - Splitting of layers between stages -----*- C++ -*-===//
//
// A layer is a function that @main calls. At a point with exactly one live value (the residual,
// between attention and MLP), the layer can be split into two functions, so that a stage can begin
// with the second function.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_LAYERSPLITTER_H
#define TPC_LIB_TRANSFORMS_STAGES_LAYERSPLITTER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

class LayerSplitter {
public:
  explicit LayerSplitter(ModuleOp module) : module(module), symbols(module) {}

  /// Returns the ops of a layer's body at which it can be cut, in order. Empty if `call` does not
  /// call a layer.
  ArrayRef<Operation *> getCutPoints(func::CallOp call);
  /// Replaces `call` by calls of segments. The layer is cut before each op of `cutPoints`.
  SmallVector<func::CallOp> split(func::CallOp call, ArrayRef<Operation *> cutPoints);
  /// Erases functions without calls.
  void eraseUnused();

private:
  struct LayerSegment {
    func::FuncOp function;
    Value received;                  // result of the previous segment; null in the first segment
    SmallVector<unsigned> arguments; // of the layer; they follow `received`
    SmallVector<unsigned> results;   // of the layer; they follow the value for the next segment
    SmallVector<unsigned> locs;      // indices of fused locations of the layer and its calls
  };
  ArrayRef<LayerSegment> makeSegments(func::FuncOp layer, ArrayRef<Operation *> cutPoints);

  ModuleOp module;
  SymbolTable symbols;
  DenseMap<Operation *, SmallVector<Operation *>> cutPoints; // by layer
  DenseMap<Operation *, DenseSet<Operation *>> recomputed;   // ops that each segment recomputes
  DenseMap<Operation *, DenseMap<Operation *, Value>> sent;  // by layer and cut point
  llvm::SetVector<Operation *> layers;                       // layers with segments
  std::map<SmallVector<Operation *>, SmallVector<LayerSegment>> segments; // by cut points
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_LAYERSPLITTER_H
