//===- AttentionSinks.h - Scores with an attention sink ---------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H
#define TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Scores before a softmax, and the sinks of the heads that exporters concatenate with them.
struct SinkScores {
  Value keys, sinks; // sinks: [heads], null if there are none
};

/// Matches `p` with the softmax of scores or, with sinks, with a slice of a softmax that has one
/// more column than there are keys. Sets `p` to the softmax.
std::optional<SinkScores> matchScores(OpBuilder &builder, Value &p);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_ATTENTIONSINKS_H
