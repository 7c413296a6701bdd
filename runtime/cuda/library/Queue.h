//===- Queue.h - GPU context and stream -----------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_QUEUE_H
#define TPC_RT_CUDA_LIBRARY_QUEUE_H

#include "cuda/library/InFlightOperations.h"
#include "cuda/library/Kernels.h"
#include <utility>

namespace tpc::rt::cuda {

/// A context of a GPU and a stream in it. Objects of the context must be destroyed before the
/// context.
class Queue {
public:
  Queue(const Driver &driver, const Gpu &gpu);
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;
  ~Queue();

  /// Makes the context current for the calling thread. Ranks are created on one thread and run on
  /// another.
  void enter();
  /// Waits for all enqueued work.
  void synchronize();
  /// Launches a one-dimensional grid. `waits`: the kernel waits for the previous one
  /// (tpc/dependent_launch.h), so in a recorded step it may begin before that one ends.
  Result launch(Function function, int64_t blocks, unsigned threads, int64_t sharedBytes,
                void **parameters, bool waits) const;

  const Driver &driver;
  const Gpu gpu;
  Context context = nullptr;
  Stream stream = nullptr;
  uint64_t synchronizations = 0;
  InFlightOperations inFlight;

private:
  /// Returns whether a step is being recorded, and its last operation is a kernel.
  bool isRecordingAfterKernel() const;
};

/// A position in a queue.
class Mark {
public:
  explicit Mark(Queue &queue) : queue(&queue) {
    queue.driver.check(queue.driver.cuEventCreate(&event, noTiming), "to create an event");
  }
  Mark(Mark &&other) noexcept
      : queue(other.queue), event(std::exchange(other.event, nullptr)),
        isSet(std::exchange(other.isSet, false)), setAt(other.setAt) {}
  Mark &operator=(Mark &&) = delete;
  ~Mark() {
    if (event)
      queue->driver.cuEventDestroy_v2(event);
  }

  void set() {
    queue->driver.check(queue->driver.cuEventRecord(event, queue->stream), "to record an event");
    isSet = true;
    setAt = queue->synchronizations;
  }
  /// Waits for all work enqueued before the mark was set.
  void wait() {
    if (!std::exchange(isSet, false) || setAt != queue->synchronizations)
      return;
    InFlightOperations::Wait wait;
    queue->driver.check(queue->driver.cuEventSynchronize(event), "while it worked");
  }

private:
  Queue *queue;
  Event event = nullptr;
  bool isSet = false;
  uint64_t setAt = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_QUEUE_H
