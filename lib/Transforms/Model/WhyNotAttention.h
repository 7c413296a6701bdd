//===- WhyNotAttention.h - Why a softmax was left alone ---------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_WHYNOTATTENTION_H
#define TPC_LIB_TRANSFORMS_MODEL_WHYNOTATTENTION_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// What kept tpc-raise-attention from taking it for one of attention. For errors: it may leave ops
/// that nothing uses.
std::string whyNotAttention(SoftmaxOp softmax);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_WHYNOTATTENTION_H
