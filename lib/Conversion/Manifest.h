//===- Manifest.h - Program manifest for the runtime ------------*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_MANIFEST_H
#define TPC_LIB_CONVERSION_MANIFEST_H

#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Env/SizeEmitter.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mlir::tpc {

/// Facts that are not recoverable from the lowered program.
struct ProgramFacts {
  struct Range {
    int64_t min, max;
    std::string of;          // weight that the input indexes; empty if the table is computed
    SmallVector<Type> casts; // integer casts that are applied before the range check
    std::optional<int64_t> ignored = {}; // label outside of the range that the loss ignores
  };
  llvm::DenseMap<unsigned, Range> inputRanges;
  llvm::DenseSet<StringAttr> onesByDefault; // weights that scale a norm

  static ProgramFacts get(ModuleOp module, PipelineOp pipeline);
};

/// Weights of a program by name. They are removed from the module before lowering, because their
/// ONNX names could collide with functions and globals that lowering creates.
using WeightTable = llvm::StringMap<OwningOpRef<WeightOp>>;

/// Returns the manifest as JSON (docs/design/executable.md). Its parameters are the program's
/// tpc_buffer.entry ops. `digestWeights`: reads all weights and adds a digest of each.
FailureOr<std::string> buildManifest(ModuleOp module, PipelineOp pipeline, StringRef name,
                                     const EnvLayout &layout, const WeightTable &weights,
                                     const ProgramFacts &facts, bool digestWeights);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_MANIFEST_H
