//===- RunStages.cpp - Stages that wait for messages of each other --------===//

#include "RunBuffers.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;

BufferMachine::StageState BufferMachine::startStage(buffer::FuncOp function) {
  StageState state;
  for (int rank = 0; rank < int(ranks.size()); ++rank)
    if (coordinate("pp", rank) == int64_t(*function.getStage()))
      state.active.push_back(rank);
  state.block = &function.getBody().front();
  state.next = state.block->begin();
  return state;
}

/// Returns whether an event must wait, because a message that it receives is not sent yet.
bool BufferMachine::waits(buffer::RoundsOp rounds, ArrayRef<int> ofStage) {
  if (!rounds.getFirst() || *rounds.getFirst() >= uint64_t(world.getGrid().getMicroBatches()))
    return false;
  for (Coordinates &at : ranks)
    at.back() = *rounds.getFirst();
  bool result = false;
  for (auto recv : rounds.getBody().getOps<buffer::RecvOp>())
    for (int rank : ofStage)
      if (!rounds.getSizeAttr() || evaluate(rounds.getSizeAttr(), rank) != 0)
        result |= messages[{rank, int64_t(recv.getFrom())}].empty();
  for (Coordinates &at : ranks)
    at.back() = 0;
  return result;
}

/// Runs a stage until one of its events waits for a message, or to the end. Returns whether any op
/// ran.
FailureOr<bool> BufferMachine::advance(StageState &state) {
  bool progress = false;
  for (; state.next != state.block->end(); ++state.next, progress = true) {
    if (auto rounds = dyn_cast<buffer::RoundsOp>(*state.next))
      if (waits(rounds, state.active))
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
