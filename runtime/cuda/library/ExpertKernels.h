//===- ExpertKernels.h - Kernels of mixtures of experts -------------------===//
//
// tpc/experts.h documents the kernels. Which ones run depends on sizes and alignment only.
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
  /// For many tokens. Returns false if the kernels for few tokens must run.
  bool runGrouped(const tpc_experts_args &args, Address workspace, int64_t bytes);
  void runRows(const tpc_experts_args &args, Address workspace, int64_t bytes);

  LibraryKernels kernels;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_EXPERTKERNELS_H
