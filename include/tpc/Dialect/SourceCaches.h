//===- SourceCaches.h - Caches of cross-attention ---------------*- C++ -*-===//
//
// An encoder-decoder generates tokens that attend to a source: the states of an encoder, or a
// prompt in another language. Keys and values of the source are computed once for each sequence.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_SOURCECACHES_H
#define TPC_DIALECT_SOURCECACHES_H

#include "tpc/Support/SymExpr.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace mlir::tpc {

// ---- sources of generation ----

/// Module that is a generation step with cross-attention: {tokens = "s", capacity = "c", lengths =
/// "source_lengths"}. `tokens` is the symbol of the number of new source tokens, 0 after the first
/// step of a sequence; `capacity` is the symbol of the capacity of the source's caches; `lengths`
/// is the input [batch] with the number of source tokens in them. If all sources have `each`
/// tokens, the field each = 1500 is present, and `tokens` is the symbol of the number of
/// sources that a sequence brings: 1, or 0 after the first step.
inline constexpr llvm::StringLiteral kSourceCachesAttr = "tpc.source_caches";

/// The fields of kSourceCachesAttr.
struct SourceCaches {
  std::string tokens, capacity, lengths;
  std::optional<int64_t> each = std::nullopt; // tokens of each source; null: any number

  /// Returns the number of source tokens that a step brings.
  ::tpc::SymExpr getTokens() const {
    return ::tpc::SymExpr::symbol(tokens) * ::tpc::SymExpr(each.value_or(1));
  }

  static std::optional<SourceCaches> lookup(ModuleOp module);
  void attachTo(ModuleOp module) const;
  /// Whether an attribute has these fields.
  static bool isValid(Attribute value);
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_SOURCECACHES_H
