//===- Movement.h - A value as another one rearranged -----------*- C++ -*-===//
//
// Exporters reach the same arrangement of elements by very different chains of
// reshapes, transposes, slices and broadcasts. A `Movement` is what such a
// chain does, in one form: the base value's dimensions are divided into
// factors, and each dimension of the result is a list of factors. The keys of
// an attention block, from the rows of a product to [b, H, d, s]:
//
//   base [b*s, H*d]      factors b, s, H, d; base dims [b, s] [H, d]
//   result               [b] [H] [d] [s]
//
// whichever way they went there (by way of [b*H, s, d] in PyTorch's dynamo
// exporter). A factor that occurs in no base dimension is broadcast; a sliced
// one has a start, a step and the size of which it is a part.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_MOVEMENT_H
#define TPC_LIB_TRANSFORMS_MODEL_MOVEMENT_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct Movement {
  using SymExpr = ::tpc::SymExpr;
  using Sizes = SmallVector<SymExpr>;
  using Dim = SmallVector<int, 2>; // factors, major to minor; empty: size 1

  struct Factor {
    SymExpr size;  // as seen by the result
    SymExpr whole; // in the base; differs from `size` if sliced
    SymExpr start = SymExpr(0);
    int64_t step = 1;
    bool broadcast = false;

    bool isSliced() const { return !broadcast && size != whole; }
  };

  Value base;
  SmallVector<Factor> factors;
  SmallVector<Dim> baseDims;
  SmallVector<Dim> dims;
  /// Ops between the base and the value.
  unsigned length = 0;

  enum Through { ReshapeTranspose = 0, Slices = 1, Expands = 2 };

  /// The longest chain that ends in `value` and has this form. Slices and
  /// expands are followed only where `through` says so.
  static Movement of(Value value, int through = ReshapeTranspose);
  static Movement identity(Value value);
  /// Whether such a chain may have `op`.
  static bool isStep(Operation *op, int through = ReshapeTranspose);

  Sizes getSizes() const;
  SymExpr dimSize(const Dim &dim) const;
  bool isIdentity() const;

  // Each applies one op to the result. False, with the movement unchanged or
  // only more finely divided, where the result has no such form.
  bool apply(Operation *op);
  bool reshape(ArrayRef<SymExpr> sizes);
  bool transpose(ArrayRef<int64_t> permutation);
  bool slice(int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step);
  bool expand(ArrayRef<SymExpr> sizes);

  /// The result's dimensions, each divided into these sizes (as reshape does,
  /// but dimension by dimension). Nothing where one cannot be.
  std::optional<SmallVector<Dim>> divide(ArrayRef<SmallVector<SymExpr>> sizes);

  /// Number of ops that `build` makes.
  unsigned cost() const;
  /// Makes the result from the base with as few ops as are needed: reshape,
  /// slices, transpose, reshape and expand.
  Value build(OpBuilder &builder, Location loc) const;

private:
  /// Divides factor `f` into a major part and a minor part of size `minor`.
  bool split(int f, const SymExpr &minor);
  struct Plan;
  Plan plan() const;
};

// The ops that move elements, folded where they do nothing, and into the view
// where the operand is a parameter.
Value createReshape(OpBuilder &builder, Location loc, Value v, ArrayRef<::tpc::SymExpr> sizes);
Value createTranspose(OpBuilder &builder, Location loc, Value v, ArrayRef<int64_t> permutation);
Value createSlice(OpBuilder &builder, Location loc, Value v, int64_t dim,
                  const ::tpc::SymExpr &start, const ::tpc::SymExpr &size, int64_t step = 1);
Value createExpand(OpBuilder &builder, Location loc, Value v, ArrayRef<::tpc::SymExpr> sizes);

/// Equal sizes, dimension by dimension.
bool sameSizes(ArrayRef<::tpc::SymExpr> a, ArrayRef<::tpc::SymExpr> b);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_MOVEMENT_H
