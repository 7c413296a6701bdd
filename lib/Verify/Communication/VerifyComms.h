//===- VerifyComms.h - Steps of tpc-verify-comms ----------------*- C++ -*-===//
//
// Four steps prove that all members of a group run the same communication op, and that there is no
// cycle of waiting ranks. Each step covers all ranks at once: the behavior of a rank is a function
// of its coordinates, and the members of a group behave alike if the function does not depend on
// the axes of the group. In parentheses: the file VerifyComms*.cpp of the step.
//
//   1. single collectives: the group exists, and members agree on sizes         (Events)
//   2. loops and branches are uniform across the groups of ops in them          (Uniform)
//   3. transfers match across stages, in order and type                         (Messages)
//   4. a total order of communication that every rank's program follows         (Progress)
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H
#define TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Verify/Schedule.h"

namespace mlir::tpc::comms {

using Item = Schedule::Item;

/// Coordinates that are not 0.
using Coordinates = SmallVector<std::pair<StringRef, int64_t>, 2>;
/// Returns "rank (tp 1, dp 0, pp 2)", with all axes that have more than one rank.
std::string rankText(MeshAttr grid, const Coordinates &at);
/// Returns "tp" or "tp and dp".
std::string axesText(const Schedule &schedule, AxisMask axes);
/// Returns "tpc.send 'node'".
std::string opText(Operation *op);

/// Reports an error at `op` that begins with its text.
inline InFlightDiagnostic reject(Operation *op) { return op->emitError() << opText(op) << ": "; }

/// Returns the axes on which the size of a rank's slice depends, that is, axes that split unevenly:
/// 12{tp} is 6 on both ranks of tp 2, but 7{tp} is 4 on one rank and 3 on the other. Excludes `mb`,
/// because all ranks have the same coordinate on it.
AxisMask getSizeAxes(const Schedule &schedule, DimAttr dim);
/// Returns the size on a rank, such as "4"; the text of `dim` if it depends on symbols.
std::string sizeText(MeshAttr grid, DimAttr dim, const Coordinates &at);

/// Step 1.
LogicalResult checkCollective(const Schedule &schedule, Operation *op);

/// Returns the axes on which the trip count of a loop depends.
AxisMask getLoopAxes(const Schedule &schedule, MicroBatchesOp loop);
/// Returns whether two loops have equal trip counts on ranks that differ only in pp.
bool haveSameTripCount(const Schedule &schedule, MicroBatchesOp a, MicroBatchesOp b);

/// Step 2.
LogicalResult checkUniformity(const Schedule &schedule);

/// Communication across stages: a send, a recv, or a collective over pp.
struct Crossing {
  Operation *op;
  int64_t time = 0; // see VerifyCommsProgress.cpp
  unsigned id = 0;  // equal in all stages that take part in one communication
};
/// A loop, or the ops between loops, with its crossings in order.
struct Phase {
  MicroBatchesOp loop; // null: runs once
  std::vector<Crossing> crossings;
  int64_t at = -1;      // micro-batch of an event; -1: all iterations of the loop
  int64_t position = 0; // equal for matching phases of different stages
  int64_t period = 1;   // increment of `time` per iteration of the loop
};
struct Crossings {
  std::vector<std::vector<Phase>> stages; // phases with crossings, by stage
};

/// Step 3: matches crossings and sets their ids. Steps 3 and 4 emit an error for the first faulty
/// pair.
FailureOr<Crossings> matchCrossings(const Schedule &schedule);
/// Step 4: sets positions, times and periods. In each stage, (position, iteration * period + time)
/// ascends in program order; it is equal on all sides of one communication.
LogicalResult findOrder(const Schedule &schedule, Crossings &crossings);

/// Checks that each started collective is waited for exactly once, and that at most 16 operations
/// of a rank are in flight.
LogicalResult checkStarts(const Schedule &schedule);

/// Returns the proof as JSON; tools/tpc-check-certificate describes the format.
llvm::json::Object makeCertificateJSON(const Schedule &schedule, const Crossings &crossings);

/// Checks that every output is delivered once, with its declared type.
LogicalResult checkOutputs(const Schedule &schedule);

} // namespace mlir::tpc::comms

#endif // TPC_LIB_VERIFY_COMMUNICATION_VERIFYCOMMS_H
