//===- Predictions.cpp - The collectives that claims lead to --------------===//
//
// A tactic does not say which collectives will be made. It claims what lies, over its axes, between
// a value and those who read it. When the plan is complete, tpc-insert-reshards runs on a copy of
// the program: what it makes of a claimed value is resharded there as it will be in the program.
// The steps that the search finds for these reshards, and that are over claimed axes, are what the
// tactic predicts. What nobody claims is not predicted, and tpc-lower-reshards refuses it.
//
// A claim follows its value: into what a function returns, and, while it is unreduced, through ops
// that pass it on, to where it is reduced.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Transforms/Collectives/Reshard.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Predictor {
public:
  explicit Predictor(Plan &plan)
      : plan(plan), planner(GridAttr::lookup(plan.module), getNominalSymbols(plan.module)) {}
  LogicalResult run();

private:
  void copyProgram();
  bool isClaimed(StringAttr axis) const {
    return claim->axes.empty() || llvm::is_contained(claim->axes, axis);
  }
  void predict(StringRef kind, StringAttr axis, DistAttr from, int64_t dim);
  void predict(ReshardOp reshard);
  void predict(ShardingRuleOpInterface op);
  void follow(Value value);
  bool passesOn(Value from, Value to) const;

  Plan &plan;
  ReshardPlanner planner;
  OwningOpRef<ModuleOp> copy;
  IRMapping mapping;
  DenseMap<StringAttr, SmallVector<func::CallOp>> calls; // in the copy, by callee
  DenseMap<std::pair<DistAttr, DistAttr>, std::optional<ReshardPath>> paths;

  // Of one claim.
  TacticRecord *record = nullptr;
  const Claim *claim = nullptr;
  Operation *reader = nullptr; // in the copy
  DenseSet<Value> seen;
};

} // namespace

/// Weights stay behind: what is resharded does not depend on them.
void Predictor::copyProgram() {
  copy = ModuleOp::create(plan.module.getLoc());
  (*copy)->setAttrs(plan.module->getAttrDictionary());
  for (auto function : plan.module.getOps<func::FuncOp>())
    copy->push_back(function->clone(mapping));
  copy->walk([&](func::CallOp call) { calls[call.getCalleeAttr().getAttr()].push_back(call); });
}

void Predictor::predict(StringRef kind, StringAttr axis, DistAttr from, int64_t dim) {
  std::string size = printSize(from, dim);
  bool known = llvm::any_of(record->predictions, [&](const Prediction &p) {
    return p.kind == kind && p.axis == axis.getValue() && p.size == size;
  });
  if (!known && isClaimed(axis))
    record->predictions.push_back({kind, axis.getValue(), size, claim->why});
}

void Predictor::predict(ReshardOp reshard) {
  DistAttr from = getDist(reshard.getOperand()), to = getDist(reshard.getResult());
  auto [it, isNew] = paths.try_emplace({from, to});
  if (isNew)
    it->second = planner.find(from, to, [](ReshardStep::Kind, StringAttr axis, DistAttr, int64_t) {
      return axis.getValue() != "mb"; // in time: no collective
    });
  if (!it->second)
    return;
  for (const ReshardStep &step : it->second->steps) {
    if (step.kind != ReshardStep::Slice)
      for (StringAttr axis : step.axes)
        predict(stringify(step.kind), axis, from, step.dim);
    from = step.result;
  }
}

/// What an op moves that permutes elements along a dimension that is split.
void Predictor::predict(ShardingRuleOpInterface op) {
  auto permutation = getPermutation(op);
  if (permutation && permutation->move)
    for (StringAttr axis : permutation->move->getAxes())
      predict("collective_permute", axis, getDist(op->getResult(0)), permutation->dim);
}

/// Whether an op that reads `from`, which is unreduced over claimed axes, leaves `to` so.
bool Predictor::passesOn(Value from, Value to) const {
  return llvm::any_of(getDist(from).getPartialAxes(), [&](StringAttr axis) {
    return isClaimed(axis) && getDist(to).isUnreducedOver(axis);
  });
}

/// Each value is looked at once for each claim, so this ends.
void Predictor::follow(Value value) {
  if (!seen.insert(value).second)
    return;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto reshard = dyn_cast<ReshardOp>(user)) {
      bool isRead = llvm::is_contained(reshard->getUsers(), reader);
      if (!reader || isRead)
        predict(reshard);
      // What was reduced for one reader is resharded for another.
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

LogicalResult Predictor::run() {
  if (llvm::all_of(plan.records, [](const TacticRecord &each) { return each.claims.empty(); }))
    return success(); // nothing to predict
  copyProgram();
  if (failed(insertReshards(*copy)))
    return failure();
  for (TacticRecord &each : plan.records) {
    record = &each;
    for (const Claim &one : each.claims) {
      claim = &one;
      reader = mapping.lookupOrNull(one.reader);
      seen.clear();
      Value value = mapping.lookup(one.value);
      if (!reader || reader != value.getDefiningOp())
        follow(value);
      else
        predict(cast<ShardingRuleOpInterface>(reader));
    }
  }
  return success();
}

LogicalResult mlir::tpc::predictClaims(Plan &plan) { return Predictor(plan).run(); }
