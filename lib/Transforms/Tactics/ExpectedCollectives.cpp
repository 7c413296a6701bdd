//===- ExpectedCollectives.cpp - Collectives of expected communication ----===//
//
// A tactic does not list its collectives. It declares the values and readers between which it
// expects communication over its axes. When the plan is complete, tpc-insert-reshards runs on a
// copy of the program, and the reshards of these values are lowered to sequences of collectives.
// The collectives over expected axes are the tactic's expected collectives. tpc-lower-reshards
// rejects all other collectives.
//
// Expected communication of a value is propagated to function results and, while the value is
// unreduced, through ops that propagate partial sums, up to the reduction.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Transforms/Collectives/Reshard.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class CollectiveDerivation {
public:
  explicit CollectiveDerivation(PartitionState &state)
      : state(state),
        planner(MeshAttr::lookup(state.problem.module), getNominalSymbols(state.problem.module)) {}
  LogicalResult run();

private:
  void copyProgram();
  bool isExpectedAxis(StringAttr axis) const {
    return expectation->axes.empty() || llvm::is_contained(expectation->axes, axis);
  }
  void addCollectives(StringRef kind, StringAttr axis, DistAttr from, int64_t dim);
  void addCollectives(ReshardOp reshard);
  void addCollectives(ShardingRuleOpInterface op);
  void follow(Value value);
  bool passesOn(Value from, Value to) const;

  PartitionState &state;
  ReshardPlanner planner;
  OwningOpRef<ModuleOp> copy;
  IRMapping mapping;
  DenseMap<StringAttr, SmallVector<func::CallOp>> calls; // in the copy, by callee
  DenseMap<std::pair<DistAttr, DistAttr>, std::optional<ReshardPath>> paths;

  // State while one expectation is processed.
  TacticRecord *record = nullptr;
  const ExpectedCommunication *expectation = nullptr;
  Operation *reader = nullptr; // in the copy
  DenseSet<Value> seen;
};

} // namespace

/// Weights are not copied: reshards do not depend on them.
void CollectiveDerivation::copyProgram() {
  copy = ModuleOp::create(state.problem.module.getLoc());
  (*copy)->setAttrs(state.problem.module->getAttrDictionary());
  for (auto function : state.problem.module.getOps<func::FuncOp>())
    copy->push_back(function->clone(mapping));
  copy->walk([&](func::CallOp call) { calls[call.getCalleeAttr().getAttr()].push_back(call); });
}

void CollectiveDerivation::addCollectives(StringRef kind, StringAttr axis, DistAttr from,
                                          int64_t dim) {
  std::string size = printSize(from, dim);
  bool known = llvm::any_of(record->collectives, [&](const ExpectedCollective &p) {
    return p.kind == kind && p.axis == axis.getValue() && p.size == size;
  });
  if (!known && isExpectedAxis(axis))
    record->collectives.push_back({kind, axis.getValue(), size, expectation->why});
}

void CollectiveDerivation::addCollectives(ReshardOp reshard) {
  DistAttr from = getDist(reshard.getOperand()), to = getDist(reshard.getResult());
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew)
    it->second = planner.find(from, to, [](ReshardStep::Kind kind, StringAttr axis, auto...) {
      return isPossible(kind, axis);
    });
  if (!it->second)
    return;
  for (const ReshardStep &step : it->second->steps) {
    if (step.kind != ReshardStep::Slice)
      for (StringAttr axis : step.axes)
        addCollectives(stringify(step.kind), axis, from, step.dim);
    from = step.result;
  }
}

/// Adds the collectives of an op that permutes elements along a split dimension.
void CollectiveDerivation::addCollectives(ShardingRuleOpInterface op) {
  auto permutation = getPermutation(op);
  if (permutation && permutation->move)
    for (StringAttr axis : permutation->move->getAxes())
      addCollectives("collective_permute", axis, getDist(op->getResult(0)), permutation->dim);
}

/// Returns true if an op that reads `from`, unreduced over expected axes, produces `to` unreduced.
bool CollectiveDerivation::passesOn(Value from, Value to) const {
  return llvm::any_of(getDist(from).getPartialAxes(), [&](StringAttr axis) {
    return isExpectedAxis(axis) && getDist(to).isUnreducedOver(axis);
  });
}

/// Terminates, because each value is visited once per expectation.
void CollectiveDerivation::follow(Value value) {
  if (!seen.insert(value).second)
    return;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto reshard = dyn_cast<ReshardOp>(user)) {
      bool isRead = llvm::is_contained(reshard->getUsers(), reader);
      if (!reader || isRead)
        addCollectives(reshard);
      // A value reduced for one reader may be resharded for another.
      follow(reshard.getResult());
    } else if (reader) {
      continue;
    } else if (isa<func::ReturnOp>(user)) {
      auto function = cast<func::FuncOp>(user->getParentOp());
      for (func::CallOp call : calls.lookup(function.getNameAttr()))
        follow(call.getResult(use.getOperandNumber()));
    } else if (isa<ShardingRuleOpInterface>(user)) {
      for (Value result : user->getResults())
        if (passesOn(value, result))
          follow(result);
    }
  }
}

LogicalResult CollectiveDerivation::run() {
  if (llvm::all_of(state.getRecords(),
                   [](const TacticRecord &each) { return each.expected.empty(); }))
    return success(); // no expectations
  copyProgram();
  if (failed(insertReshards(*copy)))
    return failure();
  for (TacticRecord &each : state.getRecords()) {
    record = &each;
    for (const ExpectedCommunication &one : each.expected) {
      expectation = &one;
      reader = mapping.lookupOrNull(one.reader);
      seen.clear();
      Value value = mapping.lookup(one.value);
      if (!reader || reader != value.getDefiningOp())
        follow(value);
      else
        addCollectives(cast<ShardingRuleOpInterface>(reader));
    }
  }
  return success();
}

LogicalResult mlir::tpc::expectCollectives(PartitionState &state) {
  return CollectiveDerivation(state).run();
}
