//===- RunStages.cpp - Interleaved execution of pipeline stages -----------===//
//
// A stage runs until it needs a message that another stage has not sent yet.
//
//===----------------------------------------------------------------------===//

#include "RunBuffers.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;

BufferMachine::StageState BufferMachine::startStage(buffer::FuncOp function) {
  StageState state;
  for (int rank = 0; rank < int(ranks.size()); ++rank)
    if (coordinate(kPipelineAxis, rank) == int64_t(*function.getStage()))
      state.active.push_back(rank);
  state.block = &function.getBody().front();
  state.next = state.block->begin();
  return state;
}

/// Returns whether a loop over one micro-batch must wait for a message that is not sent yet.
bool BufferMachine::waits(buffer::MicroBatchesOp iterations, ArrayRef<int> ofStage) {
  // The last coordinate of a rank is the current micro-batch.
  if (!iterations.getFirst() ||
      *iterations.getFirst() >= uint64_t(world.getGrid().getMicroBatches()))
    return false;
  for (Coordinates &at : ranks)
    at.back() = *iterations.getFirst();
  bool result = false;
  for (auto recv : iterations.getBody().getOps<buffer::RecvOp>())
    for (int rank : ofStage)
      if (!iterations.getSizeAttr() || evaluate(iterations.getSizeAttr(), rank) != 0)
        result |= messages[{rank, int64_t(recv.getFrom())}].empty();
  for (Coordinates &at : ranks)
    at.back() = 0;
  return result;
}

/// Runs a stage to its end, or to a loop that waits for a message. Returns whether any op ran.
FailureOr<bool> BufferMachine::advance(StageState &state) {
  bool progress = false;
  for (; state.next != state.block->end(); ++state.next, progress = true) {
    if (auto iterations = dyn_cast<buffer::MicroBatchesOp>(*state.next))
      if (waits(iterations, state.active))
        return progress;
    auto known = dyn_cast<RunOpInterface>(*state.next);
    if (!known)
      return state.next->emitError(
          "cannot be run at small sizes: the interpreter does not support this op");
    Frame frame{state.values, state.active};
    if (failed(known.runOnBuffers(*this, frame)))
      return failure();
    if (!reported.empty())
      return progress;
  }
  return progress;
}
