//===- Loss.h - Loss of a model and its cotangent ---------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
#define TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H

#include "GradientOp.h"

namespace mlir::tpc {

/// Returns the number of labels that are not negative, at least 1, as a scalar of type `element`.
Value countLabels(GradientBuilder &b, Value labels, Type element);

/// Builds the sum of the cross-entropies of `logits` [rows, vocabulary] and `labels` [rows] over
/// labels that are not negative, divided by `count`, and accumulates the cotangent of the logits.
/// Returns the loss, a scalar. If all labels are negative, the loss and its gradient are 0. With a
/// split vocabulary, the maximum, the sum of exponentials and the label's logit are reductions of
/// one number per row; the cotangent needs none.
Value buildCrossEntropy(GradientBuilder &b, Value logits, Value labels, Value count);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
