//===- State.h - What stays between steps of a generation -------*- C++ -*-===//
//
// Not in everybody's header: only passes that make caches, and those that place and prove them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_STATE_H
#define TPC_DIALECT_STATE_H

#include "tpc/Dialect/Tpc.h"

#define GET_OP_CLASSES
#include "tpc/Dialect/StateOps.h.inc"

namespace mlir::tpc {

// ---- generation ----

/// Arguments and results of @main: the `tpc.cache` whose contents it is, before and after a step.
inline constexpr llvm::StringLiteral kCacheAttr = "tpc.cache";
/// Module, a step of a generation: the `#tpc.step` with its symbols and the names of its inputs.
inline constexpr llvm::StringLiteral kStepAttr = "tpc.step";

// ---- lowering ----

/// Movements of caches that are names: from an argument to the part that is written in place, and
/// transposes that calls of the runtime see by strides; see tpc-hold-caches.
inline constexpr llvm::StringLiteral kHeldAttr = "tpc.held";

/// The names of the symbols that kStepAttr has.
struct StepSymbols {
  std::string past, tokens;

  static std::optional<StepSymbols> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;
};

/// Caches that keep what a window shows: at least `window` - 1 tokens before each of a step's.
struct WindowedCaches {
  int64_t window = 0;
  std::string room;    // the symbol for what these caches have room for
  std::string lengths; // the input that says how many tokens each sequence has in them
};

/// The same of a step that takes whole caches, at lengths that are data (tpc-place-caches).
struct PlacedStep {
  std::string tokens, capacity;
  std::string lengths, counts; // names of inputs
  bool last = false;
  std::optional<WindowedCaches> windowed = std::nullopt;

  static std::optional<PlacedStep> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;

  /// How many steps may be under way at a time, each of other sequences: as many as there are
  /// stages, so that each has one.
  static int64_t getNumInFlight(GridAttr grid) { return grid.getAxisSize("pp"); }
};

/// The name of a size that is one symbol and nothing else.
std::optional<std::string> getSymbolName(const ::tpc::SymExpr &size);

/// The cache that an argument or a result with these attributes belongs to; null if to none.
inline FlatSymbolRefAttr getCache(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<FlatSymbolRefAttr>(kCacheAttr) : FlatSymbolRefAttr();
}

} // namespace mlir::tpc

#endif // TPC_DIALECT_STATE_H
