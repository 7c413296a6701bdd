//===- ExplainAttention.h - Diagnosis of unraised attention -----*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_EXPLAINATTENTION_H
#define TPC_LIB_TRANSFORMS_MODEL_EXPLAINATTENTION_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Explains why tpc-raise-attention did not raise this softmax. Only for error messages: it may
/// create ops without uses.
std::string explainUnraisedSoftmax(SoftmaxOp softmax);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_EXPLAINATTENTION_H
