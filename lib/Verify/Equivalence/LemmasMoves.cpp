//===- LemmasMoves.cpp - Lemmas of reshapes and communication -------------===//

#include "Models.h"
#include "RelationChecker.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

/// Returns the axes of the op's group that have more than one coordinate. An op may slice over mb,
/// but not combine micro-batches, because a rank has only one micro-batch at a time. The exception
/// is a sum before stages are divided, which becomes tpc.accumulate.
static FailureOr<Axes> getGroup(Operation *op, RelationChecker &c,
                                bool splitsMicroBatches = false) {
  Axes axes;
  auto list = op->getAttrOfType<ArrayAttr>("axes");
  if (!list)
    return axes;
  for (auto axis : list.getAsRange<StringAttr>()) {
    if (c.getGrid() && c.getGrid().getAxisSize(axis.getValue()) == 1)
      continue;
    bool isSum = isa<AllReduceOp>(op) && !c.isStaged();
    if (axis.getValue() == kMicroBatchAxis && !splitsMicroBatches && !isSum)
      return c.fail(op) << "it combines micro-batches, of which a rank has one at a time";
    axes.push_back(axis);
  }
  return axes;
}

static LogicalResult failToMake(Operation *op, RelationChecker &c, const Axes &axes, size_t dim,
                                const Layout &from, const Layout &to) {
  return c.differ(c.fail(op) << "over {" << toText(axes) << "} it cannot make dimension " << dim
                             << " " << to.str() << " from " << from.str(),
                  to, from);
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

namespace {
/// Effect of a movement op on the dimensions of a value. All other dimensions are unchanged.
struct Move {
  int64_t lost = -1;    // gathered dimension
  int64_t gained = -1;  // split dimension
  int64_t shifted = -1; // dimension that is shifted within runs of `every`
  std::optional<::tpc::SymExpr> every = std::nullopt;
  bool exchangesAll = false;       // the split of any dimension may change
  bool splitsMicroBatches = false; // may slice over mb
};
} // namespace

static Move getMove(LocalSliceOp op) {
  return {.gained = int64_t(op.getDim()), .splitsMicroBatches = true};
}
static Move getMove(AllGatherOp op) { return {.lost = int64_t(op.getDim())}; }
static Move getMove(AllToAllOp op) {
  return {.lost = int64_t(op.getFromDim()), .gained = int64_t(op.getToDim())};
}
static Move getMove(CollectivePermuteOp op) {
  return {.shifted = int64_t(op.getDim()), .every = op.getEvery()};
}
static Move getMove(RollOp op) { return {.shifted = int64_t(op.getDim()), .every = op.getEvery()}; }
static Move getMove(DispatchOp) { return {.lost = 0}; }
static Move getMove(ExchangeOp) { return {.exchangesAll = true}; }
static Move getMove(BroadcastOp) { return {}; }

/// Checks a movement op by its types: each element of the result must be on some member of the
/// group, and other dimensions must not change.
static LogicalResult checkMove(Operation *op, RelationChecker &c, const Move &move) {
  const Relation &in = c.get(op->getOperand(0)), &out = c.get(op->getResult(0));
  FailureOr<Axes> axes = getGroup(op, c, move.splitsMicroBatches);
  if (failed(axes))
    return failure();
  if (in.partial != out.partial || (!in.partial.empty() && in.kind != out.kind))
    return c.fail(op) << "the operand is unreduced over {" << toText(in.partial)
                      << "} and the result over {" << toText(out.partial)
                      << "}, but nothing is added here";
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    for (StringAttr axis : *axes)
      if (in.uses(axis))
        return c.fail(op) << "ranks differ along '" << axis.getValue()
                          << "', and a broadcast gives all of them the value of coordinate "
                          << broadcast.getRoot();
  if (move.gained >= 0 && move.lost < 0)
    for (StringAttr axis : *axes)
      if (in.uses(axis))
        return c.fail(op) << "it takes parts over '" << axis.getValue()
                          << "', but ranks along it have different values already";
  int64_t rank = in.dims.size();
  if (in.dims.size() != out.dims.size() || move.gained >= rank || move.shifted >= rank ||
      move.lost >= rank || (move.lost >= 0 && move.lost == move.gained))
    return c.fail(op) << "its dimensions are not those of " << op->getOperand(0).getType();
  for (auto [d, from, to] : llvm::enumerate(in.dims, out.dims)) {
    if (move.exchangesAll || int64_t(d) == move.shifted) {
      std::string wrong = move.exchangesAll ? explainExchange(from, to, *axes)
                                            : explainShift(from, to, *axes,
                                                           c.isLocal() ? move.every : std::nullopt);
      if (!wrong.empty())
        return c.fail(op) << wrong << " in dimension " << d;
      continue;
    }
    bool good = int64_t(d) == move.gained ? isSplitFurther(from, *axes, to)
                : int64_t(d) == move.lost ? isSplitFurther(to, *axes, from)
                                          : from == to;
    if (!good)
      return failToMake(op, c, *axes, d, from, to);
  }
  return success();
}

namespace {
template <typename OpT> struct MoveLemma : LemmaOpInterface::ExternalModel<MoveLemma<OpT>, OpT> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return checkMove(op, c, getMove(cast<OpT>(op)));
  }
};

/// Rows with weight 0 add nothing to the result of experts. A dispatch may therefore omit the rows
/// whose weights for all experts of the receiver are 0, and the weights of other experts. Its
/// result must only be used as x and routing of experts with the distribution that it states.
struct DispatchLemma : LemmaOpInterface::ExternalModel<DispatchLemma, DispatchOp> {
  LogicalResult checkRelation(Operation *base, RelationChecker &c) const {
    auto op = cast<DispatchOp>(base);
    if (failed(checkMove(op, c, getMove(op))))
      return failure();
    auto experts = op.getExperts().getExpr().asConstant();
    MoeOp moe;
    for (Operation *user : op->getUsers()) {
      auto slice = dyn_cast<SliceOp>(user);
      auto start = slice ? slice.getStart().asConstant() : std::nullopt;
      auto size = slice ? getSizes(slice.getResult())[1].asConstant() : std::nullopt;
      if (!slice || slice.getDim() != 1 || slice.getStep() != 1 || !start || !size || !experts)
        return c.fail(op) << "its result lacks rows, and is used by " << user->getName()
                          << ", which is not a slice of its columns";
      int64_t column = op.getColumn();
      bool isRouting = *start == column && *size == *experts;
      if (!isRouting && *start < column + *experts && column < *start + *size)
        return c.fail(op) << "a slice has routing weights, but is not the routing of its experts";
      for (OpOperand &use : slice->getUses()) {
        auto of = dyn_cast<MoeOp>(use.getOwner());
        if (!of || (moe && moe != of) ||
            use.getOperandNumber() !=
                (isRouting ? of.getRoutingMutable() : of.getXMutable()).getOperandNumber())
          return c.fail(op) << "its result lacks rows, and is used by " << use.getOwner()->getName()
                            << ", not only as the operand of one mixture of experts";
        moe = of;
      }
    }
    SmallVector<Value> operands;
    if (moe)
      operands = {moe.getX(), moe.getRouting()};
    for (Value operand : operands) {
      auto slice = operand.getDefiningOp<SliceOp>();
      if (!slice || slice.getOperand() != op.getResult())
        return c.fail(op) << "only one of the tokens and their routing weights are its result";
    }
    if (moe && getDist(moe.getUp()).getDims()[0] != op.getExperts())
      return c.fail(op) << "a rank has the experts " << getDist(moe.getUp()).getDims()[0]
                        << ", not " << op.getExperts();
    return success();
  }
};

/// A reshard preserves the global value by definition. Its lowering to collectives is checked.
struct ReshardLemma : LemmaOpInterface::ExternalModel<ReshardLemma, ReshardOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    if (c.isLocal())
      return c.fail(op) << "it is not allowed in a local program: run tpc-lower-reshards first";
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Checks a reduction: the operand must be unreduced over the op's axes, and the result must not
/// be. If `split` is not -1, the axes split this dimension of the result.
static LogicalResult checkReduction(Operation *op, RelationChecker &c, int64_t split) {
  const Relation &in = c.get(op->getOperand(0)), &out = c.get(op->getResult(0));
  FailureOr<Axes> axes = getGroup(op, c);
  if (failed(axes))
    return failure();
  Axes left;
  for (StringAttr axis : *axes)
    if (!in.isPartial(axis))
      return c.fail(op) << "it adds over '" << axis.getValue()
                        << "', but the operand is complete on every rank along it: it would count "
                        << c.getGrid().getAxisSize(axis.getValue()) << " times";
  for (StringAttr axis : in.partial)
    if (!llvm::is_contained(*axes, axis))
      left.push_back(axis);
  if (left != out.partial || (!left.empty() && in.kind != out.kind))
    return c.fail(op) << "after it the value is unreduced over {" << toText(left)
                      << "}, but its type declares {" << toText(out.partial) << "}";
  if (in.dims.size() != out.dims.size() || split >= int64_t(in.dims.size()))
    return c.fail(op) << "its dimensions are not those of " << op->getOperand(0).getType();
  for (auto [d, from, to] : llvm::enumerate(in.dims, out.dims))
    if (int64_t(d) == split ? !isSplitFurther(from, *axes, to) : from != to)
      return failToMake(op, c, *axes, d, from, to);
  return success();
}

namespace {
template <typename OpT>
struct AllReduceLemma : LemmaOpInterface::ExternalModel<AllReduceLemma<OpT>, OpT> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return checkReduction(op, c, -1);
  }
};

struct CombineLemma : LemmaOpInterface::ExternalModel<CombineLemma, CombineOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return checkReduction(op, c, 0);
  }
};

struct ReduceScatterLemma : LemmaOpInterface::ExternalModel<ReduceScatterLemma, ReduceScatterOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return checkReduction(op, c, cast<ReduceScatterOp>(op).getDim());
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// Returns the layouts of a value's atoms in row-major order. A dimension with a split product is
/// one layout.
static SmallVector<Layout, 4> flatten(const Relation &relation) {
  SmallVector<Layout, 4> items;
  Layout run;
  auto flush = [&] {
    for (const Layout::Atom &atom : run.atoms)
      items.push_back({{atom}, {}});
    run = {};
  };
  for (const Layout &dim : relation.dims) {
    if (dim.product.empty()) {
      llvm::append_range(run.atoms, dim.atoms);
      run.canonicalize();
      continue;
    }
    flush();
    items.push_back(dim);
  }
  flush();
  return items;
}

namespace {
/// Row-major order is lexicographic in the atoms. A local reshape is therefore valid if operand and
/// result have the same atoms in the same order; atoms without axes may be divided in any way.
template <typename OpT>
struct ReshapeLemma : LemmaOpInterface::ExternalModel<ReshapeLemma<OpT>, OpT> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    const Relation &in = c.get(op->getOperand(0)), &out = c.get(op->getResult(0));
    auto a = flatten(in), b = flatten(out);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size() && i < b.size() && a[i] == b[i])
        continue;
      InFlightDiagnostic diag = c.fail(op) << "row by row, the operand is laid out as ";
      auto print = [&](ArrayRef<Layout> items) {
        llvm::interleave(items, diag, [&](const Layout &item) { diag << item.str(); }, " * ");
      };
      print(a);
      diag << " and the result as ";
      print(b);
      if (i < a.size() && i < b.size())
        return c.differ(std::move(diag), a[i], b[i]);
      return diag;
    }
    if (in.partial != out.partial || (!in.partial.empty() && in.kind != out.kind))
      return c.fail(op) << "the operand is unreduced over {" << toText(in.partial)
                        << "} and the result over {" << toText(out.partial) << "}";
    return success();
  }
};
} // namespace

void equivalence::attachMoveLemmas(MLIRContext *context) {
  attachModels<MoveLemma, LocalSliceOp, AllGatherOp, AllToAllOp, CollectivePermuteOp, ExchangeOp,
               BroadcastOp, RollOp>(context);
  ReshardOp::attachInterface<ReshardLemma>(*context);
  attachModels<AllReduceLemma, AllReduceOp, AllReduceStartOp>(context);
  ReduceScatterOp::attachInterface<ReduceScatterLemma>(*context);
  DispatchOp::attachInterface<DispatchLemma>(*context);
  CombineOp::attachInterface<CombineLemma>(*context);
  attachModels<ReshapeLemma, ReshapeOp, WaitOp>(context); // a wait has the same elements
}
