//===- Annotations.h - Uses of values except by annotations -----*- C++ -*-===//
//
// tpc.annotation ops use the values that they annotate, but must not change what passes recognize.
// Passes of the model level therefore query the uses of a value, and whether an op is dead, through
// these functions.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ANNOTATIONS_H
#define TPC_DIALECT_ANNOTATIONS_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AnnotationOps.h.inc"

namespace mlir::tpc {

/// Returns the uses of a value, except annotations and ops whose results only annotations use.
SmallVector<OpOperand *> getModelUses(Value value);
inline bool hasOneModelUse(Operation *op) {
  return op->getNumResults() == 1 && getModelUses(op->getResult(0)).size() == 1;
}

/// Returns the ops whose results have no uses except annotations.
DenseSet<Operation *> getUnusedOps(Block &block);

/// Emits an error if an annotation op was not converted back to attributes.
LogicalResult verifyNoAnnotations(Operation *root);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ANNOTATIONS_H
