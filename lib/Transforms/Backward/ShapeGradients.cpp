//===- ShapeGradients.cpp - Gradients of ops that move or sum elements ----===//

#include "../Model/Movement.h"
#include "GradientOp.h"
#include "tpc/Dialect/AttachModels.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using B = GradientBuilder;

namespace {
struct ReshapeGradient : GradientOpInterface::ExternalModel<ReshapeGradient, ReshapeOp> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    Value x = op->getOperand(0);
    if (b.isActive(x))
      b.accumulate(x, b.reshape(b.getCotangent(op->getResult(0)), getSizes(x)));
    return success();
  }
};

struct TransposeGradient : GradientOpInterface::ExternalModel<TransposeGradient, TransposeOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<TransposeOp>(base);
    SmallVector<int64_t> inverse(op.getPermutation().size());
    for (auto [i, from] : llvm::enumerate(op.getPermutation()))
      inverse[from] = i;
    b.accumulate(op.getOperand(), b.transpose(b.getCotangent(op.getResult()), inverse));
    return success();
  }
};

struct ExpandGradient : GradientOpInterface::ExternalModel<ExpandGradient, ExpandOp> {
  LogicalResult buildGradient(Operation *op, B &b) const {
    b.accumulateSum(op->getOperand(0), b.getCotangent(op->getResult(0)));
    return success();
  }
};

/// Returns zeros of the sizes of `like`, with another size in one dimension; null if that size is
/// 0.
Value makeZeros(B &b, Value like, int64_t dim, const SymExpr &size) {
  if (size == SymExpr(0))
    return {};
  SmallVector<SymExpr> sizes = getSizes(like);
  sizes[dim] = size;
  return b.zeros(makeTensorType(elementTypeOf(like), sizes));
}

struct SliceGradient : GradientOpInterface::ExternalModel<SliceGradient, SliceOp> {
  /// Gradient of the slice of elements start, start + step, …, if `step` divides the dimension:
  /// pads each element of `d` with zeros, [.., m] -> [.., m, step], and merges to [.., m * step].
  static LogicalResult interleave(SliceOp op, Value d, B &b) {
    int64_t dim = op.getDim(), step = op.getStep();
    SmallVector<SymExpr> sizes = getSizes(d);
    std::optional<int64_t> start = op.getStart().asConstant();
    if (step < 1 || !start || *start >= step ||
        getSizes(op.getOperand())[dim] != sizes[dim] * SymExpr(step))
      return emitError(op.getLoc())
             << "'" << getSourceName(op.getLoc()) << "' (tpc.slice) has no gradient for step "
             << step << ", which does not divide the dimension";
    sizes.insert(sizes.begin() + dim + 1, SymExpr(1));
    d = b.reshape(d, sizes);
    SmallVector<Value> parts;
    if (Value before = makeZeros(b, d, dim + 1, SymExpr(*start)))
      parts.push_back(before);
    parts.push_back(d);
    if (Value after = makeZeros(b, d, dim + 1, SymExpr(step - 1 - *start)))
      parts.push_back(after);
    Value runs = ConcatOp::create(b.getBuilder(), b.getLoc(), parts, dim + 1);
    b.accumulate(op.getOperand(), b.reshape(runs, getSizes(op.getOperand())));
    return success();
  }

  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<SliceOp>(base);
    Value x = op.getOperand(), d = b.getCotangent(op.getResult());
    if (!b.isActive(x))
      return success();
    if (op.getStep() != 1)
      return interleave(op, d, b);
    int64_t dim = op.getDim();
    SymExpr start = op.getStart(), size = getSizes(d)[dim];
    SmallVector<Value> parts;
    if (Value before = makeZeros(b, x, dim, start))
      parts.push_back(before);
    parts.push_back(d);
    if (Value after = makeZeros(b, x, dim, getSizes(x)[dim] - start - size))
      parts.push_back(after);
    b.accumulate(
        x, parts.size() == 1 ? d : Value(ConcatOp::create(b.getBuilder(), b.getLoc(), parts, dim)));
    return success();
  }
};

struct ConcatGradient : GradientOpInterface::ExternalModel<ConcatGradient, ConcatOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<ConcatOp>(base);
    Value d = b.getCotangent(op.getResult());
    SymExpr start(0);
    for (Value x : op.getOperands()) {
      SymExpr size = getSizes(x)[op.getDim()];
      if (b.isActive(x))
        b.accumulate(x, createSlice(b.getBuilder(), b.getLoc(), d, op.getDim(), start, size));
      start = start + size;
    }
    return success();
  }
};

struct RollGradient : GradientOpInterface::ExternalModel<RollGradient, RollOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<RollOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getOperand(), RollOp::create(b.getBuilder(), b.getLoc(), d, op.getDim(),
                                                 -op.getFrom(), op.getEvery()));
    return success();
  }
};

struct CumSumGradient : GradientOpInterface::ExternalModel<CumSumGradient, CumSumOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<CumSumOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getOperand(), CumSumOp::create(b.getBuilder(), b.getLoc(), d, op.getDim(),
                                                   op.getExclusive(), !op.getReverse()));
    return success();
  }
};

struct TriluGradient : GradientOpInterface::ExternalModel<TriluGradient, TriluOp> {
  LogicalResult buildGradient(Operation *base, B &b) const {
    auto op = cast<TriluOp>(base);
    Value d = b.getCotangent(op.getResult());
    b.accumulate(op.getOperand(),
                 TriluOp::create(b.getBuilder(), b.getLoc(), d, op.getUpper(), op.getK()));
    return success();
  }
};

/// Ops of which no operand can depend on a weight.
template <typename OpT>
struct LeafGradient : GradientOpInterface::ExternalModel<LeafGradient<OpT>, OpT> {
  LogicalResult buildGradient(Operation *, B &) const { return success(); }
};
} // namespace

void mlir::tpc::attachShapeGradients(MLIRContext *context) {
  ReshapeOp::attachInterface<ReshapeGradient>(*context);
  TransposeOp::attachInterface<TransposeGradient>(*context);
  ExpandOp::attachInterface<ExpandGradient>(*context);
  SliceOp::attachInterface<SliceGradient>(*context);
  ConcatOp::attachInterface<ConcatGradient>(*context);
  RollOp::attachInterface<RollGradient>(*context);
  CumSumOp::attachInterface<CumSumGradient>(*context);
  TriluOp::attachInterface<TriluGradient>(*context);
  attachModels<LeafGradient, ConstantOp, IotaOp, SizeOp, ParameterOp>(context);
}
