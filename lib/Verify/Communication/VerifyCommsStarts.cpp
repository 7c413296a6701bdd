//===- VerifyCommsStarts.cpp - Checks of started collectives --------------===//
//
// A started collective takes part in the order of communication at its start: other steps treat it
// like the collective itself. A wait follows its start in the same block. It returns when all
// members have started the operation, so it cannot be part of a cycle: members start the operations
// of a group in the same order, and a rank that waits has started all earlier ones.
//
//===----------------------------------------------------------------------===//

#include "VerifyComms.h"
#include "tpc/Dialect/Async.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;

/// Maximum number of operations of a rank that are in flight at once. The runtime's transports have
/// memory for as many.
static constexpr int64_t maxInFlight = 16;

static LogicalResult checkStart(AllReduceStartOp start) {
  SmallVector<Operation *> users(start.getResult().getUsers());
  for (Operation *user : users)
    if (!isa<WaitOp>(user))
      return reject(user) << "uses the result of a collective that is in flight; only tpc.wait may";
  if (users.empty())
    return reject(start) << "is never waited for, so its operand could be overwritten while it is "
                            "sent";
  if (users.size() > 1) {
    llvm::sort(users, [](Operation *a, Operation *b) {
      return a->getBlock() != b->getBlock() || a->isBeforeInBlock(b);
    });
    InFlightDiagnostic diag = reject(start) << "is waited for " << users.size() << " times";
    for (Operation *user : users)
      diag.attachNote(user->getLoc()) << "here";
    return diag;
  }
  if (users.front()->getBlock() != start->getBlock())
    return reject(start) << "is waited for in another block, which may run more or less often";
  return success();
}

namespace {
/// Counts the operations that are in flight.
struct StartChecker {
  LogicalResult checkBlock(Block &block, int64_t &peak) {
    int64_t inFlight = 0;
    for (Operation &op : block) {
      int64_t inside = 0;
      if (auto start = dyn_cast<AllReduceStartOp>(op)) {
        if (failed(checkStart(start)))
          return failure();
        inFlight += start.getChunks();
      } else if (auto wait = dyn_cast<WaitOp>(op)) {
        auto start = wait.getOperand().getDefiningOp<AllReduceStartOp>();
        if (!start)
          return reject(wait) << "waits for a value that no operation has started";
        inFlight -= start.getChunks();
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        inside = peaks.lookup(module.lookupSymbol(call.getCallee()));
      }
      for (Region &region : op.getRegions())
        for (Block &inner : region) {
          int64_t innerPeak = 0;
          if (failed(checkBlock(inner, innerPeak)))
            return failure();
          inside = std::max(inside, innerPeak);
        }
      peak = std::max(peak, inFlight + inside);
      if (peak > maxInFlight)
        return reject(&op) << peak << " operations are in flight here, more than " << maxInFlight;
    }
    return success();
  }

  ModuleOp module;
  DenseMap<Operation *, int64_t> peaks; // by function
};
} // namespace

LogicalResult comms::checkStarts(const Schedule &schedule) {
  PipelineOp pipeline = schedule.getPipeline();
  StartChecker checker;
  checker.module = pipeline->getParentOfType<ModuleOp>();
  for (const auto &[function, items] : schedule.getFunctions()) { // callees before callers
    int64_t peak = 0;
    if (failed(checker.checkBlock(cast<func::FuncOp>(function).front(), peak)))
      return failure();
    checker.peaks[function] = peak;
  }
  // Functions without communication may contain waits, which is an error.
  for (auto function : checker.module.getOps<func::FuncOp>())
    if (!function.isExternal() && !checker.peaks.contains(function)) {
      int64_t peak = 0;
      if (failed(checker.checkBlock(function.front(), peak)))
        return failure();
    }
  for (const auto &[stage, items] : schedule.getStages()) {
    int64_t peak = 0;
    if (failed(checker.checkBlock(StageOp(stage).getBody().front(), peak)))
      return failure();
  }
  return success();
}
