//===- MemoryPlan.h - Which splits fit into GPUs of some memory -----------===//
//
// Each split is lowered to buffers, and what a rank will hold is added up from these: weights,
// inputs, the stack that a step works on, workspaces. What the executable finds when it starts
// (runtime/program/EstimateMemory.h) is at most that.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_MEMORYPLAN_H
#define TPC_LIB_DRIVER_MEMORYPLAN_H

#include "tpc/Analysis/Nominal.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace tpc {

struct TpccOptions;

/// Of --memory-plan, "80GiB", "79.5GiB" or "640MB": bytes. Or what does not go with it; it is about
/// programs for GPUs.
llvm::Expected<int64_t> checkMemoryPlan(TpccOptions &options);

/// What one split needs, on the rank that needs most.
struct MemoryRow {
  int64_t tp = 1, pp = 1, ranks = 1;
  bool exists = true; // else the model cannot be split so: `why`
  std::string why;
  int64_t weights = 0, inputs = 0, step = 0, libraries = 0;
  int64_t getNeed() const { return weights + inputs + step + libraries; }
};

struct MemoryPlan {
  int64_t memory = 0;
  mlir::tpc::Symbols shape;
  std::vector<MemoryRow> rows; // by numbers of ranks, up to the least of which some fits
  bool fits = false;

  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
};

/// `model`: at level model. `base`: the items of --megatron-shard beside tp and pp. All symbols
/// of the model have values.
mlir::FailureOr<MemoryPlan> planMemory(mlir::ModuleOp model, llvm::StringRef base, int64_t memory,
                                       const mlir::tpc::Symbols &symbols);

} // namespace tpc

#endif // TPC_LIB_DRIVER_MEMORYPLAN_H
