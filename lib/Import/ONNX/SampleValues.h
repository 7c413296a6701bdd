//===- SampleValues.h - Comparison of tensors by samples --------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_SAMPLEVALUES_H
#define TPC_LIB_IMPORT_ONNX_SAMPLEVALUES_H

#include "tpc/Import/ONNX/TensorSource.h"

namespace mlir::tpc::frontend {

/// Returns true if sampled numbers of both tensors are equal within the rounding of 16-bit types,
/// and most differ from each other. `own` has at least one element. `stored` has as many, in the
/// same order, or with `isTransposed` with the last two dimensions swapped.
bool haveSameValues(TensorReader &reader, const TensorSource &own, const TensorSource &stored,
                    bool isTransposed);

/// Returns the correlation of sampled numbers, from -1 to 1; NaN if they cannot be read or are all
/// equal.
double correlate(TensorReader &reader, const TensorSource &own, const TensorSource &stored,
                 bool isTransposed);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_SAMPLEVALUES_H
