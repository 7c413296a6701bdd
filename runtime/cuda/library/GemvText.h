//===- GemvText.h - PTX of matrix-vector kernels --------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_GEMVTEXT_H
#define TPC_RT_CUDA_LIBRARY_GEMVTEXT_H

#include <cstdint>

namespace tpc::rt::cuda {

/// Returns the PTX of all kernels of a type and layout, fused or not (tpc/gemv.h), null if there
/// are none. The compiler's code generator writes it when tpc is built (tools/tpc-library-kernels).
const char *gemvText(int32_t element, bool transposed, bool fused = false);

/// Returns the PTX of the kernels of ExpertKernels.h, which the same tool writes.
const char *expertsText();
/// The same for RoutedKernels.h.
const char *routedText();

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_GEMVTEXT_H
