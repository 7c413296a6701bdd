//===- StepResults.h - Results of steps in flight -------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_STEPRESULTS_H
#define TPC_RT_CUDA_LIBRARY_STEPRESULTS_H

#include "core/Device.h"
#include "cuda/library/Pinned.h"
#include "cuda/library/Queue.h"
#include <vector>

namespace tpc::rt::cuda {

/// A result that is copied to the host after the work of its step, and the function that consumes
/// it.
struct StepResult {
  Address from;
  int64_t bytes;
  Device::Taker take;
  Device::Destination destination = {}; ///< empty, or returning null: memory of StepResults
  bool isFrame = false;                 ///< later work of the step may overwrite it
};

/// Copies the results and errors of steps to pinned memory. Each step in flight has its own.
class StepResults {
public:
  explicit StepResults(Queue &queue) : queue(queue), memory(queue.driver) {}

  /// Allocates memory for the results of `count` steps in flight. No step may be in flight.
  void reserve(const std::vector<StepResult> &results, size_t count);
  /// Enqueues the copies of a step. `results` must stay valid until they are taken or dropped.
  /// `isAhead`: `take` waits for the copies; otherwise the caller waits for the queue.
  void enqueue(const std::vector<StepResult> &results, Address status, bool isAhead);
  /// Delivers the results of the earliest step in flight. Returns its errors.
  tpc_status take();
  /// Drops all results. The caller has waited for the queue.
  void drop() { first = count = 0; }
  size_t inFlight() const { return count; }

private:
  void reserve(int64_t bytes, size_t count);
  struct Step {
    explicit Step(Queue &queue) : arrived(queue) {}
    Mark arrived;
    const std::vector<StepResult> *results = nullptr;
    std::vector<const std::byte *> arrivals; ///< where each result is
  };

  Queue &queue;
  Pinned memory;
  int64_t stepBytes = 0; ///< bytes of `memory` per step
  std::vector<Step> steps;
  size_t first = 0, count = 0; ///< the steps in flight, cyclic
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_STEPRESULTS_H
