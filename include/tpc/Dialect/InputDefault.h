//===- InputDefault.h - What an input is when it is left out ----*- C++ -*-===//
//
// The value of `tpc.default` on an argument of @main:
//
//     "ones"                      every token is seen
//     "positions"                 0, 1, 2, … along the last dimension
//     "positions after SIZE"      the same, behind a past of that many tokens
//     "positions of NAME"         by the mask NAME, [batch, past + sequence]: the number of seen
//                                 tokens before each of the last `sequence`, and 1 for those that
//                                 are not seen themselves (as Hugging Face counts)
//
// An input that would have a default if the program showed what it must be has `tpc.required`
// instead, with the reason.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_INPUTDEFAULT_H
#define TPC_DIALECT_INPUTDEFAULT_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/SymExpr.h"

namespace mlir::tpc {

struct InputDefault {

  enum class Kind { Ones, Positions };
  Kind kind = Kind::Ones;
  ::tpc::SymExpr past; ///< tokens before the first position
  std::string mask;    ///< if not empty, it says where they are

  std::string str() const;
  /// Nothing for text that is no default.
  static std::optional<InputDefault> parse(StringRef text);
  /// The default of an argument with these attributes, if it has one.
  static std::optional<InputDefault> get(DictionaryAttr attributes);
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_INPUTDEFAULT_H
