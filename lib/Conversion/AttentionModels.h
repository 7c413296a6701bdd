//===- AttentionModels.h - Registration of models of attention ---*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_ATTENTIONMODELS_H
#define TPC_LIB_CONVERSION_ATTENTIONMODELS_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace mlir::tpc {

void attachAttentionModels(MLIRContext *context); // BufferModelsAttention.cpp
void attachAttentionCalls(MLIRContext *context);  // RuntimeCallsAttention.cpp

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_ATTENTIONMODELS_H
