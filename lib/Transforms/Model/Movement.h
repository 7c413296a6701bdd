//===- Movement.h - Rearrangement of a value's elements ---------*- C++ -*-===//
//
// Exporters emit very different chains of reshapes, transposes, slices and broadcasts for the same
// rearrangement of elements. A `Movement` is a canonical form of such a chain: the dimensions of
// the first operand (the base) are divided into factors, and each dimension of the result is a list
// of factors. Example: the keys of an attention block, from the rows of a matmul to [b, H, d, s]:
//
//   base [b*s, H*d]      factors b, s, H, d; base dims [b, s] [H, d]
//   result               [b] [H] [d] [s]
//
// The form does not depend on intermediate shapes, such as [b*H, s, d] in PyTorch's dynamo
// exporter. A factor that is not in the base is broadcast. A sliced factor has a start, a step, and
// its size before the slice.
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
    SymExpr size;  // size in the result
    SymExpr whole; // size in the base; differs from `size` if sliced
    SymExpr start = SymExpr(0);
    int64_t step = 1;
    bool broadcast = false;

    bool isSliced() const { return !broadcast && size != whole; }
  };

  Value base;
  SmallVector<Factor> factors;
  SmallVector<Dim> baseDims;
  SmallVector<Dim> dims;
  /// Number of ops between the base and the value.
  unsigned length = 0;

  enum Through { ReshapeTranspose = 0, Slices = 1, Expands = 2 };

  /// Returns the movement of the longest possible chain whose result is `value`. The chain has
  /// slices and expands only if `through` includes them.
  static Movement of(Value value, int through = ReshapeTranspose);
  static Movement identity(Value value);
  /// Returns true if such a chain may contain `op`.
  static bool isStep(Operation *op, int through = ReshapeTranspose);

  Sizes getSizes() const;
  SymExpr dimSize(const Dim &dim) const;
  bool isIdentity() const;

  // Each function appends one op to the chain. Returns false if the new chain is not a movement;
  // this movement is then unchanged, but its factors may be divided further.
  bool apply(Operation *op);
  bool reshape(ArrayRef<SymExpr> sizes);
  bool transpose(ArrayRef<int64_t> permutation);
  bool slice(int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step);
  bool expand(ArrayRef<SymExpr> sizes);

  /// Divides each dimension of the result into these sizes. Unlike reshape, works dimension by
  /// dimension. Returns nothing if a dimension cannot be divided.
  std::optional<SmallVector<Dim>> divide(ArrayRef<SmallVector<SymExpr>> sizes);

  /// Returns the number of ops that `build` creates.
  unsigned cost() const;
  /// Creates the result from the base with a minimal number of ops: reshape, slices, transpose,
  /// reshape, and expand.
  Value build(OpBuilder &builder, Location loc) const;

private:
  /// Divides factor `f` into a major factor and a minor factor of size `minor`.
  bool split(int f, const SymExpr &minor);
  struct BuildPlan;
  BuildPlan plan() const;
};

// Create ops that move elements. No-ops are folded, and ops on a parameter are folded into its
// view.
Value createReshape(OpBuilder &builder, Location loc, Value v, ArrayRef<::tpc::SymExpr> sizes);
Value createTranspose(OpBuilder &builder, Location loc, Value v, ArrayRef<int64_t> permutation);
Value createSlice(OpBuilder &builder, Location loc, Value v, int64_t dim,
                  const ::tpc::SymExpr &start, const ::tpc::SymExpr &size, int64_t step = 1);
Value createExpand(OpBuilder &builder, Location loc, Value v, ArrayRef<::tpc::SymExpr> sizes);

/// Returns true if all sizes are equal, dimension by dimension.
bool sameSizes(ArrayRef<::tpc::SymExpr> a, ArrayRef<::tpc::SymExpr> b);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_MOVEMENT_H
