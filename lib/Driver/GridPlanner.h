//===- GridPlanner.h - Estimates of grids for the search --------*- C++ -*-===//
//
// Compiles the model for the grids of a search, once for each structure of the program, and
// estimates their time and memory. Lower bounds come from programs with one stage: every op of such
// a program is in some stage of the program with more stages, at the same sizes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_GRIDPLANNER_H
#define TPC_LIB_DRIVER_GRIDPLANNER_H

#include "AutoShard.h"

#include "tpc/Dialect/State.h"

#include "mlir/IR/OwningOpRef.h"

namespace tpc {

class GridPlanner {
public:
  /// Maximum number of devices in the search.
  static constexpr int64_t maxDevices = 16384;

  GridPlanner(mlir::ModuleOp model, const AutoShardRequest &request,
              const mlir::tpc::Symbols &symbols);

  mlir::FailureOr<mlir::tpc::SearchResult> run();
  /// Sets the remedies of a plan without a grid that fits.
  void findRemedies(AutoShardPlan &plan);
  bool generates() const { return step.has_value(); }

private:
  using GridChoice = mlir::tpc::GridChoice;
  using GridBound = mlir::tpc::GridBound;

  /// Programs of one structure: grids that differ only in sizes of axes share it.
  struct Structure {
    std::string refused; // error of the compilation; empty: none
    mlir::OwningOpRef<mlir::ModuleOp> staged, lowered;
    std::optional<mlir::tpc::LoweredProgram> program; // functions of `lowered`
  };
  /// Busy time of a rank in a program with one stage; `refused`: error of the machine.
  struct Busy {
    mlir::tpc::BusySeconds seconds;
    std::string refused;
  };
  /// Heads of an attention op with several groups.
  struct GroupedHeads {
    int64_t kv, queries;
  };

  std::optional<ShardSpec> parse(const GridChoice &grid, std::string &error) const;
  /// Returns the number of independent copies of the program: more than 1 only for throughput.
  int64_t getCopies(const GridChoice &grid) const;
  int64_t getRanksPerNode(const GridChoice &grid) const;
  int64_t getMemory(const GridChoice &grid) const;

  /// Sets the experts that tokens select, with --routing.
  void setExpertLoad(mlir::tpc::StepEstimator &estimator, const Structure &structure,
                     mlir::tpc::MeshAttr grid);
  Structure &compile(const GridChoice &grid);
  Structure &compileStructure(const GridChoice &key);
  mlir::tpc::GridCost evaluate(const GridChoice &grid);
  /// Returns the memory of a grid without its time; nothing if the grid is refused.
  std::optional<mlir::tpc::RankedGrid> measure(const GridChoice &grid,
                                               const mlir::tpc::Symbols &sizes);

  /// Returns the program with one stage that bounds a grid, compiled for the smallest grid with the
  /// same axes. Null if there is none.
  Structure *getBounding(const GridChoice &grid);
  /// Returns the grid of a bounding program with `samples` samples on each rank.
  mlir::tpc::MeshAttr makeBoundingGrid(const GridChoice &grid, int64_t samples);
  llvm::Expected<mlir::tpc::BusySeconds> estimateBusy(const Structure &structure,
                                                      mlir::tpc::MeshAttr grid, int64_t samples,
                                                      int64_t threads);
  void removeRepeatedHeads(mlir::tpc::BusySeconds &seconds, const GridChoice &grid,
                           const Structure &structure, mlir::tpc::MeshAttr attr, int64_t samples,
                           int64_t threads);
  const Busy &getBusy(const GridChoice &grid, int64_t samples);
  GridBound boundSample(const GridChoice &grid);
  GridBound boundSamples(const GridChoice &grid);
  GridBound boundGrid(const GridChoice &grid);

  mlir::ModuleOp model;
  const AutoShardRequest &request;
  mlir::tpc::Symbols symbols;
  std::optional<mlir::tpc::PreallocatedStep> step;
  /// Sizes of the step that is estimated: of one token in a generation.
  mlir::tpc::Symbols stepSymbols;
  int64_t batch = 1; // maximum first dimension of the inputs, which dp and mb split
  std::optional<std::string> batchSymbol;
  std::vector<GroupedHeads> groupedHeads;
  std::map<std::string, Structure> structures;
  /// By tp, tensorX, ep, etp, sp, samples, threads.
  std::map<std::array<int64_t, 7>, Busy> busy;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_GRIDPLANNER_H
