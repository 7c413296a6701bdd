//===- VerifyCommsProgress.cpp - Total order of communication -------------===//
//
// Assumes unbuffered sends: a sender waits for its receiver. There is no deadlock if communication
// ops have numbers that ascend in each rank's program and are equal on both sides of one
// communication. In a loop, the number of an op in iteration m is time + m * period. For example, a
// loop with period 2:
//
//     stage   ops                         times
//     0       send to 1                   0
//     1       recv from 0, send to 2      0, 1
//     2       recv from 1                 1
//
// Collectives within a stage need no number: all ranks of a stage run the same program, so a
// collective is between the same crossings on all of them.
//
//===----------------------------------------------------------------------===//

#include "VerifyComms.h"

#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;

namespace {

/// Graph of nodes 0 … n-1; an edge orders two communications of one stage.
class Order {
public:
  struct Edge {
    unsigned to;
    int64_t stage;
    Operation *first, *second;
  };
  explicit Order(size_t nodes) : edges(nodes), state(nodes), level(nodes) {}
  void add(unsigned from, Edge edge) { edges[from].push_back(edge); }

  /// Computes longest paths. Returns false if there is a cycle, which is then in `cycle`.
  bool sort() {
    for (unsigned node = 0; node < edges.size(); ++node)
      if (state[node] == New && !visit(node))
        return false;
    for (unsigned node : llvm::reverse(finished))
      for (const Edge &edge : edges[node])
        level[edge.to] = std::max(level[edge.to], level[node] + 1);
    return true;
  }
  int64_t getLevel(unsigned node) const { return level[node]; }
  SmallVector<Edge> cycle;

private:
  enum State : char { New, Open, Done };

  // Iterative, because recursion could overflow the stack for long pipelines.
  bool visit(unsigned root) {
    SmallVector<std::pair<unsigned, size_t>> path{{root, 0}};
    state[root] = Open;
    while (!path.empty()) {
      auto &[node, next] = path.back();
      if (next == edges[node].size()) {
        state[node] = Done;
        finished.push_back(node);
        path.pop_back();
        continue;
      }
      unsigned to = edges[node][next++].to;
      if (state[to] == New) {
        state[to] = Open;
        path.push_back({to, 0});
      } else if (state[to] == Open) {
        auto *begin = llvm::find_if(path, [&](auto &entry) { return entry.first == to; });
        for (auto &entry : llvm::make_range(begin, path.end()))
          cycle.push_back(edges[entry.first][entry.second - 1]);
        return false;
      }
    }
    return true;
  }

  std::vector<SmallVector<Edge, 2>> edges;
  std::vector<State> state;
  std::vector<int64_t> level;
  SmallVector<unsigned> finished;
};

} // namespace

static LogicalResult reportCycle(const Schedule &schedule, Order &order) {
  // Starts the report at the first stage, independently of the search.
  std::rotate(order.cycle.begin(),
              std::min_element(order.cycle.begin(), order.cycle.end(),
                               [](const auto &a, const auto &b) { return a.stage < b.stage; }),
              order.cycle.end());
  Operation *first = order.cycle.front().first;
  InFlightDiagnostic diag = first->emitError()
                            << opText(first) << ": ranks wait for each other in a cycle";
  for (const Order::Edge &edge : order.cycle)
    diag.attachNote(edge.first->getLoc())
        << rankText(schedule.getGrid(), {{kPipelineAxis.str(), edge.stage}}) << " waits at "
        << opText(edge.first) << " and reaches " << opText(edge.second) << " only afterwards";
  return diag;
}

LogicalResult comms::findOrder(const Schedule &schedule, Crossings &crossings) {
  // Phases with a common communication have the same position.
  SmallVector<Phase *> phases;
  SmallVector<int64_t> stageOf;
  unsigned ids = 0;
  for (auto [stage, list] : llvm::enumerate(crossings.stages))
    for (Phase &phase : list) {
      phases.push_back(&phase);
      stageOf.push_back(stage);
      for (const Crossing &crossing : phase.crossings)
        ids = std::max(ids, crossing.id + 1);
    }
  llvm::IntEqClasses positions(phases.size());
  SmallVector<int64_t> phaseOf(ids, -1);
  for (auto [i, phase] : llvm::enumerate(phases))
    for (const Crossing &crossing : phase->crossings) {
      if (phaseOf[crossing.id] >= 0)
        positions.join(phaseOf[crossing.id], i);
      phaseOf[crossing.id] = i;
    }
  positions.compress();

  Order outer(positions.getNumClasses());
  for (size_t i = 1; i < phases.size(); ++i)
    if (stageOf[i] == stageOf[i - 1])
      outer.add(positions[i - 1], {positions[i], stageOf[i], phases[i - 1]->crossings.back().op,
                                   phases[i]->crossings.front().op});
  if (!outer.sort())
    return reportCycle(schedule, outer);

  Order inner(ids);
  for (auto [i, phase] : llvm::enumerate(phases))
    for (size_t k = 1; k < phase->crossings.size(); ++k)
      inner.add(phase->crossings[k - 1].id, {phase->crossings[k].id, stageOf[i],
                                             phase->crossings[k - 1].op, phase->crossings[k].op});
  if (!inner.sort())
    return reportCycle(schedule, inner);

  std::vector<int64_t> period(positions.getNumClasses(), 1);
  for (auto [i, phase] : llvm::enumerate(phases)) {
    phase->position = outer.getLevel(positions[i]);
    for (Crossing &crossing : phase->crossings) {
      crossing.time = inner.getLevel(crossing.id);
      period[positions[i]] = std::max(period[positions[i]], crossing.time + 1);
    }
  }
  for (auto [i, phase] : llvm::enumerate(phases))
    phase->period = period[positions[i]];
  return success();
}
