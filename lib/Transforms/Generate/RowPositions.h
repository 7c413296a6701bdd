//===- RowPositions.h - Each sequence has a past of its own -----*- C++ -*-===//
//
// A step is written for one number of past tokens. What is made of this number (positions, rotary
// tables, rows of position tables) becomes a value for each sequence of the batch: its type gets
// the batch as a dimension in front,
//
//     %p = tpc.add %iota, %past : [sequence]              positions of all
//     %p = tpc.add %iota, %lengths : [batch, sequence]    of each, %lengths [batch, 1]
//
// up to the op where it meets values that have the batch anyway, where the dimension in front
// takes the place of the one that was broadcast. From there on nothing changes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H
#define TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H

#include "Caches.h"

namespace mlir::tpc {

class RowPositions {
public:
  using SymExpr = ::tpc::SymExpr;
  /// `lengths`: [batch], how many tokens of each sequence are past.
  RowPositions(func::FuncOp main, StepSymbols step, PlacedStep placed, Value lengths);

  /// Errors, with the ONNX node: an op for which it is not known how it does it for each sequence.
  LogicalResult run();
  /// What must hold so that positions have rows in their tables.
  ArrayRef<Attribute> getConstraints() const { return constraints; }

private:
  bool isPast(const SymExpr &e) const;
  /// The number that is added to `past`; fails where `e` is something else.
  FailureOr<SymExpr> withoutPast(Operation *op, const SymExpr &e) const;
  std::optional<unsigned> findBatch(ArrayRef<SymExpr> sizes) const;
  SmallVector<SymExpr> inFront(ArrayRef<SymExpr> sizes) const;
  bool isVarying(Value v) const { return rows.count(v) || varying.contains(v); }

  /// The value for each sequence, so that it broadcasts to `sizes`, or where these have no batch,
  /// to them with the batch in front.
  FailureOr<Value> align(Operation *op, Value v, ArrayRef<SymExpr> sizes);
  LogicalResult finish(Operation *op, Operation *made);
  LogicalResult visit(Operation *op);
  LogicalResult visitSize(SizeOp op);
  LogicalResult visitAttention(AttentionOp op);
  LogicalResult visitTable(SliceOp op);
  LogicalResult visitBroadcast(Operation *op);
  LogicalResult visitProduct(MatmulOp op);
  LogicalResult visitMoved(Operation *op);
  LogicalResult visitLookup(Operation *op);
  FailureOr<Value> limit(Operation *op, Value ids, const SymExpr &end, Value table, int64_t dim);
  void findEnds();

  func::FuncOp main;
  MLIRContext *context;
  StepSymbols step;
  PlacedStep placed;
  Value lengths;
  SymExpr batch;
  OpBuilder builder;
  DenseMap<Value, Value> rows;         // with the batch in front
  DenseSet<Value> varying;             // that have the batch in their own types
  DenseMap<Operation *, SymExpr> ends; // of lookups: what ids are at most
  SmallVector<Attribute> constraints;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_ROWPOSITIONS_H
