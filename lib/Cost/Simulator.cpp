//===- Simulator.cpp - Discrete events of a pipelined step ----------------===//

#include "tpc/Cost/Simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>

using namespace tpc;

namespace {

using Table = std::vector<std::vector<double>>;

class Engine {
public:
  explicit Engine(const SimulationProblem &problem);
  Simulation run();

private:
  struct Class {
    size_t next = 0;       // in the schedule
    int32_t running = -1;  // event
    int32_t last = -1;     // the last event that ended
    double remaining = 0;  // seconds without sharing
    double coreShare = 1;  // of the run
    double end = INFINITY; // if no class begins or ends before
  };
  struct Link {
    std::deque<int32_t> waiting; // runs whose messages wait
    int32_t running = -1, last = -1;
  };
  struct Arrival {
    bool hasArrived = false;
    int32_t event = -1; // the message, or the run without a message
  };

  static double get(const Table &table, const ScheduledRun &run, double other) {
    if (run.isPrologue())
      return other;
    size_t chunk = size_t(run.chunk), index = size_t(run.microBatch);
    return chunk < table.size() && index < table[chunk].size() ? table[chunk][index] : other;
  }
  static ScheduledRun runOf(const SimulatedEvent &event) { return {event.chunk, event.microBatch}; }
  Arrival &arrivalOf(int32_t chunk, int32_t microBatch) {
    std::vector<Arrival> &row = arrivals[size_t(chunk)];
    if (row.size() <= size_t(microBatch))
      row.resize(size_t(microBatch) + 1);
    return row[size_t(microBatch)];
  }
  /// Returns the later of two events that have ended.
  int32_t later(int32_t a, int32_t b) const {
    if (a < 0 || b < 0)
      return std::max(a, b);
    return result.events[size_t(a)].end >= result.events[size_t(b)].end ? a : b;
  }
  int32_t begin(bool isMessage, int32_t rankClass, const ScheduledRun &run, int32_t after);
  void beginAll();
  /// Sets the ends of all runs for the current number of running classes.
  void share();
  void advance();
  void endRun(Class &rankClass);
  void endMessage(Link &link);

  const SimulationProblem &problem;
  Simulation result;
  double time = 0;
  double factor = 1; // slowdown of the part that needs cores
  size_t numRunning = 0;
  std::vector<Class> classes;
  std::vector<Link> links;                    // by chunk of the sender
  std::vector<std::vector<Arrival>> arrivals; // by chunk and micro-batch
};

Engine::Engine(const SimulationProblem &problem)
    : problem(problem), classes(problem.schedule.size()) {
  int32_t chunks = 0;
  for (const auto &runs : problem.schedule)
    for (const ScheduledRun &run : runs)
      chunks = std::max(chunks, run.chunk + 1);
  links.resize(size_t(chunks));
  arrivals.resize(size_t(chunks));
  result.busy.resize(classes.size());
}

int32_t Engine::begin(bool isMessage, int32_t rankClass, const ScheduledRun &run, int32_t after) {
  result.events.push_back({isMessage, rankClass, run.chunk, run.microBatch, time, INFINITY, after});
  return int32_t(result.events.size()) - 1;
}

void Engine::beginAll() {
  for (size_t i = 0; i < classes.size(); ++i) {
    Class &one = classes[i];
    if (one.running >= 0 || one.next == problem.schedule[i].size())
      continue;
    const ScheduledRun &run = problem.schedule[i][one.next];
    Arrival arrival;
    if (run.chunk > 0 && !run.isPrologue()) {
      arrival = arrivalOf(run.chunk, run.microBatch);
      if (!arrival.hasArrived)
        continue;
    }
    one.running = begin(false, int32_t(i), run, later(arrival.event, one.last));
    one.remaining =
        get(problem.work, run, run.isPrologue() ? problem.prologue[size_t(run.chunk)] : 0);
    one.coreShare = get(problem.coreShare, run, 1);
    ++one.next;
    ++numRunning;
  }
  for (Link &link : links) {
    if (link.running >= 0 || link.waiting.empty())
      continue;
    int32_t sender = link.waiting.front();
    link.waiting.pop_front();
    const SimulatedEvent from = result.events[size_t(sender)];
    ScheduledRun run = runOf(from);
    link.running = begin(true, from.rankClass, run, later(sender, link.last));
    result.events[size_t(link.running)].end = time + get(problem.message, run, 0);
  }
}

void Engine::share() {
  double before = factor;
  factor = problem.cores > 0
               ? std::max(1.0, double(numRunning) * problem.coresOfClass / problem.cores)
               : 1;
  for (Class &one : classes)
    if (one.running >= 0 && (factor != before || std::isinf(one.end)))
      one.end = time + one.remaining * (1 + one.coreShare * (factor - 1));
}

void Engine::endRun(Class &one) {
  SimulatedEvent &event = result.events[size_t(one.running)];
  event.end = time;
  result.busy[size_t(&one - classes.data())] += time - event.begin;
  one.last = one.running;
  one.running = -1;
  one.end = INFINITY;
  --numRunning;
  size_t next = size_t(event.chunk) + 1;
  if (next >= arrivals.size() || event.microBatch < 0)
    return;
  if (get(problem.message, runOf(event), 0) > 0)
    links[size_t(event.chunk)].waiting.push_back(one.last);
  else
    arrivalOf(int32_t(next), event.microBatch) = {true, one.last};
}

void Engine::endMessage(Link &link) {
  const SimulatedEvent &event = result.events[size_t(link.running)];
  arrivalOf(event.chunk + 1, event.microBatch) = {true, link.running};
  link.last = link.running;
  link.running = -1;
}

/// Moves to the next end, and ends all that end there.
void Engine::advance() {
  double next = INFINITY;
  for (const Class &one : classes)
    next = std::min(next, one.end);
  for (const Link &link : links)
    if (link.running >= 0)
      next = std::min(next, result.events[size_t(link.running)].end);
  for (Class &one : classes)
    if (one.running >= 0)
      one.remaining -= (next - time) / (1 + one.coreShare * (factor - 1));
  time = next;
  for (Class &one : classes)
    if (one.end <= time)
      endRun(one);
  for (Link &link : links)
    if (link.running >= 0 && result.events[size_t(link.running)].end <= time)
      endMessage(link);
  beginAll();
  share();
}

Simulation Engine::run() {
  beginAll();
  share();
  auto isRunning = [&] {
    return numRunning > 0 || std::any_of(links.begin(), links.end(),
                                         [](const Link &link) { return link.running >= 0; });
  };
  while (isRunning())
    advance();
  for (size_t i = 0; i < classes.size(); ++i)
    if (classes[i].next < problem.schedule[i].size())
      time = INFINITY;
  result.seconds = time;
  int32_t last = -1;
  for (size_t i = 0; i < result.events.size(); ++i)
    if (result.events[i].end == time)
      last = int32_t(i);
  for (; last >= 0; last = result.events[size_t(last)].after)
    result.criticalPath.push_back(last);
  std::reverse(result.criticalPath.begin(), result.criticalPath.end());
  return std::move(result);
}

} // namespace

Simulation tpc::simulate(const SimulationProblem &problem) { return Engine(problem).run(); }

std::vector<std::vector<ScheduledRun>>
tpc::makeForwardSchedule(const std::vector<int64_t> &microBatches) {
  std::vector<std::vector<ScheduledRun>> schedule;
  for (int64_t number : microBatches) {
    std::vector<ScheduledRun> &runs = schedule.emplace_back();
    for (int64_t i = -1; i < number; ++i)
      runs.push_back({int32_t(schedule.size()) - 1, int32_t(i)});
  }
  return schedule;
}
