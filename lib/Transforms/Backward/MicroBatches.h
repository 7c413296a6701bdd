//===- MicroBatches.h - Accumulation over micro-batches ---------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_MICROBATCHES_H
#define TPC_LIB_TRANSFORMS_BACKWARD_MICROBATCHES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Micro-batches of @main: slices of its inputs that are computed one after another. With `count`
/// micro-batches, an input [batch, …] becomes [batch, count, …], where `batch` is the number of
/// samples of one micro-batch.
class MicroBatches {
public:
  MicroBatches(func::FuncOp main, int64_t count) : main(main), count(count) {}

  int64_t getCount() const { return count; }
  /// Returns the sizes of an input that has `sizes` in one micro-batch.
  SmallVector<::tpc::SymExpr> getInputSizes(ArrayRef<::tpc::SymExpr> sizes) const;
  /// Returns the first micro-batch of an input.
  Value getFirst(OpBuilder &builder, BlockArgument input);
  /// Replaces inputs whose first dimension is `batch` by inputs of all micro-batches. Emits an
  /// error for inputs with the batch in another dimension, and if no input has the batch.
  LogicalResult splitInputs(const ::tpc::SymExpr &batch);
  /// Repeats all ops that depend on the first micro-batch for each other one. Each result of @main
  /// becomes the sum of its values over all micro-batches.
  void repeat();

private:
  func::FuncOp main;
  int64_t count;
  DenseSet<Value> inputs; // with micro-batches
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_MICROBATCHES_H
