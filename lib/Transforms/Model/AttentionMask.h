//===- AttentionMask.h - Masks of attention ---------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H
#define TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H

#include "tpc/Analysis/Index/IndexAnalysis.h"

namespace mlir::tpc {

/// Step that changes the scores between the matmul with keys and the softmax, in program order.
struct ScoreStep {
  enum Kind {
    Scale,    // multiplies by `number`
    Multiply, // multiplies by `value`, of zeros and ones
    Add,      // adds `value` times `number` (1 or -1)
    Replace,  // replaces by `number` if `value` is not `keeps`
    Floor,    // maximum of score and `number`
    Cap,      // number * tanh(x / number)
  };
  Kind kind;
  double number = 1;
  Value value;
  bool keeps = true;
  Type type = {}; // of the scores; null: unknown
};

/// Masks in the form of tpc.attention.
struct AttentionMask {
  bool causal = false;
  ::tpc::SymExpr offset;
  /// First visible key of query i, relative to i.
  std::optional<::tpc::SymExpr> first;
  /// True if causality or the window may hide all keys of a row.
  bool boundsHideRows = false;
  Value keyMask, mask, bias, slopes, sinks;
  MaskedRow maskedRow = MaskedRow::Zero;
  double scale = 1;
  double softcap = 0;

  /// Returns `first` in the form of the attention op: the size of the window, which ends at key i +
  /// offset.
  std::optional<::tpc::SymExpr> getWindow() const {
    return first ? std::optional(offset + 1 - *first) : std::nullopt;
  }
};

/// Analyzes the effect of `steps` on scores of the given sizes [b, h, i, j] (fewer: without heads,
/// without batch) and element type. `guarded`: NaN results of the softmax are replaced by zero.
/// Creates new ops at `builder`. Returns nothing if tpc.attention cannot express the effect.
std::optional<AttentionMask> analyzeMask(OpBuilder &builder, Location loc,
                                         ArrayRef<::tpc::SymExpr> sizes, Type element,
                                         ArrayRef<ScoreStep> steps, bool guarded);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H
