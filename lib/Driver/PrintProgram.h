//===- PrintProgram.h - Readable program text -------------------*- C++ -*-===//
//
// Output of tpcc --emit: the same program as MLIR's printer writes, which tpc-opt and tpcc read
// back, in lines that fit a screen. Distributed types have aliases at the top, weights and inputs
// have the file's names, and long lines are broken:
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

/// Columns of a line, unless a string or a name in it is longer.
inline constexpr unsigned kLineWidth = 120;

void printProgram(mlir::ModuleOp module, llvm::raw_ostream &os);

/// Breaks lines of an MLIR program that are longer than `width` at spaces: preferably in the second
/// half of the line, at the outermost bracket level, and there after commas and before `:` and
/// `->`. Strings stay whole.
void breakLines(llvm::StringRef text, unsigned width, llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_LIB_DRIVER_PRINTPROGRAM_H
