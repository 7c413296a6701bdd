//===- Simulation.h - Simulation of a compiled program ----------*- C++ -*-===//
//
// --simulate: the time and memory of a staged program on a machine, as text, JSON, a trace, and an
// HTML page, all with the numbers of one ProgramSimulation. Ranks of a stage are one class, so that
// no output grows with the number of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_SIMULATION_H
#define TPC_LIB_DRIVER_SIMULATION_H

#include "tpc/Analysis/ReportExperts.h"
#include "tpc/Cost/StepCost.h"
#include "tpc/Plan/RankMemory.h"
#include "tpc/Support/ShardSpec.h"

#include <optional>

namespace tpc {

struct TpccOptions;

struct SimulationRequest {
  Machine machine;
  int64_t newTokens = 0;                     // of a whole generation; 0: only steps
  std::optional<mlir::tpc::Routing> routing; // without a value, tokens select experts equally often
};

/// Reads the flags of --simulate. Sets the target to that of the machine. Returns nothing without
/// --simulate.
llvm::Expected<std::optional<SimulationRequest>> checkSimulation(TpccOptions &options);

/// A simulated step: the program's, or, in a generation, that of the prompt or of one token.
struct SimulatedStep {
  std::string name; // "step", "prompt", "token"
  mlir::tpc::StepCost cost;
  mlir::tpc::StepTimeline timeline;
  std::vector<mlir::tpc::CollectiveRow> collectives; // of the report
};

/// A prompt and the tokens after it, one sequence in each row of the batch.
struct SimulatedGeneration {
  int64_t promptTokens = 0, newTokens = 0;
  mlir::tpc::Seconds seconds;
};

struct ProgramSimulation {
  std::string name; // of the program
  Machine machine;
  ShardSpec spec;
  mlir::tpc::Symbols shape;
  mlir::tpc::Report report;
  std::vector<mlir::tpc::RankMemory> memories; // by stage
  std::vector<SimulatedStep> steps;
  std::optional<SimulatedGeneration> generation;

  int64_t getRanksOfStage() const;
  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
  /// Writes Chrome's trace format, which Perfetto reads: a process for each class, with its calls,
  /// its messages, and the bytes of its stack.
  void writeTrace(llvm::raw_ostream &os) const;
  /// Writes an HTML page that references no other files.
  void writePage(llvm::raw_ostream &os) const;
};

/// Simulates a staged program. All its symbols must have values.
mlir::FailureOr<ProgramSimulation> simulateProgram(mlir::ModuleOp staged,
                                                   const SimulationRequest &request,
                                                   const ShardSpec &spec,
                                                   const mlir::tpc::Symbols &shape);

/// Formats a time, such as "1.234 ms".
std::string formatSeconds(double seconds);

} // namespace tpc

#endif // TPC_LIB_DRIVER_SIMULATION_H
