//===- Quantize.h - Ops of quantized numbers --------------------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_QUANTIZE_H
#define TPC_LIB_IMPORT_ONNX_QUANTIZE_H

#include "Node.h"

namespace mlir::tpc::frontend {

/// Returns true for a shape of one element.
inline bool isSingle(ArrayRef<SymExpr> shape) { return product(shape).isConstant(1); }

/// Rounds `quotient`, adds the zero point, saturates, and casts to bytes.
Value quantize(Node &n, Value quotient, Value zero, Type bytes);

/// Range of columns of a right operand.
struct Columns {
  SymExpr start, size;
};

/// Returns an operand of a matmul of integers: its numbers in f32, minus its zero point. Each row
/// of a left operand, and each column of a right operand, can have its own zero point.
Value makeFactor(Node &n, unsigned input, unsigned zeros, bool isRight,
                 std::optional<Columns> columns = {});

/// Returns the matmul of two operands of integers, times both scales. A scale is one number,
/// or for the right operand one for each column. `b` may have only `columns` of the right operand.
/// Reports an error for other scales.
Value multiplyFactors(Node &n, Value a, Value b, unsigned scaleA, unsigned scaleB,
                      std::optional<Columns> columns = {});

struct DynamicQuantization {
  Value bytes, scale, zero;
};
/// Quantizes a tensor of floats to uint8 by its range. Null values after an error.
DynamicQuantization quantizeDynamically(Node &n, Value x);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_QUANTIZE_H
