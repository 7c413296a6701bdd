//===- Report.h - What a staged program communicates and holds --*- C++ -*-===//
//
// Counts by walking the staged program with values for all symbols, exactly as the runtime's
// counters count: a row says how many collectives of a kind over an axis one rank of
// a stage issues in one step, and the sum of the bytes of their whole buffers
// (all-reduce: the tensor; all-gather: the gathered one; reduce-scatter: the one before
// scattering; send: the message, at the sender). What is empty is not
// counted. Where sizes are uneven, the rank with most: the one with coordinate 0 on
// every axis, since the first part of a balanced split is the largest.
// {"axis": "output", "kind": "gather"}: one for each output, all of it.
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

/// A weight as one use sees it, on the rank with most.
struct ParameterRow {
  std::string weight;
  std::vector<int64_t> shape, held; // of all ranks, of this one
  int64_t bytes = 0;                // held
};

struct StageRow {
  int64_t stage = 0;
  int64_t layers = 0;
  double seconds = 0;           // estimate for one micro-batch
  double layerSeconds = 0;      // of these, in layers
  double recomputedSeconds = 0; // of these, for what other stages compute too
  double transferSeconds = 0;   // beside these, for messages from and to its neighbours
  int64_t weightBytes = 0;      // on the rank with most
  int64_t heldBytes = 0;        // computed before the rounds, and held for all of them
  int64_t cacheBytes = 0;       // of a generation, on the rank with most
  int64_t microBatches = 0;     // that are not empty, on replica 0
  std::vector<ParameterRow> parameters;
};

/// A function of the program, and what it calls each time.
struct FunctionRow {
  std::string function;
  bool isLayer = false;
  int64_t calls = 0; // of it, in the text
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
  std::vector<RankRow> ranks;         // of at most maxRanks ranks
  std::vector<FunctionRow> functions; // as they are planned; from the driver
  std::vector<std::string> splits;    // "tp: 160 over tp 2: fc1 (columns), …"
  std::vector<std::string> warnings;

  static constexpr int64_t maxRanks = 4096;

  llvm::json::Value toJSON() const;
  /// A page for people.
  void print(llvm::raw_ostream &os) const;
};

/// Names of the symbols that the inputs of a program have: what must be bound.
std::set<std::string> getInputSymbols(ModuleOp module);

/// `module` is staged (has a tpc.pipeline). Emits an error if it is not, or if `symbols`
/// lacks one that occurs.
FailureOr<Report> computeReport(ModuleOp module, const Symbols &symbols);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_REPORT_H
