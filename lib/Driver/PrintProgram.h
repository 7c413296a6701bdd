//===- PrintProgram.h - Readable program text -------------------*- C++ -*-===//
//
// Prints programs for tpcc --emit as valid MLIR text that is easier to read than the output of
// MLIR's printer. Distributed types have aliases at the top, weights and inputs have their ONNX
// names, and long lines are broken:
//
//   !f32_32_x_128tp_l = tensor<32x64xf32, #tpc.dist<[32, 128{tp}], local>>
//   …
//   %5 = tpc.matmul %4, %mlp.c_fc.weight bias %mlp.c_fc.bias : …
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_PRINTPROGRAM_H
#define TPC_LIB_DRIVER_PRINTPROGRAM_H

#include "mlir/IR/BuiltinOps.h"

namespace tpc {

/// Maximum line length, unless a string or a name is longer.
inline constexpr unsigned kLineWidth = 120;

void printProgram(mlir::ModuleOp module, llvm::raw_ostream &os);

/// Breaks an MLIR program's lines of more than `width` characters, at spaces outside of strings:
/// preferably in the second half of the line, at the outermost bracket level, after a comma or
/// before `:` or `->`.
void breakLines(llvm::StringRef text, unsigned width, llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_LIB_DRIVER_PRINTPROGRAM_H
