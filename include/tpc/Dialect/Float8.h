//===- Float8.h - Conversions of 8-bit floats -------------------*- C++ -*-===//
//
// E4M3 has a sign, 4 bits of exponent and 3 of fraction. Numbers from 2^e to below 2^(e + 1) are
// multiples of 2^(e - 3) if e >= -6; smaller ones are multiples of 2^-9. The largest is 448; there
// are no infinities (Micikevicius et al. 2022; ONNX FLOAT8E4M3FN). The functions create ops in f32.
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
/// Converts E4M3 numbers in a tensor of ui8 to f32, exactly. The bytes of NaN become 480 and -480.
Value createDecodeFloat8(OpBuilder &b, Location loc, Value bytes);

} // namespace mlir::tpc

#endif // TPC_DIALECT_FLOAT8_H
