//===- SourceToken.h - Tokens that a source replaces ------------*- C++ -*-===//

#ifndef TPC_DIALECT_SOURCETOKEN_H
#define TPC_DIALECT_SOURCETOKEN_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

// ---- sources of generation ----

/// Module of a vision-language model: the token id that stands for each row of an image's features
/// in prompts. In the program's ids, -1 - k stands for row k.
inline constexpr llvm::StringLiteral kSourceTokenAttr = "tpc.source_token";

} // namespace mlir::tpc

#endif // TPC_DIALECT_SOURCETOKEN_H
