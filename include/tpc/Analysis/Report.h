//===- Report.h - Communication and memory of a staged program --*- C++ -*-===//
//
// Walks the staged program with values for all symbols and counts collectives in the same way as
// the runtime's counters. A CollectiveRow has the number of collectives of one kind over one axis
// that a rank of a stage issues per step, and the total bytes of their whole buffers (all-reduce:
// the tensor; all-gather: the result; reduce-scatter: the operand; send: the message, at the
// sender). Empty transfers are not counted. The rank has coordinate 0 on every axis, so it has the
// largest shards if sizes are uneven. Each output is counted as {"axis": "output", "kind":
// "gather"}, with its global size.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_REPORT_H
#define TPC_ANALYSIS_REPORT_H

#include "tpc/Analysis/Nominal.h"

#include "llvm/Support/JSON.h"

namespace mlir::tpc {

struct CollectiveRow {
  int64_t stage = 0;
  std::string axis; // "tp", "tp-dp", "pp", "output"
  std::string kind; // "all_reduce", …
  int64_t count = 0;
  int64_t bytes = 0;

  llvm::json::Value toJSON() const;
};

/// The view of a weight that one parameter op reads, on the rank with the most bytes.
struct ParameterRow {
  std::string weight;
  std::vector<int64_t> shape, localShape; // of the view: global, and on this rank
  int64_t bytes = 0;                      // on this rank
  std::vector<std::string> axes;          // by dimension: the axes that split it, such as "tp"
};

/// A chunk of the model, on the ranks of one stage.
struct ChunkRow {
  int64_t chunk = 0, layers = 0;
};

struct StageRow {
  int64_t stage = 0;
  std::vector<ChunkRow> chunks; // one without vpp
  int64_t layers = 0;
  double seconds = 0;           // estimate for one micro-batch
  double layerSeconds = 0;      // share of `seconds` in layers
  double recomputedSeconds = 0; // share of `seconds` for values that other stages compute too
  double transferSeconds = 0;   // in addition to `seconds`, for messages from and to neighbors
  int64_t weightBytes = 0;      // on the rank with the most
  int64_t prologueBytes = 0;    // prologue values, live during all micro-batches
  int64_t cacheBytes = 0;       // KV caches, on the rank with the most
  int64_t microBatches = 0;     // non-empty micro-batches, on replica 0
  std::vector<ParameterRow> parameters;
};

/// A function of the program, with the number of its ops per call.
struct FunctionRow {
  std::string function;
  bool isLayer = false;
  int64_t calls = 0; // call sites in the program
  int64_t matmuls = 0, attentions = 0, kernels = 0;
};

/// Events of computation on a rank of pp, in slots of equal time.
struct ScheduleRow {
  std::string policy;
  int64_t ranks = 1;
  int64_t busy = 0; // slots in which a rank computes
  int64_t idle = 0; // slots in which it waits for other ranks
  double getBubble() const { return busy > 0 ? double(idle) / double(busy) : 0; }

  /// Counts the slots for the number of micro-batches that have samples.
  static ScheduleRow count(PipelineOp pipeline, int64_t microBatches);
};

/// Returns the chunk of each loop of a stage.
std::vector<int64_t> getChunks(StageOp stage);

struct RankRow {
  int64_t rank = 0;
  int64_t stage = 0;
  int64_t weightBytes = 0;
  int64_t cacheBytes = 0;
};

struct Report {
  Symbols symbols;
  std::vector<CollectiveRow> collectives;
  std::vector<StageRow> stages;
  ScheduleRow schedule;
  std::vector<RankRow> ranks;         // empty for programs of more than maxRanks ranks
  std::vector<FunctionRow> functions; // of the lowered program; set by the driver
  std::vector<std::string> splits;    // "tp: 160 over tp 2: fc1 (columns), …"
  std::vector<std::string> warnings;

  static constexpr int64_t maxRanks = 4096;

  llvm::json::Value toJSON() const;
  /// Prints the report as text.
  void print(llvm::raw_ostream &os) const;
};

/// Returns the symbols in the types of the program's inputs. All must have a value.
std::set<std::string> getInputSymbols(ModuleOp module);

/// Computes the report of a staged module (with a tpc.pipeline). Emits an error if the module is
/// not staged, or if a symbol has no value in `symbols`. Programs of more than `maxRanks` ranks
/// have no rows of ranks.
FailureOr<Report> computeReport(ModuleOp module, const Symbols &symbols,
                                int64_t maxRanks = Report::maxRanks);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_REPORT_H
