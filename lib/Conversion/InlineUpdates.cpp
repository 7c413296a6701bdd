//===- InlineUpdates.cpp - Inlining of functions with gradients -----------===//

#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_INLINEUPDATES
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct InlineUpdates : mlir::tpc::impl::InlineUpdatesBase<InlineUpdates> {
  void runOnOperation() override;
};
} // namespace

static bool isUpdate(OutputOp output) {
  auto pipeline = output->getParentOfType<PipelineOp>();
  return Update::get(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()])).has_value();
}

/// Whether the call computes new elements of parameters, or terms of sums over micro-batches.
static bool computesUpdates(func::CallOp call) {
  return llvm::any_of(call->getUsers(), [](Operation *user) {
    auto output = dyn_cast<OutputOp>(user);
    return isa<AccumulateOp>(user) || (output && isUpdate(output));
  });
}

/// Returns the called function if it has no other use.
static func::FuncOp getOnlyCallee(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  auto uses = SymbolTable::getSymbolUses(callee, callee->getParentOp());
  return uses && llvm::hasSingleElement(*uses) ? callee : func::FuncOp();
}

/// Replaces a call by the body of its function.
static void inlineCall(func::CallOp call, func::FuncOp callee) {
  OpBuilder b(call);
  IRMapping map;
  map.map(callee.getArguments(), call.getOperands());
  for (Operation &op : callee.front().without_terminator())
    b.clone(op, map);
  for (auto [result, value] :
       llvm::zip_equal(call.getResults(), callee.front().getTerminator()->getOperands()))
    result.replaceAllUsesWith(map.lookup(value));
  call.erase();
  callee.erase();
}

void InlineUpdates::runOnOperation() {
  SmallVector<func::CallOp> calls;
  getOperation().walk([&](MicroBatchesOp loop) {
    for (auto call : loop.getBody().getOps<func::CallOp>())
      if (computesUpdates(call))
        calls.push_back(call);
  });
  for (func::CallOp call : calls)
    if (func::FuncOp callee = getOnlyCallee(call))
      inlineCall(call, callee);
  // A gradient of one micro-batch is added to its sum as soon as it is computed.
  SmallVector<AccumulateOp> sums;
  getOperation().walk([&](AccumulateOp op) { sums.push_back(op); });
  for (AccumulateOp op : llvm::reverse(sums))
    if (Operation *producer = op.getValue().getDefiningOp();
        producer && producer->getBlock() == op->getBlock())
      op->moveAfter(producer);
}
