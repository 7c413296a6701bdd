//===- VerifyBuffers.cpp - Verification of programs on buffers ------------===//

#include "PlanChecker.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYBUFFERS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct VerifyBuffers : mlir::tpc::impl::VerifyBuffersBase<VerifyBuffers> {
  void runOnOperation() override;
  LogicalResult verify(ModuleOp module);
};

/// Maps each tensor function and each stage to its buffer function.
struct Pairs {
  DenseMap<Operation *, buffer::FuncOp> ofFunctions;
  std::map<int64_t, buffer::FuncOp> ofStages;
};
} // namespace

/// Returns functions reachable from stages; without a pipeline, all functions.
static llvm::SetVector<func::FuncOp> findReached(ModuleOp module, SymbolTableCollection &symbols) {
  llvm::SetVector<func::FuncOp> reached;
  auto reach = [&](Operation *root) {
    root->walk([&](func::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      if (callee && !callee->hasAttr(kKernelAttr))
        reached.insert(callee);
    });
  };
  bool hasStages = false;
  for (PipelineOp pipeline : module.getOps<PipelineOp>()) {
    hasStages = true;
    reach(pipeline);
  }
  if (!hasStages)
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttr))
        reached.insert(function);
  for (size_t i = 0; i < reached.size(); ++i)
    reach(reached[i]);
  return reached;
}

/// Checks that a stage uses only its own entries of the parameter table, because ranks of other
/// stages load other parameters.
static LogicalResult checkEntries(buffer::FuncOp function, int64_t stage,
                                  SymbolTableCollection &symbols,
                                  std::set<std::pair<Operation *, int64_t>> &seen) {
  if (!seen.insert({function, stage}).second)
    return success();
  WalkResult result = function.walk([&](Operation *op) {
    if (auto parameter = dyn_cast<buffer::ParameterOp>(op)) {
      auto entry = symbols.lookupNearestSymbolFrom<buffer::EntryOp>(op, parameter.getEntryAttr());
      if (static_cast<int64_t>(entry.getStage()) != stage) {
        op->emitOpError() << "is a parameter of stage " << entry.getStage()
                          << ", but used by stage " << stage;
        return WalkResult::interrupt();
      }
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      auto callee = symbols.lookupNearestSymbolFrom<buffer::FuncOp>(op, call.getCalleeAttr());
      if (failed(checkEntries(callee, stage, symbols, seen)))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult VerifyBuffers::verify(ModuleOp module) {
  SymbolTableCollection symbols;
  Pairs pairs;
  for (auto function : module.getOps<buffer::FuncOp>()) {
    Operation *of = symbols.lookupSymbolIn(module, function.getOfAttr());
    if (auto stage = function.getStage()) {
      if (!isa_and_nonnull<PipelineOp>(of) || !pairs.ofStages.try_emplace(*stage, function).second)
        return function.emitOpError()
               << "has no stage, or is a second function of stage " << *stage;
      continue;
    }
    if (!isa_and_nonnull<func::FuncOp>(of) || !pairs.ofFunctions.try_emplace(of, function).second)
      return function.emitOpError()
             << "has no function on tensors, or is a second function of @" << function.getOf();
  }
  auto reached = findReached(module, symbols);
  for (func::FuncOp function : reached) {
    auto found = pairs.ofFunctions.find(function);
    if (found == pairs.ofFunctions.end())
      return function.emitOpError("has no function on buffers: run tpc-plan-buffers first");
    if (failed(PlanChecker(module, found->second, symbols).checkFunction(function)))
      return failure();
    pairs.ofFunctions.erase(found);
  }
  if (!pairs.ofFunctions.empty())
    return pairs.ofFunctions.begin()->second.emitOpError("is for a function that no stage calls");
  std::set<std::pair<Operation *, int64_t>> seen;
  for (PipelineOp pipeline : module.getOps<PipelineOp>())
    for (auto stage : pipeline.getBody().getOps<StageOp>()) {
      auto found = pairs.ofStages.find(stage.getIndex());
      if (found == pairs.ofStages.end() || found->second.getOf() != pipeline.getSymName())
        return stage.emitOpError("has no function on buffers: run tpc-plan-buffers first");
      if (failed(PlanChecker(module, found->second, symbols).checkStage(stage)) ||
          failed(checkEntries(found->second, stage.getIndex(), symbols, seen)))
        return failure();
      pairs.ofStages.erase(found);
    }
  if (!pairs.ofStages.empty())
    return pairs.ofStages.begin()->second.emitOpError("is for a stage that does not exist");
  return success();
}

void VerifyBuffers::runOnOperation() {
  if (failed(verify(getOperation())))
    signalPassFailure();
}

void mlir::tpc::registerBufferVerification(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    context->getOrLoadDialect<func::FuncDialect>();
    attachPlannedCompute(context);
    attachPlannedCalls(context);
    attachPlannedCommunication(context);
    attachPlannedAsync(context);
  });
}
