//===- BlockEmitter.h - Emission of loops and branches as CFG blocks ------===//
//
// Helpers for emitting LLVM-dialect code at the builder's insertion point. Used by the lowering of
// kernel IR and by hand-written kernels (attention on GPUs).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_DEVICE_BLOCKEMITTER_H
#define TPC_CONVERSION_DEVICE_BLOCKEMITTER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::tpc {

class BlockEmitter {
protected:
  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;

  BlockEmitter(const OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  /// Emits a loop over iv in [lb, ub) with loop-carried values. `backEdge` receives the branch to
  /// the loop header.
  SmallVector<Value> emitLoop(Value lb, Value ub, Value step, ValueRange init, LoopBody body,
                              LLVM::CondBrOp *backEdge = nullptr);
  /// Emits an if-else. `types` are the types of its results. If `otherwise` is null, there is no
  /// else block and there are no results.
  SmallVector<Value> branch(Value condition, TypeRange types,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);
  /// Emits a signed comparison x < y.
  Value less(Value x, Value y);

  OpBuilder b;
  Location loc;
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_BLOCKEMITTER_H
