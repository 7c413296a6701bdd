//===- HoistInvariants.cpp - Hoisting of micro-batch invariants -----------===//
//
// A value is equal in all micro-batch iterations if it depends only on inputs that are not split
// over mb, constants and sizes, and its type is not split over mb. Such a value is
//
//   cheap     recomputed in each iteration, because recomputing takes at most as long as storing
//             and loading (findRecomputed), or because it is computed from a smaller hoisted value
//   hoisted   otherwise: computed before the loop
//   passed    if it is hoisted and used in the loop: it becomes an argument of the stage's function
//
//===----------------------------------------------------------------------===//

#include "PipelineChain.h"

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
  bool isUsedInLoop(Operation *op) const;
  bool isCheaperToRecompute(Operation *op) const;
  SmallVector<Operation *> getPrologueOps() const;
  func::CallOp makePrologue(ArrayRef<Operation *> ops, ArrayRef<Value> hoistedValues);
  void passHoistedValues(ArrayRef<Value> hoistedValues, func::CallOp prologue);

  ModuleOp module;
  CostModel &model;
  MicroBatchesOp loop;
  func::CallOp call; // call of `function` in the loop
  func::FuncOp function;
  SmallVector<Operation *> invariant; // in program order
  DenseSet<Operation *> hoisted;
};

/// Kinds of sources of an invariant value.
struct Sources {
  bool input = false, weight = false;
};

} // namespace

static bool isSameOnOneStage(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return llvm::none_of(collective.getAxesAttr().getAsValueRange<StringAttr>(),
                         [](StringRef axis) { return axis == kPipelineAxis; });
  return isa<ShardingRuleOpInterface, LocalSliceOp>(op);
}

void StageHoister::findInvariants() {
  DenseMap<Value, Sources> sourcesOf;
  for (auto [argument, operand] : llvm::zip(function.getArguments(), call.getOperands()))
    if (!loop.getBody().isAncestor(operand.getParentRegion()))
      sourcesOf[argument] = {/*input=*/true};
  for (Operation &op : function.front().without_terminator()) {
    Sources sources{false, isa<ParameterOp>(op)};
    bool isInvariant = isSameOnOneStage(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
                         auto it = sourcesOf.find(operand);
                         if (it == sourcesOf.end())
                           return false;
                         sources.input |= it->second.input;
                         sources.weight |= it->second.weight;
                         return true;
                       });
    isInvariant &= llvm::none_of(op.getResultTypes(),
                                 [](Type type) { return getDist(type).usesAxis(kMicroBatchAxis); });
    // Sharded weights are gathered for one op at a time, so the gathered copy is not hoisted.
    isInvariant &= !isa<CollectiveOpInterface>(op) || sources.input || !sources.weight;
    if (!isInvariant)
      continue;
    for (Value result : op.getResults())
      sourcesOf[result] = sources;
    invariant.push_back(&op);
  }
}

bool StageHoister::isUsedInLoop(Operation *op) const {
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return !hoisted.contains(user); });
}

/// Returns true if computing the result from smaller hoisted values takes at most as long as
/// loading it.
bool StageHoister::isCheaperToRecompute(Operation *op) const {
  if (op->getNumResults() != 1 || isa<CollectiveOpInterface>(op))
    return false;
  // Includes cheap producers.
  llvm::SetVector<Operation *> ops;
  llvm::SmallSetVector<Value, 4> hoistedValues;
  ops.insert(op);
  double seconds = 0, bytes = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    seconds += model.getCost(ops[i]).seconds;
    for (Value operand : ops[i]->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && hoisted.contains(producer))
        hoistedValues.insert(operand);
      else if (producer)
        ops.insert(producer);
  }
  for (Value value : hoistedValues)
    bytes += model.getBytes(value.getType());
  Type type = op->getResult(0).getType();
  return bytes < model.getBytes(type) && seconds <= model.getStoreLoadSeconds(type);
}

void StageHoister::chooseHoisted() {
  DenseSet<Operation *> cheap = findRecomputed(function, model, /*stages=*/1,
                                               {/*share=*/0, RecomputeLimits::Alternative::Store});
  for (Operation *op : invariant)
    if (!cheap.contains(op))
      hoisted.insert(op);
  // Visits users first, because an op in the loop needs its cheap operands there.
  for (Operation *op : llvm::reverse(invariant))
    if (hoisted.contains(op) && isUsedInLoop(op) && isCheaperToRecompute(op))
      hoisted.erase(op);
}

/// Returns the hoisted ops and the cheap ops that they use, in program order. The cheap ops also
/// remain in the loop.
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

func::CallOp StageHoister::makePrologue(ArrayRef<Operation *> ops, ArrayRef<Value> hoistedValues) {
  SmallVector<Value> arguments, operands;
  for (BlockArgument argument : function.getArguments())
    if (llvm::any_of(argument.getUsers(),
                     [&](Operation *user) { return llvm::is_contained(ops, user); })) {
      arguments.push_back(argument);
      operands.push_back(call.getOperand(argument.getArgNumber()));
    }
  OpBuilder detached(module.getContext());
  func::FuncOp prologue =
      cloneAsFunction(detached, function.getLoc(), (function.getName() + "_prologue").str(), ops,
                      arguments, hoistedValues);
  SymbolTable(module).insert(prologue, function->getIterator());
  // The prologue runs before the loops of all chunks.
  OpBuilder builder(*loop->getBlock()->getOps<MicroBatchesOp>().begin());
  return func::CallOp::create(builder, call.getLoc(), prologue, operands);
}

/// Passes the hoisted values to the loop. Erases arguments and results that only the hoisted ops
/// need.
void StageHoister::passHoistedValues(ArrayRef<Value> hoistedValues, func::CallOp prologue) {
  llvm::BitVector delivered(function.getNumResults());
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    if (auto *it = llvm::find(hoistedValues, operand.get()); it != hoistedValues.end()) {
      delivered.set(operand.getOperandNumber());
      call.getResult(operand.getOperandNumber())
          .replaceAllUsesWith(prologue.getResult(it - hoistedValues.begin()));
    }
  terminator->eraseOperands(delivered);

  SmallVector<Value> operands(call.getOperands());
  llvm::BitVector wereUsed(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (!argument.use_empty())
      wereUsed.set(argument.getArgNumber());
  for (auto [i, result] : llvm::enumerate(prologue.getResults())) {
    Value value = hoistedValues[i];
    unsigned last = function.getNumArguments();
    (void)function.insertArgument(last, value.getType(), {}, value.getLoc());
    value.replaceUsesWithIf(function.getArgument(last),
                            [&](OpOperand &use) { return !hoisted.contains(use.getOwner()); });
    operands.push_back(result);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (hoisted.contains(&op) || isOpTriviallyDead(&op))
      op.erase();

  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (unsigned i = argument.getArgNumber();
        argument.use_empty() && (i >= wereUsed.size() || wereUsed[i]))
      unused.set(i);
  SmallVector<Value> kept;
  for (auto [i, operand] : llvm::enumerate(operands))
    if (!unused[i])
      kept.push_back(operand);
  (void)function.eraseArguments(unused);
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
  SmallVector<Value> hoistedValues;
  for (Operation *op : invariant)
    if (hoisted.contains(op))
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !hoisted.contains(user); }))
          hoistedValues.push_back(result);
  if (hoistedValues.empty())
    return;
  func::CallOp prologue = makePrologue(getPrologueOps(), hoistedValues);
  passHoistedValues(hoistedValues, prologue);
}

namespace {
struct HoistInvariants : public mlir::tpc::impl::HoistInvariantsBase<HoistInvariants> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr grid = MeshAttr::lookup(module);
    if (!grid || grid.getMicroBatches() == 1)
      return;
    CostModel model(module);
    if (failed(model.check()))
      return signalPassFailure();
    SmallVector<MicroBatchesOp> loops;
    for (auto pipeline : module.getOps<PipelineOp>())
      pipeline.walk([&](MicroBatchesOp loop) { loops.push_back(loop); });
    SymbolTableCollection symbols;
    SymbolUserMap users(symbols, module);
    for (MicroBatchesOp loop : loops) {
      auto calls = llvm::to_vector(loop.getBody().getOps<func::CallOp>());
      if (!loop.getBatchAttr() || calls.size() != 1)
        continue;
      auto function = module.lookupSymbol<func::FuncOp>(calls[0].getCallee());
      // Requires that the stage is the only caller.
      if (!function || function.isExternal() || !function.getBody().hasOneBlock() ||
          users.getUsers(function).size() != 1)
        continue;
      StageHoister(module, model, loop, calls[0], function).run();
    }
  }
};
} // namespace
