//===- ReadProgram.h - Reader of program text -------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_READPROGRAM_H
#define TPC_LIB_DRIVER_READPROGRAM_H

#include "Compile.h"

namespace tpc {

/// Returns whether a file is a textual program instead of an ONNX file, by its name or first bytes.
bool isProgramText(llvm::StringRef path);

/// Reads a program of any level up to staged. `level` receives Import (also for programs of the
/// model level, whose passes run again), Sharded, Spmd or Staged. Checks requirements of later
/// passes that op verifiers do not check, because the program may have been edited. Removes results
/// of earlier verification.
mlir::OwningOpRef<mlir::ModuleOp> readProgram(llvm::StringRef path, mlir::MLIRContext *context,
                                              Emit &level);

/// Returns the --megatron-shard spec of a program's grid; nothing if the grid is not expressible as
/// a spec.
std::optional<ShardSpec> getSpec(mlir::tpc::MeshAttr grid);

} // namespace tpc

#endif // TPC_LIB_DRIVER_READPROGRAM_H
