//===- PeakMemory.cpp - Peak bytes of live values -------------------------===//

#include "tpc/Analysis/PeakMemory.h"

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
class PeakCounter {
public:
  PeakCounter(ModuleOp module, const Symbols &symbols)
      : module(module), grid(MeshAttr::lookup(module)), symbols(symbols) {}

  /// Returns the peak bytes within a block, without the block's arguments, which are counted by the
  /// caller.
  int64_t getPeak(Block &block);
  /// Returns the peak bytes of values that pass between the events of a stage.
  int64_t getPassedPeak(StageOp stage, ScheduleAttr schedule) const;
  /// Returns the bytes of the stage's sums over micro-batches.
  int64_t getSumBytes(StageOp stage) const;

private:
  int64_t getBytes(Value value) const;

  ModuleOp module;
  MeshAttr grid;
  const Symbols &symbols;
  DenseMap<Operation *, int64_t> functions;
};
} // namespace

int64_t PeakCounter::getBytes(Value value) const {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  // Sums over micro-batches are live during all loops, and counted once for the stage.
  if (!tensor || isa_and_nonnull<ParameterOp, ConstantOp, AccumulatedOp>(value.getDefiningOp()))
    return 0;
  // Bounds the bytes of a value so that sums do not exceed 64 bits.
  return int64_t(std::min(estimateLocalBytes(tensor, grid, {}, symbols), 0x1p61));
}

int64_t PeakCounter::getPeak(Block &block) {
  int64_t live = 0, peak = 0;
  for (Operation &op : block) {
    int64_t inside = 0;
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      auto [it, isNew] = functions.try_emplace(callee, 0);
      if (isNew)
        functions[callee] = inside = getPeak(callee.front());
      else
        inside = it->second;
    } else if (auto loop = dyn_cast<MicroBatchesOp>(op)) {
      inside = getPeak(loop.getBody().front());
    }
    int64_t results = 0;
    for (Value result : op.getResults())
      results += getBytes(result);
    peak = std::max(peak, live + std::max(inside, results));
    live += results;
    // Frees values whose last use is this op.
    auto isLast = [&](Value value) {
      return llvm::all_of(value.getUsers(), [&](Operation *user) {
        Operation *here = block.findAncestorOpInBlock(*user);
        return !here || here == &op || here->isBeforeInBlock(&op);
      });
    };
    llvm::SmallSetVector<Value, 8> gone;
    op.walk([&](Operation *inner) { // includes uses in nested micro-batch iterations
      for (Value operand : inner->getOperands())
        if (operand.getDefiningOp() && operand.getParentBlock() == &block && isLast(operand))
          gone.insert(operand);
    });
    for (Value result : op.getResults())
      if (result.use_empty())
        gone.insert(result);
    for (Value value : gone)
      live -= getBytes(value);
  }
  return peak;
}

int64_t PeakCounter::getSumBytes(StageOp stage) const {
  int64_t bytes = 0;
  stage.walk([&](AccumulateOp op) { bytes += getBytes(op.getValue()); });
  return bytes;
}

int64_t PeakCounter::getPassedPeak(StageOp stage, ScheduleAttr schedule) const {
  std::vector<int64_t> chunks = schedule.getChunks(stage.getIndex());
  std::map<int64_t, std::pair<int64_t, int64_t>> bytes; // received and sent, by chunk
  for (auto loop : stage.getBody().getOps<MicroBatchesOp>()) {
    std::pair<int64_t, int64_t> &own = bytes[chunks[bytes.size()]];
    for (Operation &op : loop.getBody().front()) {
      if (auto recv = dyn_cast<RecvOp>(op))
        own.first += getBytes(recv.getResult());
      else if (auto send = dyn_cast<SendOp>(op))
        own.second += getBytes(send.getValue());
    }
  }
  int64_t live = 0, peak = 0;
  for (const ::tpc::ScheduleEvent &event : schedule.getEvents(stage.getIndex())) {
    auto [received, sent] = bytes[event.chunk];
    if (event.phase == ::tpc::SchedulePhase::ReceiveForward)
      live += received;
    if (event.phase == ::tpc::SchedulePhase::Forward)
      live += sent;
    peak = std::max(peak, live);
    if (event.phase == ::tpc::SchedulePhase::Forward)
      live -= received;
    if (event.phase == ::tpc::SchedulePhase::SendForward)
      live -= sent;
  }
  return peak;
}

std::vector<int64_t> mlir::tpc::getPeakActivationBytes(ModuleOp module, const Symbols &symbols) {
  PeakCounter counter(module, symbols);
  std::vector<int64_t> peaks;
  for (auto pipeline : module.getOps<PipelineOp>())
    for (auto stage : pipeline.getBody().front().getOps<StageOp>()) {
      peaks.push_back(counter.getPeak(stage.getBody().front()) + counter.getSumBytes(stage));
      if (ScheduleAttr schedule = pipeline.getScheduleAttr())
        peaks.back() += counter.getPassedPeak(stage, schedule);
    }
  return peaks;
}
