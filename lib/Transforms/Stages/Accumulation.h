//===- Accumulation.h - Sums over micro-batches -----------------*- C++ -*-===//
//
// A program with sums over micro-batches (tpc.all_reduce over mb) has two parts: ops of each
// micro-batch, and the update, which needs the sums: reductions over ranks, the optimizer.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_STAGES_ACCUMULATION_H
#define TPC_LIB_TRANSFORMS_STAGES_ACCUMULATION_H

#include "tpc/Dialect/Accumulate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Returns whether the op reduces over mb.
bool isSumOverMicroBatches(Operation *op);

/// The update of @main, as a function.
class Accumulation {
public:
  explicit Accumulation(func::FuncOp main) : main(main) {}

  /// Moves the update to a function `@update`. The results of @main become the terms of the sums,
  /// and its outputs that need no sum. Does nothing without sums. Emits an error if a value of a
  /// micro-batch depends on a sum, or if a function other than @main sums over micro-batches.
  LogicalResult take();
  /// Appends the sums, `tpc.all_reduce` over mb, and the call of `@update` to @main, which has the
  /// original results again.
  void restore();

  bool isEmpty() const { return sums.empty(); }

private:
  LogicalResult findUpdate();
  void splitReductions();

  func::FuncOp main, update;
  SmallVector<AllReduceOp> sums;      // over mb alone
  SmallVector<Operation *> updateOps; // in program order
  SmallVector<BlockArgument> inputs;  // of the update
  SmallVector<Type> sumTypes;
  SmallVector<Location> locations; // of the sums
  SmallVector<int64_t> resultOf;   // by result of @main: index among the update's results, or -1
  SmallVector<DictionaryAttr> resultAttrs;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_STAGES_ACCUMULATION_H
