//===- LemmasMoves.cpp - Lemmas of reshapes and of communication ----------===//

#include "Models.h"
#include "RelationChecker.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

/// The axes of a group that have more than one coordinate. Of micro-batches a rank has one at a
/// time: they can be taken apart, and not put together.
static FailureOr<Axes> getGroup(Operation *op, RelationChecker &c, bool takesApart = false) {
  Axes axes;
  auto list = op->getAttrOfType<ArrayAttr>("axes");
  if (!list)
    return axes;
  for (auto axis : list.getAsRange<StringAttr>()) {
    if (c.getGrid() && c.getGrid().getAxisSize(axis.getValue()) == 1)
      continue;
    if (axis.getValue() == "mb" && !takesApart)
      return c.fail(op) << "it puts micro-batches together, of which a rank has one at a time";
    axes.push_back(axis);
  }
  return axes;
}

static LogicalResult failToMake(Operation *op, RelationChecker &c, const Axes &axes, size_t dim,
                                const Layout &from, const Layout &to) {
  return c.differ(c.fail(op) << "over {" << toText(axes) << "} it cannot make dimension " << dim
                             << " " << to.str() << " of " << from.str(),
                  to, from);
}

//===----------------------------------------------------------------------===//
// What moves
//===----------------------------------------------------------------------===//

namespace {
/// What happens to the dimensions of a value that is moved; all others stay as they are.
struct Move {
  int64_t lost = -1;    // it is split no more
  int64_t gained = -1;  // it is split now
  int64_t shifted = -1; // its elements move, within runs of `every`
  std::optional<::tpc::SymExpr> every = std::nullopt;
  bool exchangesAll = false; // all of them may be split otherwise
  bool takesApart = false;   // takes parts of micro-batches
};
} // namespace

static Move getMove(LocalSliceOp op) {
  return {.gained = int64_t(op.getDim()), .takesApart = true};
}
static Move getMove(AllGatherOp op) { return {.lost = int64_t(op.getDim())}; }
static Move getMove(AllToAllOp op) {
  return {.lost = int64_t(op.getFromDim()), .gained = int64_t(op.getToDim())};
}
static Move getMove(CollectivePermuteOp op) {
  return {.shifted = int64_t(op.getDim()), .every = op.getEvery()};
}
static Move getMove(RollOp op) { return {.shifted = int64_t(op.getDim()), .every = op.getEvery()}; }
static Move getMove(ExchangeOp) { return {.exchangesAll = true}; }
static Move getMove(BroadcastOp) { return {}; }

/// What each rank gets follows from the two types; the parts that the result wants must be there,
/// and nothing else may change.
static LogicalResult checkMove(Operation *op, RelationChecker &c, const Move &move) {
  const Relation &in = c.get(op->getOperand(0)), &out = c.get(op->getResult(0));
  FailureOr<Axes> axes = getGroup(op, c, move.takesApart);
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
                          << "', and a broadcast gives all of them the part of coordinate "
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

/// The same whole value by definition; what lowers it is checked as communication.
struct ReshardLemma : LemmaOpInterface::ExternalModel<ReshardLemma, ReshardOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    if (c.isLocal())
      return c.fail(op) << "a local program cannot hold it: run tpc-lower-reshards first";
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// What reduces
//===----------------------------------------------------------------------===//

/// It must find parts and take away exactly its own axes; these split dimension `split` then, if
/// there is one.
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
                      << "}, but its type says {" << toText(out.partial) << "}";
  if (in.dims.size() != out.dims.size() || split >= int64_t(in.dims.size()))
    return c.fail(op) << "its dimensions are not those of " << op->getOperand(0).getType();
  for (auto [d, from, to] : llvm::enumerate(in.dims, out.dims))
    if (int64_t(d) == split ? !isSplitFurther(from, *axes, to) : from != to)
      return failToMake(op, c, *axes, d, from, to);
  return success();
}

namespace {
struct AllReduceLemma : LemmaOpInterface::ExternalModel<AllReduceLemma, AllReduceOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    return checkReduction(op, c, -1);
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

/// A value's atoms in row-major order, across dimensions; a dimension whose product is split is
/// one.
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
/// Row-major order is lexicographic in the atoms, so a local reshape is right if both sides are
/// made of the same atoms in the same order; what is not split may be divided in any way.
struct ReshapeLemma : LemmaOpInterface::ExternalModel<ReshapeLemma, ReshapeOp> {
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
  AllReduceOp::attachInterface<AllReduceLemma>(*context);
  ReduceScatterOp::attachInterface<ReduceScatterLemma>(*context);
  ReshapeOp::attachInterface<ReshapeLemma>(*context);
}
