//===- LocalSizes.h - Values of symbolic sizes on one rank ------*- C++ -*-===//
//
// Evaluates sizes of programs at the buffers level (tpc/Dialect/RankSizes.h) for a grid that may
// differ from the grid of the compilation in the sizes of axes. Shards of named sizes that do not
// divide are rounded up, as on coordinate 0.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_COST_LOCALSIZES_H
#define TPC_COST_LOCALSIZES_H

#include "tpc/Analysis/Nominal.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::tpc {

class LocalSizes {
public:
  /// Coordinates, and symbols without a value, are 0 until they are set.
  LocalSizes(MeshAttr grid, const Symbols &symbols);
  /// Sets the value of a symbol or coordinate, such as "rank.pp".
  void set(StringRef name, int64_t value) { values[name] = value; }
  /// Returns nothing if a value exceeds 64 bits or a divisor is not positive.
  std::optional<int64_t> evaluate(const ::tpc::SymExpr &size);

private:
  int64_t getValue(StringRef name);

  MeshAttr grid;
  llvm::StringMap<int64_t> values;
};

} // namespace mlir::tpc

#endif // TPC_COST_LOCALSIZES_H
