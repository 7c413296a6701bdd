//===- Checkpoint.h - Checkpoints of training runs ------------------------===//
//
// A checkpoint is a folder DIR/step-N: `index.json`, and for each rank `rank-R.safetensors` with
// its shards of all updated parameters. The index has the position of each shard's elements in the
// weight, so that tpc.checkpoint can assemble weights. A checkpoint is written as
// DIR/.step-N.partial, and renamed when all files are on disk: a folder step-N is complete.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRAIN_CHECKPOINT_H
#define TPC_RT_TRAIN_CHECKPOINT_H

#include "program/Execution.h"
#include "program/Manifest.h"
#include <cstdint>
#include <string>

namespace tpc::rt {

/// Factor of the loss's cotangent in a program with f16 matmuls, whose gradients would otherwise
/// underflow: a power of two. A step whose gradients overflow changes no parameter. The initial
/// value and the intervals are those of torch.amp.GradScaler.
struct LossScale {
  static constexpr double initial = 65536;
  double value = initial;
  int64_t interval = 2000; ///< the scale doubles after so many steps without overflow
  int64_t steps = 0;       ///< without overflow since the scale changed
  int64_t skipped = 0;     ///< number of steps with overflow so far

  /// Changes the scale after a step. Returns false if it cannot be smaller.
  bool advance(bool overflows) {
    if (overflows) {
      ++skipped;
      steps = 0;
      value /= 2;
      return value >= 1;
    }
    if (++steps >= interval && value < 0x1p100) {
      value *= 2;
      steps = 0;
    }
    return true;
  }
};

/// Position of a run, and the flags that determine its next batches.
struct TrainingState {
  int64_t step = 0; ///< number of steps done
  int64_t batch = 0, sequence = 0;
  uint64_t seed = 0;
  int64_t tokens = 0; ///< size of the data file
  LossScale scale;
};

/// Writes a checkpoint to `folder`. Collective. Throws UserError; earlier checkpoints remain.
void saveCheckpoint(Execution &execution, const Manifest &manifest, const std::string &folder,
                    const TrainingState &state);

/// Loads the last checkpoint in `folder` into the parameters. Collective. Throws UserError if there
/// is none, if it is damaged, or if it belongs to another program or grid.
TrainingState loadCheckpoint(Execution &execution, const Manifest &manifest,
                             const std::string &folder);

} // namespace tpc::rt

#endif // TPC_RT_TRAIN_CHECKPOINT_H
