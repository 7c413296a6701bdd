//===- KernelModels.h - Element builders of ops in kernels ------*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_KERNELS_KERNELMODELS_H
#define TPC_LIB_CONVERSION_KERNELS_KERNELMODELS_H

#include "KernelBuilder.h"

namespace mlir::tpc {

void attachElementwiseModels(MLIRContext *context);
void attachMovementModels(MLIRContext *context);
void attachLookupModels(MLIRContext *context);
void attachRowModels(MLIRContext *context);

/// Returns whether the first `rank` dimensions of two tensors are equal.
bool haveSameRows(Value a, Value b, int64_t rank);
/// Returns the index of the element of `operand` that broadcasts to `index`. Dimensions are aligned
/// at the last one; the index is 0 in broadcast dimensions of size 1.
SmallVector<Value> broadcastIndex(KernelBuilder &e, Value operand, ValueRange index);
/// Converts an integer element to an index.
Value toIndex(KernelBuilder &e, Value integer, Type tensor);
/// Converts an index to an element of a tensor.
Value fromIndex(KernelBuilder &e, Value index, Type tensor);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELS_KERNELMODELS_H
