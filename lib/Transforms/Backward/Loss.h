//===- Loss.h - Loss of a model and its cotangent ---------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
#define TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H

#include "GradientOp.h"

namespace mlir::tpc {

/// Builds the mean cross-entropy of `logits` [rows, vocabulary] and `labels` [rows] over labels
/// that are not negative, and accumulates the cotangent of the logits. Returns the loss, a scalar.
/// If all labels are negative, the loss and its gradient are 0. With a split vocabulary, the
/// maximum, the sum of exponentials and the label's logit are reductions of one number per row;
/// the cotangent needs none.
Value buildCrossEntropy(GradientBuilder &b, Value logits, Value labels);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
