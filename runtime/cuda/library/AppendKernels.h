//===- AppendKernels.h - kernels that add to caches -------------*- C++ -*-===//

#ifndef TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H
#define TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H

#include "tpc/runtime.h"
#include <string>

namespace tpc::rt::cuda {

/// All of them, as PTX for all GPUs that programs run on.
std::string appendKernels();
inline constexpr const char *appendNames[] = {"tpc_append_16", "tpc_append_8", "tpc_append_4",
                                              "tpc_append_2"};

/// Which of them does a call, and with what. A piece is what a thread moves at once: as many bytes
/// as pointers, rows and distances are multiples of.
struct AppendLaunch {
  static constexpr unsigned threads = 256;
  static constexpr int widths[] = {16, 8, 4, 2};
  const char *name() const;

  int width;

  // Parameters, in their order.
  uint64_t cache, fresh, lengths;
  int64_t batchBytes, headBytes, rowBytes; ///< from one to the next, of what is new
  int64_t capacity;
  uint32_t heads, sequence;
  uint32_t pieces; ///< of a row
  uint32_t count;  ///< of pieces, in all

  /// One for each thread, up to as many as a GPU of so many multiprocessors runs a few times.
  int64_t blocks(int multiprocessors) const;

  /// Throws where there are more pieces than threads can have numbers.
  explicit AppendLaunch(const tpc_append_args &args);

  template <class Visit> void forEachParameter(Visit visit) {
    visit(cache), visit(fresh), visit(lengths);
    visit(batchBytes), visit(headBytes), visit(rowBytes), visit(capacity);
    visit(heads), visit(sequence), visit(pieces), visit(count);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_APPENDKERNELS_H
