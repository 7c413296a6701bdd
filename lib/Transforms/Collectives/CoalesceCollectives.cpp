//===- CoalesceCollectives.cpp - One collective for several small ones ----===//
//
// Where latency takes longer than bytes, one collective of joined operands takes the time of one
// of them. All ranks run the same ops, so all join the same ones. Joined are buffers of one kind,
// over the same axes, of the same element type; a concatenation before and slices behind are
// local, and small by choice.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Elements.h"
#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_COALESCECOLLECTIVES
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Coalescer {
public:
  explicit Coalescer(ModuleOp module)
      : grid(GridAttr::lookup(module)), planner(grid, getNominalSymbols(module)), links(module) {}
  bool coalesce(Block &block);

private:
  bool isSmall(Operation *op) const;
  bool coalesceTwo(Operation *first, Operation *second);
  Type localType(Value like, DistAttr dist) const {
    return makeTensorType(getElementTypeOrSelf(like.getType()), dist.withLocal(true), grid);
  }

  GridAttr grid;
  ReshardPlanner planner;
  LinkModel links;
};

/// A collective is small if its latency takes longer than its bytes.
bool Coalescer::isSmall(Operation *op) const {
  auto kind = getStepKind(op);
  ::tpc::Transfer transfer;
  if (!kind || *kind == ReshardStep::AllToAll || *kind == ReshardStep::Permute ||
      !::tpc::parseTransfer(stringify(*kind), transfer))
    return false;
  Value buffer = *kind == ReshardStep::AllGather ? op->getResult(0) : op->getOperand(0);
  double bytes = double(planner.getElements(getGlobalForm(buffer)) * getElementBytes(buffer));
  double latency = links.getSeconds(transfer, getAxes(op), 0);
  return links.getSeconds(transfer, getAxes(op), bytes) <= 2 * latency;
}

/// What needs `first`, up to `last` and in the order of the block.
SmallVector<Operation *> findDependents(Operation *first, Operation *last) {
  DenseSet<Operation *> found = {first};
  SmallVector<Operation *> dependents;
  for (Operation *op = first->getNextNode(); op != last->getNextNode(); op = op->getNextNode()) {
    auto result = op->walk([&](Operation *inner) { // also within a branch
      bool needs = llvm::any_of(inner->getOperands(), [&](Value operand) {
        return found.contains(operand.getDefiningOp());
      });
      return needs ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted()) {
      found.insert(op);
      dependents.push_back(op);
    }
  }
  return dependents;
}

/// The dimension along which the buffers of both can be joined: no axis splits it, the collective
/// leaves it alone, and all others are the same. -1 where there is none.
int64_t findJoint(Operation *first, Operation *second) {
  auto a = getDist(first->getOperand(0)).getDims(), b = getDist(second->getOperand(0)).getDims();
  if (a.size() != b.size())
    return -1;
  int64_t joint = -1, differing = 0;
  for (int64_t d = 0; d < int64_t(a.size()); ++d) {
    bool fits = !a[d].isSharded() && !b[d].isSharded() && d != getDim(first);
    if (a[d] != b[d]) {
      ++differing;
      joint = fits ? d : -1;
      if (!fits || differing > 1)
        return -1;
    } else if (fits && differing == 0) {
      joint = d;
    }
  }
  return joint;
}

bool Coalescer::coalesceTwo(Operation *first, Operation *second) {
  Value a = first->getOperand(0), b = second->getOperand(0);
  if (first->getName() != second->getName() ||
      first->getAttrDictionary() != second->getAttrDictionary() ||
      getElementTypeOrSelf(a.getType()) != getElementTypeOrSelf(b.getType()) ||
      getDist(a).getPartial() != getDist(b).getPartial())
    return false;
  SmallVector<Operation *> dependents = findDependents(first, second);
  if (llvm::is_contained(dependents, second))
    return false;
  int64_t joint = findJoint(first, second);
  // Of the dimension that is scattered, 24{tp} and 4{tp}*6 are different parts, of equal sizes or
  // not.
  DistAttr x = getDist(first->getResult(0)), y = getDist(second->getResult(0));
  if (joint >= 0 && x != withDim(y, joint, x.getDims()[joint]))
    return false;
  // Flat, where nothing is split.
  auto isWhole = [](Value value) {
    return llvm::none_of(getDist(value).getDims(), [](DimAttr d) { return d.isSharded(); });
  };
  if (joint < 0 && (!isa<AllReduceOp>(first) || !isWhole(a) || !isWhole(b)))
    return false;
  // What needs the first comes behind the second. All else stays where it is: stages are cut where
  // the order of ops leaves one activation live.
  for (Operation *op : llvm::reverse(dependents))
    op->moveAfter(second);
  OpBuilder builder(second);
  Location loc = builder.getFusedLoc({first->getLoc(), second->getLoc()});
  if (joint < 0) {
    for (Value *value : {&a, &b}) {
      DimAttr flat = DimAttr::get(value->getContext(), product(getSizes(*value)));
      *value = ReshapeOp::create(builder, loc, localType(*value, getDist(*value).withDims({flat})),
                                 *value);
    }
    joint = 0;
  }

  ::tpc::SymExpr sizes[] = {getSizes(a)[joint], getSizes(b)[joint]};
  DimAttr both = DimAttr::get(first->getContext(), sizes[0] + sizes[1]);
  Value joined = ConcatOp::create(builder, loc, localType(a, withDim(getDist(a), joint, both)),
                                  ValueRange{a, b}, joint);
  DistAttr done = getDist(first->getResult(0));
  done = (done.getDims().size() == getDist(a).getDims().size() ? withDim(done, joint, both)
                                                               : done.withDims({both}));
  Operation *collective = builder.clone(*first);
  collective->setLoc(loc);
  collective->setOperand(0, joined);
  collective->getResult(0).setType(localType(a, done));

  ::tpc::SymExpr start(0);
  Operation *ops[] = {first, second};
  for (auto [op, size] : llvm::zip(ops, sizes)) {
    DistAttr dist = withDim(done, joint, DimAttr::get(op->getContext(), size));
    Value part = SliceOp::create(builder, loc, localType(a, dist), collective->getResult(0), joint,
                                 start, 1);
    Type type = op->getResult(0).getType();
    if (part.getType() != type)
      part = ReshapeOp::create(builder, loc, type, part);
    op->getResult(0).replaceAllUsesWith(part);
    start = size;
  }
  first->erase();
  second->erase();
  return true;
}

bool Coalescer::coalesce(Block &block) {
  constexpr size_t nearby = 8; // collectives that count as in one place
  SmallVector<Operation *> small;
  for (Operation &op : block)
    if (isSmall(&op))
      small.push_back(&op);
  for (size_t i = 0; i < small.size(); ++i)
    for (size_t j = i + 1; j < std::min(small.size(), i + nearby); ++j)
      if (coalesceTwo(small[i], small[j]))
        return true;
  return false;
}

struct CoalesceCollectives : public mlir::tpc::impl::CoalesceCollectivesBase<CoalesceCollectives> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(requireGrid(module, "tpc-assign-shardings and the passes up to tpc-localize")))
      return signalPassFailure();
    Coalescer coalescer(module);
    for (auto function : module.getOps<func::FuncOp>())
      for (Block &block : function)
        while (coalescer.coalesce(block))
          ;
  }
};

} // namespace
