//===- BlockEmitter.h - Loops and branches as blocks ------------*- C++ -*-===//
//
// What code is written with that is of the LLVM dialect and comes at the place where one is: both
// what is lowered from kernel IR and what is written by hand (attention on GPUs).
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

  /// for iv in [lb, ub) with loop-carried values; `again` is the branch back.
  SmallVector<Value> emitLoop(Value lb, Value ub, Value step, ValueRange init, LoopBody body,
                              LLVM::CondBrOp *again = nullptr);
  /// Null: nothing, and no values.
  SmallVector<Value> branch(Value condition, TypeRange types,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);
  /// Of signed integers.
  Value less(Value x, Value y);

  OpBuilder b;
  Location loc;
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_BLOCKEMITTER_H
