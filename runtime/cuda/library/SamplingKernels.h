//===- SamplingKernels.h - token sampling kernels -------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H
#define TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H

#include "core/SamplingRequest.h"
#include "cuda/library/SumBins.h"
#include <string>

namespace tpc::rt::cuda {

/// Returns the PTX of all sampling kernels, for all supported GPUs.
std::string samplingKernels();
inline constexpr const char *samplingKernelNames[] = {"tpc_choose_f32", "tpc_choose_f16",
                                                      "tpc_choose_bf16", sumBinsName};

/// Returns the kernel's name for logits of a type; null if there is none.
const char *samplingKernel(int32_t dtype);

/// Bytes of the results: the best token of each row, the top-scoring tokens of rows that need them,
/// and the scores of these rows.
struct SamplingSizes {
  int64_t best, largest, scores;

  explicit SamplingSizes(const SamplingRequest &request)
      : best(request.rows * static_cast<int64_t>(sizeof(int64_t))),
        largest(best * RowSampling::maxShown),
        scores(request.rows * request.count * static_cast<int64_t>(sizeof(float))) {}
  int64_t bytes() const { return best + largest + scores; }
};

/// Launch parameters; one block per row.
struct SamplingLaunch {
  static constexpr unsigned threads = 512;

  // Kernel parameters, in order.
  uint64_t logits, rows, best, largest, scores;
  uint32_t count, first; ///< number of tokens of each row, and the first token
  uint32_t rowBytes;     ///< bytes of a row's settings

  /// `memory` receives the results, one after the other.
  SamplingLaunch(const SamplingRequest &request, const SamplingSizes &sizes, uint64_t memory)
      : logits(reinterpret_cast<uint64_t>(request.logits)),
        rows(reinterpret_cast<uint64_t>(request.settings)), best(memory),
        largest(best + static_cast<uint64_t>(sizes.best)),
        scores(largest + static_cast<uint64_t>(sizes.largest)),
        count(static_cast<uint32_t>(request.count)), first(static_cast<uint32_t>(request.first)),
        rowBytes(static_cast<uint32_t>(request.settingsBytes)) {}

  template <class Visit> void forEachParameter(Visit visit) {
    visit(logits), visit(rows), visit(best), visit(largest), visit(scores);
    visit(count), visit(first), visit(rowBytes);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H
