//===- HoistInvariants.cpp - What no micro-batch changes, once ------------===//
//
// A value is the same in every round if it is computed from whole inputs, constants and sizes alone
// and its type is not split over mb. Of these values
//
//   cheap     a round computes it again in no more time than it takes to hold it (findRecomputed),
//             or makes it of something smaller that is held
//   hoisted   all others: computed before the rounds
//   held      hoisted, and used in the rounds: an argument of the stage's function
//
//===----------------------------------------------------------------------===//

#include "Chain.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Stages/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_HOISTINVARIANTS
#include "tpc/Transforms/Stages/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

class StageHoister {
public:
  StageHoister(ModuleOp module, CostModel &model, MicroBatchesOp loop, func::CallOp call,
               func::FuncOp function)
      : module(module), model(model), loop(loop), call(call), function(function) {}
  void run();

private:
  void findInvariants();
  void chooseHoisted();
  bool isUsedInRounds(Operation *op) const;
  bool isMadeOfLess(Operation *op) const;
  SmallVector<Operation *> getPrologueOps() const;
  func::CallOp makePrologue(ArrayRef<Operation *> ops, ArrayRef<Value> held);
  void takeArguments(ArrayRef<Value> held, func::CallOp prologue);

  ModuleOp module;
  CostModel &model;
  MicroBatchesOp loop;
  func::CallOp call; // of `function`, in the rounds
  func::FuncOp function;
  SmallVector<Operation *> invariant; // in program order
  DenseSet<Operation *> hoisted;
};

/// What a value is computed from, if that is the same in every round.
struct Sources {
  bool input = false, weight = false;
};

} // namespace

static bool isSameOnOneStage(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return llvm::none_of(collective.getAxesAttr().getAsValueRange<StringAttr>(),
                         [](StringRef axis) { return axis == "pp"; });
  return isa<ShardingRuleOpInterface, LocalSliceOp>(op);
}

void StageHoister::findInvariants() {
  DenseMap<Value, Sources> same;
  for (auto [argument, operand] : llvm::zip(function.getArguments(), call.getOperands()))
    if (!loop.getBody().isAncestor(operand.getParentRegion()))
      same[argument] = {/*input=*/true};
  for (Operation &op : function.front().without_terminator()) {
    Sources sources{false, isa<ParameterOp>(op)};
    bool isSame = isSameOnOneStage(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
                    auto it = same.find(operand);
                    if (it == same.end())
                      return false;
                    sources.input |= it->second.input;
                    sources.weight |= it->second.weight;
                    return true;
                  });
    isSame &=
        llvm::none_of(op.getResultTypes(), [](Type type) { return getDist(type).usesAxis("mb"); });
    // Weights that ranks hold in parts are put together for one op at a time.
    isSame &= !isa<CollectiveOpInterface>(op) || sources.input || !sources.weight;
    if (!isSame)
      continue;
    for (Value result : op.getResults())
      same[result] = sources;
    invariant.push_back(&op);
  }
}

bool StageHoister::isUsedInRounds(Operation *op) const {
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return !hoisted.contains(user); });
}

/// Does it take a round no longer to make the result than to read it, of what is smaller to hold?
bool StageHoister::isMadeOfLess(Operation *op) const {
  if (op->getNumResults() != 1 || isa<CollectiveOpInterface>(op))
    return false;
  // With what is cheap on the way.
  llvm::SetVector<Operation *> ops;
  llvm::SmallSetVector<Value, 4> held;
  ops.insert(op);
  double seconds = 0, bytes = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    seconds += model.getCost(ops[i]).seconds;
    for (Value operand : ops[i]->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && hoisted.contains(producer))
        held.insert(operand);
      else if (producer)
        ops.insert(producer);
  }
  for (Value value : held)
    bytes += model.getBytes(value.getType());
  Type type = op->getResult(0).getType();
  return bytes < model.getBytes(type) && seconds <= model.getHoldSeconds(type);
}

void StageHoister::chooseHoisted() {
  DenseSet<Operation *> cheap =
      findRecomputed(function, model, /*stages=*/1, {/*share=*/0, RecomputeLimits::Else::Hold});
  for (Operation *op : invariant)
    if (!cheap.contains(op))
      hoisted.insert(op);
  // Users come first: what is left in the rounds needs its operands there.
  for (Operation *op : llvm::reverse(invariant))
    if (hoisted.contains(op) && isUsedInRounds(op) && isMadeOfLess(op))
      hoisted.erase(op);
}

/// In program order, with what they need that is cheap: that is computed on both sides.
SmallVector<Operation *> StageHoister::getPrologueOps() const {
  DenseSet<Operation *> needed(hoisted);
  SmallVector<Operation *> ops;
  for (Operation *op : llvm::reverse(invariant)) {
    if (!needed.contains(op))
      continue;
    ops.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        needed.insert(producer);
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

func::CallOp StageHoister::makePrologue(ArrayRef<Operation *> ops, ArrayRef<Value> held) {
  SmallVector<Value> arguments, operands;
  for (BlockArgument argument : function.getArguments())
    if (llvm::any_of(argument.getUsers(),
                     [&](Operation *user) { return llvm::is_contained(ops, user); })) {
      arguments.push_back(argument);
      operands.push_back(call.getOperand(argument.getArgNumber()));
    }
  OpBuilder detached(module.getContext());
  func::FuncOp prologue = cloneAsFunction(
      detached, function.getLoc(), (function.getName() + "_prologue").str(), ops, arguments, held);
  SymbolTable(module).insert(prologue, function->getIterator());
  OpBuilder builder(loop);
  return func::CallOp::create(builder, call.getLoc(), prologue, operands);
}

/// The rounds read what is held, and lose the inputs and the results for which that is all.
void StageHoister::takeArguments(ArrayRef<Value> held, func::CallOp prologue) {
  llvm::BitVector delivered(function.getNumResults());
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    if (auto *it = llvm::find(held, operand.get()); it != held.end()) {
      delivered.set(operand.getOperandNumber());
      call.getResult(operand.getOperandNumber())
          .replaceAllUsesWith(prologue.getResult(it - held.begin()));
    }
  terminator->eraseOperands(delivered);

  SmallVector<Value> operands(call.getOperands());
  llvm::BitVector wereUsed(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (!argument.use_empty())
      wereUsed.set(argument.getArgNumber());
  for (auto [i, result] : llvm::enumerate(prologue.getResults())) {
    Value value = held[i];
    unsigned last = function.getNumArguments();
    (void)function.insertArgument(last, value.getType(), {}, value.getLoc());
    value.replaceUsesWithIf(function.getArgument(last),
                            [&](OpOperand &use) { return !hoisted.contains(use.getOwner()); });
    operands.push_back(result);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (hoisted.contains(&op) || isOpTriviallyDead(&op))
      op.erase();

  llvm::BitVector idle(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (unsigned i = argument.getArgNumber();
        argument.use_empty() && (i >= wereUsed.size() || wereUsed[i]))
      idle.set(i);
  SmallVector<Value> kept;
  for (auto [i, operand] : llvm::enumerate(operands))
    if (!idle[i])
      kept.push_back(operand);
  (void)function.eraseArguments(idle);
  (void)function.eraseResults(delivered);
  OpBuilder builder(call);
  auto run = func::CallOp::create(builder, call.getLoc(), function, kept);
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(call.getResults()))
    if (!delivered[i])
      result.replaceAllUsesWith(run.getResult(next++));
  call.erase();
}

void StageHoister::run() {
  findInvariants();
  chooseHoisted();
  SmallVector<Value> held;
  for (Operation *op : invariant)
    if (hoisted.contains(op))
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !hoisted.contains(user); }))
          held.push_back(result);
  if (held.empty())
    return;
  func::CallOp prologue = makePrologue(getPrologueOps(), held);
  takeArguments(held, prologue);
}

namespace {
struct HoistInvariants : public mlir::tpc::impl::HoistInvariantsBase<HoistInvariants> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    GridAttr grid = GridAttr::lookup(module);
    if (!grid || grid.getMicroBatches() == 1)
      return;
    CostModel model(module);
    if (failed(model.check()))
      return signalPassFailure();
    SmallVector<MicroBatchesOp> loops;
    for (auto pipeline : module.getOps<PipelineOp>())
      pipeline.walk([&](MicroBatchesOp loop) { loops.push_back(loop); });
    for (MicroBatchesOp loop : loops) {
      auto calls = llvm::to_vector(loop.getBody().getOps<func::CallOp>());
      if (!loop.getBatchAttr() || calls.size() != 1)
        continue;
      auto function = module.lookupSymbol<func::FuncOp>(calls[0].getCallee());
      // Another caller's rounds may differ.
      if (!function || function.isExternal() || !function.getBody().hasOneBlock() ||
          !llvm::hasSingleElement(*SymbolTable::getSymbolUses(function, module)))
        continue;
      StageHoister(module, model, loop, calls[0], function).run();
    }
  }
};
} // namespace
