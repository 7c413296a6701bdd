//===- State.h - Attributes of KV caches and generation steps ---*- C++ -*-===//
//
// Not part of Tpc.h: only passes that create, lower or verify KV caches include this header.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_STATE_H
#define TPC_DIALECT_STATE_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/StateOps.h.inc"

namespace mlir::tpc {

// ---- generation ----

/// Arguments and results of @main: the symbol of the `tpc.cache`. The argument has the cache
/// contents before the step, the result those after it.
inline constexpr llvm::StringLiteral kCacheAttr = "tpc.cache";
/// Module that is a generation step: the `#tpc.step` with the names of its symbols and inputs.
inline constexpr llvm::StringLiteral kStepAttr = "tpc.step";

// ---- training ----

/// Results of @main and outputs of a pipeline: [@weight] or [@weight, #tpc.view], the parameter
/// whose elements the result replaces at the end of a step.
inline constexpr llvm::StringLiteral kUpdateAttr = "tpc.update";
/// Module that is a training step: {name = "adamw", beta1 = 0.9, …}, the optimizer and its settings
/// that the runtime needs.
inline constexpr llvm::StringLiteral kOptimizerAttr = "tpc.optimizer";

// ---- lowering ----

/// Movement ops on caches that are lowered to aliases of the cache's memory: slices of an argument
/// that are updated in place, and transposes whose results runtime calls read by strides; see
/// tpc-alias-caches.
inline constexpr llvm::StringLiteral kAliasedAttr = "tpc.aliased";
/// On an argument of a kernel: the number of dimensions that count rows, and the distance in
/// elements from row to row. The argument is columns of a buffer with results of merged matmuls.
inline constexpr llvm::StringLiteral kRowStrideAttr = "tpc.row_stride";

/// Names of the size symbols in kStepAttr: number of cached tokens, and of new tokens.
struct StepSymbols {
  std::string past, tokens;

  static std::optional<StepSymbols> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;
};

/// Caches of sliding-window attention, which keep at least the `window` - 1 tokens before a step.
struct SlidingWindowCaches {
  int64_t window = 0;
  std::string capacity; // size symbol: capacity in tokens
  std::string lengths;  // name of the input [batch]: number of cached tokens per sequence
};

/// Size symbols and inputs of a step on preallocated caches (tpc-preallocate-caches).
struct PreallocatedStep {
  std::string tokens, capacity; // size symbols: new tokens, and capacity in tokens
  std::string lengths, counts;  // names of the inputs [batch]: cached tokens, valid new tokens
  bool last = false;            // outputs contain only each sequence's last token
  std::optional<SlidingWindowCaches> windowed = std::nullopt;

  static std::optional<PreallocatedStep> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;

  /// Returns the number of steps that run concurrently, on disjoint sets of sequences: the number
  /// of pipeline stages. With several chunks per rank it is 1, because a step returns to the first
  /// rank between its chunks.
  static int64_t getNumStepsInFlight(MeshAttr grid) {
    return grid.getChunksPerRank() > 1 ? 1 : grid.getAxisSize(kPipelineAxis);
  }
};

/// Returns the symbol's name if `size` is a single symbol.
std::optional<std::string> getSymbolName(const ::tpc::SymExpr &size);

/// Returns the cache of an argument or result with these attributes, or null.
inline FlatSymbolRefAttr getCache(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<FlatSymbolRefAttr>(kCacheAttr) : FlatSymbolRefAttr();
}

/// The parameter that a result replaces; see kUpdateAttr.
struct Update {
  FlatSymbolRefAttr weight;
  ViewAttr view; // null: the entire weight

  /// Returns the update of a result with these attributes.
  static std::optional<Update> get(DictionaryAttr attributes) {
    auto parts = attributes ? attributes.getAs<ArrayAttr>(kUpdateAttr) : ArrayAttr();
    if (!parts || parts.empty())
      return std::nullopt;
    return Update{cast<FlatSymbolRefAttr>(parts[0]),
                  parts.size() > 1 ? cast<ViewAttr>(parts[1]) : ViewAttr()};
  }
};

/// Returns whether an output stays on its ranks: a cache, or an update of a parameter.
inline bool staysOnRanks(DictionaryAttr output) { return getCache(output) || Update::get(output); }

} // namespace mlir::tpc

#endif // TPC_DIALECT_STATE_H
