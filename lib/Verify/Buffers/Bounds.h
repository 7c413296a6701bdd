//===- Bounds.h - Proofs that expressions are not negative ------*- C++ -*-===//
//
// Proofs hold for all sizes, ranks and micro-batches at once. Sizes are not negative, and a
// coordinate on an axis of N ranks is in [0, N). Expressions must be normalized: names of static
// sizes are replaced by numbers.
//
//   64 * ((x + 63) floordiv 64) - x             never negative: floor(q) > q - 1
//   max(a, b) - a                               never negative
//   a - max(a, b)                               may be negative
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

  explicit Bounds(MeshAttr grid) : grid(grid) {}

  /// Assumes that a size such as `sequence - 1` is not negative.
  void assume(const SymExpr &size);
  /// Returns whether the expression is proved never to be negative.
  bool isNeverNegative(const SymExpr &expr);
  /// A fast sufficient condition: no term is subtracted or can be negative.
  bool hasNoNegativeTerm(const SymExpr &expr);

private:
  bool prove(const SymExpr &expr);
  bool isNeverNegative(const SymExpr::Atom &atom);
  SymExpr boundCoordinates(const SymExpr &expr);
  bool replaceAtom(const SymExpr &expr, const SymExpr::Term &term, size_t atom);

  MeshAttr grid;
  std::vector<SymExpr> facts;
  std::map<std::string, bool> known, knownAtoms;
  unsigned steps = 0; // of the current query
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_BOUNDS_H
