//===- BufferModelsViews.cpp - Ops on buffers without a runtime call ------===//

#include "BufferPlanner.h"
#include "QuantizedMatrices.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct ParameterModel : HostOpInterface::ExternalModel<ParameterModel, ParameterOp> {
  bool needsMemory(Operation *) const { return false; }
  LogicalResult plan(Operation *, BufferPlanner &) const { return success(); }
};

/// Model of casts that are applied when a parameter is loaded, or that a matmul's call computes.
/// Other casts are kernels.
struct LoadedCastModel : HostOpInterface::ExternalModel<LoadedCastModel, CastOp> {
  bool isHostOp(Operation *op) const {
    return op->hasAttr(kLoadedAttr) || op->hasAttr(kQuantizedAttr);
  }
  bool needsMemory(Operation *op) const { return !isHostOp(op); }
  LogicalResult plan(Operation *, BufferPlanner &) const { return success(); }
};

struct ConstantModel : HostOpInterface::ExternalModel<ConstantModel, ConstantOp> {
  bool needsMemory(Operation *) const { return false; }
  LogicalResult plan(Operation *op, BufferPlanner &) const {
    if (!isa<DenseElementsAttr>(cast<ConstantOp>(op).getValue()))
      return op->emitOpError() << "must have dense elements";
    return success();
  }
};

/// Model of ops between quantized parameters and a matmul, which the matmul's call computes.
struct QuantizedModel : HostOpInterface::ExternalModel<QuantizedModel, DequantizeOp> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kQuantizedAttr); }
  bool needsMemory(Operation *op) const { return !isHostOp(op); }
  LogicalResult plan(Operation *, BufferPlanner &) const { return success(); }
};
struct QuantizedSliceModel : HostOpInterface::ExternalModel<QuantizedSliceModel, SliceOp> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kQuantizedAttr); }
  bool needsMemory(Operation *op) const { return !isHostOp(op); }
  LogicalResult plan(Operation *, BufferPlanner &) const { return success(); }
};

/// Plans a movement op on a cache. The result of the last movement aliases the cache's buffer.
static LogicalResult planAliased(Operation *op, BufferPlanner &p) {
  Value result = op->getResult(0);
  if (llvm::none_of(result.getUsers(), [](Operation *user) { return user->hasAttr(kAliasedAttr); }))
    p.setBuffer(result, p.getCacheSlice(result));
  return success();
}

template <typename OpT>
struct AliasedCopiesModel : HostOpInterface::ExternalModel<AliasedCopiesModel<OpT>, OpT> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kAliasedAttr); }
  bool needsMemory(Operation *op) const { return !op->hasAttr(kAliasedAttr); }
  LogicalResult plan(Operation *op, BufferPlanner &p) const { return planAliased(op, p); }
};

/// Model of transposes without code: runtime calls read the results of aliased ones by strides, and
/// a matmul's call reads those of quantized parameters.
struct AliasedTransposeModel : HostOpInterface::ExternalModel<AliasedTransposeModel, TransposeOp> {
  bool isHostOp(Operation *op) const {
    return op->hasAttr(kAliasedAttr) || op->hasAttr(kQuantizedAttr);
  }
  bool needsMemory(Operation *op) const { return !op->hasAttr(kQuantizedAttr); }
  Value getAliased(Operation *op) const {
    return op->hasAttr(kAliasedAttr) ? op->getOperand(0) : Value();
  }
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    if (op->hasAttr(kQuantizedAttr))
      return success();
    p.setBuffer(op->getResult(0), p.getBuffer(op->getOperand(0)));
    return success();
  }
};

struct ReshapeModel : HostOpInterface::ExternalModel<ReshapeModel, ReshapeOp> {
  static bool isAliasedOrQuantized(Operation *op) {
    return op->hasAttr(kAliasedAttr) || op->hasAttr(kQuantizedAttr);
  }
  bool needsMemory(Operation *op) const { return !isAliasedOrQuantized(op); }
  Value getAliased(Operation *op) const {
    return isAliasedOrQuantized(op) ? Value() : op->getOperand(0);
  }
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    if (op->hasAttr(kQuantizedAttr))
      return success();
    if (op->hasAttr(kAliasedAttr))
      return planAliased(op, p);
    p.setBuffer(op->getResult(0), p.getBuffer(op->getOperand(0)));
    return success();
  }
};

/// A slice of the outermost factor is contiguous, so it is a subrange of the same buffer.
struct LocalSliceModel : HostOpInterface::ExternalModel<LocalSliceModel, LocalSliceOp> {
  bool needsMemory(Operation *op) const { return !op->hasAttr(kAliasedAttr); }
  bool isHostOp(Operation *op) const {
    if (op->hasAttr(kAliasedAttr))
      return true;
    auto slice = cast<LocalSliceOp>(op);
    auto from = getDist(slice.getOperand()).getDims();
    auto to = getDist(slice.getResult()).getDims();
    for (int64_t i = 0; i < (int64_t)slice.getDim(); ++i)
      if (!to[i].getExpr().isConstant(1))
        return false;
    DimAttr f = from[slice.getDim()], t = to[slice.getDim()];
    if (f.getFactors().empty() || t.getFactors().empty())
      return false;
    // The slice splits either the product of the factors or the first factor.
    if (f.getFactors() == t.getFactors())
      return true;
    return f.getAxes().empty() && t.getAxes().empty() &&
           llvm::all_of(t.getFactors().drop_front(), [&](FactorAttr factor) {
             return factor.getAxes().empty() || llvm::is_contained(f.getFactors(), factor);
           });
  }
  Value getAliased(Operation *op) const {
    return isHostOp(op) && !op->hasAttr(kAliasedAttr) ? op->getOperand(0) : Value();
  }
  bool isSameMemory(Operation *) const { return false; }

  /// Returns where the shard over all `axes` begins within the shard over the first `first` axes.
  /// `n` is the unsplit size.
  static SymExpr getBegin(SymExpr n, ArrayRef<StringAttr> axes, size_t first, MeshAttr grid) {
    SymExpr begin(0);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      if (i >= first)
        begin = begin + getShardBegin(n, axis, grid);
      n = getShardSize(n, axis, grid);
    }
    return begin;
  }

  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    if (op->hasAttr(kAliasedAttr))
      return planAliased(op, p);
    auto slice = cast<LocalSliceOp>(op);
    DimAttr f = getDist(slice.getOperand()).getDims()[slice.getDim()];
    DimAttr t = getDist(slice.getResult()).getDims()[slice.getDim()];
    // Offset of the slice, in elements of the local dimension.
    SymExpr begin;
    if (f.getFactors() == t.getFactors()) {
      begin = getBegin(getFactorsSize(t, p.grid()), t.getAxes(), f.getAxes().size(), p.grid());
    } else {
      FactorAttr outer = t.getFactors().front();
      begin = getBegin(toNamedSize(outer.getExpr()), outer.getAxes(),
                       f.getFactors().front().getAxes().size(), p.grid());
      for (FactorAttr inner : t.getFactors().drop_front())
        begin = begin * getLocalSize(inner, p.grid());
    }
    SmallVector<SymExpr> sizes = p.sizes(slice.getType());
    begin = begin * product(ArrayRef(sizes).drop_front(slice.getDim() + 1));
    p.setBuffer(slice.getResult(),
                buffer::PartOp::create(p.builder(), p.getLoc(), p.getBuffer(slice.getOperand()),
                                       p.expr(begin), p.getShared().extent(slice.getType())));
    return success();
  }
};
} // namespace

void mlir::tpc::attachViewModels(MLIRContext *context) {
  ParameterOp::attachInterface<ParameterModel>(*context);
  CastOp::attachInterface<LoadedCastModel>(*context);
  ConstantOp::attachInterface<ConstantModel>(*context);
  DequantizeOp::attachInterface<QuantizedModel>(*context);
  SliceOp::attachInterface<QuantizedSliceModel>(*context);
  ReshapeOp::attachInterface<ReshapeModel>(*context);
  LocalSliceOp::attachInterface<LocalSliceModel>(*context);
  ExpandOp::attachInterface<AliasedCopiesModel<ExpandOp>>(*context);
  GatherOp::attachInterface<AliasedCopiesModel<GatherOp>>(*context);
  TransposeOp::attachInterface<AliasedTransposeModel>(*context);
}
