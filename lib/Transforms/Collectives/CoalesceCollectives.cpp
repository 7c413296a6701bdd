//===- CoalesceCollectives.cpp - Merging of small collectives -------------===//
//
// If latency dominates, one collective on concatenated operands takes about as long as each of the
// original collectives. All ranks run the same ops, so they merge the same collectives. Merged
// collectives have the same kind, axes and element type. The concatenation and the slices are local
// and small.
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
      : grid(MeshAttr::lookup(module)), planner(grid, getNominalSymbols(module)), links(module) {}
  bool coalesce(Block &block);

private:
  bool isSmall(Operation *op) const;
  bool coalesceTwo(Operation *first, Operation *second);
  Type localType(Value like, DistAttr dist) const {
    return makeTensorType(getElementTypeOrSelf(like.getType()), dist.withLocal(true), grid);
  }

  MeshAttr grid;
  ReshardPlanner planner;
  LinkModel links;
};

/// Returns true if the latency of the collective exceeds the transfer time of its bytes.
bool Coalescer::isSmall(Operation *op) const {
  auto kind = getStepKind(op);
  ::tpc::Transfer transfer;
  if (!kind || links.getGroupSize(getAxes(op)) == 1 || *kind == ReshardStep::AllToAll ||
      *kind == ReshardStep::Permute || !::tpc::parseTransfer(stringify(*kind), transfer))
    return false;
  Value buffer = *kind == ReshardStep::AllGather ? op->getResult(0) : op->getOperand(0);
  double bytes = double(planner.getElements(getGlobalForm(buffer)) * getElementBytes(buffer));
  double latency = links.getSeconds(transfer, getAxes(op), 0);
  return links.getSeconds(transfer, getAxes(op), bytes) <= 2 * latency;
}

/// Returns the dependents of `first` up to `last`, in block order.
SmallVector<Operation *> findDependents(Operation *first, Operation *last) {
  DenseSet<Operation *> found = {first};
  SmallVector<Operation *> dependents;
  for (Operation *op = first->getNextNode(); op != last->getNextNode(); op = op->getNextNode()) {
    auto result = op->walk([&](Operation *inner) { // includes ops in branches
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

/// Returns a dimension along which the buffers of both collectives can be concatenated: no axis
/// splits it, the collectives do not change it, and all other dimensions are equal. Returns -1 if
/// there is none.
int64_t findConcatDim(Operation *first, Operation *second) {
  auto a = getDist(first->getOperand(0)).getDims(), b = getDist(second->getOperand(0)).getDims();
  if (a.size() != b.size())
    return -1;
  int64_t concatDim = -1, differing = 0;
  for (int64_t d = 0; d < int64_t(a.size()); ++d) {
    bool fits = !a[d].isSharded() && !b[d].isSharded() && d != getDim(first);
    if (a[d] != b[d]) {
      ++differing;
      concatDim = fits ? d : -1;
      if (!fits || differing > 1)
        return -1;
    } else if (fits && differing == 0) {
      concatDim = d;
    }
  }
  return concatDim;
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
  int64_t concatDim = findConcatDim(first, second);
  // A scattered dimension must have the same distribution: shards of 24{tp} and 4{tp}*6 have
  // different elements, even if their sizes are equal.
  DistAttr x = getDist(first->getResult(0)), y = getDist(second->getResult(0));
  if (concatDim >= 0 && x != withDim(y, concatDim, x.getDims()[concatDim]))
    return false;
  // Unsplit values can be flattened and concatenated.
  auto isWhole = [](Value value) {
    return llvm::none_of(getDist(value).getDims(), [](DimAttr d) { return d.isSharded(); });
  };
  if (concatDim < 0 && (!isa<AllReduceOp>(first) || !isWhole(a) || !isWhole(b)))
    return false;
  // Ops that depend on the first collective move after the second. Other ops keep their order,
  // because it determines the cut points of stages.
  for (Operation *op : llvm::reverse(dependents))
    op->moveAfter(second);
  OpBuilder builder(second);
  Location loc = builder.getFusedLoc({first->getLoc(), second->getLoc()});
  if (concatDim < 0) {
    for (Value *value : {&a, &b}) {
      DimAttr flat = DimAttr::get(value->getContext(), product(getSizes(*value)));
      *value = ReshapeOp::create(builder, loc, localType(*value, getDist(*value).withDims({flat})),
                                 *value);
    }
    concatDim = 0;
  }

  ::tpc::SymExpr sizes[] = {getSizes(a)[concatDim], getSizes(b)[concatDim]};
  DimAttr both = DimAttr::get(first->getContext(), sizes[0] + sizes[1]);
  Value joined = ConcatOp::create(builder, loc, localType(a, withDim(getDist(a), concatDim, both)),
                                  ValueRange{a, b}, concatDim);
  DistAttr done = getDist(first->getResult(0));
  done = (done.getDims().size() == getDist(a).getDims().size() ? withDim(done, concatDim, both)
                                                               : done.withDims({both}));
  Operation *collective = builder.clone(*first);
  collective->setLoc(loc);
  collective->setOperand(0, joined);
  collective->getResult(0).setType(localType(a, done));

  ::tpc::SymExpr start(0);
  Operation *ops[] = {first, second};
  for (auto [op, size] : llvm::zip(ops, sizes)) {
    DistAttr dist = withDim(done, concatDim, DimAttr::get(op->getContext(), size));
    Value part = SliceOp::create(builder, loc, localType(a, dist), collective->getResult(0),
                                 concatDim, start, 1);
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
  constexpr size_t nearby = 8; // exclusive limit on the distance in `small`
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
