//===- QuantizedMatrices.h - Matrices of quantized parameters ---*- C++ -*-===//
//
// A right operand of a matmul that is computed by tpc.dequantize and movement ops from parameters,
// in a form that the runtime's tpc_quantized_product reads.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H
#define TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H

#include "ParameterTable.h"
#include "tpc/Dialect/Quantized.h"

namespace mlir::tpc {

/// The fields are those of tpc_buffer.quantized_product.
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

/// Returns the form of a right operand; nothing if the runtime does not read it. The matrix may be
/// in 16 bits, and the right operand its cast to f32.
std::optional<QuantizedMatrix> getQuantizedMatrix(Value rhs, const ParameterTable &parameters);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_QUANTIZEDMATRICES_H
