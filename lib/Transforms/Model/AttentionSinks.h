//===- AttentionSinks.h - Scores with an attention sink ---------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H
#define TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Scores before a softmax, and the sinks of the heads that exporters concatenate with them.
struct SinkScores {
  Value keys, sinks; // sinks: [heads], null if there are none
};

/// Returns the scores of the keys, if `p` is the softmax of them or, with sinks, the columns of the
/// keys of a softmax that has one column more. Sets `p` to the softmax.
std::optional<SinkScores> matchScores(OpBuilder &builder, Value &p);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H
