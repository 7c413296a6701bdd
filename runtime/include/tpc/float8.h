//===- float8.h - 8-bit floats of quantized matmuls -----------------------===//
//
// Plain C++, shared by the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_FLOAT8_H
#define TPC_FLOAT8_H

/// `bits` of tpc_quantized_args for numbers of E4M3 in bytes. They have no zero points.
#define TPC_E4M3 (-8)

#endif // TPC_FLOAT8_H
