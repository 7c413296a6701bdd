//===- MaskTensors.h - Parts of masks as tensors ----------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_MASKTENSORS_H
#define TPC_LIB_TRANSFORMS_MODEL_MASKTENSORS_H

#include "tpc/Analysis/Index/IndexAnalysis.h"

namespace mlir::tpc {

/// Creates tensors from expressions over the indices [b, h, i, j] of scores (fewer: without heads,
/// without batch).
class MaskTensors {
public:
  MaskTensors(OpBuilder &builder, Location loc, ArrayRef<::tpc::SymExpr> sizes,
              IndexAnalysis &analysis)
      : builder(builder), loc(loc), sizes(sizes), analysis(analysis) {}

  /// Returns a boolean of b and j as a tensor [b, j]; null if it depends on other indices.
  Value getKeyMask(const IndexExpr &e);

  /// Returns true if the expression is a number per head times the key's index, plus a term that is
  /// equal for all keys of a row.
  bool isSlope(const IndexExpr &e);
  /// Returns the numbers per head (slopes) as a tensor [h]; `element` is the element type of
  /// constant slopes.
  Value getSlopes(const IndexExpr &e, Type element);

private:
  Value keyInteger(const ::tpc::SymExpr &e);
  Value keyElement(const IndexExpr &element);
  std::optional<SmallVector<::tpc::SymExpr>> findHeadElement(const IndexExpr &e, int64_t &headDim);
  Value headElement(const IndexExpr &element);
  Value constant(Type type, double number);
  ::tpc::SymExpr batch() const { return sizes.size() > 2 ? sizes[0] : ::tpc::SymExpr(1); }

  OpBuilder &builder;
  Location loc;
  ArrayRef<::tpc::SymExpr> sizes;
  IndexAnalysis &analysis;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_MASKTENSORS_H
