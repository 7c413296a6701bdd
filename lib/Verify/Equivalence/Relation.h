//===- Relation.h - What a rank's value is of the whole one -----*- C++ -*-===//
//
// The verifier's own notion of a distribution. It reads the text of types and shares nothing else
// with the code that wrote them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H
#define TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::equivalence {

using Axes = SmallVector<StringAttr, 2>;

/// Which indices of one dimension a rank holds: those of each atom, major to minor, split over the
/// atom's axes one after the other; then what is left of the product split over `product`.
///
/// Canonical: axes of size 1 are left out, neighbours without axes are one atom, atoms of size 1
/// without axes are left out, axes on a product of one atom are that atom's.
struct Layout {
  struct Atom {
    ::tpc::SymExpr size;
    Axes axes;
    bool operator==(const Atom &o) const { return size == o.size && axes == o.axes; }
  };
  SmallVector<Atom, 2> atoms;
  Axes product;

  bool operator==(const Layout &o) const { return atoms == o.atoms && product == o.product; }
  bool operator!=(const Layout &o) const { return !(*this == o); }
  bool isWhole() const;
  bool uses(StringAttr axis) const;
  Axes getAxes() const;
  ::tpc::SymExpr getSize() const;
  /// The layout of the same dimension that every rank has all of.
  Layout getWhole() const;
  void canonicalize();
  /// "5{tp}*8", as types have it.
  std::string str() const;
  /// The indices of a rank in this dimension, for symbols as `evaluate` says.
  std::vector<int64_t>
  getIndices(GridAttr grid, const std::map<std::string, int64_t> &at,
             llvm::function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) const;
};

/// What a value on a rank is of the value that the model computes: of each dimension the indices
/// that the layout says; and along the axes of `partial` not the value itself but a part which,
/// combined over all coordinates, gives it. Along all other axes it is the same everywhere.
struct Relation {
  SmallVector<Layout, 4> dims;
  Axes partial; // sorted by name
  ReductionKind kind = ReductionKind::Sum;
  bool local = false;

  bool isPartial(StringAttr axis) const { return llvm::is_contained(partial, axis); }
  bool isWhole() const;
  bool uses(StringAttr axis) const;
};

Relation readRelation(Type type, GridAttr grid);

/// True if `split` is `base` with `axes` added after all other axes of one atom, or of the product.
bool isSplitFurther(const Layout &base, ArrayRef<StringAttr> axes, const Layout &split);

/// Why a group over `axes` (or, without any, a rank) cannot make `to` of `from` by moving elements
/// cyclically within runs of `every`, or, without it, to the ranks that have them then. Empty text:
/// it can.
std::string explainShift(const Layout &from, const Layout &to, ArrayRef<StringAttr> axes,
                         const std::optional<::tpc::SymExpr> &every);

/// Why a group over `axes` cannot make `to` of `from` by sending elements to those who have them
/// then, whatever they have of other dimensions. Empty text: it can.
std::string explainExchange(const Layout &from, const Layout &to, ArrayRef<StringAttr> axes);

/// A coordinate at which two layouts of one dimension give different indices, in words; empty if
/// there is none among small sizes.
std::string describeDifference(const Layout &derived, const Layout &stated, GridAttr grid);

/// "tp" or "tp, dp".
std::string toText(ArrayRef<StringAttr> axes);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H
