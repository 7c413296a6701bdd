//===- AutoShard.h - Choice of the grid for --megatron-shard=auto -*- C++ -*-===//
//
// Compiles the model for the grids of a search (tpc/Plan/Search.h), once for each structure of the
// program, and estimates their time and memory on a machine.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_AUTOSHARD_H
#define TPC_LIB_DRIVER_AUTOSHARD_H

#include "tpc/Analysis/ReportExperts.h"
#include "tpc/Plan/Search.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace tpc {

struct TpccOptions;

/// Value of --megatron-shard that selects the planner.
inline constexpr llvm::StringLiteral kAutoShard = "auto";

struct AutoShardRequest {
  Machine machine;
  int64_t devices = 1;
  int64_t gpusPerNode = 0; // 0: all devices are in one node
  int64_t memory = 0;      // --memory: bytes of a device; 0: the machine's
  mlir::tpc::Goal goal = mlir::tpc::Goal::Latency;
  double price = 0;                          // of a device for one hour; 0: unknown
  bool isExhaustive = false;                 // evaluates all grids
  int64_t maxEvaluations = 0;                // maximum number of evaluated grids; 0: no limit
  std::optional<mlir::tpc::Routing> routing; // without a value, tokens select experts equally often
};

/// Reads the flags of --megatron-shard=auto. Sets the target to that of the machine. Errors name
/// the flag; without auto, its flags are errors.
llvm::Expected<std::optional<AutoShardRequest>> checkAutoShard(TpccOptions &options);

struct AutoShardPlan {
  AutoShardRequest request;
  mlir::tpc::Symbols shape;
  bool generates = false; // whether the program is a generation step
  mlir::tpc::SearchResult search;
  /// If no grid fits: a grid of more devices that does, and a smaller batch at which a grid of
  /// these devices does ("tp2 fits at batch", 4).
  std::optional<mlir::tpc::RankedGrid> larger = std::nullopt;
  std::optional<std::pair<std::string, int64_t>> smallerBatch = std::nullopt;

  bool fits() const { return !search.best.empty(); }
  /// Returns the value of --megatron-shard for a grid.
  std::string getSpec(const mlir::tpc::GridChoice &grid) const;
  /// Returns the price of a step on the ranks of a grid.
  double getPrice(const mlir::tpc::RankedGrid &row) const;
  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
  /// Describes why no grid fits.
  std::string describeMisfit() const;
};

/// Plans a program of the model level. All symbols of the model must have values.
mlir::FailureOr<AutoShardPlan> planAutoShard(mlir::ModuleOp model, const AutoShardRequest &request,
                                             const mlir::tpc::Symbols &symbols);

} // namespace tpc

#endif // TPC_LIB_DRIVER_AUTOSHARD_H
