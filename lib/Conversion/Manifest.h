//===- Manifest.h - What the runtime is told about a program ----*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_MANIFEST_H
#define TPC_LIB_CONVERSION_MANIFEST_H

#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Env/SizeEmitter.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mlir::tpc {

/// Facts that are read off the program before it is lowered.
struct ProgramFacts {
  struct Range {
    int64_t min, max;
    std::string of;
    SmallVector<Type> casts; // what it wraps around to before
  };
  llvm::DenseMap<unsigned, Range> inputRanges;
  llvm::DenseSet<StringAttr> onesByDefault; // weights that scale a norm

  static ProgramFacts get(ModuleOp module, PipelineOp pipeline);
};

/// The weights of a program by name. They are taken out of the module before it is lowered: their
/// names are the model's, and may be those of the functions and globals that lowering makes.
using WeightTable = llvm::StringMap<OwningOpRef<WeightOp>>;

/// The JSON text of docs/dev/architecture.md, section 5. With `digestWeights` all weights are read,
/// and the digest of each is part of it. Parameters are the entries of the table
/// (tpc_buffer.entry).
FailureOr<std::string> buildManifest(ModuleOp module, PipelineOp pipeline, StringRef name,
                                     const EnvLayout &layout, const WeightTable &weights,
                                     const ProgramFacts &facts, bool digestWeights);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_MANIFEST_H
