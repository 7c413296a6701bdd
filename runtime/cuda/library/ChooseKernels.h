//===- ChooseKernels.h - kernels that choose tokens -------------*- C++ -*-===//

#ifndef TPC_RT_CUDA_LIBRARY_CHOOSEKERNELS_H
#define TPC_RT_CUDA_LIBRARY_CHOOSEKERNELS_H

#include "core/Choice.h"
#include <string>

namespace tpc::rt::cuda {

/// All of them, as PTX for all GPUs that programs run on.
std::string chooseKernels();
inline constexpr const char *chooseNames[] = {"tpc_choose_f32", "tpc_choose_f16",
                                              "tpc_choose_bf16"};

/// The one for logits of a type; null: there is none.
const char *chooseKernel(int32_t dtype);

/// What it takes: a block for each row.
struct ChooseLaunch {
  static constexpr unsigned threads = 512;

  // Parameters, in their order.
  uint64_t logits, rows, best;
  uint32_t count, first; ///< tokens of each row, from which on

  ChooseLaunch(const Choice &choice, uint64_t best)
      : logits(reinterpret_cast<uint64_t>(choice.logits)),
        rows(reinterpret_cast<uint64_t>(choice.settings)), best(best),
        count(static_cast<uint32_t>(choice.count)), first(static_cast<uint32_t>(choice.first)) {}

  template <class Visit> void forEachParameter(Visit visit) {
    visit(logits), visit(rows), visit(best), visit(count), visit(first);
  }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CHOOSEKERNELS_H
