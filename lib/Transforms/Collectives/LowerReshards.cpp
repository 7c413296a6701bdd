//===- LowerReshards.cpp - Lowering of reshards to collectives ------------===//
//
// Reshard.cpp searches for a sequence of expected collectives. If there is none, the error names
// the first unexpected collective of the cheapest unrestricted sequence.
//
// An op that permutes elements along a split dimension is lowered to one collective-permute or, for
// shards that are not contiguous and if allowed, to a gather, a shift and a slice.
//
//===----------------------------------------------------------------------===//

#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Transforms/Collectives/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERRESHARDS
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

class Lowering {
public:
  Lowering(ModuleOp module, bool allowReshard);
  LogicalResult run(ReshardOp op);
  LogicalResult run(ShardingRuleOpInterface op, const Permutation &permutation);

private:
  bool permuteWhole(Operation *op, int64_t dim);
  bool isExpected(StringRef kind, StringAttr axis, const std::string &size) const;
  bool isAllowed(ReshardStep::Kind kind, StringAttr axis, DistAttr dist, int64_t dim) const;
  LogicalResult reportUnexpected(ReshardOp op, DistAttr from, DistAttr to);

  ReshardPlanner planner;
  bool allowReshard;
  SmallVector<DictionaryAttr> expected;
  DenseMap<std::pair<DistAttr, DistAttr>, ReshardPath> paths;
};

Lowering::Lowering(ModuleOp module, bool allowReshard)
    : planner(MeshAttr::lookup(module), getNominalSymbols(module)), allowReshard(allowReshard) {
  if (auto tactics = module->getAttrOfType<ArrayAttr>(kTacticsAttr))
    for (auto tactic : tactics.getAsRange<DictionaryAttr>())
      llvm::append_range(expected,
                         tactic.getAs<ArrayAttr>("predicts").getAsRange<DictionaryAttr>());
}

/// Returns whether a tactic expects this collective. An expectation without a size has any size.
bool Lowering::isExpected(StringRef kind, StringAttr axis, const std::string &size) const {
  return llvm::any_of(expected, [&](DictionaryAttr entry) {
    auto ofSize = entry.getAs<StringAttr>("size");
    return entry.getAs<StringAttr>("kind").getValue() == kind &&
           entry.getAs<StringAttr>("axis") == axis && (!ofSize || ofSize.getValue() == size);
  });
}

bool Lowering::isAllowed(ReshardStep::Kind kind, StringAttr axis, DistAttr dist,
                         int64_t dim) const {
  return isPossible(kind, axis) && (allowReshard || axis.getValue() == kMicroBatchAxis ||
                                    isExpected(stringify(kind), axis, printSize(dist, dim)));
}

/// Reports the first unexpected collective of the cheapest unrestricted sequence.
LogicalResult Lowering::reportUnexpected(ReshardOp op, DistAttr from, DistAttr to) {
  auto isAnyPossible = [](ReshardStep::Kind kind, StringAttr axis, DistAttr, int64_t) {
    return isPossible(kind, axis);
  };
  auto path = planner.find(from, to, isAnyPossible);
  if (!path) {
    path = planner.find(from, to, [](auto...) { return true; });
    if (path)
      return op.emitError() << "'" << getSourceName(op.getLoc())
                            << "' combines micro-batches, but a rank has one at a time; "
                               "remove mb from --megatron-shard";
    return op.emitError() << "has no sequence of collectives from " << op.getOperand().getType()
                          << " to " << op.getType();
  }
  DistAttr dist = from;
  for (const ReshardStep &step : path->steps) {
    std::string size = printSize(dist, step.dim);
    dist = step.result;
    if (step.kind == ReshardStep::Slice)
      continue;
    for (StringAttr axis : step.axes) {
      if (axis.getValue() == kMicroBatchAxis || isExpected(stringify(step.kind), axis, size))
        continue;
      StringRef kind = stringify(step.kind);
      InFlightDiagnostic diag = op.emitError()
                                << "'" << getSourceName(op.getLoc()) << "' needs a"
                                << (StringRef("ae").contains(kind.front()) ? "n " : " ") << kind
                                << " over '" << axis.getValue() << "'";
      if (step.dim >= 0)
        diag << " of dimension " << step.dim << " (" << size << ")";
      diag << " that no tactic expects, from " << op.getOperand().getType() << " to "
           << op.getType() << "; change what is split, or accept it with allow-reshard";
      if (!op->use_empty()) {
        Operation *user = *op->user_begin();
        diag.attachNote(user->getLoc()) << "needed by '" << getSourceName(user->getLoc()) << "' ("
                                        << user->getName().getStringRef() << ")";
      }
      return diag;
    }
  }
  llvm_unreachable("a path of expected collectives exists");
}

LogicalResult Lowering::run(ReshardOp op) {
  DistAttr from = getDist(op.getOperand()), to = getDist(op.getResult());
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew) {
    auto path = planner.find(from, to, [&](auto... args) { return isAllowed(args...); });
    if (!path) {
      paths.erase({from, to});
      return reportUnexpected(op, from, to);
    }
    it->second = std::move(*path);
  }
  OpBuilder builder(op);
  Value value = op.getOperand();
  for (const ReshardStep &step : it->second.steps)
    value = emitReshardStep(builder, op.getLoc(), value, step, {});
  op.getResult().replaceAllUsesWith(value);
  op.erase();
  return success();
}

/// Gathers the dimension, shifts it, and slices each rank's shard, if these collectives are
/// allowed. Fallback for non-contiguous shards of a run, such as `3 * 8{tp}` with runs of 24.
bool Lowering::permuteWhole(Operation *op, int64_t dim) {
  DistAttr dist = getDist(op->getResult(0));
  DistAttr whole = withDim(dist, dim, dist.getDims()[dim].getGlobal());
  auto filter = [&](auto... args) { return isAllowed(args...); };
  auto there = planner.find(dist, whole, filter), back = planner.find(whole, dist, filter);
  if (!there || !back)
    return false;
  OpBuilder builder(op);
  Value value = op->getOperand(0);
  for (const ReshardStep &step : there->steps)
    value = emitReshardStep(builder, op->getLoc(), value, step, {});
  Operation *permuted = builder.clone(*op);
  permuted->setOperand(0, value);
  permuted->getResult(0).setType(cast<RankedTensorType>(value.getType()));
  value = permuted->getResult(0);
  for (const ReshardStep &step : back->steps)
    value = emitReshardStep(builder, op->getLoc(), value, step, {});
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
  return true;
}

LogicalResult Lowering::run(ShardingRuleOpInterface op, const Permutation &permutation) {
  int64_t dim = permutation.dim;
  Value result = op->getResult(0);
  std::string name = "'" + getSourceName(op.getLoc()) + "'";
  if (permutation.isLocal)
    return success();
  if (!permutation.move && permuteWhole(op, dim))
    return success();
  if (!permutation.move)
    return op->emitError() << name << " shifts runs of " << permutation.run.str()
                           << " elements of dimension " << dim
                           << ", but ranks would have non-contiguous parts in " << result.getType()
                           << "; split the outermost factor of a run, or none, or gather the "
                           << "dimension with allow-reshard";
  BlockMove::Axes axes = permutation.move->getAxes();
  std::string size = printSize(getDist(result), dim);
  for (StringAttr axis : axes) {
    if (axis.getValue() == kMicroBatchAxis)
      return op->emitError() << name
                             << " shifts across micro-batches, but a rank has one at a time; "
                                "remove mb from --megatron-shard";
    if (!allowReshard && !isExpected("collective_permute", axis, size))
      return op->emitError() << name << " needs a collective_permute over '" << axis.getValue()
                             << "' of dimension " << dim << " (" << size
                             << ") that no tactic expects; change what is split, or accept it "
                                "with allow-reshard";
  }
  OpBuilder builder(op);
  result.replaceAllUsesWith(op.buildPermute(
      builder, builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()))));
  op->erase();
  return success();
}

struct LowerReshards : public mlir::tpc::impl::LowerReshardsBase<LowerReshards> {
  using LowerReshardsBase::LowerReshardsBase;
  void runOnOperation() override {
    Lowering lowering(getOperation(), allowReshard);
    SmallVector<ReshardOp> ops;
    getOperation().walk([&](ReshardOp op) { ops.push_back(op); });
    bool ok = true;
    for (ReshardOp op : ops)
      ok &= MeshAttr::lookup(getOperation())
                ? succeeded(lowering.run(op))
                : succeeded(op.emitOpError("is in a module without a tpc.mesh: run "
                                           "tpc-assign-shardings first"));
    getOperation().walk([&](ShardingRuleOpInterface op) {
      if (auto permutation = getPermutation(op))
        ok &= succeeded(lowering.run(op, *permutation));
    });
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
