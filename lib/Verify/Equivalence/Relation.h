//===- Relation.h - Relation of local to global values ----------*- C++ -*-===//
//
// The verifier's own model of distributed types. It shares no code with the passes that create
// these types.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H
#define TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::equivalence {

using Axes = SmallVector<StringAttr, 2>;

/// Indices of one dimension on a rank. Each atom, major to minor, is split over its axes in order;
/// the remaining product of atoms is then split over `product`.
///
/// The canonical form omits axes of size 1 and atoms of size 1 without axes. It merges neighbors
/// without axes into one atom, and moves axes of a product of one atom to that atom.
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
  /// Returns the unsharded layout of the dimension.
  Layout getWhole() const;
  void canonicalize();
  /// Prints the layout in the syntax of types, such as "5{tp}*8".
  std::string str() const;
  /// Returns the indices of the rank at coordinates `at`; `evaluate` returns the values of sizes.
  std::vector<int64_t>
  getIndices(MeshAttr grid, const std::map<std::string, int64_t> &at,
             llvm::function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) const;
};

/// Relation of a local value to the model's value. `dims` are the indices of each dimension. The
/// ranks along the axes of `partial` have partial results, which a reduction combines to the
/// model's value. Ranks along all other axes have equal values.
struct Relation {
  SmallVector<Layout, 4> dims;
  Axes partial; // sorted by name
  ReductionKind kind = ReductionKind::Sum;
  bool local = false;

  bool isPartial(StringAttr axis) const { return llvm::is_contained(partial, axis); }
  bool isWhole() const;
  bool uses(StringAttr axis) const;
};

Relation readRelation(Type type, MeshAttr grid);

/// Returns whether `split` is `base` with `axes` appended to the axes of one atom or of the
/// product.
bool isSplitFurther(const Layout &base, ArrayRef<StringAttr> axes, const Layout &split);

/// Explains why a shift in a group over `axes` (on one rank if `axes` is empty) cannot change the
/// layout `from` to `to`. A shift moves elements cyclically within runs of `every`; without
/// `every`, to the ranks that own them in `to`. Returns an empty string if the shift is valid.
std::string explainShift(const Layout &from, const Layout &to, ArrayRef<StringAttr> axes,
                         const std::optional<::tpc::SymExpr> &every);

/// Explains why an exchange in a group over `axes` cannot change the layout `from` to `to`. An
/// exchange sends each element to the ranks that own it in `to`, independently of other dimensions.
/// Returns an empty string if the exchange is valid.
std::string explainExchange(const Layout &from, const Layout &to, ArrayRef<StringAttr> axes);

/// Describes a coordinate at which two layouts of one dimension have different indices. Returns an
/// empty string if no difference is found at small sizes.
std::string describeDifference(const Layout &derived, const Layout &stated, MeshAttr grid);

/// Prints axes as "tp" or "tp, dp".
std::string toText(ArrayRef<StringAttr> axes);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_RELATION_H
