//===- RoutedKernels.h - Kernels of tokens in messages --------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_ROUTEDKERNELS_H
#define TPC_RT_CUDA_LIBRARY_ROUTEDKERNELS_H

#include "core/RoutedRows.h"
#include "cuda/library/LibraryKernels.h"

namespace tpc::rt::cuda {

/// Runs Device::exchangeRows with the kernels of tpc/routed.h.
class RoutedKernels {
public:
  explicit RoutedKernels(Queue &queue);
  void run(RoutedWork work, const RoutedRows &rows, Address tensor);

private:
  LibraryKernels kernels;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ROUTEDKERNELS_H
