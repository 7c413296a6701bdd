//===- Copies.h - Outputs that are there several times ----------*- C++ -*-===//
//
// Where kv heads are repeated (tpc-repeat-kv-heads), so are those of a cache that is an output.
// Each index of the dimension is there `times` times in a row; the first of them is delivered:
//
//     @main gives [b, 4, s, d] {tpc.copies = array<i64: 1, 2>}      the output is [b, 2, s, d]
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_COPIES_H
#define TPC_DIALECT_COPIES_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

struct Copies {
  int64_t dim = 0, times = 1;

  /// The type of what is delivered of a value.
  RankedTensorType getDelivered(Type type) const;
};

Copies getCopies(func::FuncOp main, unsigned result);
Copies getCopies(PipelineOp pipeline, unsigned output);

/// Whether `copies` may be said of a value of type `type`.
bool areCopies(Attribute copies, Type type);

} // namespace mlir::tpc

#endif // TPC_DIALECT_COPIES_H
