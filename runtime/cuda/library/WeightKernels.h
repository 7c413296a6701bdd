//===- WeightKernels.h - Kernels that convert, pack, and generate weights -===//

#ifndef TPC_RT_CUDA_LIBRARY_WEIGHTKERNELS_H
#define TPC_RT_CUDA_LIBRARY_WEIGHTKERNELS_H

#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

/// Returns the PTX of all weight kernels, for all supported GPUs.
std::string weightKernels();

// Kernel names: copies of elements of `bytes` bytes; conversions from a type to f32; and
// pseudorandom numbers rounded as in a file of type `source`.
const char *copyKernel(int64_t bytes);
const char *convertKernel(int32_t source);
const char *drawKernel(int32_t dtype, int32_t source);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_WEIGHTKERNELS_H
