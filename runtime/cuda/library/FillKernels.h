//===- FillKernels.h - kernels that convert, pack and draw weights --------===//

#ifndef TPC_RT_CUDA_LIBRARY_FILLKERNELS_H
#define TPC_RT_CUDA_LIBRARY_FILLKERNELS_H

#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

/// All of them, as PTX for all GPUs that programs run on.
std::string fillKernels();

// Their names: of elements of so many bytes that stay as they are, of elements of a type that
// become f32, and of numbers that are drawn as a file of `source` has them.
const char *copyKernel(int64_t bytes);
const char *convertKernel(int32_t source);
const char *drawKernel(int32_t dtype, int32_t source);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_FILLKERNELS_H
