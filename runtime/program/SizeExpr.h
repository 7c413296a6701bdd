//===- SizeExpr.h - evaluates the symbolic sizes of the manifest ----------===//

#ifndef TPC_RT_PROGRAM_SIZEEXPR_H
#define TPC_RT_PROGRAM_SIZEEXPR_H

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tpc::rt {

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

/// The value of `text`: integers, symbols, `+ - *`, parentheses, floordiv, mod, min and max (the
/// latter four as functions of two arguments; floordiv and mod also between their operands). Throws
/// UserError for text that does not parse, a symbol without a value, a divisor that is not
/// positive, and anything that leaves 64 bits.
int64_t evaluateSize(std::string_view text, const SymbolValues &symbols);

/// The symbols that `text` mentions. Throws UserError if it does not parse.
std::set<std::string> symbolsOf(std::string_view text);

/// The symbol that `text` consists of, or "".
std::string soleSymbol(std::string_view text);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SIZEEXPR_H
