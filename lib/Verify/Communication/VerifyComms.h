//===- VerifyComms.h - The parts of tpc-verify-comms ------------*- C++ -*-===//
//
// Ranks wait for each other at collectives and transfers. That all of them come, with the same
// intentions, and that nobody waits in a circle, is shown in four steps, each for all ranks at
// once: what a rank does is a function of its coordinates, and ranks of one group agree if that
// function does not depend on the axes of the group.
//
//   1. each communication by itself: its group exists, members see one size     (Events)
//   2. loops and branches run alike on all members of the groups used in them     (Uniform)
//   3. what crosses stages has its counterpart there, in order, of one type       (Messages)
//   4. an order of all communication that every rank's program keeps to         (Progress)
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H
#define TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Verify/Schedule.h"

namespace mlir::tpc::comms {

using Item = Schedule::Item;

/// Coordinates that matter; the others are 0.
using Coordinates = SmallVector<std::pair<StringRef, int64_t>, 2>;
/// "rank (tp 1, dp 0, pp 2)", with all axes that have more than one rank.
std::string rankText(GridAttr grid, const Coordinates &at);
/// "tp", "tp and dp"
std::string axesText(const Schedule &schedule, AxisMask axes);
/// "tpc.send 'node'"
std::string opText(Operation *op);

/// Axes on which the size of a rank's part depends. Those that split evenly do not count:
/// 12{tp} is 6 on both ranks of tp 2, 7{tp} is 4 on one and 3 on the other. `mb`, on which all
/// ranks are at the same place, is skipped.
AxisMask getSizeAxes(const Schedule &schedule, DimAttr dim);
/// "4" or "3" on a rank, or the text where it depends on symbols.
std::string sizeText(GridAttr grid, DimAttr dim, const Coordinates &at);

/// Step 1.
LogicalResult checkCollective(const Schedule &schedule, Operation *op);

/// Axes on which the number of turns of a loop depends.
AxisMask getLoopAxes(const Schedule &schedule, MicroBatchesOp loop);
/// Whether two loops have as many turns on ranks that differ on pp alone.
bool haveSameTurns(const Schedule &schedule, MicroBatchesOp a, MicroBatchesOp b);

/// Step 2.
LogicalResult checkUniformity(const Schedule &schedule);

/// Something that crosses stages: a transfer, or a collective over pp.
struct Crossing {
  Operation *op;
  int64_t time = 0; // see Progress
  unsigned id = 0;  // the same for all sides of one communication
};
/// A loop, or what stands outside of loops, with what crosses stages in it, in order.
struct Phase {
  MicroBatchesOp loop; // null: once
  std::vector<Crossing> crossings;
  int64_t place = 0;  // phases of one place run at the same time
  int64_t period = 1; // what one turn of the loop adds to `time`
};
struct Crossings {
  std::vector<std::vector<Phase>> stages; // phases that cross stages, by stage
};

/// Step 3: pairs, and numbers each pair. Steps 3 and 4 say what is wrong with the first pair.
FailureOr<Crossings> matchCrossings(const Schedule &schedule);
/// Step 4: sets places, times and periods such that, in each stage, later communication has a
/// larger (place, turn * period + time), and both sides of one communication the same.
LogicalResult findOrder(const Schedule &schedule, Crossings &crossings);

/// The proof as JSON, see tools/tpc-check-certificate.
llvm::json::Object makeCertificateJSON(const Schedule &schedule, const Crossings &crossings);

/// Every output is delivered, once, as it was promised.
LogicalResult checkOutputs(const Schedule &schedule);

} // namespace mlir::tpc::comms

#endif // TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H
