//===- RunAttention.h - Attention in the interpreter of buffers -*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNATTENTION_H
#define TPC_LIB_VERIFY_LOWERED_RUNATTENTION_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace mlir::tpc::lowered {

void attachAttentionRuns(MLIRContext *context);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNATTENTION_H
