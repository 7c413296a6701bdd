//===- LowerReshards.cpp - Reshards into collectives ----------------------===//
//
// A dimension's distribution is a stack of layers: for each factor the axes that split it, in
// order, and above all of them the axes on the product. Only the top of a
// stack can be taken away or added to. From the source S to the target T:
//
//   keep   what both have in common at the bottom of each stack; the product's axes only
//          if every factor keeps all of its own
//   drop   the rest of S: gathered, from the top; a split that T has in another dimension
//          moves there (all_to_all)
//   add    the rest of T: over an axis that S is unreduced over, a reduce_scatter; any
//          other axis is free to slice once nothing else uses it
//
// What remains unreduced but must not is all-reduced. Slices that are possible at once
// come first, so that everything after them moves fewer bytes. Every step removes an
// axis from what is to be dropped, added or reduced, and no step adds one: it ends.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Sharding/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERRESHARDS
#include "tpc/Transforms/Sharding/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

using Axes = SmallVector<StringAttr, 2>;

/// A dimension as stacks over common factors.
struct Stacks {
  SmallVector<SymExpr> sizes;
  SmallVector<Axes> factors;
  Axes product;

  DimAttr getDim(MLIRContext *context) const {
    SmallVector<FactorAttr> list;
    for (auto [size, axes] : llvm::zip(sizes, factors))
      list.push_back(FactorAttr::get(context, size, axes));
    return DimAttr::get(context, list, product);
  }
};

/// The factors that both dimensions can be written in; false where there are none.
bool align(DimAttr from, DimAttr to, Stacks &a, Stacks &b) {
  struct Item {
    SymExpr size;
    Axes axes;
  };
  auto open = [](DimAttr dim) {
    SmallVector<Item> items;
    for (FactorAttr factor : llvm::reverse(dim.getFactors()))
      items.push_back({factor.getExpr(), Axes(factor.getAxes())});
    return items;
  };
  SmallVector<Item> left = open(from), right = open(to);
  // The first part of an unsplit factor.
  auto divide = [](SmallVector<Item> &items, const SymExpr &size) {
    auto rest = items.back().size.divideExact(size);
    if (!rest || !items.back().axes.empty())
      return false;
    items.back().size = *rest;
    items.push_back({size, {}});
    return true;
  };
  while (!left.empty() && !right.empty()) {
    if (left.back().size != right.back().size && !divide(left, right.back().size) &&
        !divide(right, left.back().size))
      return false;
    Item x = left.pop_back_val(), y = right.pop_back_val();
    a.sizes.push_back(x.size);
    b.sizes.push_back(x.size);
    a.factors.push_back(x.axes);
    b.factors.push_back(y.axes);
  }
  for (const Item &item : left)
    if (!item.size.isConstant(1))
      return false;
  for (const Item &item : right)
    if (!item.size.isConstant(1))
      return false;
  // A product of one factor has its axes on the factor; then both are on a stack.
  a.product.assign(from.getAxes().begin(), from.getAxes().end());
  b.product.assign(to.getAxes().begin(), to.getAxes().end());
  return true;
}

Axes commonPrefix(ArrayRef<StringAttr> a, ArrayRef<StringAttr> b) {
  Axes common;
  for (auto [x, y] : llvm::zip(a, b)) {
    if (x != y)
      break;
    common.push_back(x);
  }
  return common;
}

class Lowering {
public:
  Lowering(ReshardOp op, ArrayAttr tactics, bool allowReshard)
      : op(op), builder(op), value(op.getOperand()), dist(getDist(op.getOperand())),
        target(getDist(op.getResult())), tactics(tactics), allowReshard(allowReshard) {}

  LogicalResult run();

private:
  LogicalResult alignAll();
  LogicalResult check(StringRef kind, ArrayRef<StringAttr> axes, int64_t dim);
  template <typename Op, typename... Args> void emit(DistAttr next, Args... args);
  DistAttr withDim(unsigned dim, const Stacks &stacks);
  DistAttr withoutPartial(ArrayRef<StringAttr> axes);
  bool isFree(StringAttr axis) const { return !dist.usesAxis(axis); }
  bool isDropped(unsigned dim) const;
  Axes *getTopToAdd(unsigned dim, Axes *&wanted);
  LogicalResult sliceFree(bool &changed);
  LogicalResult reduceScatter(bool &changed);
  LogicalResult allReduce();
  LogicalResult drop(bool &changed);

  ReshardOp op;
  OpBuilder builder;
  Value value;
  DistAttr dist, target;
  ArrayAttr tactics;
  bool allowReshard;
  SmallVector<Stacks> current, keep, wanted; // of each dimension
};

ArrayAttr getAxesAttr(OpBuilder &builder, ArrayRef<StringAttr> axes) {
  return builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
}

LogicalResult Lowering::alignAll() {
  for (auto [from, to] : llvm::zip(dist.getDims(), target.getDims())) {
    Stacks a, b, common;
    if (!align(from, to, a, b))
      return op.emitError() << "no factors are common to the dimensions of "
                            << op.getOperand().getType() << " and " << op.getType();
    common.sizes = a.sizes;
    bool whole = true;
    for (auto [x, y] : llvm::zip(a.factors, b.factors)) {
      common.factors.push_back(commonPrefix(x, y));
      whole &= common.factors.back() == x && common.factors.back() == y;
    }
    if (whole)
      common.product = commonPrefix(a.product, b.product);
    current.push_back(a);
    keep.push_back(common);
    wanted.push_back(b);
  }
  return success();
}

LogicalResult Lowering::check(StringRef kind, ArrayRef<StringAttr> axes, int64_t dim) {
  for (StringAttr axis : axes)
    if (axis.getValue() == "mb")
      return op.emitError() << "'" << getSourceName(op.getLoc())
                            << "' combines micro-batches, of which a rank has one at a time; "
                               "leave mb out";
  if (allowReshard)
    return success();
  std::string size = dim < 0 ? "" : dist.getDims()[dim].getExpr().str();
  for (StringAttr axis : axes) {
    bool predicted = false;
    for (auto tactic : tactics ? tactics.getAsRange<DictionaryAttr>()
                               : ArrayAttr::get(op.getContext(), {}).getAsRange<DictionaryAttr>()) {
      auto predicts = tactic.getAs<ArrayAttr>("predicts");
      if (!predicts)
        continue;
      for (auto entry : predicts.getAsRange<DictionaryAttr>()) {
        auto ofSize = entry.getAs<StringAttr>("size");
        predicted |= entry.getAs<StringAttr>("kind") == builder.getStringAttr(kind) &&
                     entry.getAs<StringAttr>("axis") == axis &&
                     (!ofSize || ofSize.getValue() == size);
      }
    }
    if (predicted)
      continue;
    InFlightDiagnostic diag = op.emitError() << "'" << getSourceName(op.getLoc()) << "' needs an "
                                             << kind << " over '" << axis.getValue() << "'";
    if (dim >= 0)
      diag << " of dimension " << dim << " (" << size << ")";
    diag << " that no tactic predicts, from " << op.getOperand().getType() << " to " << op.getType()
         << "; change what is split, or accept it with allow-reshard";
    for (Operation *user : op->getUsers()) {
      diag.attachNote(user->getLoc()) << "needed by '" << getSourceName(user->getLoc()) << "' ("
                                      << user->getName().getStringRef() << ")";
      break;
    }
    return diag;
  }
  return success();
}

template <typename Op, typename... Args> void Lowering::emit(DistAttr next, Args... args) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  value = Op::create(builder, op.getLoc(), makeTensorType(element, next), value, args...);
  dist = next;
}

DistAttr Lowering::withDim(unsigned dim, const Stacks &stacks) {
  SmallVector<DimAttr> dims(dist.getDims());
  dims[dim] = stacks.getDim(op.getContext());
  return dist.withDims(dims);
}

DistAttr Lowering::withoutPartial(ArrayRef<StringAttr> axes) {
  SmallVector<StringAttr> rest;
  for (StringAttr axis : dist.getPartialAxes())
    if (!llvm::is_contained(axes, axis))
      rest.push_back(axis);
  if (rest.empty())
    return dist.withPartial({});
  return dist.withPartial(PartialAttr::get(op.getContext(), dist.getPartial().getKind(), rest));
}

/// Whether all that this dimension must give up is gone.
bool Lowering::isDropped(unsigned dim) const {
  const Stacks &have = current[dim], &common = keep[dim];
  if (have.product.size() > common.product.size() &&
      commonPrefix(have.product, wanted[dim].product).size() < have.product.size())
    return false;
  for (auto [x, y] : llvm::zip(have.factors, wanted[dim].factors))
    if (commonPrefix(x, y).size() < x.size())
      return false;
  // Axes on the product go before a factor may grow.
  bool factorsDone = have.factors == wanted[dim].factors;
  return factorsDone || have.product.empty();
}

/// The stack of `dim` that is to grow next, and what it shall become.
Axes *Lowering::getTopToAdd(unsigned dim, Axes *&goal) {
  if (!isDropped(dim))
    return nullptr;
  Stacks &have = current[dim], &want = wanted[dim];
  for (auto [x, y] : llvm::zip(have.factors, want.factors))
    if (x.size() < y.size()) {
      goal = &y;
      return &x;
    }
  if (have.product.size() < want.product.size()) {
    goal = &want.product;
    return &have.product;
  }
  return nullptr;
}

/// Adds all axes that nothing else uses at the moment.
LogicalResult Lowering::sliceFree(bool &changed) {
  for (unsigned dim = 0; dim < current.size(); ++dim) {
    Axes *goal;
    while (Axes *stack = getTopToAdd(dim, goal)) {
      Axes added;
      for (unsigned i = stack->size(); i < goal->size() && isFree((*goal)[i]); ++i)
        added.push_back((*goal)[i]);
      if (added.empty())
        break;
      stack->append(added);
      emit<LocalSliceOp>(withDim(dim, current[dim]), getAxesAttr(builder, added), dim);
      changed = true;
    }
  }
  return success();
}

/// Adds axes that the value is unreduced over.
LogicalResult Lowering::reduceScatter(bool &changed) {
  for (unsigned dim = 0; dim < current.size(); ++dim) {
    Axes *goal;
    Axes *stack = getTopToAdd(dim, goal);
    if (!stack)
      continue;
    Axes added;
    for (unsigned i = stack->size(); i < goal->size() && dist.isUnreducedOver((*goal)[i]); ++i)
      added.push_back((*goal)[i]);
    if (added.empty())
      continue;
    if (failed(check("reduce_scatter", added, dim)))
      return failure();
    stack->append(added);
    DistAttr next = withoutPartial(added);
    SmallVector<DimAttr> dims(next.getDims());
    dims[dim] = current[dim].getDim(op.getContext());
    emit<ReduceScatterOp>(next.withDims(dims), getAxesAttr(builder, added), dim);
    changed = true;
  }
  return success();
}

/// Reduces what is neither unreduced in the target nor scattered.
LogicalResult Lowering::allReduce() {
  Axes axes;
  for (StringAttr axis : dist.getPartialAxes())
    if (!target.isUnreducedOver(axis))
      axes.push_back(axis);
  if (axes.empty())
    return success();
  if (failed(check("all_reduce", axes, -1)))
    return failure();
  emit<AllReduceOp>(withoutPartial(axes), getAxesAttr(builder, axes));
  return success();
}

/// Takes the top of one stack away.
LogicalResult Lowering::drop(bool &changed) {
  for (unsigned dim = 0; dim < current.size(); ++dim) {
    if (isDropped(dim))
      continue;
    Stacks &have = current[dim];
    Axes *stack = &have.product, *goal = &wanted[dim].product;
    unsigned depth = keep[dim].product.size();
    if (have.product.size() <= depth) {
      for (auto [x, y, z] : llvm::zip(have.factors, wanted[dim].factors, keep[dim].factors))
        if (x.size() > z.size()) {
          stack = &x;
          goal = &y;
          depth = z.size();
          break;
        }
    }
    (void)goal;
    Axes dropped(stack->begin() + depth, stack->end());
    stack->resize(depth);

    // Another dimension may want exactly these axes next.
    for (unsigned other = 0; other < current.size(); ++other) {
      Axes *otherGoal;
      Axes *to = other == dim ? nullptr : getTopToAdd(other, otherGoal);
      if (!to || to->size() + dropped.size() > otherGoal->size() ||
          ArrayRef<StringAttr>(*otherGoal).slice(to->size(), dropped.size()) !=
              ArrayRef<StringAttr>(dropped))
        continue;
      if (failed(check("all_to_all", dropped, dim)))
        return failure();
      to->append(dropped);
      SmallVector<DimAttr> dims(dist.getDims());
      dims[dim] = current[dim].getDim(op.getContext());
      dims[other] = current[other].getDim(op.getContext());
      emit<AllToAllOp>(dist.withDims(dims), getAxesAttr(builder, dropped), dim, other);
      changed = true;
      return success();
    }
    if (failed(check("all_gather", dropped, dim)))
      return failure();
    emit<AllGatherOp>(withDim(dim, current[dim]), getAxesAttr(builder, dropped), dim);
    changed = true;
    return success();
  }
  return success();
}

LogicalResult Lowering::run() {
  if (failed(alignAll()))
    return failure();
  bool changed = true, reduced = false;
  while (changed) {
    changed = false;
    if (failed(sliceFree(changed)) || failed(reduceScatter(changed)))
      return failure();
    if (changed)
      continue;
    if (!reduced) {
      // Axes that will be scattered once something else is dropped wait for it;
      // reducing early is right, and such targets do not arise from tactics.
      reduced = true;
      if (failed(allReduce()))
        return failure();
    }
    if (failed(drop(changed)))
      return failure();
    if (failed(sliceFree(changed)))
      return failure();
  }
  if (value.getType() != op.getType())
    return op.emitError() << "cannot be made of collectives: got to " << value.getType();
  op.getResult().replaceAllUsesWith(value);
  op.erase();
  return success();
}

/// Where a dimension's splits have no common factors ([40{tp}] and [5{tp} * 8]), it is
/// gathered first: two reshards that each have some.
ReshardOp divide(ReshardOp op) {
  DistAttr from = getDist(op.getOperand()), to = getDist(op.getResult());
  SmallVector<DimAttr> dims(from.getDims());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Stacks a, b;
    if (!align(dim, to.getDims()[i], a, b))
      dim = dim.getGlobal();
  }
  DistAttr middle = from.withDims(dims);
  if (middle == from)
    return {};
  OpBuilder builder(op);
  Type element = cast<RankedTensorType>(op.getType()).getElementType();
  auto first =
      ReshardOp::create(builder, op.getLoc(), makeTensorType(element, middle), op.getOperand());
  op.getOperandMutable().assign(first);
  return first;
}

struct LowerReshards : public mlir::tpc::impl::LowerReshardsBase<LowerReshards> {
  using LowerReshardsBase::LowerReshardsBase;
  void runOnOperation() override {
    auto tactics = getOperation()->getAttrOfType<ArrayAttr>(kTacticsAttr);
    SmallVector<ReshardOp> ops;
    getOperation().walk([&](ReshardOp op) { ops.push_back(op); });
    bool ok = true;
    for (ReshardOp op : ops) {
      if (ReshardOp first = divide(op))
        ok &= succeeded(Lowering(first, tactics, allowReshard).run());
      ok &= succeeded(Lowering(op, tactics, allowReshard).run());
    }
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
