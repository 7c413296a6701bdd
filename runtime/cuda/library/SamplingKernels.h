//===- SamplingKernels.h - Token sampling kernels -------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H
#define TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H

#include "core/SamplingRequest.h"
#include "cuda/library/AdvanceInputs.h"
#include "cuda/library/SumBins.h"
#include <string>

namespace tpc::rt::cuda {

/// Returns the PTX of all sampling kernels, for all supported GPUs.
std::string samplingKernels();
inline constexpr const char *samplingKernelNames[] = {
    "tpc_choose_f32", "tpc_choose_f16", "tpc_choose_bf16", sumBinsName, advanceInputsName};

/// Returns the kernel's name for logits of a type; null if there is none.
const char *samplingKernel(int32_t dtype);

/// Bytes of the results: the best token of each row; for rows that request their top-scoring
/// tokens, these tokens, the scores of the row, and the top-scoring tokens of its slices.
struct SamplingSizes {
  static constexpr int64_t candidatesOfSlice = RowSampling::maxShown;

  int64_t slices; ///< number of slices of a row
  int64_t best, largest, scores, candidates;

  explicit SamplingSizes(const SamplingRequest &request)
      : slices(getSlices(request)), best(request.rows * static_cast<int64_t>(sizeof(int64_t))),
        largest(best * RowSampling::maxShown),
        scores(roundUp(request.rows * request.count * static_cast<int64_t>(sizeof(float)))),
        candidates(slices > 1 ? best * slices * candidatesOfSlice : 0) {}
  int64_t bytes() const { return best + largest + scores + candidates; }

private:
  /// A slice is 512 quads: four tokens from a multiple of 4 on. A row has at least one slice.
  static int64_t getSlices(const SamplingRequest &request) {
    int64_t quads = (request.first + request.count + 3) / 4 - request.first / 4;
    return quads > 512 ? (quads + 511) / 512 : 1;
  }
  static int64_t roundUp(int64_t bytes) { return (bytes + 15) / 16 * 16; }
};

/// Launch parameters; one block per slice of a row.
struct SamplingLaunch {
  static constexpr unsigned threads = 512;
  /// Bytes per row through which the blocks of the row combine their results. They must be zero
  /// before the first launch; each launch leaves zeros.
  static constexpr int64_t joinBytes = 16;

  // Kernel parameters, in order.
  uint64_t logits, rows, best, largest, scores, candidates, joins;
  uint32_t count, first; ///< number of tokens of each row, and the first token
  uint32_t rowBytes;     ///< bytes of a row's settings
  uint32_t slices;

  /// `memory` receives the results, one after the other.
  SamplingLaunch(const SamplingRequest &request, const SamplingSizes &sizes, uint64_t memory,
                 uint64_t joins)
      : logits(reinterpret_cast<uint64_t>(request.logits)),
        rows(reinterpret_cast<uint64_t>(request.settings)), best(memory),
        largest(best + static_cast<uint64_t>(sizes.best)),
        scores(largest + static_cast<uint64_t>(sizes.largest)),
        candidates(scores + static_cast<uint64_t>(sizes.scores)), joins(joins),
        count(static_cast<uint32_t>(request.count)), first(static_cast<uint32_t>(request.first)),
        rowBytes(static_cast<uint32_t>(request.settingsBytes)),
        slices(static_cast<uint32_t>(sizes.slices)) {}

  template <class Visit> void forEachParameter(Visit visit) {
    visit(logits), visit(rows), visit(best), visit(largest), visit(scores), visit(candidates);
    visit(joins), visit(count), visit(first), visit(rowBytes), visit(slices);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_SAMPLINGKERNELS_H
