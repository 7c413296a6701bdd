//===- BufferModelsCommunication.cpp - Communication and stages on buffers ===//

#include "BufferPlanner.h"
#include "tpc/Buffer/Accumulate.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/LocalIndex.h"
#include "tpc/Dialect/State.h"

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Exchange.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/HeadReplication.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static SmallVector<StringRef> getAxes(ArrayAttr axes) {
  return llvm::to_vector(axes.getAsValueRange<StringAttr>());
}

static ArrayAttr getList(MLIRContext *context, ArrayRef<StringAttr> axes) {
  return ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end()));
}

static ReductionKind getKind(Value unreduced) {
  PartialAttr partial = getDist(unreduced).getPartial();
  return partial ? partial.getKind() : ReductionKind::Sum;
}

namespace {
/// A local tensor viewed as [outer, n, inner]. A collective over an axis splits or gathers n, which
/// is the size before the split: of one factor of a dimension, or of the whole dimension.
struct SplitShape {
  SymExpr outer, n, inner;
};
} // namespace

/// Returns the view of a tensor of type `split`. Requires that `axis` is the innermost split of the
/// dimension, as checked by the verifiers of collectives.
static SplitShape findSplit(BufferPlanner &p, Type split, int64_t dim, StringRef axis) {
  SmallVector<SymExpr> sizes = p.sizes(split);
  DimAttr attr = getDist(split).getDims()[dim];
  SplitShape m{
      product(ArrayRef(sizes).take_front(dim)), {}, product(ArrayRef(sizes).drop_front(dim + 1))};
  if (!attr.getAxes().empty()) {
    assert(attr.getAxes().back().getValue() == axis);
    m.n = getLocalSize(attr, p.grid(), attr.getAxes().size() - 1);
    return m;
  }
  const FactorAttr *factor = llvm::find_if(attr.getFactors(), [&](FactorAttr f) {
    return !f.getAxes().empty() && f.getAxes().back().getValue() == axis;
  });
  assert(factor != attr.getFactors().end());
  size_t i = factor - attr.getFactors().begin();
  for (FactorAttr before : attr.getFactors().take_front(i))
    m.outer = m.outer * getLocalSize(before, p.grid());
  for (FactorAttr after : attr.getFactors().drop_front(i + 1))
    m.inner = m.inner * getLocalSize(after, p.grid());
  m.n = getLocalSize(*factor, p.grid(), factor->getAxes().size() - 1);
  return m;
}

Type mlir::tpc::withoutAxis(Type type, int64_t dim, StringRef axis, MeshAttr grid) {
  DistAttr dist = getDist(type);
  SmallVector<DimAttr> dims(dist.getDims());
  DimAttr &attr = dims[dim];
  SmallVector<StringAttr> axes(attr.getAxes());
  llvm::erase_if(axes, [&](StringAttr a) { return a.getValue() == axis; });
  SmallVector<FactorAttr> factors;
  for (FactorAttr factor : attr.getFactors()) {
    SmallVector<StringAttr> otherAxes(factor.getAxes());
    llvm::erase_if(otherAxes, [&](StringAttr a) { return a.getValue() == axis; });
    factors.push_back(FactorAttr::get(type.getContext(), factor.getExpr(), otherAxes));
  }
  attr = DimAttr::get(type.getContext(), factors, axes);
  return makeTensorType(getElementTypeOrSelf(type), dist.withDims(dims), grid);
}

namespace {
struct AllReduceModel : HostOpInterface::ExternalModel<AllReduceModel, AllReduceOp> {
  Value getReusable(Operation *op) const { return op->getOperand(0); }
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AllReduceOp>(base);
    Value from = p.getBuffer(op.getOperand()), to = p.getBuffer(op.getResult());
    buffer::AllReduceOp::create(p.builder(), p.getLoc(), from, to, op.getAxes(),
                                getKind(op.getOperand()), p.expr(p.elements(op.getType())));
    return success();
  }
};

/// Emits one runtime call per axis. A dimension that is split over one axis after another has other
/// shards than a dimension split once over the group of all axes, as one call would assume.
/// Intermediate results have their own buffers.
template <typename OpT, bool gathers>
struct DimModel : HostOpInterface::ExternalModel<DimModel<OpT, gathers>, OpT> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<OpT>(base);
    int64_t dim = op.getDim();
    // The type that is split over all axes; each step removes the innermost axis.
    Type split = gathers ? op.getOperand().getType() : op.getType();
    SmallVector<std::tuple<StringRef, Type, Type>> steps; // axis, split type, type without the axis
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    for (StringRef axis : llvm::reverse(axes)) {
      Type typeWithout = withoutAxis(split, dim, axis, p.grid());
      steps.push_back({axis, split, typeWithout});
      split = typeWithout;
    }
    if (!gathers)
      std::reverse(steps.begin(), steps.end());

    OpBuilder &b = p.builder();
    Value from = p.getBuffer(op.getOperand()), result = p.getBuffer(op.getResult());
    SmallVector<Value> between;
    for (auto [i, step] : llvm::enumerate(steps)) {
      auto [axis, typeWith, typeWithout] = step;
      Value to = result;
      if (i + 1 != steps.size())
        between.push_back(to = p.pushBuffer(gathers ? typeWithout : typeWith));
      SplitShape shape = findSplit(p, typeWith, dim, axis);
      ArrayAttr group = b.getStrArrayAttr({axis});
      if (gathers)
        buffer::AllGatherOp::create(b, p.getLoc(), from, to, group, p.expr(shape.outer),
                                    p.expr(shape.n), p.expr(shape.inner));
      else
        buffer::ReduceScatterOp::create(b, p.getLoc(), from, to, group, getKind(op.getOperand()),
                                        p.expr(shape.outer), p.expr(shape.n), p.expr(shape.inner));
      from = to;
    }
    for (Value buffer : llvm::reverse(between))
      p.pop(buffer);
    return success();
  }
};

struct AllToAllModel : HostOpInterface::ExternalModel<AllToAllModel, AllToAllOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AllToAllOp>(base);
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    if (axes.size() != 1)
      return base->emitOpError()
             << "must be over one axis: an all-to-all over several axes cannot be lowered";
    int64_t from = op.getFromDim(), to = op.getToDim();
    SplitShape gathered = findSplit(p, op.getOperand().getType(), from, axes[0]);
    SplitShape split = findSplit(p, op.getType(), to, axes[0]);
    // Order of dimensions: [outer, first, middle, second, inner].
    bool splitFirst = to < from;
    SplitShape &first = splitFirst ? split : gathered;
    SplitShape &second = splitFirst ? gathered : split;
    // `middle` is the product of the dimensions between the two split dimensions, including the
    // inner factors of the first and the outer factors of the second.
    int64_t a = std::min(from, to), b = std::max(from, to);
    SmallVector<SymExpr> sizes = p.sizes(op.getOperand().getType());
    SymExpr middle = product(ArrayRef(sizes).slice(a + 1, b - a - 1));
    auto sizeNextToSplit = [&](Type type, int64_t dim, bool before) {
      SymExpr size(1);
      bool seen = false;
      DimAttr d = getDist(type).getDims()[dim];
      if (!d.getAxes().empty())
        return size;
      for (FactorAttr f : d.getFactors()) {
        bool isSplit = !f.getAxes().empty() && f.getAxes().back().getValue() == axes[0];
        seen |= isSplit;
        if (!isSplit && seen != before)
          size = size * getLocalSize(f, p.grid());
      }
      return size;
    };
    Type operandType = op.getOperand().getType();
    middle = middle * sizeNextToSplit(splitFirst ? op.getType() : operandType, a, /*before=*/false);
    middle = middle * sizeNextToSplit(splitFirst ? operandType : op.getType(), b, /*before=*/true);
    Value in = p.getBuffer(op.getOperand()), out = p.getBuffer(op.getResult());
    buffer::AllToAllOp::create(p.builder(), p.getLoc(), in, out, op.getAxes(), p.expr(first.outer),
                               p.expr(first.n), p.expr(middle), p.expr(second.n),
                               p.expr(second.inner),
                               splitFirst ? p.builder().getUnitAttr() : UnitAttr());
    return success();
  }
};

struct CollectivePermuteModel
    : HostOpInterface::ExternalModel<CollectivePermuteModel, CollectivePermuteOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<CollectivePermuteOp>(base);
    auto move = BlockMove::get(op);
    assert(move && "verified");
    SmallVector<Attribute> splits;
    for (const BlockMove::Axes *axes :
         {&move->in.n, &move->in.product, &move->out.n, &move->out.product})
      splits.push_back(getList(base->getContext(), *axes));
    SmallVector<SymExpr> sizes = p.sizes(op.getOperand().getType());
    int64_t dim = op.getDim();
    SymExpr outer = product(ArrayRef(sizes).take_front(dim)) * getLocalSize(move->outer, p.grid());
    SymExpr inner = product(ArrayRef(sizes).drop_front(dim + 1));
    SymExpr first = op.getFrom() ? toNamedSize(*op.getFrom()) : SymExpr(0);
    Value in = p.getBuffer(op.getOperand()), out = p.getBuffer(op.getResult());
    buffer::CollectivePermuteOp::create(
        p.builder(), p.getLoc(), in, out, p.builder().getArrayAttr(splits), p.expr(outer),
        p.expr(getLocalSize(move->blocks, p.grid())), p.expr(toNamedSize(move->n)),
        p.expr(toNamedSize(move->unit)), p.expr(inner), p.expr(first));
    return success();
  }
};

struct ExchangeModel : HostOpInterface::ExternalModel<ExchangeModel, ExchangeOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<ExchangeOp>(base);
    auto exchange = Exchange::get(getDist(op.getOperand()), getDist(op.getResult()));
    assert(exchange && "verified");
    MLIRContext *context = base->getContext();
    SmallVector<Attribute> layout;
    SmallVector<SymExpr> sizes;
    for (const Exchange::Dim &dim : exchange->dims) {
      SmallVector<Attribute> lists;
      auto append = [&](const Exchange::Split &split) {
        lists.push_back(getList(context, split.before));
        lists.push_back(getList(context, split.after));
      };
      for (const Exchange::Factor &factor : dim.factors) {
        sizes.push_back(getLocalSize(factor.common, p.grid()));
        append(factor.split);
      }
      append(dim.product);
      layout.push_back(ArrayAttr::get(context, lists));
    }
    Value in = p.getBuffer(op.getOperand()), out = p.getBuffer(op.getResult());
    buffer::ExchangeOp::create(p.builder(), p.getLoc(), in, out, ArrayAttr::get(context, layout),
                               p.exprs(sizes));
    return success();
  }
};

struct DispatchModel : HostOpInterface::ExternalModel<DispatchModel, DispatchOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<DispatchOp>(base);
    SplitShape rows = findSplit(p, op.getOperand().getType(), 0, getAxes(op.getAxes())[0]);
    DimAttr experts = op.getExperts();
    SmallVector<StringAttr> split = experts.getAllAxes();
    int64_t width = *getSizes(op.getOperand())[1].asConstant();
    Value in = p.getBuffer(op.getOperand()), out = p.getBuffer(op.getResult());
    buffer::DispatchOp::create(
        p.builder(), p.getLoc(), in, out, op.getAxes(), p.expr(rows.n), p.expr(rows.inner),
        p.expr(p.sizes(op.getType())[1]),
        p.expr(op.getColumn() ? getNamedOffset(op.getColumn(), width) : SymExpr(0)),
        p.expr(toNamedSize(experts.getExpr())), getList(base->getContext(), split));
    return success();
  }
};

struct CombineModel : HostOpInterface::ExternalModel<CombineModel, CombineOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<CombineOp>(base);
    SplitShape rows = findSplit(p, op.getType(), 0, getAxes(op.getAxes())[0]);
    Value in = p.getBuffer(op.getOperand()), out = p.getBuffer(op.getResult());
    buffer::CombineOp::create(p.builder(), p.getLoc(), in, out, op.getAxes(), p.expr(rows.n),
                              p.expr(rows.inner), p.expr(p.sizes(op.getType())[1]));
    return success();
  }
};

struct BroadcastModel : HostOpInterface::ExternalModel<BroadcastModel, BroadcastOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<BroadcastOp>(base);
    OpBuilder &b = p.builder();
    Value from = p.getBuffer(op.getOperand()), to = p.getBuffer(op.getResult());
    buffer::CopyOp::create(b, p.getLoc(), from, to, p.expr(p.bytes(op.getType())));
    buffer::BroadcastOp::create(b, p.getLoc(), to, op.getAxes(), p.expr(p.elements(op.getType())),
                                op.getRootAttr());
    return success();
  }
};

struct SendModel : HostOpInterface::ExternalModel<SendModel, SendOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<SendOp>(base);
    buffer::SendOp::create(p.builder(), p.getLoc(), p.getBuffer(op.getValue()),
                           p.expr(p.elements(op.getValue().getType())), op.getToAttr());
    return success();
  }
};

struct RecvModel : HostOpInterface::ExternalModel<RecvModel, RecvOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<RecvOp>(base);
    buffer::RecvOp::create(p.builder(), p.getLoc(), p.getBuffer(op.getResult()),
                           p.expr(p.elements(op.getType())), op.getFromAttr());
    return success();
  }
};

struct OutputModel : HostOpInterface::ExternalModel<OutputModel, OutputOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<OutputOp>(base);
    OpBuilder &b = p.builder();
    // A cache stays in its buffer and is not delivered.
    auto attrs =
        cast<DictionaryAttr>(op->getParentOfType<PipelineOp>().getOutputs()[op.getIndex()]);
    if (getCache(attrs))
      return success();
    if (p.isUpdatedInPlace(op.getValue()))
      return success();
    if (std::optional<Update> update = Update::get(attrs)) {
      Parameter parameter{update->weight.getAttr(), update->view, op.getValue().getType()};
      Value from = p.getBuffer(op.getValue());
      buffer::UpdateOp::create(b, p.getLoc(), p.parameter(parameter, ParameterUse::Dense), from,
                               p.expr(p.bytes(op.getValue().getType())));
      return success();
    }
    DistAttr dist = getDist(op.getValue());
    SmallVector<SymExpr> shape, offset, size;
    // Only the first copy of a replicated head is delivered: of its indices [begin, begin +
    // numHeld) in the dimension's last factor (whose size `times` divides), a rank delivers the
    // multiples of `times`.
    Copies copies = getCopies(op->getParentOfType<PipelineOp>(), op.getIndex());
    buffer::ExprAttr numHeld, first;
    IntegerAttr copiedFactor, numCopies; // index of the factor, and `times`
    for (auto [i, dim] : llvm::enumerate(dist.getDims())) {
      bool hasCopies = copies.times > 1 && int64_t(i) == copies.dim;
      auto last =
          dim.getFactors().empty() ? std::nullopt : dim.getFactors().back().getExpr().asConstant();
      if (hasCopies && (!dim.getAxes().empty() || !last || *last % copies.times))
        return base->emitOpError()
               << "output " << op.getIndex() << " has " << copies.times << " copies along " << dim
               << ", which must be within its last factor";
      // A shard of `(batch{dp} * sequence){tp}` is contiguous in the global dimension, because all
      // factors after the first are unsplit.
      if (!dim.getAxes().empty() && isRange(dim)) {
        shape.push_back(toNamedSize(dim.getExpr()));
        offset.push_back(getFirstIndex(dim, p.grid()));
        size.push_back(getLocalSize(dim, p.grid()));
        continue;
      }
      if (!dim.getAxes().empty())
        return base->emitOpError() << "output " << op.getIndex() << " is split over "
                                   << dim.getAxes()[0] << " across the factors of dimension " << i
                                   << ", so that a rank's shard is not a block; gather it before";
      for (FactorAttr factor : dim.getFactors()) {
        shape.push_back(toNamedSize(factor.getExpr()));
        offset.push_back(getBegin(factor, p.grid()));
        size.push_back(getLocalSize(factor, p.grid()));
      }
      if (hasCopies) {
        SymExpr times(copies.times);
        auto roundUp = [&](const SymExpr &n) {
          return SymExpr::floorDiv(n + SymExpr(copies.times - 1), times);
        };
        SymExpr begin = offset.back(), all = size.back();
        numHeld = p.expr(all);
        copiedFactor = b.getI64IntegerAttr(shape.size() - 1);
        numCopies = b.getI64IntegerAttr(copies.times);
        shape.back() = SymExpr::floorDiv(shape.back(), times);
        offset.back() = roundUp(begin);
        size.back() = roundUp(begin + all) - offset.back();
        first = p.expr(offset.back() * times - begin);
      }
    }
    // Among ranks with the same shard, and among micro-batches with the same result, only the first
    // delivers.
    SmallVector<StringRef> axes;
    if (MeshAttr grid = p.grid()) {
      axes.push_back(kMicroBatchAxis);
      for (StringAttr axis : grid.getOrder())
        axes.push_back(axis.getValue());
      llvm::erase_if(axes, [&](StringRef axis) {
        return axis == kPipelineAxis || grid.getAxisSize(axis) == 1 || dist.usesAxis(axis);
      });
    }
    buffer::OutputOp::create(b, p.getLoc(), op.getIndexAttr(), p.getBuffer(op.getValue()),
                             p.exprs(shape), p.exprs(offset), p.exprs(size),
                             b.getStrArrayAttr(axes), copiedFactor, numHeld, first, numCopies);
    return success();
  }
};

struct AccumulateModel : HostOpInterface::ExternalModel<AccumulateModel, AccumulateOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AccumulateOp>(base);
    AccumulatedOp sum = findAccumulated(op->getParentOfType<StageOp>(), op.getIndex());
    if (!sum)
      return op.emitOpError() << "adds to sum " << op.getIndex() << ", which no op reads";
    buffer::AccumulateOp::create(p.builder(), p.getLoc(), p.getBuffer(op.getValue()),
                                 p.getBuffer(sum.getResult()),
                                 p.expr(p.elements(op.getValue().getType())));
    return success();
  }
};

/// Plans nothing: BufferPlanner::allocateSums has allocated the sum's buffer.
struct AccumulatedModel : HostOpInterface::ExternalModel<AccumulatedModel, AccumulatedOp> {
  LogicalResult plan(Operation *, BufferPlanner &) const { return success(); }
};

/// Plans the body of a loop with its own frame.
struct MicroBatchesModel : HostOpInterface::ExternalModel<MicroBatchesModel, MicroBatchesOp> {
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    auto loop = cast<MicroBatchesOp>(op);
    SymExpr count = loop.getBatchAttr() ? getNumRanks(kMicroBatchAxis, p.grid()) : SymExpr(1);
    auto iterations = buffer::MicroBatchesOp::create(p.builder(), p.getLoc(), p.expr(count),
                                                     IntegerAttr(), getMicroBatchSize(loop, p));
    Block &body = loop.getBody().front();
    return p.planInner(body, listOps(body), iterations.getBody().emplaceBlock());
  }
};
} // namespace

void mlir::tpc::attachStageModels(MLIRContext *context) {
  MicroBatchesOp::attachInterface<MicroBatchesModel>(*context);
  AccumulateOp::attachInterface<AccumulateModel>(*context);
  AccumulatedOp::attachInterface<AccumulatedModel>(*context);
}

void mlir::tpc::attachCommunicationModels(MLIRContext *context) {
  AllReduceOp::attachInterface<AllReduceModel>(*context);
  AllGatherOp::attachInterface<DimModel<AllGatherOp, true>>(*context);
  ReduceScatterOp::attachInterface<DimModel<ReduceScatterOp, false>>(*context);
  DispatchOp::attachInterface<DispatchModel>(*context);
  CombineOp::attachInterface<CombineModel>(*context);
  AllToAllOp::attachInterface<AllToAllModel>(*context);
  CollectivePermuteOp::attachInterface<CollectivePermuteModel>(*context);
  ExchangeOp::attachInterface<ExchangeModel>(*context);
  BroadcastOp::attachInterface<BroadcastModel>(*context);
  SendOp::attachInterface<SendModel>(*context);
  RecvOp::attachInterface<RecvModel>(*context);
  OutputOp::attachInterface<OutputModel>(*context);
}
