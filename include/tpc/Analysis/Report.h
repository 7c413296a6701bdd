//===- Report.h - Communication and memory of a staged program --*- C++ -*-===//
//
// Counts by walking the staged program with values for all symbols, exactly as the runtime's
// counters do. A row gives the number of collectives of a kind over an axis that one rank of a
// stage issues in one step, and the total bytes of their whole buffers (all-reduce: the tensor;
// all-gather: the result; reduce-scatter: the operand; send: the message, at the sender). Empty
// transfers are not counted. For uneven sizes, the row describes the rank with coordinate 0 on
// every axis: it has the most, since the first shard of a balanced split is the largest. {"axis":
// "output", "kind": "gather"}: one for each output, with its total size.
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
};

/// A weight as one use sees it, on the rank with the most bytes.
struct ParameterRow {
  std::string weight;
  std::vector<int64_t> shape, held; // global shape, and shape on this rank
  int64_t bytes = 0;                // on this rank
};

struct StageRow {
  int64_t stage = 0;
  int64_t layers = 0;
  double seconds = 0;           // estimate for one micro-batch
  double layerSeconds = 0;      // share of `seconds` in layers
  double recomputedSeconds = 0; // share of `seconds` for values that other stages compute too
  double transferSeconds = 0;   // in addition to `seconds`, for messages from and to neighbors
  int64_t weightBytes = 0;      // on the rank with the most
  int64_t prologueBytes = 0;    // prologue values, live during all micro-batches
  int64_t cacheBytes = 0;       // of a generation, on the rank with the most
  int64_t microBatches = 0;     // non-empty ones, on replica 0
  std::vector<ParameterRow> parameters;
};

/// A function of the program, and its ops per call.
struct FunctionRow {
  std::string function;
  bool isLayer = false;
  int64_t calls = 0; // call sites in the program
  int64_t products = 0, attentions = 0, kernels = 0;
};

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
  std::vector<RankRow> ranks;         // at most maxRanks ranks
  std::vector<FunctionRow> functions; // as planned; filled in by the driver
  std::vector<std::string> splits;    // "tp: 160 over tp 2: fc1 (columns), …"
  std::vector<std::string> warnings;

  static constexpr int64_t maxRanks = 4096;

  llvm::json::Value toJSON() const;
  /// Prints a report for people.
  void print(llvm::raw_ostream &os) const;
};

/// Returns the symbols in the input types of a program, which must be bound.
std::set<std::string> getInputSymbols(ModuleOp module);

/// Computes the report of a staged module (with a tpc.pipeline). Emits an error if it is not
/// staged, or if `symbols` lacks one that occurs.
FailureOr<Report> computeReport(ModuleOp module, const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_REPORT_H
