//===- ReadProgram.h - Programs as text, from --emit or a person -----------===//

#ifndef TPC_LIB_DRIVER_READPROGRAM_H
#define TPC_LIB_DRIVER_READPROGRAM_H

#include "Compile.h"

namespace tpc {

/// Whether a file is a program as text, by its name or its first bytes, and no ONNX file.
bool isProgramText(llvm::StringRef path);

/// Reads a program of any level up to staged, and finds out which it is at: `level` is Import (also
/// for the model level, which importing leads to again), Sharded, Spmd or Staged. It may have been
/// edited: what later passes rely on and no op's verifier checks is checked here. What an earlier
/// compilation has said about its verification is removed.
mlir::OwningOpRef<mlir::ModuleOp> readProgram(llvm::StringRef path, mlir::MLIRContext *context,
                                              Emit &level);

/// What --megatron-shard would have said for the grid of a program; nothing if it cannot say it.
std::optional<ShardSpec> getSpec(mlir::tpc::GridAttr grid);

} // namespace tpc

#endif // TPC_LIB_DRIVER_READPROGRAM_H
