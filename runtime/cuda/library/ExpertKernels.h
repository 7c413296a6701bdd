//===- ExpertKernels.h - Kernels of mixtures of experts -------------------===//
//
// tpc_experts_inner_T: a warp for each expert and inner element computes h[tokens, experts, inner]
// for tokens that select the expert; other elements are not written. tpc_experts_outputs_T: a warp
// for each token and output adds the selected experts in ascending order. T, the type of the
// matrices, is f32, f16 or bf16; all other operands are f32.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_EXPERTKERNELS_H
#define TPC_RT_CUDA_LIBRARY_EXPERTKERNELS_H

#include "cuda/library/LibraryKernels.h"
#include "tpc/runtime.h"

namespace tpc::rt::cuda {

class ExpertKernels {
public:
  explicit ExpertKernels(Queue &queue);
  /// Computes out. `workspace` has `bytes` bytes, which bound the tokens and experts of a launch.
  void run(const tpc_experts_args &args, Address workspace, int64_t bytes);

private:
  LibraryKernels kernels;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_EXPERTKERNELS_H
