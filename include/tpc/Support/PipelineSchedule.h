//===- PipelineSchedule.h - Events of pipeline ranks ------------*- C++ -*-===//
//
// A schedule lists, for each rank of pp, the events of one step in order. An event is a phase of
// one chunk of the model for one micro-batch. With p ranks, chunk k is on rank k mod p; in a
// policy with a V, chunks 0, 1, … are on the ranks 0, 1, …, p-1, p-1, …, 0. For two ranks with two
// chunks each and two micro-batches, the policy `interleaved` makes the forward events
//
//     rank 0   F0.0 F0.1 F2.0 F2.1        F2.1: forward of chunk 2, micro-batch 1
//     rank 1   F1.0 F1.1 F3.0 F3.1
//
// Policies are registered by name. Does not depend on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_PIPELINESCHEDULE_H
#define TPC_SUPPORT_PIPELINESCHEDULE_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// Phases of a chunk for one micro-batch. SF and RF are the messages between chunks.
enum class SchedulePhase : uint8_t {
  Forward,        // F
  Backward,       // B: gradients of inputs; of weights too in policies without W
  WeightGradient, // W
  SendForward,    // SF
  ReceiveForward, // RF
};
inline constexpr unsigned numSchedulePhases = 5;

struct ScheduleEvent {
  SchedulePhase phase = SchedulePhase::Forward;
  int64_t chunk = 0, microBatch = 0;

  bool operator==(const ScheduleEvent &) const = default;
  /// Returns "F2.1" for the forward of chunk 2 and micro-batch 1.
  std::string str() const;
  static std::optional<ScheduleEvent> parse(std::string_view text);
};

using ScheduleTable = std::vector<std::vector<ScheduleEvent>>; // by rank

struct PipelineShape {
  int64_t ranks = 1, chunksPerRank = 1, microBatches = 1;

  int64_t chunks() const { return ranks * chunksPerRank; }
};

/// A policy's name, its limits and its generator.
struct SchedulePolicy {
  std::string_view name;
  std::string_view summary;
  enum class Chunks { One, Two, Any } chunks; // on each rank
  bool isTraining;                            // makes B and possibly W events
  /// Groups of micro-batches: of any size, or all of equal size for m / ranks groups.
  enum class Groups { Any, Equal } groups;
  ScheduleTable (*make)(const PipelineShape &shape);
  /// Upper bound of the activations that a rank stores, as the paper states it: pairs of a chunk
  /// and a micro-batch whose forward is computed and whose last gradient is not. Null without B.
  int64_t (*getMaxInFlight)(const PipelineShape &shape, int64_t rank) = nullptr;
};

/// Returns all policies.
std::span<const SchedulePolicy> getSchedulePolicies();

/// Makes the events of computation. On failure (an unknown policy, or a shape that the policy does
/// not support) returns nothing and sets `error`.
std::optional<ScheduleTable> makeSchedule(std::string_view policy, const PipelineShape &shape,
                                          std::string &error);

/// Checks that each phase of each chunk is computed once for each micro-batch, on the chunk's rank.
/// No rank may wait in a cycle, or store more activations than the policy's bound. Returns the
/// first violation, or nothing.
std::string checkSchedule(const SchedulePolicy &policy, const PipelineShape &shape,
                          const ScheduleTable &table);

/// Adds a send after each forward event whose result another rank needs, and a receive on that
/// rank. Messages are in an order in which no rank waits in a cycle, even if a send returns only
/// when the receiver takes it.
ScheduleTable addMessages(const ScheduleTable &table, int64_t chunks);

/// Slots of equal time in which all ranks compute their events as early as dependences permit.
struct ScheduleSlots {
  int64_t slots = 0; // until the last event ends
  int64_t idle = 0;  // slots in which a rank computes nothing, for all ranks together
  int64_t busy = 0;
};
/// Counts slots; events of messages take no time.
ScheduleSlots countSlots(const ScheduleTable &table, int64_t chunks);

} // namespace tpc

#endif // TPC_SUPPORT_PIPELINESCHEDULE_H
