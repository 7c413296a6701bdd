//===- EvaluateAttention.h - Registration of evaluations --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_EVALUATEATTENTION_H
#define TPC_LIB_VERIFY_INTERPRET_EVALUATEATTENTION_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace mlir::tpc::interpret {

void attachAttentionEvaluations(MLIRContext *context);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_EVALUATEATTENTION_H
