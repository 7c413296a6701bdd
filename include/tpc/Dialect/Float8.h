//===- Float8.h - Conversions of 8-bit floats -------------------*- C++ -*-===//
//
// E4M3 has a sign, 4 bits of exponent and 3 of fraction: 0, and 2^-9 to 448 in steps of 2^(e - 3)
// for numbers of magnitude 2^e to 2^(e + 1), at least 2^-9. There are no infinities (Micikevicius
// et al. 2022; ONNX FLOAT8E4M3FN). Conversions are element-wise ops in f32, and exact.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_FLOAT8_H
#define TPC_DIALECT_FLOAT8_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/Builders.h"

namespace mlir::tpc {

/// Largest number of E4M3.
inline constexpr double kLargestFloat8 = 448;

/// Rounds a tensor of f32 to numbers of E4M3, ties to even. Larger numbers become 448 or -448.
Value createRoundToFloat8(OpBuilder &b, Location loc, Value x);
/// Converts bytes with numbers of E4M3, a tensor of ui8, to f32. The byte of NaN becomes 480.
Value createDecodeFloat8(OpBuilder &b, Location loc, Value bytes);

} // namespace mlir::tpc

#endif // TPC_DIALECT_FLOAT8_H
