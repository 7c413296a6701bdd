//===- GemvKernels.h - GEMV kernels: GEMMs with few rows ------------------===//
//
// GEMV kernels are an alternative to cuBLASLt for up to four rows (tpc/gemv.h). The tuning of a
// shape selects a GEMV kernel or an algorithm of cuBLASLt.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_GEMVKERNELS_H
#define TPC_RT_CUDA_LIBRARY_GEMVKERNELS_H

#include "cuda/library/Block.h"
#include "cuda/library/LibraryKernels.h"
#include "cuda/library/MatmulShape.h"
#include "tpc/gemv.h"
#include <memory>

namespace tpc::rt::cuda {

struct MatmulCall;
struct MatmulFusion;

/// Rule by which GEMV kernels compute the shapes that they support.
struct GemvUse {
  enum Mode {
    Measured, ///< if they were measured to be faster
    Always,   ///< nothing is measured for these shapes
    Never
  } mode = Measured;
  /// cuBLASLt computes GEMMs whose right-hand side has fewer bytes: reading them takes less time
  /// than a launch.
  int64_t minBytes = 1 << 20;
};

class GemvKernels {
public:
  /// Maximum number of column ranges whose k is split.
  static constexpr int64_t maxCounters = 4096;

  GemvKernels(Queue &queue, GemvUse use, Address workspace, int64_t workspaceBytes);

  /// Parses the value of TPC_GEMV; null: none. `measures`: whether algorithms are measured. Throws
  /// if the value is unknown.
  static GemvUse useOf(const char *variable, bool measures);

  /// Whether a kernel computes the shape. Requires one right-hand side, aligned to 16 bytes like x,
  /// and sizes of gemv::supports.
  bool supports(const MatmulShape &shape) const;
  /// Whether GEMV kernels compute the shape without a measurement.
  bool computes(const MatmulShape &shape) const {
    return use.mode == GemvUse::Always && supports(shape);
  }
  /// Loads the kernels for a right-hand side, if they compute it without a measurement. Call this
  /// before a step: loading may be impossible while other ranks wait for this GPU.
  void prepare(int64_t k, int64_t n, int32_t dtype, bool transposed);
  void load(int32_t dtype, bool transposed);
  void run(const MatmulCall &call);
  /// Whether a fused kernel computes a call whose shape is supported.
  bool supports(const MatmulCall &call, const MatmulFusion &fusion) const;
  void run(const MatmulCall &call, const MatmulFusion &fusion);

private:
  LibraryKernels &kernelsOf(int32_t dtype, bool transposed, bool fused = false);

  Queue &queue;
  const GemvUse use;
  const Address workspace;
  const int64_t workspaceBytes;
  Block counters; ///< zeros between launches
  std::map<std::tuple<int32_t, bool, bool>, std::unique_ptr<LibraryKernels>> loaded;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_GEMVKERNELS_H
