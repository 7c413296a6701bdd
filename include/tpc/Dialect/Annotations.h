//===- Annotations.h - Uses of values by annotations ------------*- C++ -*-===//
//
// During recognition, tpc.annotation ops use the values that they annotate. Recognition must not
// depend on annotations. Passes therefore query the uses of a value, and whether an op is dead,
// through these functions.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ANNOTATIONS_H
#define TPC_DIALECT_ANNOTATIONS_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AnnotationOps.h.inc"

namespace mlir::tpc {

/// Returns the uses of a value in the model's computation, without annotations and without ops that
/// only annotations use.
SmallVector<OpOperand *> getModelUses(Value value);
inline bool hasOneModelUse(Operation *op) {
  return op->getNumResults() == 1 && getModelUses(op->getResult(0)).size() == 1;
}

/// Returns the ops without uses, and the ops that only annotations use.
DenseSet<Operation *> getUnusedOps(Block &block);

/// Fails if an annotation op is left, that is, was not converted back to attributes.
LogicalResult verifyNoAnnotations(Operation *root);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ANNOTATIONS_H
