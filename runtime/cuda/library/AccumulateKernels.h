//===- AccumulateKernels.h - Kernel that adds gradients of micro-batches --===//

#ifndef TPC_RT_CUDA_LIBRARY_ACCUMULATEKERNELS_H
#define TPC_RT_CUDA_LIBRARY_ACCUMULATEKERNELS_H

#include <algorithm>
#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

/// Returns the PTX of the kernel, for all supported GPUs.
std::string accumulateKernels();
inline constexpr const char *accumulateKernelNames[] = {"tpc_accumulate"};

/// Launch parameters; each thread adds every n-th element, where n is the number of threads.
struct AccumulateLaunch {
  static constexpr unsigned threads = 256;

  // Kernel parameters, in order.
  uint64_t sum, from;
  int64_t count;

  AccumulateLaunch(float *sum, const float *from, int64_t count)
      : sum(reinterpret_cast<uint64_t>(sum)), from(reinterpret_cast<uint64_t>(from)), count(count) {
  }

  /// Number of blocks: one per `threads` elements, up to a few times the number of blocks that a
  /// GPU with this many multiprocessors runs at once.
  int64_t blocks(int multiprocessors) const {
    constexpr int64_t ofMultiprocessor = 32;
    return std::min((count + threads - 1) / threads,
                    ofMultiprocessor * std::max(multiprocessors, 1));
  }

  template <class Visit> void forEachParameter(Visit visit) {
    visit(sum), visit(from), visit(count);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ACCUMULATEKERNELS_H
