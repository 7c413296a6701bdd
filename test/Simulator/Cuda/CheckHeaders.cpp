//===- CheckHeaders.cpp - Comparison with the vendor's headers ------------===//
//
// If a CUDA toolkit is installed, this file is compiled, but not linked into anything.
//
//===----------------------------------------------------------------------===//

#include "Functions.h"
#include "SameShape.h"

#define __CUDA_API_VERSION_INTERNAL // declares the older versions as well
#include <cuda.h>

using namespace sim;

#define TPC_SIM_RESULT(value, name, text) static_assert(int(CUDA_##name) == value);
TPC_SIM_RESULTS(TPC_SIM_RESULT)

#define FUNCTION(name, parameters)                                                                 \
  static_assert(sameShape<type::name, decltype(::name)>, "of " #name);
#include "Functions.def"

static_assert(sizeof(CUuuid) == sizeof(Uuid) && sizeof(CUdeviceptr) == sizeof(DevicePointer));
static_assert(sizeof(CUDA_MEMCPY2D) == sizeof(Copy2D) &&
              offsetof(CUDA_MEMCPY2D, srcPitch) == offsetof(Copy2D, fromPitch) &&
              offsetof(CUDA_MEMCPY2D, dstDevice) == offsetof(Copy2D, toDevice) &&
              offsetof(CUDA_MEMCPY2D, WidthInBytes) == offsetof(Copy2D, width));
static_assert(sizeof(CUlaunchConfig) == sizeof(LaunchSettings) &&
              offsetof(CUlaunchConfig, attrs) == offsetof(LaunchSettings, attributes) &&
              sizeof(CUlaunchAttribute) == sizeof(LaunchAttribute) &&
              offsetof(CUlaunchAttribute, value) == offsetof(LaunchAttribute, value) &&
              sizeof(CUgraphEdgeData) == sizeof(EdgeData));
#define SAME(ours, theirs) static_assert(int(ours) == int(theirs))
SAME(MemoryHost, CU_MEMORYTYPE_HOST);
SAME(MemoryDevice, CU_MEMORYTYPE_DEVICE);
SAME(MaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(MaxBlockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
SAME(MaxBlockDimY, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
SAME(MaxBlockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
SAME(MaxGridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
SAME(MaxGridDimY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
SAME(MaxGridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
SAME(MaxSharedMemoryPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(WarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(MaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
SAME(ClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(Integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(CanMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
SAME(ComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(ConcurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
SAME(EccEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
SAME(PciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(PciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(MemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(GlobalMemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(L2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(MaxThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(AsyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(UnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(PciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(MaxSharedMemoryPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(ManagedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(CooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME(MaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(MaxBlocksPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
SAME(MulticastSupported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
SAME(FunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(FunctionSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(FunctionConstSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
SAME(FunctionLocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(FunctionNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(FunctionPtxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME(FunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME(FunctionMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FunctionPreferredSharedMemoryCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(JitInfoLogBuffer, CU_JIT_INFO_LOG_BUFFER);
SAME(JitInfoLogBufferSizeBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(JitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME(JitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(StreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(EventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME(EventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(CaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(HostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME(HostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
