//===- View.h - one rank's part of a parameter ----------------------------===//

#ifndef TPC_RT_PROGRAM_VIEW_H
#define TPC_RT_PROGRAM_VIEW_H

#include "program/Manifest.h"

namespace tpc::rt {

/// The elements of a source tensor that one rank loads: those at offset + sum of index * stride,
/// the indices counting row-major through all factors.
struct LocalView {
  int64_t offset = 0;
  std::vector<std::vector<ViewFactor>> dims; ///< with local sizes; the axes are dropped
  Shape shape() const;
  int64_t count() const { return *elementCount(shape()); }
};

LocalView localView(const Parameter &parameter, const Grid &grid,
                    const std::vector<int64_t> &coordinates);

/// What a rank holds of its stage's parameters, in bytes.
struct WeightBytes {
  int64_t sharded = 0;    ///< of parameters that some axis of size > 1 splits
  int64_t replicated = 0; ///< of the others
  int64_t padding = 0;    ///< that packing for products adds to both
  int64_t total() const { return sharded + replicated; }
};

/// Bytes that one parameter takes on a rank of its stage: none if it shares another's.
int64_t localBytes(const Parameter &parameter, const Manifest &manifest, int rank);
/// Of all parameters of the rank's stage.
WeightBytes weightBytesOf(const Manifest &manifest, int rank);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_VIEW_H
