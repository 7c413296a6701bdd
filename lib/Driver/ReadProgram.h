//===- ReadProgram.h - Reader of program text -------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_READPROGRAM_H
#define TPC_LIB_DRIVER_READPROGRAM_H

#include "Compile.h"

namespace tpc {

/// Returns whether a file is a program as text, by its name or its first bytes, and no ONNX file.
bool isProgramText(llvm::StringRef path);

/// Reads a program of any level up to staged, and determines its level: `level` is Import (also for
/// the model level, which is imported again), Sharded, Spmd or Staged. The program may be edited:
/// requirements of later passes that no op's verifier checks are checked here. Results of earlier
/// verification are removed.
mlir::OwningOpRef<mlir::ModuleOp> readProgram(llvm::StringRef path, mlir::MLIRContext *context,
                                              Emit &level);

/// Returns the --megatron-shard spec of a program's grid; nothing if no spec describes it.
std::optional<ShardSpec> getSpec(mlir::tpc::GridAttr grid);

} // namespace tpc

#endif // TPC_LIB_DRIVER_READPROGRAM_H
