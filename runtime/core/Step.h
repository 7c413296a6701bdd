//===- Step.h - Execution, recording and replay of a step -----------------===//
//
// On devices that support recording, a step of a rank is recorded when its shape (env and input
// addresses) occurs for the second time. From then on it is replayed without the stage function.
// Host work within the step is recorded with it (tpc_context::hostWork).
//
// The first step of a shape allocates what it needs: memory, matmul plans, argument buffers. After
// it, ranks that communicate on devices agree to record the step on all ranks or on none, as
// communication libraries require. If memory moved on any rank, all ranks record again. Eviction
// depends only on the sequence of shapes, so all ranks evict the same shapes. If caches were
// reallocated, all shapes are dropped: the next step of each allocates again.
//
// A step that involves the host is not recorded, and runs its function each time. The host is
// involved if tensors pass through host memory: without a communication library for GPUs, with
// shared GPUs, or for max and min of floats. The device's prepareRecording alone decides this.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_STEP_H
#define TPC_RT_CORE_STEP_H

#include "core/Context.h"
#include <list>
#include <typeindex>

namespace tpc::rt {

/// Returns the env of kernels at the start of a step: values of the symbols, this rank's
/// coordinates, and the micro-batch.
std::vector<int64_t> envOf(const tpc_context &ctx, const std::vector<int64_t> &symbols);

/// Runs the rank's stage function of `program` with these values of the symbols, then this rank's
/// coordinates. Fails if a kernel reported an index out of bounds.
void runStage(tpc_context &ctx, const tpc_program &program, int stage,
              const std::vector<int64_t> &symbols);

/// Cache of a rank's recorded steps.
class StepCache {
public:
  /// Maximum number of recordings, and of shapes remembered.
  static constexpr size_t maxRecordings = 16, maxShapes = 64;

  explicit StepCache(tpc_context &ctx) : ctx(ctx) {}
  /// Whether steps are recorded and replayed. A rank that reads results of ops on the host during a
  /// step sets it to false; all ranks must agree.
  bool records = true;
  /// Runs a step between the device's beginStep and endStep; calls endStep.
  tpc_status run(const tpc_program &program, int stage, const std::vector<int64_t> &env);
  /// Whether ranks can skip the agreement after a step of this shape on these rows of the caches.
  /// The result is the same on all ranks.
  bool isAgreed(const tpc_program &program, int stage, const std::vector<int64_t> &env,
                size_t inputs, int64_t stateRows, int64_t stateRow) const;
  /// Whether the last step was replayed and can run ahead: again, on inputs that it advanced
  /// itself.
  bool canRunAhead() const;
  /// Enqueues such a step. The next step drops those that takeAhead has not taken.
  void runAhead();
  /// Waits for the earliest of these steps and delivers its outputs. Fails like runStage.
  void takeAhead();
  /// Waits for the steps that remain, without delivering their outputs.
  void dropAhead();
  /// Drops all recordings. Collective if there is a collective backend: recordings must be
  /// destroyed before its communicators.
  void forget();

private:
  struct Key {
    const tpc_program *program;
    int stage;
    std::vector<int64_t> env;
    std::vector<const void *> inputs;
    int64_t stateRows, stateRow; ///< rows of the caches that the step uses
    std::type_index outputs;     ///< type of the output sink, which determines the host's work
    bool operator==(const Key &) const = default;
  };
  struct Shape {
    Key key;
    std::unique_ptr<Recording> recording; ///< null: the shape cannot be replayed
    bool isRecorded = false;
    Counters counters;                           ///< communication of one step
    std::vector<std::function<void()>> hostWork; ///< host work of a replay
  };
  tpc_status runFirst(Key key);
  void record(Shape &shape);
  void forget(Shape &shape);
  void runFunction(const Key &key);

  tpc_context &ctx;
  std::list<Shape> shapes; ///< most recently used first
  uint64_t moves = 0;      ///< Device::memoryVersion at recording
  uint64_t stateMoves = 0; ///< StateMemory::moves at recording
  bool isReplayed = false; ///< the last step was replayed; it is the first of `shapes`
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_STEP_H
