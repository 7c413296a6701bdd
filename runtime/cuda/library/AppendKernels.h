//===- AppendKernels.h - Kernels that append to KV caches -----------------===//

#ifndef TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H
#define TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H

#include "tpc/runtime.h"
#include <string>

namespace tpc::rt::cuda {

/// Returns the PTX of all append kernels, for all supported GPUs.
std::string appendKernels();
inline constexpr const char *appendKernelNames[] = {"tpc_append_16", "tpc_append_8", "tpc_append_4",
                                                    "tpc_append_2"};

/// Kernel choice and parameters for one append call. A thread copies one vector at a time; its size
/// is the largest that divides all pointers, rows and strides.
struct AppendLaunch {
  static constexpr unsigned threads = 256;
  static constexpr int widths[] = {16, 8, 4, 2};
  const char *name() const;

  int width;

  // Kernel parameters, in order.
  uint64_t cache, fresh, lengths;
  int64_t batchBytes, headBytes, rowBytes; ///< strides of the new rows
  int64_t capacity;
  uint32_t heads, sequence;
  uint32_t pieces; ///< vectors per row
  uint32_t count;  ///< total number of vectors

  /// Number of blocks: one per `threads` vectors, up to a few times the number of blocks that a GPU
  /// with this many multiprocessors runs at once.
  int64_t blocks(int multiprocessors) const;

  /// Throws if the number of vectors exceeds 32-bit thread indices.
  explicit AppendLaunch(const tpc_append_args &args);

  template <class Visit> void forEachParameter(Visit visit) {
    visit(cache), visit(fresh), visit(lengths);
    visit(batchBytes), visit(headBytes), visit(rowBytes), visit(capacity);
    visit(heads), visit(sequence), visit(pieces), visit(count);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H
