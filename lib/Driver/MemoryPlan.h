//===- MemoryPlan.h - Splits that fit into given GPU memory -----*- C++ -*-===//
//
// Lowers the program for each split to buffers, and lists the memory of the worst-case rank
// (tpc/Plan/RankMemory.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_MEMORYPLAN_H
#define TPC_LIB_DRIVER_MEMORYPLAN_H

#include "tpc/Plan/RankMemory.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace tpc {

struct TpccOptions;

/// Returns the bytes of --memory-plan: "80GiB", "79.5GiB" or "640MB". Returns an error for an
/// invalid value, for conflicting flags, and for targets other than GPUs.
llvm::Expected<int64_t> checkMemoryPlan(TpccOptions &options);

/// Memory of one split on its worst-case rank.
struct MemoryRow : mlir::tpc::RankMemory {
  int64_t tp = 1, pp = 1, ranks = 1;
  bool exists = true; // false: the split is rejected; see `why`
  std::string why;
};

struct MemoryPlan {
  int64_t memory = 0;
  mlir::tpc::Symbols shape;
  std::vector<MemoryRow> rows; // by number of ranks, up to the first number with a split that fits
  bool fits = false;

  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
};

/// Plans a program of the model level. `base`: items of --megatron-shard except tp and pp. All
/// symbols of the model must have values.
mlir::FailureOr<MemoryPlan> planMemory(mlir::ModuleOp model, llvm::StringRef base, int64_t memory,
                                       const mlir::tpc::Symbols &symbols);

/// Returns the memory of a rank in the training step that is a staged program; nothing for other
/// staged programs. Lowers a copy of the program to buffers.
mlir::FailureOr<std::optional<mlir::tpc::TrainingMemory>>
planTraining(mlir::ModuleOp staged, const mlir::tpc::Symbols &symbols);

} // namespace tpc

#endif // TPC_LIB_DRIVER_MEMORYPLAN_H
