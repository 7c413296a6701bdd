//===- View.h - One rank's shard of a parameter ---------------------------===//

#ifndef TPC_RT_PROGRAM_VIEW_H
#define TPC_RT_PROGRAM_VIEW_H

#include "program/Manifest.h"

namespace tpc::rt {

/// Elements of a source tensor that one rank loads: those at offset + sum of index * stride, with
/// indices in row-major order of all factors.
struct LocalView {
  int64_t offset = 0;
  std::vector<std::vector<ViewFactor>> dims; ///< factors have the rank's sizes, and no axes
  Shape shape() const;
  int64_t count() const { return *elementCount(shape()); }
};

LocalView localView(const Parameter &parameter, const Grid &grid,
                    const std::vector<int64_t> &coordinates);

/// Bytes of a rank's weights, the parameters of its stage.
struct WeightBytes {
  int64_t sharded = 0;    ///< parameters split by some axis of size > 1
  int64_t replicated = 0; ///< other parameters
  int64_t padding = 0;    ///< padding of packed matrices, in both kinds
  int64_t total() const { return sharded + replicated; }
};

/// Returns the type of a parameter's elements in the memory of the selected device.
tpc_dtype storedType(const Parameter &parameter);

/// Returns the bytes of one parameter on a rank of its stage; 0 if it shares the memory of another.
int64_t localBytes(const Parameter &parameter, const Manifest &manifest, int rank);
/// Returns the sum over all parameters of the rank's stage.
WeightBytes weightBytesOf(const Manifest &manifest, int rank);

/// Bytes of a rank in a training step that do not depend on the batch, without padding.
struct TrainingBytes {
  int64_t weights = 0;   ///< from files
  int64_t state = 0;     ///< of the optimizer
  int64_t gradients = 0; ///< of updated weights
};

TrainingBytes trainingBytesOf(const Manifest &manifest, int rank);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_VIEW_H
