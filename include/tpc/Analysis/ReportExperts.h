//===- ReportExperts.h - Experts and exchanged tokens of ranks --*- C++ -*-===//

#ifndef TPC_ANALYSIS_REPORTEXPERTS_H
#define TPC_ANALYSIS_REPORTEXPERTS_H

#include "tpc/Analysis/Report.h"

#include "llvm/Support/JSON.h"

namespace mlir::tpc {

/// The experts that each token selects: [layers, tokens, experts], nonzero if selected. One layer
/// stands for all.
struct Routing {
  int64_t layers = 1, tokens = 0, experts = 0;
  std::vector<bool> selected;

  bool has(int64_t layer) const { return layers == 1 || layer < layers; }
  bool uses(int64_t layer, int64_t token, int64_t expert) const {
    return selected[((layers == 1 ? 0 : layer) * tokens + token) * experts + expert];
  }
};

/// Experts of one rank, and the bytes that it sends to the ranks of other experts (dispatch) and
/// back to the ranks of tokens (combine), in one step.
struct ExpertRow {
  int64_t rank = 0, stage = 0;
  int64_t experts = 0; // maximum over the model's mixtures
  /// Expected bytes if each set of k experts is equally likely.
  int64_t uniformDispatchBytes = 0, uniformCombineBytes = 0;
  /// Exact bytes for a routing, which the runtime's counters equal.
  int64_t dispatchBytes = 0, combineBytes = 0;
};

/// Returns a row for each rank of a staged program with experts; no rows for other programs.
/// Errors: a routing whose sizes are not the program's; a routing for a program that gathers
/// tokens.
FailureOr<std::vector<ExpertRow>> countExperts(ModuleOp module, const Symbols &symbols,
                                               const Routing *routing);

/// Returns two averages over layers, each of the layer's busiest rank (with the most pairs of a
/// token and an expert that it selects): pairs per token, and experts that at least one token
/// selects. The program must have experts.
std::pair<double, double> getBusiestExperts(ModuleOp program, MeshAttr grid,
                                            const Routing &routing);
/// Emits an error if the program has no experts, or if the routing is of another number of tokens
/// or experts.
LogicalResult checkRouting(ModuleOp program, const Symbols &symbols, const Routing &routing);
/// Replaces the bytes of exchanges in the report of a staged program by those of the rank that
/// sends the most for this routing. No effect on programs that gather tokens, or that have more
/// than Report::maxRanks ranks.
LogicalResult applyRouting(ModuleOp staged, const Symbols &symbols, const Routing &routing,
                           Report &report);
llvm::json::Array toJSON(ArrayRef<ExpertRow> rows, bool hasRouting);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_REPORTEXPERTS_H
