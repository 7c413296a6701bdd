//===- PlannedMatmuls.h - Common parts of matmul calls ----------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PLANNEDMATMULS_H
#define TPC_LIB_VERIFY_BUFFERS_PLANNEDMATMULS_H

#include "PlanChecker.h"

namespace mlir::tpc {

/// Epilogue of a matmul: bias, then activation, then residual.
struct MatmulEpilogue {
  Value bias, residual, result;
  buffer::Epilogue activation = buffer::Epilogue::None;
};

/// Returns the ops after a matmul that its call computes, and marks them as done.
FailureOr<MatmulEpilogue> getMatmulEpilogue(MatmulOp op, PlanChecker &c);

/// Checks that the target's libraries support `op` for the element types of `values`.
LogicalResult checkComputed(Operation *op, ValueRange values);

/// Checks that all values have the result's element type. Matmuls pass only the values of their
/// epilogue, because 16-bit operands may have f32 results.
LogicalResult checkOneType(Operation *op, ValueRange values);

/// If a value is an aliased transpose, returns its operand [b, h, tokens, d].
Value getByHeads(Value tensor);

/// Checks an optional operand, which the call and the op on tensors must both have.
LogicalResult checkOptional(PlanChecker &c, Operation *call, StringRef what, Value buffer,
                            Value tensor, Value over = {});

void attachPlannedAttention(MLIRContext *context);

/// Checks the call of a matmul with quantized parameters.
LogicalResult checkQuantizedProduct(MatmulOp op, PlanChecker &c);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_PLANNEDMATMULS_H
