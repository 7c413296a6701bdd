//===- PlannedCommunication.cpp - Models of communication on buffers ------===//

#include "PlanChecker.h"
#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Exchange.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static ReductionKind getKind(Value unreduced) {
  PartialAttr partial = getDist(unreduced).getPartial();
  return partial ? partial.getKind() : ReductionKind::Sum;
}

static LogicalResult compareKind(PlanChecker &c, Operation *call, ReductionKind have,
                                 Value unreduced) {
  if (have == getKind(unreduced))
    return success();
  return call->emitOpError() << "reduces by " << stringifyReductionKind(have) << ", not by "
                             << stringifyReductionKind(getKind(unreduced));
}

static Attribute toList(MLIRContext *context, ArrayRef<StringAttr> axes) {
  return ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end()));
}

/// Returns the dimension without its last axis, which must be `axis`.
static DimAttr withoutLast(DimAttr dim, StringRef axis) {
  auto drop = [&](ArrayRef<StringAttr> axes) {
    return !axes.empty() && axes.back().getValue() == axis ? axes.drop_back() : axes;
  };
  SmallVector<FactorAttr> factors;
  for (FactorAttr factor : dim.getFactors())
    factors.push_back(FactorAttr::get(dim.getContext(), factor.getExpr(), drop(factor.getAxes())));
  return DimAttr::get(dim.getContext(), factors, drop(dim.getAxes()));
}

namespace {
struct AllReduce : PlannedOpInterface::ExternalModel<AllReduce, AllReduceOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AllReduceOp>(base);
    auto call = c.next<buffer::AllReduceOp>(op);
    return failure(
        !call || failed(c.compare(call, "axes", call.getAxes(), op.getAxes())) ||
        failed(compareKind(c, call, call.getKind(), op.getOperand())) ||
        failed(c.compare(call, "count", call.getCount(), c.sizes().elements(op.getType()))) ||
        failed(c.read(call, call.getFrom(), op.getOperand(), call.getTo())) ||
        failed(c.write(call, call.getTo(), op.getResult())));
  }
};

/// One call per axis: all-gathers from the innermost axis to the outermost, reduce-scatters in the
/// opposite order. Content {result, i} is the intermediate value after i calls.
template <typename OpT, typename CallT>
struct AxisByAxis : PlannedOpInterface::ExternalModel<AxisByAxis<OpT, CallT>, OpT> {
  static constexpr bool gathers = std::is_same_v<OpT, AllGatherOp>;

  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<OpT>(base);
    size_t dim = op.getDim();
    DistAttr split = getDist(gathers ? op.getOperand() : op.getResult());
    SmallVector<StringAttr> axes(op.getAxes().template getAsRange<StringAttr>());
    // The dimensions between calls: split over all axes, then over one axis fewer, ...
    SmallVector<std::pair<StringAttr, SmallVector<DimAttr>>> levels;
    SmallVector<DimAttr> dims(split.getDims());
    while (!axes.empty()) {
      auto last = llvm::find_if(
          axes, [&](StringAttr axis) { return c.sizes().findSplit(dims, dim, axis).has_value(); });
      if (last == axes.end())
        return op.emitOpError() << "has axes that do not split dimension " << dim;
      levels.push_back({*last, dims});
      dims[dim] = withoutLast(dims[dim], *last);
      axes.erase(last);
    }
    levels.push_back({{}, dims});
    size_t steps = levels.size() - 1;
    Type element = getElementTypeOrSelf(op.getType());
    for (size_t i = 0; i < steps; ++i) {
      auto call = c.next<CallT>(op);
      if (!call)
        return failure();
      auto &[axis, withAxis] = levels[gathers ? i : steps - 1 - i];
      auto &withoutAxis = levels[gathers ? i + 1 : steps - i].second;
      auto shape = c.sizes().findSplit(withAxis, dim, axis);
      Attribute group = ArrayAttr::get(base->getContext(), {axis});
      if (failed(c.compare(call, "axes", call.getAxes(), group)) ||
          failed(c.compare(call, "outer", call.getOuter(), shape->outer)) ||
          failed(c.compare(call, "n", call.getN(), shape->n)) ||
          failed(c.compare(call, "inner", call.getInner(), shape->inner)))
        return failure();
      if constexpr (!gathers)
        if (failed(compareKind(c, call, call.getKind(), op.getOperand())))
          return failure();
      const SmallVector<DimAttr> &before = gathers ? withAxis : levels[steps - i].second;
      const SmallVector<DimAttr> &after = gathers ? withoutAxis : withAxis;
      Content from = i == 0 ? Content{op.getOperand()} : Content{op.getResult(), unsigned(i)};
      Content to =
          i + 1 == steps ? Content{op.getResult()} : Content{op.getResult(), unsigned(i + 1)};
      if (failed(c.read(call, call.getFrom(), from, c.sizes().size(before), element)) ||
          failed(c.write(call, call.getTo(), to, c.sizes().size(after), element)))
        return failure();
    }
    return success();
  }
};

struct AllToAll : PlannedOpInterface::ExternalModel<AllToAll, AllToAllOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AllToAllOp>(base);
    auto call = c.next<buffer::AllToAllOp>(op);
    if (!call || op.getAxes().size() != 1)
      return failure();
    StringRef axis = cast<StringAttr>(op.getAxes()[0]).getValue();
    ArrayRef<DimAttr> in = getDist(op.getOperand()).getDims(),
                      out = getDist(op.getType()).getDims();
    size_t from = op.getFromDim(), to = op.getToDim();
    auto gathered = c.sizes().findSplit(in, from, axis), split = c.sizes().findSplit(out, to, axis);
    if (from == to || !gathered || !split)
      return op.emitOpError("moves a split that its types do not have");
    // Layout [outer, a, middle, b, inner]: a is the split factor of the earlier dimension, b that
    // of the later one, and middle the elements between them.
    bool splitsFirst = to < from;
    auto &first = splitsFirst ? *split : *gathered;
    auto &second = splitsFirst ? *gathered : *split;
    // `second.outer` is the number of elements before b: outer * a * middle, because a is unsplit
    // in the type in which b is split.
    auto middle = second.outer.divideExact(first.outer * first.n);
    if (!middle)
      return op.emitOpError("moves a split between factors that are not one after the other");
    if (call.getSplitsFirst() != splitsFirst)
      return call.emitOpError("splits and gathers in the opposite order");
    return failure(failed(c.compare(call, "axes", call.getAxes(), op.getAxes())) ||
                   failed(c.compare(call, "outer", call.getOuter(), first.outer)) ||
                   failed(c.compare(call, "a", call.getA(), first.n)) ||
                   failed(c.compare(call, "middle", call.getMiddle(), *middle)) ||
                   failed(c.compare(call, "b", call.getB(), second.n)) ||
                   failed(c.compare(call, "inner", call.getInner(), second.inner)) ||
                   failed(c.read(call, call.getFrom(), op.getOperand())) ||
                   failed(c.write(call, call.getTo(), op.getResult())));
  }
};

struct CollectivePermute
    : PlannedOpInterface::ExternalModel<CollectivePermute, CollectivePermuteOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<CollectivePermuteOp>(base);
    auto call = c.next<buffer::CollectivePermuteOp>(op);
    if (!call)
      return failure();
    auto move = BlockMove::get(op);
    if (!move)
      return op.emitOpError("moves slices that are not contiguous ranges");
    MLIRContext *context = op.getContext();
    Attribute splits =
        ArrayAttr::get(context, {toList(context, move->in.n), toList(context, move->in.product),
                                 toList(context, move->out.n), toList(context, move->out.product)});
    ArrayRef<DimAttr> dims = getDist(op.getOperand()).getDims();
    SymExpr outer = c.sizes().size(dims.take_front(op.getDim())) * c.sizes().size(move->outer);
    SymExpr first = op.getFrom().value_or(SymExpr(0));
    return failure(
        failed(c.compare(call, "splits", call.getSplits(), splits)) ||
        failed(c.compare(call, "outer", call.getOuter(), outer)) ||
        failed(c.compare(call, "blocks", call.getBlocks(), c.sizes().size(move->blocks))) ||
        failed(c.compare(call, "n", call.getN(), move->n)) ||
        failed(c.compare(call, "unit", call.getUnit(), move->unit)) ||
        failed(c.compare(call, "inner", call.getInner(),
                         c.sizes().size(dims.drop_front(op.getDim() + 1)))) ||
        failed(c.compare(call, "first", call.getFirst(), first)) ||
        failed(c.read(call, call.getFrom(), op.getOperand())) ||
        failed(c.write(call, call.getTo(), op.getResult())));
  }
};

struct ExchangePlan : PlannedOpInterface::ExternalModel<ExchangePlan, ExchangeOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<ExchangeOp>(base);
    auto call = c.next<buffer::ExchangeOp>(op);
    if (!call)
      return failure();
    auto exchange = Exchange::get(getDist(op.getOperand()), getDist(op.getResult()));
    if (!exchange)
      return op.emitOpError("is not an exchange");
    MLIRContext *context = op.getContext();
    SmallVector<Attribute> layout;
    SmallVector<SymExpr> sizes;
    for (const Exchange::Dim &dim : exchange->dims) {
      SmallVector<Attribute> lists;
      for (const Exchange::Factor &factor : dim.factors) {
        sizes.push_back(c.sizes().size(factor.common));
        lists.push_back(toList(context, factor.split.before));
        lists.push_back(toList(context, factor.split.after));
      }
      lists.push_back(toList(context, dim.product.before));
      lists.push_back(toList(context, dim.product.after));
      layout.push_back(ArrayAttr::get(context, lists));
    }
    return failure(
        failed(c.compare(call, "layout", call.getLayout(), ArrayAttr::get(context, layout))) ||
        failed(c.compare(call, "sizes", call.getSizes(), sizes)) ||
        failed(c.read(call, call.getFrom(), op.getOperand())) ||
        failed(c.write(call, call.getTo(), op.getResult())));
  }
};

/// Copies the root's value to the memory that all members read afterwards.
struct Broadcast : PlannedOpInterface::ExternalModel<Broadcast, BroadcastOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<BroadcastOp>(base);
    auto call = c.next<buffer::BroadcastOp>(op);
    if (!call)
      return failure();
    if (call.getRoot() != op.getRoot())
      return call.emitOpError() << "has root " << call.getRoot() << ", not " << op.getRoot();
    return failure(
        failed(c.compare(call, "axes", call.getAxes(), op.getAxes())) ||
        failed(c.compare(call, "count", call.getCount(), c.sizes().elements(op.getType()))) ||
        failed(c.read(call, call.getData(), op.getOperand(), call.getData())) ||
        failed(c.write(call, call.getData(), op.getResult())));
  }
};

struct Send : PlannedOpInterface::ExternalModel<Send, SendOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<SendOp>(base);
    auto call = c.next<buffer::SendOp>(op);
    if (!call)
      return failure();
    if (call.getTo() != op.getTo())
      return call.emitOpError() << "is to stage " << call.getTo() << ", not " << op.getTo();
    return failure(failed(c.compare(call, "count", call.getCount(),
                                    c.sizes().elements(op.getValue().getType()))) ||
                   failed(c.read(call, call.getData(), op.getValue())));
  }
};

struct Recv : PlannedOpInterface::ExternalModel<Recv, RecvOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<RecvOp>(base);
    auto call = c.next<buffer::RecvOp>(op);
    if (!call)
      return failure();
    if (call.getFrom() != op.getFrom())
      return call.emitOpError() << "is from stage " << call.getFrom() << ", not " << op.getFrom();
    return failure(
        failed(c.compare(call, "count", call.getCount(), c.sizes().elements(op.getType()))) ||
        failed(c.write(call, call.getData(), op.getResult())));
  }
};

struct Output : PlannedOpInterface::ExternalModel<Output, OutputOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<OutputOp>(base);
    auto attrs =
        cast<DictionaryAttr>(op->getParentOfType<PipelineOp>().getOutputs()[op.getIndex()]);
    if (FlatSymbolRefAttr cache = getCache(attrs))
      return c.checkCacheResult(op, cache);
    if (std::optional<Update> update = Update::get(attrs))
      return c.checkUpdate(op, *update);
    auto call = c.next<buffer::OutputOp>(op);
    if (!call)
      return failure();
    if (call.getIndex() != op.getIndex())
      return call.emitOpError() << "is output " << call.getIndex() << ", not " << op.getIndex();
    DistAttr dist = getDist(op.getValue());
    const PartSizes &sizes = c.sizes();
    Copies copies = getCopies(op->getParentOfType<PipelineOp>(), op.getIndex());
    SmallVector<SymExpr> shape, offset, size;
    std::optional<size_t> copiedDim;
    for (auto [i, dim] : llvm::enumerate(dist.getDims())) {
      SmallVector<FactorAttr> factors(dim.getFactors());
      if (!dim.getAxes().empty()) {
        // The axes split the product of the factors. The shard is a rectangular block only if it is
        // a contiguous range.
        SymExpr inner(1);
        for (FactorAttr factor : ArrayRef(factors).drop_front()) {
          if (!factor.getAxes().empty())
            return op.emitOpError()
                   << "has slices of dimension " << i << " that are not contiguous ranges";
          inner = inner * factor.getExpr();
        }
        shape.push_back(dim.getExpr());
        offset.push_back(inner * sizes.begin(factors[0].getExpr(), factors[0].getAxes()) +
                         sizes.begin(sizes.inner(dim), dim.getAxes()));
        size.push_back(sizes.size(dim));
      } else {
        for (FactorAttr factor : factors) {
          shape.push_back(factor.getExpr());
          offset.push_back(sizes.begin(factor.getExpr(), factor.getAxes()));
          size.push_back(sizes.size(factor));
        }
      }
      if (copies.times > 1 && int64_t(i) == copies.dim)
        copiedDim = shape.size() - 1;
    }
    if (call.getEvery().has_value() != copiedDim.has_value())
      return call.emitOpError(
          "delivers all copies of a replicated dimension, or skips elements of one "
          "that is not replicated");
    if (copiedDim) {
      // The shard has the indices [begin, begin + count); the multiples of `times` are delivered.
      SymExpr times(copies.times), begin = offset[*copiedDim], count = size[*copiedDim];
      auto countMultiples = [&](const SymExpr &n) { // in [0, n)
        return SymExpr::floorDiv(n + times - SymExpr(1), times);
      };
      shape[*copiedDim] = SymExpr::floorDiv(shape[*copiedDim], times);
      offset[*copiedDim] = countMultiples(begin);
      size[*copiedDim] = countMultiples(begin + count) - offset[*copiedDim];
      if (*call.getEvery() != *copiedDim || int64_t(*call.getStep()) != copies.times ||
          failed(c.compare(call, "entries", *call.getHeld(), count)) ||
          failed(c.compare(call, "a first entry", *call.getBegin(),
                           offset[*copiedDim] * times - begin)))
        return call.emitOpError("delivers copies other than the first");
    }
    // Among ranks with equal slices, only the rank with coordinate 0 delivers.
    std::set<std::string> wanted, have;
    if (c.grid) {
      SmallVector<StringRef> axes{kMicroBatchAxis};
      for (StringAttr axis : c.grid.getOrder())
        axes.push_back(axis.getValue());
      for (StringRef axis : axes)
        if (axis != kPipelineAxis && sizes.count(axis) > 1 && !dist.usesAxis(axis))
          wanted.insert(axis.str());
    }
    for (auto axis : call.getFirst().getAsValueRange<StringAttr>())
      have.insert(axis.str());
    if (have != wanted)
      return call.emitOpError()
             << "is delivered by other ranks than those with coordinate 0 on all "
                "axes along which it is the same";
    return failure(failed(c.compare(call, "shape", call.getShape(), shape)) ||
                   failed(c.compare(call, "offset", call.getOffset(), offset)) ||
                   failed(c.compare(call, "size", call.getSize(), size)) ||
                   failed(c.read(call, call.getData(), op.getValue())));
  }
};

/// The memory of a sum has the sum from the first iteration on, until the end of the stage. Its
/// content is the result of tpc.accumulated. In later iterations, the memory must still have this
/// content: no other op has written to it.
struct Accumulate : PlannedOpInterface::ExternalModel<Accumulate, AccumulateOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AccumulateOp>(base);
    auto call = c.next<buffer::AccumulateOp>(op);
    if (!call)
      return failure();
    AccumulatedOp sum = findAccumulated(op->getParentOfType<StageOp>(), op.getIndex());
    if (!sum)
      return op.emitOpError() << "adds to sum " << op.getIndex() << ", which no op reads";
    return failure(
        failed(c.compare(call, "count", call.getCount(),
                         c.sizes().elements(op.getValue().getType()))) ||
        failed(c.read(call, call.getFrom(), op.getValue())) ||
        (c.isRepeated() && failed(c.read(call, call.getTo(), sum.getResult(), call.getTo()))) ||
        failed(c.write(call, call.getTo(), sum.getResult())));
  }
};

/// Each reader of the result checks that it reads the memory of the sum.
struct Accumulated : PlannedOpInterface::ExternalModel<Accumulated, AccumulatedOp> {
  LogicalResult checkPlan(Operation *, PlanChecker &) const { return success(); }
};

struct MicroBatches : PlannedOpInterface::ExternalModel<MicroBatches, MicroBatchesOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    return c.checkLoop(cast<MicroBatchesOp>(base));
  }
};
} // namespace

void mlir::tpc::attachPlannedCommunication(MLIRContext *context) {
  AllReduceOp::attachInterface<AllReduce>(*context);
  AllGatherOp::attachInterface<AxisByAxis<AllGatherOp, buffer::AllGatherOp>>(*context);
  ReduceScatterOp::attachInterface<AxisByAxis<ReduceScatterOp, buffer::ReduceScatterOp>>(*context);
  AllToAllOp::attachInterface<AllToAll>(*context);
  CollectivePermuteOp::attachInterface<CollectivePermute>(*context);
  ExchangeOp::attachInterface<ExchangePlan>(*context);
  BroadcastOp::attachInterface<Broadcast>(*context);
  SendOp::attachInterface<Send>(*context);
  RecvOp::attachInterface<Recv>(*context);
  OutputOp::attachInterface<Output>(*context);
  MicroBatchesOp::attachInterface<MicroBatches>(*context);
  AccumulateOp::attachInterface<Accumulate>(*context);
  AccumulatedOp::attachInterface<Accumulated>(*context);
}
