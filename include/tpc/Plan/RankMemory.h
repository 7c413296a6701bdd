//===- RankMemory.h - Memory of a rank before compilation -------*- C++ -*-===//
//
// Sums the memory of the worst-case rank of a program at the buffers level: weights, caches,
// inputs, the stack of a step, workspaces. For GPUs, the result is an upper bound of the
// executable's estimate at startup (runtime/program/EstimateMemory.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_PLAN_RANKMEMORY_H
#define TPC_PLAN_RANKMEMORY_H

#include "tpc/Analysis/Report.h"

namespace mlir::tpc {

/// Bytes of one rank.
struct RankMemory {
  int64_t weights = 0, caches = 0, inputs = 0, step = 0, libraries = 0;
  std::string peakNode; // ONNX node at the peak of the step's stack
  int64_t getNeed() const { return weights + caches + inputs + step + libraries; }
  /// Prints "3.00 GiB: weights 2.00 GiB, …".
  void print(llvm::raw_ostream &os) const;
  llvm::json::Object toJSON() const;
};

/// Returns the memory of a rank of each stage, by stage.
std::vector<RankMemory> getStageMemories(ModuleOp lowered, MeshAttr grid, const Report &report,
                                         const Symbols &symbols);
/// Returns the memory of the worst-case rank. `report`: that of the staged program; `lowered`: the
/// same program at the buffers level; `grid`: evaluates its symbolic sizes.
RankMemory getRankMemory(ModuleOp lowered, MeshAttr grid, const Report &report,
                         const Symbols &symbols);

/// Bytes of the worst-case rank in a training step.
struct TrainingMemory {
  int64_t weights = 0, state = 0, gradients = 0;
  int64_t frames = 0; // peak of the step's frames, which contain gradients and activations
  llvm::json::Object toJSON() const;
};
/// Returns nothing for programs at the buffers level that update no parameters.
std::optional<TrainingMemory> getTrainingMemory(ModuleOp lowered, MeshAttr grid,
                                                const Symbols &symbols);

/// Parses "80GiB", "79.5GiB" or "640MB". On failure returns nothing and sets `error`.
std::optional<int64_t> parseMemorySize(StringRef text, std::string &error);
/// Returns "12.50 GiB" or "3.20 MiB".
std::string formatMemorySize(int64_t bytes);

} // namespace mlir::tpc

#endif // TPC_PLAN_RANKMEMORY_H
