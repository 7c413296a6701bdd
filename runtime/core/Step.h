//===- Step.h - around a stage function -----------------------------------===//
//
// Where the device can, a rank's step is recorded when its shape (env, and where inputs are) comes
// for the second time, and replayed from then on: the stage function runs no more. What the host
// does in it beside telling the device is noted with it (tpc_context::noted).
//
// The first step of a shape is for whatever has to be made: memory, plans of products, places for
// arguments. Behind it ranks that communicate on devices agree: a step is recorded by all of them
// or by none, and in the same step, as libraries want what they record; if memory has moved
// anywhere, all record anew. What ranks forget depends on the shapes that came alone, so that all
// forget the same. If caches have become others, no shape is known any more: its next step has
// to make its own again.
//
// A step is not recorded, and runs by its function each time, if the host takes part in it: that
// is where tensors pass through the host's memory (there is no library for GPUs to communicate by,
// or they are shared; the largest and least of floats). This is decided in one place, the device's
// prepareRecording.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_STEP_H
#define TPC_RT_CORE_STEP_H

#include "core/Context.h"
#include <list>
#include <typeindex>

namespace tpc::rt {

/// What kernels see at the beginning of a step: values of the symbols, this rank's coordinates, and
/// the micro-batch.
std::vector<int64_t> envOf(const tpc_context &ctx, const std::vector<int64_t> &symbols);

/// Runs the rank's function of `program` for a step: with these values of the symbols, then this
/// rank's coordinates. Fails if a kernel has met an index that is not there.
void runStage(tpc_context &ctx, const tpc_program &program, int stage,
              const std::vector<int64_t> &symbols);

/// The steps of a rank, as far as they can be replayed.
class StepCache {
public:
  /// Recordings that are kept, and shapes of which it is known that they came.
  static constexpr size_t mostRecordings = 16, mostShapes = 64;

  explicit StepCache(tpc_context &ctx) : ctx(ctx) {}
  /// Between the device's beginStep and its endStep, which it calls.
  tpc_status run(const tpc_program &program, int stage, const std::vector<int64_t> &env);
  /// Whether ranks need not agree behind such a step, of this part of the caches. The same on all
  /// of them.
  bool isAgreed(const tpc_program &program, int stage, const std::vector<int64_t> &env,
                size_t inputs, int64_t stateRows, int64_t stateRow) const;
  /// Collective with links: what is recorded of them must go before they do.
  void forget();

private:
  struct Key {
    const tpc_program *program;
    int stage;
    std::vector<int64_t> env;
    std::vector<const void *> inputs;
    int64_t stateRows, stateRow; ///< which part of the caches the step has
    std::type_index outputs;     ///< what takes its outputs: others of its kind take them alike
    bool operator==(const Key &) const = default;
  };
  struct Shape {
    Key key;
    std::unique_ptr<Recording> recording; ///< null: the shape cannot be replayed
    bool isRecorded = false;
    Counters counters;                           ///< of one step
    std::vector<std::function<void()>> hostWork; ///< what the host does when it is replayed
  };
  tpc_status runFirst(Key key);
  void record(Shape &shape);
  void forget(Shape &shape);
  void runFunction(const Key &key);

  tpc_context &ctx;
  std::list<Shape> shapes; ///< the last one to come is first
  uint64_t moves = 0;      ///< of the device's memory, as recordings have it
  uint64_t stateMoves = 0; ///< of caches, as all shapes have them
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_STEP_H
