//===- WriteNormsOut.cpp - Norms over a width that is split ---------------===//
//
// Tensor parallelism in two dimensions splits the residual's width, which norms need. Those
// norms are written out, as two passes over the width: a sum for the mean, then a sum of
// squares of what is left (the second alone for an RMS norm):
//
//     mean = sum(x)/n     d = x - mean     y = d · rsqrt(sum(d²)/n + ε) · scale + bias
//
// Each sum is one all-reduce of a number per token. The variance of values that are already
// centred has no cancellation, whatever their mean, as E[x²] - E[x]² would have.
//
// Which widths will be split is found on a plan of its own: those on the other side of matrices
// from what the columns' tactics choose. Norms over anything else (of a head's queries, say)
// stay as they are.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Analysis/Verify.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Writer {
public:
  explicit Writer(Operation *norm)
      : builder(norm), loc(norm->getLoc()), norm(norm), x(norm->getOperand(0)),
        type(cast<RankedTensorType>(x.getType())) {
    SmallVector<::tpc::SymExpr> sizes = getSizes(type);
    n = *sizes.back().asConstant();
    sizes.back() = ::tpc::SymExpr(1);
    rowType = makeTensorType(type.getElementType(), sizes);
  }

  void run() {
    Value d = x;
    if (isa<LayerNormOp>(norm))
      d = SubOp::create(builder, loc, type, x, makeMean(x));
    Value variance = makeMean(MulOp::create(builder, loc, type, d, d));
    double epsilon = norm->getAttrOfType<FloatAttr>("epsilon").getValueAsDouble();
    Value moved = AddOp::create(builder, loc, rowType, variance, makeScalar(epsilon));
    Value factor = RsqrtOp::create(builder, loc, rowType, moved);
    Value y = MulOp::create(builder, loc, type, d, factor);
    y = MulOp::create(builder, loc, type, y, norm->getOperand(1));
    if (norm->getNumOperands() > 2)
      y = AddOp::create(builder, loc, type, y, norm->getOperand(2));
    norm->getResult(0).replaceAllUsesWith(y);
    norm->erase();
  }

private:
  Value makeScalar(double value) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Attribute attr = builder.getFloatAttr(type.getElementType(), value);
    return ConstantOp::create(builder, loc, scalar, DenseElementsAttr::get(scalar, attr));
  }

  /// [.., 1]: means over the last dimension.
  Value makeMean(Value value) {
    auto sum = ReduceOp::create(builder, loc, rowType, ReduceFunction::Sum, value,
                                ArrayRef<int64_t>{type.getRank() - 1}, /*keep_dims=*/true);
    sum->setAttr(kNormAttr, builder.getUnitAttr());
    return MulOp::create(builder, loc, rowType, sum, makeScalar(1.0 / double(n)));
  }

  OpBuilder builder;
  Location loc;
  Operation *norm;
  Value x;
  RankedTensorType type, rowType;
  int64_t n;
};

} // namespace

void mlir::tpc::writeNormsOut(const Plan &plan) {
  DenseSet<int> widths;
  for (Operation *op : plan.getOps())
    for (int cls : plan.getRows(op))
      widths.insert(cls);
  SmallVector<Operation *> norms;
  for (Operation *op : plan.getOps()) {
    if (!isa<LayerNormOp, RmsNormOp>(op))
      continue;
    Value x = op->getOperand(0);
    unsigned last = cast<RankedTensorType>(x.getType()).getRank() - 1;
    auto n = getSizes(x)[last].asConstant();
    if (n && *n > 0 && llvm::any_of(plan.classes.getClasses(x, last), [&](int cls) {
          return widths.contains(cls);
        }))
      norms.push_back(op);
  }
  for (Operation *norm : norms)
    Writer(norm).run();
  if (!norms.empty())
    plan.module->setAttr(kNormsWrittenOutAttr, UnitAttr::get(plan.module.getContext()));
}
