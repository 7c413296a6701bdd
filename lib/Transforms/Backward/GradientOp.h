//===- GradientOp.h - Interface of gradients and its builder ----*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_BACKWARD_GRADIENTOP_H
#define TPC_LIB_TRANSFORMS_BACKWARD_GRADIENTOP_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Builds the backward ops of a block. Contains the cotangent of each value of the block, as far as
/// it is known: the gradient of the loss with respect to the value.
class GradientBuilder {
public:
  /// `active`: values that depend on a trainable weight. `decomposesAttention`: whether gradients
  /// of attention are built without tpc.attention_grad.
  GradientBuilder(OpBuilder &builder, const DenseSet<Value> &active, bool decomposesAttention)
      : decomposesAttention(decomposesAttention), builder(builder), active(active) {}

  const bool decomposesAttention;

  /// Sets the location of the next ops.
  void setLoc(Location at) { loc = at; }
  Location getLoc() const { return loc; }
  OpBuilder &getBuilder() { return builder; }

  bool isActive(Value v) const { return active.contains(v); }
  /// Returns the cotangent of a value; null if it is zero.
  Value getCotangent(Value v) const { return cotangents.lookup(v); }
  /// Adds a term to the cotangent of an active value. Cotangents of other values are dropped.
  void accumulate(Value v, Value term);
  /// Sums the term over the dimensions that broadcast `v`, then adds it.
  void accumulateSum(Value v, Value term);

  // Element-wise ops, which broadcast.
  Value number(double x);
  Value integer(int64_t x);
  /// Returns a size as a float.
  Value size(const ::tpc::SymExpr &size);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value mul(Value x, double y) { return mul(x, number(y)); }
  Value div(Value x, Value y);
  Value neg(Value x);
  Value select(Value condition, Value x, Value y);
  template <typename OpT> Value apply(Value x) { return OpT::create(builder, loc, x); }
  /// Returns 1 for true and 0 for false.
  Value toFloat(Value condition, Type element);

  Value matmul(Value lhs, Value rhs);
  Value transpose(Value v, ArrayRef<int64_t> permutation);
  /// Exchanges the last two dimensions.
  Value transposeMatrix(Value v);
  Value reshape(Value v, ArrayRef<::tpc::SymExpr> sizes);
  /// Sums over dimensions, whose size becomes 1.
  Value sumKeep(Value v, ArrayRef<int64_t> dims);
  /// Sums over the dimensions that broadcasting from `sizes` has added or enlarged.
  Value sumTo(Value v, ArrayRef<::tpc::SymExpr> sizes);
  Value zeros(Type type);
  /// Adds updates [i.., h] by their ids [i..] to zeros [rows, h].
  Value scatterAdd(Value updates, Value ids, const ::tpc::SymExpr &rows);

private:
  OpBuilder &builder;
  const DenseSet<Value> &active;
  Location loc = builder.getUnknownLoc();
  DenseMap<Value, Value> cotangents;
};

} // namespace mlir::tpc

#include "GradientOp.h.inc"

namespace mlir::tpc {
// Each function attaches the models of one file.
void attachScalarGradients(MLIRContext *context);
void attachShapeGradients(MLIRContext *context);
void attachModelGradients(MLIRContext *context);
LogicalResult buildAttentionGradient(AttentionOp op, GradientBuilder &b);
} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_BACKWARD_GRADIENTOP_H
