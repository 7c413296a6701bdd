//===- VerifyCommsMessages.cpp - Matching of messages between stages ------===//
//
// A channel is a pair of stages (sender, receiver), or the set of all stages for collectives over
// pp. The k-th communication of a stage on a channel must match the k-th communication of the other
// stages: both must be in loops with the same trip count and have the same type. Communicating
// ranks of two stages have equal coordinates on all axes except pp, so their sizes and trip counts
// are functions of the same coordinates.
//
// In a pipeline with a schedule, a phase is one event, and the events of both sides must be of the
// same micro-batch. The proof of equivalence pairs the i-th chunk that sends on a channel with the
// i-th chunk that receives, so the events must be of such a pair.
//
//===----------------------------------------------------------------------===//

#include "VerifyComms.h"

#include <map>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;

namespace {

/// Limit on the number of crossings, because nested calls could have exponentially many.
constexpr size_t maxCrossings = 100000;

struct Collector {
  const Schedule &schedule;
  AxisMask pp;
  DenseMap<Operation *, bool> crosses; // by function: whether it has crossings

  bool isCrossing(Operation *op) const {
    return isa<SendOp, RecvOp>(op) || (schedule.getMask(getGroupAxes(op)) & pp);
  }

  bool contains(const Schedule::Items &items) {
    return llvm::any_of(items, [&](const Item &item) {
      switch (item.kind) {
      case Item::Kind::Comm:
        return isCrossing(item.op);
      case Item::Kind::Call: {
        auto it = crosses.find(item.callee);
        if (it != crosses.end())
          return it->second;
        bool result = contains(schedule.getItems(item.callee));
        crosses[item.callee] = result;
        return result;
      }
      default:
        return contains(item.body) || contains(item.other);
      }
    });
  }

  LogicalResult collect(const Item &item, std::vector<Crossing> &out) {
    if (item.kind == Item::Kind::Comm && isCrossing(item.op)) {
      if (out.size() == maxCrossings)
        return item.op->emitError() << opText(item.op) << ": a stage communicates with others more "
                                    << "than " << maxCrossings << " times in one iteration";
      out.push_back({item.op});
    } else if (item.kind == Item::Kind::Branch && (contains(item.body) || contains(item.other))) {
      return item.op->emitError() << "a branch communicates with other stages; "
                                     "whether they take the same branch is unknown";
    } else if (item.kind == Item::Kind::Call && contains({item})) {
      for (const Item &inner : schedule.getItems(item.callee))
        if (failed(collect(inner, out)))
          return failure();
    }
    return success();
  }
};

/// Crossings of one stage on a channel, by phase.
struct Side {
  int64_t stage;
  std::vector<std::pair<Phase *, SmallVector<Crossing *>>> phases;

  void add(Phase &phase, Crossing &crossing) {
    if (phases.empty() || phases.back().first != &phase)
      phases.push_back({&phase, {}});
    phases.back().second.push_back(&crossing);
  }
};

class Matcher {
public:
  Matcher(const Schedule &schedule, Crossings &crossings)
      : schedule(schedule), crossings(crossings) {}
  LogicalResult run();

private:
  std::string rankOf(int64_t stage) const {
    return rankText(schedule.getGrid(), {{kPipelineAxis.str(), stage}});
  }
  LogicalResult compare(const Side &a, const Side &b);
  LogicalResult compareEvents(const Side &a, const Phase &x, const Side &b, const Phase &y);
  LogicalResult compareOne(const Side &a, Operation *x, const Side &b, Operation *y);
  LogicalResult rejectUnmatched(const Side &a, Operation *op, const Side &b);

  const Schedule &schedule;
  Crossings &crossings;
  unsigned next = 0; // next id
};

} // namespace

static Type typeOf(Operation *op) {
  return isa<SendOp>(op) ? op->getOperand(0).getType() : op->getResult(0).getType();
}

/// Emits an error: `op` of side `a` has no counterpart on side `b`.
LogicalResult Matcher::rejectUnmatched(const Side &a, Operation *op, const Side &b) {
  InFlightDiagnostic diag = op->emitError() << opText(op) << ": ";
  if (isa<SendOp>(op))
    return diag << rankOf(a.stage) << " sends a value that " << rankOf(b.stage)
                << " never receives";
  if (isa<RecvOp>(op))
    return diag << rankOf(a.stage) << " waits for a value that " << rankOf(b.stage)
                << " never sends";
  return diag << rankOf(a.stage) << " takes part, but " << rankOf(b.stage)
              << ", which is in the same group over "
              << axesText(schedule, schedule.getMask(getGroupAxes(op))) << ", does not";
}

LogicalResult Matcher::compareOne(const Side &a, Operation *x, const Side &b, Operation *y) {
  if (isCollective(x)) {
    if (describeCommunication(x) == describeCommunication(y))
      return success();
    InFlightDiagnostic diag = x->emitError()
                              << opText(x) << ": " << rankOf(a.stage) << " runs another "
                              << "collective than " << rankOf(b.stage) << " in the same group";
    diag.attachNote(y->getLoc()) << opText(y) << " is the other rank's collective";
    return diag;
  }
  Type sent = typeOf(x), expected = typeOf(y);
  DistAttr from = getDist(sent), to = getDist(expected);
  if (getElementTypeOrSelf(sent) == getElementTypeOrSelf(expected) &&
      from.getDims() == to.getDims() && from.getPartial() == to.getPartial())
    return success();
  InFlightDiagnostic diag = x->emitError()
                            << opText(x) << ": " << rankOf(a.stage) << " sends " << sent << ", but "
                            << rankOf(b.stage) << " receives " << expected;
  diag.attachNote(y->getLoc()) << opText(y) << " receives it";
  return diag;
}

/// Returns the index of a chunk among the chunks of a side, in program order.
static size_t getOrdinal(const Side &side, MicroBatchesOp loop) {
  DenseSet<Operation *> before;
  for (auto &[phase, list] : side.phases)
    if (phase->loop && loop && phase->loop->isBeforeInBlock(loop))
      before.insert(phase->loop);
  return before.size();
}

/// Checks that two events are of the same micro-batch and of corresponding chunks.
LogicalResult Matcher::compareEvents(const Side &a, const Phase &x, const Side &b, const Phase &y) {
  if (x.at < 0 && y.at < 0)
    return success();
  Operation *op = x.crossings[0].op, *other = y.crossings[0].op;
  if (x.at == y.at && getOrdinal(a, x.loop) == getOrdinal(b, y.loop))
    return success();
  InFlightDiagnostic diag = op->emitError()
                            << opText(op) << ": " << rankOf(a.stage) << " and " << rankOf(b.stage)
                            << " have different messages next: of micro-batch " << x.at << " in "
                            << "chunk " << getOrdinal(a, x.loop) << " of the channel, and of "
                            << "micro-batch " << y.at << " in chunk " << getOrdinal(b, y.loop)
                            << ": the schedule must order them equally on both ranks";
  diag.attachNote(other->getLoc()) << opText(other) << " is the other side";
  return diag;
}

LogicalResult Matcher::compare(const Side &a, const Side &b) {
  for (size_t p = 0; p < std::max(a.phases.size(), b.phases.size()); ++p) {
    if (p >= b.phases.size())
      return rejectUnmatched(a, a.phases[p].second[0]->op, b);
    if (p >= a.phases.size())
      return rejectUnmatched(b, b.phases[p].second[0]->op, a);
    auto &[phaseA, listA] = a.phases[p];
    auto &[phaseB, listB] = b.phases[p];
    if (failed(compareEvents(a, *phaseA, b, *phaseB)))
      return failure();
    if (!haveSameTripCount(schedule, phaseA->loop, phaseB->loop)) {
      Operation *op = listA[0]->op;
      InFlightDiagnostic diag =
          op->emitError() << opText(op) << ": " << rankOf(a.stage) << " and " << rankOf(b.stage)
                          << " may run this a different number of times: their loops are not "
                             "over the same micro-batches";
      diag.attachNote(listB[0]->op->getLoc()) << "the other side";
      return diag;
    }
    for (size_t i = 0; i < std::max(listA.size(), listB.size()); ++i) {
      if (i >= listB.size())
        return rejectUnmatched(a, listA[i]->op, b);
      if (i >= listA.size())
        return rejectUnmatched(b, listB[i]->op, a);
      if (failed(compareOne(a, listA[i]->op, b, listB[i]->op)))
        return failure();
      listB[i]->id = listA[i]->id;
    }
  }
  return success();
}

LogicalResult Matcher::run() {
  int64_t stages = crossings.stages.size();
  // Channels between pairs of stages, and one for each set of axes of collectives over pp.
  std::map<std::pair<int64_t, int64_t>, std::pair<Side, Side>> channels;
  std::map<AxisMask, std::vector<Side>> groups;
  for (int64_t stage = 0; stage < stages; ++stage)
    for (Phase &phase : crossings.stages[stage])
      for (Crossing &crossing : phase.crossings) {
        crossing.id = next++;
        if (isCollective(crossing.op)) {
          std::vector<Side> &sides = groups[schedule.getMask(getGroupAxes(crossing.op))];
          if (sides.empty())
            for (int64_t i = 0; i < stages; ++i)
              sides.push_back({i, {}});
          sides[stage].add(phase, crossing);
          continue;
        }
        auto send = dyn_cast<SendOp>(crossing.op);
        int64_t peer = send ? send.getTo() : cast<RecvOp>(crossing.op).getFrom();
        if (peer < 0 || peer >= stages || peer == stage)
          return crossing.op->emitError() << opText(crossing.op) << ": stage " << peer
                                          << " must be another stage of the pipeline";
        std::pair<int64_t, int64_t> key = send ? std::pair(stage, peer) : std::pair(peer, stage);
        auto &[from, to] = channels[key];
        from.stage = key.first;
        to.stage = key.second;
        (send ? from : to).add(phase, crossing);
      }
  for (auto &[key, sides] : channels)
    if (failed(compare(sides.first, sides.second)))
      return failure();
  for (auto &[axes, sides] : groups)
    for (const Side &side : ArrayRef(sides).drop_front())
      if (failed(compare(sides[0], side)))
        return failure();
  return success();
}

FailureOr<Crossings> comms::matchCrossings(const Schedule &schedule) {
  Crossings result;
  Collector collector{schedule, schedule.getMask(kPipelineAxis), DenseMap<Operation *, bool>()};
  for (const auto &[stage, items] : schedule.getStages()) {
    std::vector<Phase> &phases = result.stages.emplace_back();
    for (const Item &item : items) {
      auto loop = dyn_cast<MicroBatchesOp>(item.op);
      if (loop || phases.empty() || phases.back().loop)
        phases.push_back({loop, {}, item.at});
      for (const Item &inner : loop ? ArrayRef<Item>(item.body) : ArrayRef<Item>(item))
        if (failed(collector.collect(inner, phases.back().crossings)))
          return failure();
    }
    llvm::erase_if(phases, [](const Phase &phase) { return phase.crossings.empty(); });
  }
  if (failed(Matcher(schedule, result).run()))
    return failure();
  return result;
}
