//===- Bounds.h - Whether an expression is ever negative --------*- C++ -*-===//
//
// For all sizes, all ranks and all micro-batches at once. Sizes are not negative, a coordinate on
// an axis of N ranks is in [0, N). Both sides of what is compared are brought to one form before:
// names of static sizes are numbers.
//
//   64 * ((x + 63) floordiv 64) - x             never negative: a floor is less than 1 below
//   max(a, b) - a                               never negative
//   a - max(a, b)                               may be
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_BOUNDS_H
#define TPC_LIB_VERIFY_BUFFERS_BOUNDS_H

#include "tpc/Dialect/Tpc.h"

#include <set>

namespace mlir::tpc {

class Bounds {
public:
  using SymExpr = ::tpc::SymExpr;

  explicit Bounds(GridAttr grid) : grid(grid) {}

  /// Notes that a size is not negative, where its terms do not tell: `sequence - 1`.
  void assume(const SymExpr &size);
  /// False also where it is not known.
  bool isNeverNegative(const SymExpr &expr);
  /// The same where nothing is subtracted; quick.
  bool isPlain(const SymExpr &expr);

private:
  bool prove(const SymExpr &expr);
  bool isNeverNegative(const SymExpr::Atom &atom);
  SymExpr boundCoordinates(const SymExpr &expr);
  bool replaceAtom(const SymExpr &expr, const SymExpr::Term &term, size_t atom);

  GridAttr grid;
  std::vector<SymExpr> facts;
  std::map<std::string, bool> known, knownAtoms;
  unsigned steps = 0; // of one question
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_BOUNDS_H
