//===- QuantizedMatrices.h - Matrices of quantized parameters ---*- C++ -*-===//
//
// Finds right operands of matmuls that the runtime's tpc_quantized_product can read in quantized
// form: tpc.dequantize and movement ops compute them from parameters.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H
#define TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H

#include "ParameterTable.h"
#include "tpc/Dialect/Quantized.h"

namespace mlir::tpc {

/// A right operand in quantized form. Fields have the names of tpc_buffer.quantized_product's.
struct QuantizedMatrix {
  DequantizeOp numbers;
  Value packed, scale, zeros; ///< parameters, possibly reshaped; zeros may be null
  int64_t zeroBits = 0;
  bool byRows = false;
  ::tpc::SymExpr rowBytes{0}, block{0};
  SmallVector<::tpc::SymExpr> scaleStrides, zeroStrides;
  /// The ops between the parameters and the matmul.
  SmallVector<Operation *> ops;
};

/// Returns true for a cast from 16 bits to f32.
bool isWidening(Operation *op);

/// Returns the quantized form of a right operand; nothing if it has none that the runtime reads.
/// `rhs` may be a cast to f32 of a matrix of 16 bits.
std::optional<QuantizedMatrix> getQuantizedMatrix(Value rhs, const ParameterTable &parameters);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H
