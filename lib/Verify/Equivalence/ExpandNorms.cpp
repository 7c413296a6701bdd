//===- ExpandNorms.cpp - Expansion of norms to their definition -----------===//
//
// tpc-assign-shardings decomposes norms over split widths (tpc.norms_decomposed). For the
// comparison, the verifier expands all other norms in both programs:
//
//     layer_norm   d = x - sum(x)·(1/n)     rms_norm   d = x
//     y = d · rsqrt(sum(d·d)·(1/n) + epsilon) · scale [+ bias]
//
// in the type of x, even if the type of y differs.
//
// The expansion implements the definition of the ops, and shares no code with tpc-assign-shardings.
//
//===----------------------------------------------------------------------===//

#include "ExpandNorms.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;

static void expandNorm(Operation *op, Value scale, Value bias, double epsilon, bool centered) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Value x = op->getOperand(0);
  auto full = cast<RankedTensorType>(x.getType());
  Type element = full.getElementType();
  DistAttr dist = getDist(full);
  int64_t last = full.getRank() - 1, n = *dist.getDims()[last].getExpr().asConstant();
  SmallVector<DimAttr> dims(dist.getDims());
  dims[last] = DimAttr::get(b.getContext(), ::tpc::SymExpr(1));
  RankedTensorType row = makeTensorType(element, dist.withDims(dims), MeshAttr::lookup(op));

  auto number = [&](double value) -> Value {
    auto type = RankedTensorType::get({}, element);
    return ConstantOp::create(
        b, loc, type, DenseElementsAttr::get(type, Attribute(b.getFloatAttr(element, value))));
  };
  auto mean = [&](Value v) -> Value {
    Value sum =
        ReduceOp::create(b, loc, row, ReduceFunction::Sum, v, ArrayRef<int64_t>{last}, true);
    return MulOp::create(b, loc, row, sum, number(1.0 / double(n)));
  };
  auto inType = [&](Type type, Value v) -> Value {
    if (getElementTypeOrSelf(v) == type)
      return v;
    return CastOp::create(b, loc, cast<RankedTensorType>(v.getType()).clone(type), v);
  };
  Value d = centered ? SubOp::create(b, loc, full, x, mean(x)).getResult() : x;
  Value variance = mean(MulOp::create(b, loc, full, d, d));
  Value root = RsqrtOp::create(b, loc, row, AddOp::create(b, loc, row, variance, number(epsilon)));
  Value y =
      MulOp::create(b, loc, full, MulOp::create(b, loc, full, d, root), inType(element, scale));
  if (bias)
    y = AddOp::create(b, loc, full, y, inType(element, bias));
  y = inType(getElementTypeOrSelf(op->getResult(0)), y);
  op->getResult(0).replaceAllUsesWith(y);
  op->erase();
}

void mlir::tpc::equivalence::expandNorms(ModuleOp module) {
  module.walk([&](Operation *op) {
    // Norms of symbolic or zero width are never decomposed.
    if (!isa<LayerNormOp, RmsNormOp>(op) || getSizes(op->getOperand(0)).back().asConstant() < 1)
      return;
    if (auto norm = dyn_cast<LayerNormOp>(op))
      expandNorm(norm, norm.getScale(), norm.getBias(), norm.getEpsilon().convertToDouble(), true);
    else if (auto norm = dyn_cast<RmsNormOp>(op))
      expandNorm(norm, norm.getScale(), {}, norm.getEpsilon().convertToDouble(), false);
  });
}
