//===- AttentionMask.h - What the mask of an attention is -------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H
#define TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H

#include "tpc/Analysis/Index/IndexAnalysis.h"

namespace mlir::tpc {

/// What happens to scores between the product with keys and the softmax, from
/// the product on.
struct ScoreStep {
  enum Kind {
    Scale,   // times `number`
    Add,     // plus `value`, times `number` (1 or -1)
    Replace, // by `number` where `value` is not `keeps`
    Floor,   // the larger one of it and `number`
    Cap,     // number * tanh(x / number)
  };
  Kind kind;
  double number = 1;
  Value value;
  bool keeps = true;
};

/// Masks as tpc.attention has them.
struct AttentionMask {
  bool causal = false;
  ::tpc::SymExpr offset;
  /// Query i sees keys from i + this on.
  std::optional<::tpc::SymExpr> first;
  /// Causality or the window may leave a row without any key.
  bool boundsHideRows = false;
  Value keyMask, mask, bias, slopes;
  MaskedRow maskedRow = MaskedRow::Zero;
  double scale = 1;
  double softcap = 0;

  /// `first` as the attention op has it: the last keys up to i + offset.
  std::optional<::tpc::SymExpr> getWindow() const {
    return first ? std::optional(offset + 1 - *first) : std::nullopt;
  }
};

/// What `steps` do to scores of the given sizes [b, h, i, j] (fewer: without
/// heads, without batch), which are of this type; `guarded`: NaN of the softmax
/// is replaced by zero. New ops are made at `builder`. Nothing where
/// tpc.attention cannot say it.
std::optional<AttentionMask> analyzeMask(OpBuilder &builder, Location loc,
                                         ArrayRef<::tpc::SymExpr> sizes, Type element,
                                         ArrayRef<ScoreStep> steps, bool guarded);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ATTENTIONMASK_H
