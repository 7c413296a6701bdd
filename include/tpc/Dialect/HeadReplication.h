//===- HeadReplication.h - Outputs with replicated KV heads -----*- C++ -*-===//
//
// tpc-repeat-kv-heads replicates KV heads, so an output that is a KV cache has replicated heads.
// Each index of the head dimension is repeated `times` times; only the first copy is delivered:
//
//     @main returns [b, 4, s, d] {tpc.copies = array<i64: 1, 2>}    the output is [b, 2, s, d]
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_HEADREPLICATION_H
#define TPC_DIALECT_HEADREPLICATION_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

struct Copies {
  int64_t dim = 0, times = 1;

  /// Returns the type of the delivered output for a value of type `type`.
  RankedTensorType getDeliveredType(Type type) const;
};

Copies getCopies(func::FuncOp main, unsigned result);
Copies getCopies(PipelineOp pipeline, unsigned output);

/// Whether `copies` is valid for a value of type `type`.
bool areValidCopies(Attribute copies, Type type);

} // namespace mlir::tpc

#endif // TPC_DIALECT_HEADREPLICATION_H
