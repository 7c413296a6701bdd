//===- Annotations.h - Uses that only say something -------------*- C++ -*-===//
//
// While the model is recognized, tpc.annotation ops use the values that they are about. What is
// recognized must not depend on what users say of it: whoever asks who uses a value, or whether an
// op is needed, asks here.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_ANNOTATIONS_H
#define TPC_DIALECT_ANNOTATIONS_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/AnnotationOps.h.inc"

namespace mlir::tpc {

/// The uses of a value by what the model computes: not by annotations, nor by ops that are there
/// for annotations alone.
SmallVector<OpOperand *> getModelUses(Value value);
inline bool hasOneModelUse(Operation *op) {
  return op->getNumResults() == 1 && getModelUses(op->getResult(0)).size() == 1;
}

/// The ops that only annotations need, and those that nothing needs.
DenseSet<Operation *> getUnneeded(Block &block);

/// Fails where there is an annotation that has not been placed.
LogicalResult verifyNoAnnotations(Operation *root);

} // namespace mlir::tpc

#endif // TPC_DIALECT_ANNOTATIONS_H
