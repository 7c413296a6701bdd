//===- RowPositions.h - Positions per sequence ------------------*- C++ -*-===//
//
// In the original step, all sequences have the same number of past tokens. Values computed from
// this number (positions, rotary tables, rows of position tables) become per-sequence values, with
// the batch as leading dimension:
//
//     %p = tpc.add %iota, %past : [sequence]              one row of positions for all
//     %p = tpc.add %iota, %lengths : [batch, sequence]    one row per sequence; %lengths [batch, 1]
//
// The rewrite ends at ops that combine per-sequence with batched values: there the leading
// dimension replaces a broadcast dimension. Later ops are not changed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H
#define TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H

#include "Caches.h"

namespace mlir::tpc {

class RowPositions {
public:
  using SymExpr = ::tpc::SymExpr;
  /// `lengths`: number of past tokens per sequence, [batch].
  RowPositions(func::FuncOp main, StepSymbols step, PreallocatedStep preallocated, Value lengths);

  /// Rewrites the program. Reports an error with the ONNX node for an op that is not supported per
  /// sequence.
  LogicalResult run();
  /// Returns the constraints that keep positions within their tables.
  ArrayRef<Attribute> getConstraints() const { return constraints; }

private:
  bool isPast(const SymExpr &e) const;
  /// Returns `e` minus `past`. Fails if the difference still depends on `past`.
  FailureOr<SymExpr> withoutPast(Operation *op, const SymExpr &e) const;
  std::optional<unsigned> findBatch(ArrayRef<SymExpr> sizes) const;
  SmallVector<SymExpr> withLeadingBatch(ArrayRef<SymExpr> sizes) const;
  bool isVarying(Value v) const { return perSequence.count(v) || varying.contains(v); }

  /// Returns the value per sequence, shaped to broadcast to `sizes`, or to `sizes` with the batch
  /// as leading dimension if they have none.
  FailureOr<Value> align(Operation *op, Value v, ArrayRef<SymExpr> sizes);
  LogicalResult finish(Operation *op, Operation *made);
  LogicalResult visit(Operation *op);
  LogicalResult visitSize(SizeOp op);
  LogicalResult visitAttention(AttentionOp op);
  LogicalResult visitTable(SliceOp op);
  LogicalResult visitBroadcast(Operation *op);
  LogicalResult visitMatmul(MatmulOp op);
  LogicalResult visitMoved(Operation *op);
  LogicalResult visitLookup(Operation *op);
  FailureOr<Value> clampIds(Operation *op, Value ids, const SymExpr &end, Value table, int64_t dim);
  void recordMaxima();

  func::FuncOp main;
  MLIRContext *context;
  StepSymbols step;
  PreallocatedStep preallocated;
  Value lengths;
  SymExpr batch;
  OpBuilder builder;
  DenseMap<Value, Value>
      perSequence;         // by original value: replacement with the batch as leading dimension
  DenseSet<Value> varying; // values with the batch in their own types
  DenseMap<Operation *, SymExpr> maxima; // per lookup: maximum of the ids
  SmallVector<Attribute> constraints;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H
