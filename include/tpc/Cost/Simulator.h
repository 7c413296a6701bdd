//===- Simulator.h - Discrete events of a pipelined step --------*- C++ -*-===//
//
// Simulates a step of a pipeline. Ranks of one pipeline coordinate are a class, and all ranks of a
// class do the same at the same time. A class runs its part of the schedule in order. A run begins
// when the class is free and the message of the previous chunk has arrived. A link between two
// chunks carries one message at a time, and a message does not occupy its sender. If the running
// classes need more cores than the machine has, all of them slow down.
//
// The number of events depends on classes and micro-batches, never on the number of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_COST_SIMULATOR_H
#define TPC_COST_SIMULATOR_H

#include <cstdint>
#include <vector>

namespace tpc {

/// One run of a chunk of the program. Chunks are ordered from the first layer to the last; with one
/// chunk for each class, a chunk is a stage.
struct ScheduledRun {
  int32_t chunk = 0;
  int32_t microBatch = 0; // -1: the chunk's prologue, which waits for no message

  bool isPrologue() const { return microBatch < 0; }
};

struct SimulationProblem {
  /// By class: its runs, in order.
  std::vector<std::vector<ScheduledRun>> schedule;
  /// By chunk and micro-batch: seconds of the run if it shares no cores.
  std::vector<std::vector<double>> work;
  /// By chunk: seconds of the prologue.
  std::vector<double> prologue;
  /// By chunk and micro-batch: seconds of the message to the next chunk; 0 or missing: it arrives
  /// at once.
  std::vector<std::vector<double>> message;
  /// By chunk and micro-batch: fraction of the run that needs cores, in contrast to collectives;
  /// missing: 1.
  std::vector<std::vector<double>> coreShare;
  /// Cores that a running class needs, and cores of the machine. 0: classes share nothing.
  double coresOfClass = 0, cores = 0;
};

struct SimulatedEvent {
  bool isMessage = false;
  int32_t rankClass = 0; // of a message: its sender
  int32_t chunk = 0, microBatch = 0;
  double begin = 0, end = 0;
  int32_t after = -1; // the event whose end is this event's begin; -1: it begins at 0
};

struct Simulation {
  std::vector<SimulatedEvent> events; // by begin
  double seconds = 0;                 // infinite if the schedule waits for itself
  std::vector<double> busy;           // by class
  std::vector<int32_t> criticalPath;  // touching events from 0 to `seconds`
};

Simulation simulate(const SimulationProblem &problem);

/// Returns the schedule in which each class has one chunk, and runs its prologue and then its
/// micro-batches in order. `microBatches`: by chunk.
std::vector<std::vector<ScheduledRun>>
makeForwardSchedule(const std::vector<int64_t> &microBatches);

} // namespace tpc

#endif // TPC_COST_SIMULATOR_H
