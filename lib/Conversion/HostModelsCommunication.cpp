//===- HostModelsCommunication.cpp - Calls of collectives and transfers ---===//

#include "HostModels.h"

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/Exchange.h"
#include "tpc/Dialect/LocalIndex.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Calls the runtime, which is told for messages what node it is for.
template <typename Function, typename... Args>
static void communicate(Operation *op, HostEmitter &e, Function function, Args... args) {
  e.call(TPC_ABI(tpc_at), e.i32(e.getHost().object.getNode(op)));
  e.call(function, args...);
}

static abi::I32 axesMask(HostEmitter &e, ArrayRef<StringRef> axes) {
  const EnvLayout &layout = e.getHost().layout;
  uint32_t mask = 0;
  for (StringRef axis : axes)
    for (auto [i, name] : llvm::enumerate(layout.axes()))
      if (name.getValue() == axis)
        mask |= 1u << i;
  return e.i32(mask);
}

static SmallVector<StringRef> getAxes(ArrayAttr axes) {
  return llvm::to_vector(axes.getAsValueRange<StringAttr>());
}

/// Lists of axes, as places in the order, each ended by -1.
static void appendPlaces(HostEmitter &e, ArrayRef<StringAttr> axes, SmallVectorImpl<Value> &out) {
  const EnvLayout &layout = e.getHost().layout;
  for (StringAttr axis : axes)
    if (auto index = layout.axisIndex(axis.getValue()))
      out.push_back(e.i32(*index - layout.symbols.size()));
  out.push_back(e.i32(-1));
}

static abi::Pointer store(HostEmitter &e, Type type, ArrayRef<Value> list) {
  abi::Pointer memory = e.scratch(type, std::max<size_t>(1, list.size()));
  for (auto [i, value] : llvm::enumerate(list))
    e.storeAt(memory, type, i, value);
  return memory;
}

static int32_t reductionKind(Value unreduced) {
  PartialAttr partial = getDist(unreduced).getPartial();
  if (!partial)
    return TPC_SUM;
  switch (partial.getKind()) {
  case ReductionKind::Max:
    return TPC_MAX;
  case ReductionKind::Min:
    return TPC_MIN;
  default:
    return TPC_SUM;
  }
}

namespace {
/// A local tensor as [outer, n, inner], where n elements, those of one factor or
/// of the product of all, are split over one axis more in `split`.
struct Middle {
  abi::I64 outer, n, inner;
};
} // namespace

static FailureOr<Middle> findSplit(Operation *op, HostEmitter &e, Type split, int64_t dim,
                                   StringRef axis) {
  SizeEmitter &s = e.sizes();
  SmallVector<Value> sizes = s.localSizes(split);
  DimAttr attr = getDist(split).getDims()[dim];
  Value outer = s.product(ArrayRef<Value>(sizes).take_front(dim));
  Value inner = s.product(ArrayRef<Value>(sizes).drop_front(dim + 1));
  auto middle = [&](Value n) { return Middle{abi::I64(outer), abi::I64(n), abi::I64(inner)}; };
  auto isLast = [&](ArrayRef<StringAttr> axes) {
    return !axes.empty() && axes.back().getValue() == axis;
  };
  if (isLast(attr.getAxes()))
    return middle(s.localSize(attr, attr.getAxes().size() - 1));
  if (attr.getAxes().empty())
    for (auto [i, factor] : llvm::enumerate(attr.getFactors())) {
      if (!isLast(factor.getAxes()))
        continue;
      for (FactorAttr before : attr.getFactors().take_front(i))
        outer = s.mul(outer, s.localSize(before));
      for (FactorAttr behind : attr.getFactors().drop_front(i + 1))
        inner = s.mul(inner, s.localSize(behind));
      return middle(s.localSize(factor, factor.getAxes().size() - 1));
    }
  op->emitOpError() << "axis '" << axis << "' is not the innermost split of dimension " << dim
                    << " of " << split;
  return failure();
}

/// The type with one axis less (the last one of a factor or product of `dim`).
static Type withoutAxis(Type type, int64_t dim, StringRef axis, GridAttr grid) {
  DistAttr dist = getDist(type);
  SmallVector<DimAttr> dims(dist.getDims());
  DimAttr &attr = dims[dim];
  SmallVector<StringAttr> axes(attr.getAxes());
  llvm::erase_if(axes, [&](StringAttr a) { return a.getValue() == axis; });
  SmallVector<FactorAttr> factors;
  for (FactorAttr factor : attr.getFactors()) {
    SmallVector<StringAttr> own(factor.getAxes());
    llvm::erase_if(own, [&](StringAttr a) { return a.getValue() == axis; });
    factors.push_back(FactorAttr::get(type.getContext(), factor.getExpr(), own));
  }
  attr = DimAttr::get(type.getContext(), factors, axes);
  return makeTensorType(getElementTypeOrSelf(type), dist.withDims(dims), grid);
}

namespace {
struct AllReduceModel : HostOpInterface::ExternalModel<AllReduceModel, AllReduceOp> {
  Value getReusable(Operation *op) const { return op->getOperand(0); }
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<AllReduceOp>(base);
    communicate(base, e, TPC_ABI(tpc_all_reduce), axesMask(e, getAxes(op.getAxes())),
                e.dtype(op.getType()), e.i32(reductionKind(op.getOperand())),
                e.pointer(op.getOperand()), e.pointer(op.getResult()), e.count(op.getType()));
    return success();
  }
};

/// One axis at a time: only then is the split of several axes, one after the
/// other, the runtime's split over a group. In between the data lies in
/// memory of its own.
template <typename OpT, bool gathers>
struct DimModel : HostOpInterface::ExternalModel<DimModel<OpT, gathers>, OpT> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<OpT>(base);
    GridAttr grid = e.getHost().layout.grid;
    int64_t dim = op.getDim();
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    // The side with all axes; each step takes off the innermost one.
    Type split = gathers ? op.getOperand().getType() : op.getType();
    SmallVector<std::tuple<StringRef, Type, Type>> steps; // axis, more, less
    while (!axes.empty()) {
      auto innermost = llvm::find_if(axes, [&](StringRef axis) {
        DimAttr d = getDist(split).getDims()[dim];
        if (!d.getAxes().empty())
          return d.getAxes().back().getValue() == axis;
        return llvm::any_of(d.getFactors(), [&](FactorAttr f) {
          return !f.getAxes().empty() && f.getAxes().back().getValue() == axis;
        });
      });
      if (innermost == axes.end())
        return base->emitOpError()
               << "axis '" << axes[0] << "' does not split dimension " << dim << " of " << split;
      Type less = withoutAxis(split, dim, *innermost, grid);
      steps.push_back({*innermost, split, less});
      split = less;
      axes.erase(innermost);
    }
    if (!gathers)
      std::reverse(steps.begin(), steps.end());

    abi::Pointer from = e.pointer(op.getOperand());
    SmallVector<abi::Pointer> frames;
    for (auto [i, step] : llvm::enumerate(steps)) {
      auto [axis, more, less] = step;
      abi::Pointer to = e.pointer(op.getResult());
      Type result = gathers ? less : more;
      if (i + 1 != steps.size()) {
        to = e.call(TPC_ABI(tpc_frame_push), e.bytes(result));
        frames.push_back(to);
      }
      auto middle = findSplit(base, e, more, dim, axis);
      if (failed(middle))
        return failure();
      abi::I32 mask = axesMask(e, {axis});
      if constexpr (gathers)
        communicate(base, e, TPC_ABI(tpc_all_gather), mask, e.dtype(result), from, to,
                    middle->outer, middle->n, middle->inner);
      else
        communicate(base, e, TPC_ABI(tpc_reduce_scatter), mask, e.dtype(result),
                    e.i32(reductionKind(op.getOperand())), from, to, middle->outer, middle->n,
                    middle->inner);
      from = to;
    }
    for (abi::Pointer frame : llvm::reverse(frames))
      e.call(TPC_ABI(tpc_frame_pop), frame);
    return success();
  }
};

struct AllToAllModel : HostOpInterface::ExternalModel<AllToAllModel, AllToAllOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<AllToAllOp>(base);
    SmallVector<StringRef> axes = getAxes(op.getAxes());
    if (axes.size() != 1)
      return base->emitOpError() << "over several axes at a time cannot be lowered";
    int64_t from = op.getFromDim(), to = op.getToDim();
    if (from == to)
      return base->emitOpError() << "moves a split within dimension " << from;
    auto gathered = findSplit(base, e, op.getOperand().getType(), from, axes[0]);
    auto split = findSplit(base, e, op.getType(), to, axes[0]);
    if (failed(gathered) || failed(split))
      return failure();
    // [outer, first, middle, second, inner]
    SizeEmitter &s = e.sizes();
    bool splitFirst = to < from;
    Middle &first = splitFirst ? *split : *gathered;
    Middle &second = splitFirst ? *gathered : *split;
    // Between the two: what is outside of the second, without the outside of
    // the first and the first, both as they are there.
    int64_t a = std::min(from, to), b = std::max(from, to);
    SmallVector<Value> sizes = s.localSizes(op.getOperand().getType());
    Value middle = s.product(ArrayRef<Value>(sizes).slice(a + 1, b - a - 1));
    auto minor = [&](Type type, int64_t dim, bool before) {
      Value size = s.constant(1);
      bool seen = false;
      DimAttr d = getDist(type).getDims()[dim];
      if (!d.getAxes().empty())
        return size;
      for (FactorAttr f : d.getFactors()) {
        bool isIt = !f.getAxes().empty() && f.getAxes().back().getValue() == axes[0];
        seen |= isIt;
        if (!isIt && seen != before)
          size = s.mul(size, s.localSize(f));
      }
      return size;
    };
    Type opType = op.getOperand().getType();
    middle = s.mul(middle, minor(splitFirst ? op.getType() : opType, a, false));
    middle = s.mul(middle, minor(splitFirst ? opType : op.getType(), b, true));
    communicate(base, e, TPC_ABI(tpc_all_to_all), axesMask(e, axes), e.dtype(op.getType()),
                e.pointer(op.getOperand()), e.pointer(op.getResult()), first.outer, first.n,
                abi::I64(middle), second.n, second.inner, e.i32(splitFirst));
    return success();
  }
};

struct CollectivePermuteModel
    : HostOpInterface::ExternalModel<CollectivePermuteModel, CollectivePermuteOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<CollectivePermuteOp>(base);
    auto move = BlockMove::get(op);
    if (!move)
      return base->emitOpError() << "moves parts that are no ranges";
    SmallVector<Value> list; // see tpc_collective_permute
    for (const BlockMove::Axes *axes :
         {&move->in.part, &move->in.product, &move->out.part, &move->out.product})
      appendPlaces(e, *axes, list);
    abi::Pointer splits = store(e, e.builder().getI32Type(), list);

    SizeEmitter &s = e.sizes();
    SmallVector<Value> sizes = s.localSizes(op.getOperand().getType());
    int64_t dim = op.getDim();
    Value outer =
        s.mul(s.product(ArrayRef<Value>(sizes).take_front(dim)), s.localSize(move->outer));
    Value inner = s.product(ArrayRef<Value>(sizes).drop_front(dim + 1));
    Value first = e.i64(0);
    if (op.getFrom())
      first = s.expr(*::tpc::SymExpr::parse(op.getFrom()->str()));
    communicate(base, e, TPC_ABI(tpc_collective_permute), splits, e.dtype(op.getType()),
                e.pointer(op.getOperand()), e.pointer(op.getResult()), abi::I64(outer),
                abi::I64(s.localSize(move->blocks)), abi::I64(s.expr(move->n)),
                abi::I64(s.expr(move->unit)), abi::I64(inner), abi::I64(first));
    return success();
  }
};

struct ExchangeModel : HostOpInterface::ExternalModel<ExchangeModel, ExchangeOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<ExchangeOp>(base);
    auto exchange = Exchange::get(getDist(op.getOperand()), getDist(op.getResult()));
    if (!exchange)
      return base->emitOpError() << "cannot be lowered";
    SmallVector<Value> list{e.i32(exchange->dims.size())}, sizes; // see tpc_exchange
    for (const Exchange::Dim &dim : exchange->dims) {
      list.push_back(e.i32(dim.factors.size()));
      for (const Exchange::Factor &factor : dim.factors) {
        sizes.push_back(e.sizes().localSize(factor.common));
        appendPlaces(e, factor.split.before, list);
        appendPlaces(e, factor.split.after, list);
      }
      appendPlaces(e, dim.product.before, list);
      appendPlaces(e, dim.product.after, list);
    }
    abi::Pointer layout = store(e, e.builder().getI32Type(), list);
    communicate(base, e, TPC_ABI(tpc_exchange), layout, e.dtype(op.getType()),
                e.pointer(op.getOperand()), e.pointer(op.getResult()),
                store(e, e.builder().getI64Type(), sizes));
    return success();
  }
};

struct BroadcastModel : HostOpInterface::ExternalModel<BroadcastModel, BroadcastOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<BroadcastOp>(base);
    e.copy(e.pointer(op.getResult()), e.pointer(op.getOperand()), op.getType());
    communicate(base, e, TPC_ABI(tpc_broadcast), axesMask(e, getAxes(op.getAxes())),
                e.dtype(op.getType()), e.pointer(op.getResult()), e.count(op.getType()),
                e.i64(op.getRoot()));
    return success();
  }
};

static abi::I32 pipelineAxis(HostEmitter &e) {
  const EnvLayout &layout = e.getHost().layout;
  auto index = layout.axisIndex("pp");
  return e.i32(index ? *index - layout.symbols.size() : 0);
}

struct SendModel : HostOpInterface::ExternalModel<SendModel, SendOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<SendOp>(base);
    Type type = op.getValue().getType();
    communicate(base, e, TPC_ABI(tpc_send), pipelineAxis(e), e.dtype(type),
                e.pointer(op.getValue()), e.count(type), e.i64(op.getTo()));
    return success();
  }
};

struct RecvModel : HostOpInterface::ExternalModel<RecvModel, RecvOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<RecvOp>(base);
    communicate(base, e, TPC_ABI(tpc_recv), pipelineAxis(e), e.dtype(op.getType()),
                e.pointer(op.getResult()), e.count(op.getType()), e.i64(op.getFrom()));
    return success();
  }
};

struct OutputModel : HostOpInterface::ExternalModel<OutputModel, OutputOp> {
  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<OutputOp>(base);
    OpBuilder &b = e.builder();
    SizeEmitter &s = e.sizes();
    DistAttr dist = getDist(op.getValue());
    SmallVector<Value> global, offset, size;
    // Of copies the first is delivered: of a rank's indices [begin, begin + held) in the last
    // factor of a dimension those that `times` divides, as it divides that factor.
    Copies copies = getCopies(op->getParentOfType<PipelineOp>(), op.getIndex());
    Value held, first;
    unsigned copied = 0; // of the dimensions, divided into factors
    for (auto [i, dim] : llvm::enumerate(dist.getDims())) {
      bool hasCopies = copies.times > 1 && int64_t(i) == copies.dim;
      auto last =
          dim.getFactors().empty() ? std::nullopt : dim.getFactors().back().getExpr().asConstant();
      if (hasCopies && (!dim.getAxes().empty() || !last || *last % copies.times))
        return base->emitOpError() << "output " << op.getIndex() << " has " << copies.times
                                   << " copies along " << dim << ", not within its last factor";
      // A part of `(batch{dp} * sequence){tp}` is in a row of the whole dimension, as all below the
      // first factor is whole.
      if (!dim.getAxes().empty() && isRange(dim)) {
        global.push_back(s.expr(dim.getExpr()));
        SymbolicIndices at;
        offset.push_back(s.expr(getGlobalIndex<SymExpr>(at, dim, s.getLayout().grid, 0)));
        size.push_back(s.localSize(dim));
        continue;
      }
      if (!dim.getAxes().empty())
        return base->emitOpError() << "output " << op.getIndex() << " is split over "
                                   << dim.getAxes()[0] << " across the factors of dimension " << i
                                   << ", so that a rank's part is no box; gather it before";
      for (FactorAttr factor : dim.getFactors()) {
        global.push_back(s.expr(factor.getExpr()));
        offset.push_back(s.begin(factor));
        size.push_back(s.localSize(factor));
      }
      if (hasCopies) {
        Value times = s.constant(copies.times), before = s.constant(copies.times - 1);
        auto roundUp = [&](Value n) { return s.floorDiv(s.add(n, before), times); };
        Value begin = offset.back();
        held = size.back();
        copied = global.size() - 1;
        global.back() = s.floorDiv(global.back(), times);
        offset.back() = roundUp(begin);
        size.back() = s.sub(roundUp(s.add(begin, held)), offset.back());
        first = s.sub(s.mul(offset.back(), times), begin);
      }
    }
    // Of the ranks that hold the same part, the first delivers; of rounds that do, the first.
    Value condition = LLVM::ConstantOp::create(b, e.getLoc(), b.getI1Type(), b.getBoolAttr(true));
    const EnvLayout &layout = e.getHost().layout;
    SmallVector<StringRef> axes{"mb"};
    for (StringAttr axis : layout.axes())
      if (axis.getValue() != "pp")
        axes.push_back(axis.getValue());
    for (StringRef axis : axes) {
      if (layout.axisSize(axis) == 1 || dist.usesAxis(axis))
        continue;
      Value first = LLVM::ICmpOp::create(b, e.getLoc(), LLVM::ICmpPredicate::eq, s.coordinate(axis),
                                         e.i64(0));
      condition = LLVM::AndOp::create(b, e.getLoc(), condition, first);
    }
    Region *region = b.getInsertionBlock()->getParent();
    Block *before = b.getInsertionBlock();
    Block *then = b.createBlock(region, std::next(before->getIterator()));
    Block *after = b.createBlock(region, std::next(then->getIterator()));
    b.setInsertionPointToEnd(before);
    LLVM::CondBrOp::create(b, e.getLoc(), condition, then, ValueRange(), after, ValueRange());
    b.setInsertionPointToStart(then);
    Type i64 = b.getI64Type();
    unsigned rank = global.size();
    Value box = e.scratch(i64, std::max(1u, 3 * rank));
    auto store = [&](ArrayRef<Value> values, unsigned at) {
      for (auto [i, value] : llvm::enumerate(values))
        e.storeAt(box, i64, at + i, value);
      return abi::Pointer(LLVM::GEPOp::create(b, e.getLoc(), box.getType(), i64, box,
                                              ArrayRef<LLVM::GEPArg>{(int32_t)at}));
    };
    abi::Pointer g = store(global, 0), o = store(offset, rank), n = store(size, 2 * rank);
    abi::I32 index = e.i32(op.getIndex());
    abi::Pointer data = e.pointer(op.getValue());
    if (held)
      e.call(TPC_ABI(tpc_output_every), index, data, e.i32(rank), g, o, n, e.i32(copied),
             abi::I64(held), abi::I64(first), e.i64(copies.times),
             e.i64(elementBytes(op.getValue().getType())));
    else
      e.call(TPC_ABI(tpc_output), index, data, e.i32(rank), g, o, n);
    LLVM::BrOp::create(b, e.getLoc(), after);
    b.setInsertionPointToStart(after);
    return success();
  }
};
} // namespace

void mlir::tpc::attachCommunicationModels(MLIRContext *context) {
  AllReduceOp::attachInterface<AllReduceModel>(*context);
  AllGatherOp::attachInterface<DimModel<AllGatherOp, true>>(*context);
  ReduceScatterOp::attachInterface<DimModel<ReduceScatterOp, false>>(*context);
  AllToAllOp::attachInterface<AllToAllModel>(*context);
  CollectivePermuteOp::attachInterface<CollectivePermuteModel>(*context);
  ExchangeOp::attachInterface<ExchangeModel>(*context);
  BroadcastOp::attachInterface<BroadcastModel>(*context);
  SendOp::attachInterface<SendModel>(*context);
  RecvOp::attachInterface<RecvModel>(*context);
  OutputOp::attachInterface<OutputModel>(*context);
}
