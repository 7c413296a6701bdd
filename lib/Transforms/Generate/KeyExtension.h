//===- KeyExtension.h - Attention biases with keys of the past --*- C++ -*-===//
//
// A relative position bias (T5) is computed from the positions of queries and keys. In a step, the
// queries are the new tokens, and the keys also those of the past:
//
//   %k = tpc.iota : [1, sequence]           %k = tpc.iota : [1, past + sequence]
//   %d = tpc.sub %k, %q                     %d = tpc.sub %k, %q
//        : [sequence, sequence]                  : [sequence, past + sequence]
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_KEYEXTENSION_H
#define TPC_LIB_TRANSFORMS_GENERATE_KEYEXTENSION_H

#include "Caches.h"

namespace mlir::tpc {

class KeyExtension {
public:
  using SymExpr = ::tpc::SymExpr;
  /// `tokens`, `past`: numbers of new and of cached tokens.
  KeyExtension(SymExpr tokens, SymExpr past) : tokens(std::move(tokens)), past(std::move(past)) {}

  /// Returns `value` with dimension `dim` extended from the new tokens to past and new tokens.
  /// Emits an error with the ONNX node of an op whose result for keys of the past is unknown.
  FailureOr<Value> extend(Value value, unsigned dim) { return extend(value, dim, 1, 1); }

  /// New iotas of query positions. The caller must add the number of past tokens to them.
  ArrayRef<Value> getPositions() const { return positions; }

private:
  /// The dimension is major x tokens x minor.
  FailureOr<Value> extend(Value value, unsigned dim, const SymExpr &major, const SymExpr &minor);
  FailureOr<Value> extendReshape(ReshapeOp op, SmallVector<SymExpr> sizes, unsigned dim,
                                 const SymExpr &major, const SymExpr &minor);
  FailureOr<Value> clone(Operation *op, ArrayRef<SymExpr> sizes, ArrayRef<Value> operands);

  SymExpr tokens, past;
  SmallVector<Value> positions;
  std::map<std::pair<const void *, unsigned>, Value> extended; // by value and dimension
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_KEYEXTENSION_H
