//===- State.h - State that persists between generation steps ---*- C++ -*-===//
//
// Separate from Tpc.h: only passes that create, lower or verify caches need it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_STATE_H
#define TPC_DIALECT_STATE_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/StateOps.h.inc"

namespace mlir::tpc {

// ---- generation ----

/// Arguments and results of @main: the `tpc.cache` with these contents, before and after a step.
inline constexpr llvm::StringLiteral kCacheAttr = "tpc.cache";
/// Module of a generation step: the `#tpc.step` with its symbols and the names of its inputs.
inline constexpr llvm::StringLiteral kStepAttr = "tpc.step";

// ---- lowering ----

/// Movements of caches that only alias memory: from an argument to the slice that is written in
/// place, and transposes that runtime calls read by strides; see tpc-alias-caches.
inline constexpr llvm::StringLiteral kAliasedAttr = "tpc.aliased";

/// Symbol names of kStepAttr.
struct StepSymbols {
  std::string past, tokens;

  static std::optional<StepSymbols> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;
};

/// Sliding-window caches: they keep at least `window` - 1 tokens before each token of a step.
struct SlidingWindowCaches {
  int64_t window = 0;
  std::string room;    // symbol of the capacity of these caches
  std::string lengths; // input: number of tokens of each sequence in these caches
};

/// Symbols and inputs of a step on preallocated caches, with sequence lengths as data
/// (tpc-preallocate-caches).
struct PreallocatedStep {
  std::string tokens, capacity;
  std::string lengths, counts; // names of inputs
  bool last = false;
  std::optional<SlidingWindowCaches> windowed = std::nullopt;

  static std::optional<PreallocatedStep> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;

  /// Returns the number of steps that may be in flight at a time, each for different sequences: the
  /// number of stages, so that each stage has one.
  static int64_t getNumStepsInFlight(GridAttr grid) { return grid.getAxisSize("pp"); }
};

/// Returns the name of a size that is a single symbol.
std::optional<std::string> getSymbolName(const ::tpc::SymExpr &size);

/// Returns the cache of an argument or a result with these attributes; null if there is none.
inline FlatSymbolRefAttr getCache(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<FlatSymbolRefAttr>(kCacheAttr) : FlatSymbolRefAttr();
}

} // namespace mlir::tpc

#endif // TPC_DIALECT_STATE_H
