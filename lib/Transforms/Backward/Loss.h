//===- Loss.h - Loss of a model and its cotangent ---------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
#define TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H

#include "GradientOp.h"

namespace mlir::tpc {

/// Settings of a cross-entropy. The loss of a row with logits x and label y is
/// l - sum(t x) + zLoss l^2, where l = log(sum(exp(x))), and t is smoothing / vocabulary for each
/// class, plus 1 - smoothing for class y.
struct CrossEntropy {
  double smoothing = 0; // from 0 to below 1
  double zLoss = 0;
  Value scale; // factor of the cotangent of the loss; null: 1
};

/// Returns the number of labels that are not negative, at least 1, as a scalar of type `element`.
Value countLabels(GradientBuilder &b, Value labels, Type element);

/// Builds the sum of the cross-entropies of `logits` [rows, vocabulary] and `labels` [rows] over
/// labels that are not negative, divided by `count`, and accumulates the cotangent of the logits.
/// Returns the loss, a scalar. If all labels are negative, the loss and its gradient are 0. With a
/// split vocabulary, the maximum, the sum of exponentials and sum(t x) are reductions of one number
/// per row; the cotangent needs no reduction. Sources: `torch.nn.functional.cross_entropy` for
/// smoothing, Chowdhery et al. 2022 (PaLM), section 5, for the term with l^2.
Value buildCrossEntropy(GradientBuilder &b, Value logits, Value labels, Value count,
                        const CrossEntropy &settings);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_LOSS_H
