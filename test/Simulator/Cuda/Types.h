//===- Types.h - Simulated subset of the driver's declarations ------------===//
//
// Declared here, so that building needs no CUDA toolkit. CheckHeaders.cpp compares declarations
// with the vendor's header if it is installed. Names are the vendor's without CU_ and in this
// project's spelling.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_TYPES_H
#define TPC_TEST_SIMULATOR_CUDA_TYPES_H

#include <cstddef>
#include <cstdint>

namespace sim {

/// CUresult: value, the vendor's name after CUDA_, message.
#define TPC_SIM_RESULTS(R)                                                                         \
  R(0, SUCCESS, "no error")                                                                        \
  R(1, ERROR_INVALID_VALUE, "invalid argument")                                                    \
  R(2, ERROR_OUT_OF_MEMORY, "out of memory")                                                       \
  R(3, ERROR_NOT_INITIALIZED, "initialization error")                                              \
  R(4, ERROR_DEINITIALIZED, "driver shutting down")                                                \
  R(100, ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                    \
  R(101, ERROR_INVALID_DEVICE, "invalid device ordinal")                                           \
  R(200, ERROR_INVALID_IMAGE, "device kernel image is invalid")                                    \
  R(201, ERROR_INVALID_CONTEXT, "invalid device context")                                          \
  R(209, ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")      \
  R(214, ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                           \
  R(218, ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                        \
  R(222, ERROR_UNSUPPORTED_PTX_VERSION,                                                            \
    "the provided PTX was compiled with an unsupported toolchain.")                                \
  R(400, ERROR_INVALID_HANDLE, "invalid resource handle")                                          \
  R(401, ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")            \
  R(500, ERROR_NOT_FOUND, "named symbol not found")                                                \
  R(600, ERROR_NOT_READY, "device not ready")                                                      \
  R(700, ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                        \
  R(701, ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                 \
  R(702, ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                          \
  R(709, ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                       \
  R(712, ERROR_HOST_MEMORY_ALREADY_REGISTERED,                                                     \
    "part or all of the requested memory range is already mapped")                                 \
  R(713, ERROR_HOST_MEMORY_NOT_REGISTERED,                                                         \
    "pointer does not correspond to a registered memory region")                                   \
  R(715, ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                      \
  R(716, ERROR_MISALIGNED_ADDRESS, "misaligned address")                                           \
  R(719, ERROR_LAUNCH_FAILED, "unspecified launch failure")                                        \
  R(801, ERROR_NOT_SUPPORTED, "operation not supported")                                           \
  R(900, ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")     \
  R(901, ERROR_STREAM_CAPTURE_INVALIDATED,                                                         \
    "operation failed due to a previous error during capture")                                     \
  R(902, ERROR_STREAM_CAPTURE_MERGE,                                                               \
    "operation would result in a merge of separate capture sequences")                             \
  R(903, ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")   \
  R(904, ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                      \
  R(905, ERROR_STREAM_CAPTURE_ISOLATION,                                                           \
    "dependency created on uncaptured work in another stream")                                     \
  R(906, ERROR_STREAM_CAPTURE_IMPLICIT,                                                            \
    "operation would make the legacy stream depend on a capturing blocking stream")                \
  R(907, ERROR_CAPTURED_EVENT,                                                                     \
    "operation not permitted on an event last recorded in a capturing stream")                     \
  R(908, ERROR_STREAM_CAPTURE_WRONG_THREAD,                                                        \
    "attempt to terminate a thread-local capture sequence from another thread")                    \
  R(999, ERROR_UNKNOWN, "unknown error")

enum Result : int {
#define TPC_SIM_RESULT(value, name, text) name = value,
  TPC_SIM_RESULTS(TPC_SIM_RESULT)
#undef TPC_SIM_RESULT
};

using DevicePointer = unsigned long long; // CUdeviceptr
using DeviceNumber = int;                 // CUdevice

struct Context;
struct Module;
struct Function;
struct Stream;
struct Event;
struct Graph;
struct GraphExec;
struct GraphNode;

struct Uuid {
  char bytes[16];
};

/// CUmemorytype.
enum MemoryType : int { MemoryHost = 1, MemoryDevice = 2 };

/// CUDA_MEMCPY2D.
struct Copy2D {
  size_t fromX, fromY;
  MemoryType fromType;
  const void *fromHost;
  DevicePointer fromDevice;
  void *fromArray;
  size_t fromPitch;
  size_t toX, toY;
  MemoryType toType;
  void *toHost;
  DevicePointer toDevice;
  void *toArray;
  size_t toPitch;
  size_t width, height; // bytes, rows
};

using HostFunction = void (*)(void *);

/// CUdevice_attribute.
enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxBlockDimX = 2,
  MaxBlockDimY = 3,
  MaxBlockDimZ = 4,
  MaxGridDimX = 5,
  MaxGridDimY = 6,
  MaxGridDimZ = 7,
  MaxSharedMemoryPerBlock = 8,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  MultiprocessorCount = 16,
  Integrated = 18,
  CanMapHostMemory = 19,
  ComputeMode = 20,
  ConcurrentKernels = 31,
  EccEnabled = 32,
  PciBusId = 33,
  PciDeviceId = 34,
  MemoryClockRate = 36,
  GlobalMemoryBusWidth = 37,
  L2CacheSize = 38,
  MaxThreadsPerMultiprocessor = 39,
  AsyncEngineCount = 40,
  UnifiedAddressing = 41,
  PciDomainId = 50,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81,
  ManagedMemory = 83,
  CooperativeLaunch = 95,
  MaxSharedMemoryPerBlockOptin = 97,
  MaxBlocksPerMultiprocessor = 106,
  MulticastSupported = 132,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionSharedSizeBytes = 1,
  FunctionConstSizeBytes = 2,
  FunctionLocalSizeBytes = 3,
  FunctionNumRegs = 4,
  FunctionPtxVersion = 5,
  FunctionBinaryVersion = 6,
  FunctionMaxDynamicSharedSizeBytes = 8,
  FunctionPreferredSharedMemoryCarveout = 9,
};

/// Supported values of CUlaunchAttributeID.
enum LaunchAttributeKind : int { LaunchIgnore = 0, LaunchProgrammaticSerialization = 6 };

struct LaunchAttribute {
  LaunchAttributeKind kind;
  int padding;
  union {
    char bytes[64];
    int allowed; // LaunchProgrammaticSerialization
  } value;
};

struct LaunchSettings {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream *stream;
  LaunchAttribute *attributes;
  unsigned count;
};

/// Supported values of CUgraphNodeType.
enum NodeType : int { NodeKernel = 0, NodeCopy = 1 };

/// CUgraphEdgeData.
struct EdgeData {
  unsigned char fromPort, toPort, type, reserved[5];
};

/// Supported values of CUjit_option.
enum JitOption : int {
  JitInfoLogBuffer = 3,
  JitInfoLogBufferSizeBytes = 4,
  JitErrorLogBuffer = 5,
  JitErrorLogBufferSizeBytes = 6,
  JitNumOptions = 35,
};

enum StreamFlags : unsigned { StreamDefault = 0, StreamNonBlocking = 1 };
enum EventFlags : unsigned { EventDefault = 0, EventBlockingSync = 1, EventDisableTiming = 2 };
enum CaptureStatus : int { CaptureNone = 0, CaptureActive = 1, CaptureInvalidated = 2 };
enum CaptureMode : int { CaptureGlobal = 0, CaptureThreadLocal = 1, CaptureRelaxed = 2 };
// HostAllocAll and HostRegisterAll are masks of the flags that the vendor defines.
enum HostAllocFlags : unsigned { HostAllocPortable = 1, HostAllocAll = 7 };
enum HostRegisterFlags : unsigned { HostRegisterPortable = 1, HostRegisterAll = 15 };

constexpr uintptr_t legacyStream = 1, perThreadStream = 2;

} // namespace sim

#endif
