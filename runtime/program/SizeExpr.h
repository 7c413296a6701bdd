//===- SizeExpr.h - Symbolic sizes of the manifest ------------------------===//

#ifndef TPC_RT_PROGRAM_SIZEEXPR_H
#define TPC_RT_PROGRAM_SIZEEXPR_H

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tpc::rt {

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

/// Evaluates `text`: integers, symbols, `+ - *`, parentheses, floordiv, mod, min and max (the
/// latter four as functions of two arguments; floordiv and mod also as infix operators). Throws
/// UserError on syntax errors, symbols without a value, non-positive divisors, and 64-bit overflow.
int64_t evaluateSize(std::string_view text, const SymbolValues &symbols);

/// Returns the symbols in `text`. Throws UserError on syntax errors.
std::set<std::string> symbolsOf(std::string_view text);

/// Returns the symbol if `text` consists of one; otherwise "".
std::string soleSymbol(std::string_view text);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SIZEEXPR_H
