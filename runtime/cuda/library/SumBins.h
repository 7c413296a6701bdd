//===- SumBins.h - Kernel that sums score weights by bin ------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_SUMBINS_H
#define TPC_RT_CUDA_LIBRARY_SUMBINS_H

#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

inline constexpr const char *sumBinsName = "tpc_sum_bins";
std::string sumBinsKernel();

/// Launch parameters; one block.
struct SumBinsLaunch {
  static constexpr unsigned threads = 512;

  // Kernel parameters, in order.
  uint64_t scores, sums;
  uint32_t count;
  float largest;

  SumBinsLaunch(const float *scores, int64_t count, float largest, uint64_t sums)
      : scores(reinterpret_cast<uint64_t>(scores)), sums(sums), count(static_cast<uint32_t>(count)),
        largest(largest) {}

  template <class Visit> void forEachParameter(Visit visit) {
    visit(scores), visit(sums), visit(count), visit(largest);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_SUMBINS_H
