//===- VendorHeaders.cpp - Comparison of CUDA declarations ----------------===//
//
// Compiled only if NVIDIA's headers are installed, and never linked.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/CublasLt.h"
#include "cuda/library/SameShape.h"
#include <cublasLt.h>
#include <cuda.h>

// Newer headers define this name as a macro for its second version. All drivers have the first
// version, with the same declaration.
#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
extern "C" decltype(cuEventElapsedTime_v2) cuEventElapsedTime;
#endif

namespace {

using namespace tpc::rt;
using cuda::SameShape;

#define TPC_COMPARE(name, arguments)                                                               \
  static_assert(SameShape<decltype(cuda::Driver::name), decltype(&::name)>::value, #name);
TPC_DRIVER_FUNCTIONS(TPC_COMPARE)
#undef TPC_COMPARE

#define TPC_COMPARE(name, arguments)                                                               \
  static_assert(                                                                                   \
      SameShape<decltype(cuda::blas::Library::name), decltype(&::cublasLt##name)>::value, #name);
TPC_CUBLASLT_FUNCTIONS(TPC_COMPARE)
#undef TPC_COMPARE
static_assert(
    SameShape<decltype(cuda::blas::Library::GetVersion), decltype(&::cublasLtGetVersion)>::value);

static_assert(cuda::success == CUDA_SUCCESS && cuda::outOfMemory == CUDA_ERROR_OUT_OF_MEMORY &&
              cuda::noDevice == CUDA_ERROR_NO_DEVICE &&
              cuda::invalidImage == CUDA_ERROR_INVALID_IMAGE &&
              cuda::noBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              cuda::invalidPtx == CUDA_ERROR_INVALID_PTX &&
              cuda::unsupportedPtx == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(cuda::eccUncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE &&
              cuda::nvlinkUncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE &&
              cuda::illegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS &&
              cuda::launchTimeout == CUDA_ERROR_LAUNCH_TIMEOUT &&
              cuda::assertion == CUDA_ERROR_ASSERT &&
              cuda::hardwareStackError == CUDA_ERROR_HARDWARE_STACK_ERROR &&
              cuda::launchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(cuda::multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              cuda::capabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              cuda::capabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cuda::errorLog == CU_JIT_ERROR_LOG_BUFFER &&
              cuda::errorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(cuda::dynamicSharedBytes == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(cuda::nonBlocking == CU_STREAM_NON_BLOCKING &&
              cuda::noTiming == CU_EVENT_DISABLE_TIMING &&
              cuda::portable == CU_MEMHOSTALLOC_PORTABLE &&
              cuda::captureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
              cuda::captureActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(cuda::programmaticSerialization ==
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
              cuda::kernelNode == CU_GRAPH_NODE_TYPE_KERNEL);
static_assert(sizeof(cuda::LaunchSettings) == sizeof(CUlaunchConfig) &&
              offsetof(cuda::LaunchSettings, attributes) == offsetof(CUlaunchConfig, attrs) &&
              sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(cuda::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value) &&
              sizeof(cuda::EdgeData) == sizeof(CUgraphEdgeData));

static_assert(cuda::deviceMemory == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(cuda::Copy2D) == sizeof(CUDA_MEMCPY2D) &&
              offsetof(cuda::Copy2D, fromDevice) == offsetof(CUDA_MEMCPY2D, srcDevice) &&
              offsetof(cuda::Copy2D, fromPitch) == offsetof(CUDA_MEMCPY2D, srcPitch) &&
              offsetof(cuda::Copy2D, toType) == offsetof(CUDA_MEMCPY2D, dstMemoryType) &&
              offsetof(cuda::Copy2D, toDevice) == offsetof(CUDA_MEMCPY2D, dstDevice) &&
              offsetof(cuda::Copy2D, toPitch) == offsetof(CUDA_MEMCPY2D, dstPitch) &&
              offsetof(cuda::Copy2D, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));

namespace blas = cuda::blas;
static_assert(blas::success == CUBLAS_STATUS_SUCCESS &&
              blas::notSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(blas::compute32F == CUBLAS_COMPUTE_32F &&
              blas::computeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32 && blas::real32F == CUDA_R_32F &&
              blas::real16F == CUDA_R_16F && blas::real16BF == CUDA_R_16BF &&
              blas::transposed == CUBLAS_OP_T);
static_assert(blas::epilogueNone == CUBLASLT_EPILOGUE_DEFAULT &&
              blas::epilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(blas::descTransA == CUBLASLT_MATMUL_DESC_TRANSA &&
              blas::descEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              blas::descBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(blas::layoutBatch == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              blas::layoutStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(blas::preferWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              blas::preferAlignA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              blas::preferAlignB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              blas::preferAlignC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              blas::preferAlignD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(blas::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(blas::Heuristic, workspaceBytes) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(blas::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

} // namespace
