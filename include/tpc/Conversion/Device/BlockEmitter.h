//===- BlockEmitter.h - Emission of loops and branches as blocks ----------===//
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

  /// Emits a loop over iv in [lb, ub) with loop-carried values. `again` receives the back edge.
  SmallVector<Value> emitLoop(Value lb, Value ub, Value step, ValueRange init, LoopBody body,
                              LLVM::CondBrOp *again = nullptr);
  /// Emits a branch. A null `otherwise` emits no code and yields no values.
  SmallVector<Value> branch(Value condition, TypeRange types,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);
  /// Signed comparison.
  Value less(Value x, Value y);

  OpBuilder b;
  Location loc;
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_BLOCKEMITTER_H
