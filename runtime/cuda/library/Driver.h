//===- Driver.h - Declarations of the CUDA driver functions in use --------===//
//
// Functions of libcuda.so.1, by their exported names. VendorHeaders.cpp compares them with NVIDIA's
// header where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_DRIVER_H
#define TPC_RT_CUDA_LIBRARY_DRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

using Result = int;
using DeviceNumber = int;
using Address = unsigned long long;
using Context = struct ContextImpl *;
using Stream = struct StreamImpl *;
using Event = struct EventImpl *;
using Module = struct ModuleImpl *;
using Function = struct FunctionImpl *;
using Graph = struct GraphImpl *;
using GraphNode = struct GraphNodeImpl *;
using GraphExec = struct GraphExecImpl *;

struct Uuid {
  unsigned char bytes[16];
};

/// A rectangle: rows of `width` bytes, with a pitch on each side.
struct Copy2D {
  size_t fromX, fromY;
  int fromType;
  const void *fromHost;
  Address fromDevice;
  struct ArrayImpl *fromArray;
  size_t fromPitch;
  size_t toX, toY;
  int toType;
  void *toHost;
  Address toDevice;
  struct ArrayImpl *toArray;
  size_t toPitch;
  size_t width, height;
};

/// An attribute of a launch.
struct LaunchAttribute {
  int kind, padding;
  union {
    char bytes[64];
    int allowed;
  } value;
};

struct LaunchSettings {
  unsigned blocksX, blocksY, blocksZ, threadsX, threadsY, threadsZ, sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned count;
};

/// Properties of an edge of a graph.
struct EdgeData {
  unsigned char fromPort, toPort, type, reserved[5];
};

// Enumerators in use.
constexpr Result success = 0, outOfMemory = 2, noDevice = 100, invalidImage = 200,
                 noBinaryForGpu = 209, invalidPtx = 218, unsupportedPtx = 222;
// Errors that corrupt the context: all later calls fail as well.
constexpr Result eccUncorrectable = 214, nvlinkUncorrectable = 220, illegalAddress = 700,
                 launchTimeout = 702, assertion = 710, hardwareStackError = 714,
                 launchFailed = 719; ///< and all codes between the last two
constexpr int multiprocessors = 16, capabilityMajor = 75, capabilityMinor = 76;
constexpr int errorLog = 5, errorLogBytes = 6;
constexpr int dynamicSharedBytes = 8;
constexpr int deviceMemory = 2;
constexpr unsigned nonBlocking = 1, noTiming = 2, portable = 1;
constexpr int captureThreadLocal = 1, captureActive = 1;
constexpr int programmaticSerialization = 6, kernelNode = 0;

/// FUNCTION(name, arguments); all return a Result.
#define TPC_DRIVER_FUNCTIONS(FUNCTION)                                                             \
  FUNCTION(cuInit, (unsigned))                                                                     \
  FUNCTION(cuDriverGetVersion, (int *))                                                            \
  FUNCTION(cuGetErrorName, (Result, const char **))                                                \
  FUNCTION(cuGetErrorString, (Result, const char **))                                              \
  FUNCTION(cuDeviceGetCount, (int *))                                                              \
  FUNCTION(cuDeviceGet, (DeviceNumber *, int))                                                     \
  FUNCTION(cuDeviceGetName, (char *, int, DeviceNumber))                                           \
  FUNCTION(cuDeviceGetUuid_v2, (Uuid *, DeviceNumber))                                             \
  FUNCTION(cuDeviceGetAttribute, (int *, int, DeviceNumber))                                       \
  FUNCTION(cuDeviceTotalMem_v2, (size_t *, DeviceNumber))                                          \
  FUNCTION(cuDevicePrimaryCtxRetain, (Context *, DeviceNumber))                                    \
  FUNCTION(cuDevicePrimaryCtxRelease_v2, (DeviceNumber))                                           \
  FUNCTION(cuCtxGetCurrent, (Context *))                                                           \
  FUNCTION(cuCtxSetCurrent, (Context))                                                             \
  FUNCTION(cuMemGetInfo_v2, (size_t *, size_t *))                                                  \
  FUNCTION(cuMemAlloc_v2, (Address *, size_t))                                                     \
  FUNCTION(cuMemFree_v2, (Address))                                                                \
  FUNCTION(cuMemHostAlloc, (void **, size_t, unsigned))                                            \
  FUNCTION(cuMemFreeHost, (void *))                                                                \
  FUNCTION(cuMemHostRegister_v2, (void *, size_t, unsigned))                                       \
  FUNCTION(cuMemHostUnregister, (void *))                                                          \
  FUNCTION(cuMemcpyHtoDAsync_v2, (Address, const void *, size_t, Stream))                          \
  FUNCTION(cuMemcpyDtoHAsync_v2, (void *, Address, size_t, Stream))                                \
  FUNCTION(cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))                               \
  FUNCTION(cuMemcpy2DAsync_v2, (const Copy2D *, Stream))                                           \
  FUNCTION(cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                              \
  FUNCTION(cuMemsetD32Async, (Address, unsigned, size_t, Stream))                                  \
  FUNCTION(cuStreamCreate, (Stream *, unsigned))                                                   \
  FUNCTION(cuStreamDestroy_v2, (Stream))                                                           \
  FUNCTION(cuStreamSynchronize, (Stream))                                                          \
  FUNCTION(cuStreamWaitEvent, (Stream, Event, unsigned))                                           \
  FUNCTION(cuStreamBeginCapture_v2, (Stream, int))                                                 \
  FUNCTION(cuStreamEndCapture, (Stream, Graph *))                                                  \
  FUNCTION(cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))                  \
  FUNCTION(cuGraphLaunch, (GraphExec, Stream))                                                     \
  FUNCTION(cuGraphExecDestroy, (GraphExec))                                                        \
  FUNCTION(cuGraphDestroy, (Graph))                                                                \
  FUNCTION(cuEventCreate, (Event *, unsigned))                                                     \
  FUNCTION(cuEventRecord, (Event, Stream))                                                         \
  FUNCTION(cuEventSynchronize, (Event))                                                            \
  FUNCTION(cuEventQuery, (Event))                                                                  \
  FUNCTION(cuEventElapsedTime, (float *, Event, Event))                                            \
  FUNCTION(cuEventDestroy_v2, (Event))                                                             \
  FUNCTION(cuModuleLoadDataEx, (Module *, const void *, unsigned, int *, void **))                 \
  FUNCTION(cuModuleUnload, (Module))                                                               \
  FUNCTION(cuModuleGetFunction, (Function *, Module, const char *))                                \
  FUNCTION(cuFuncLoad, (Function))                                                                 \
  FUNCTION(cuFuncSetAttribute, (Function, int, int))                                               \
  FUNCTION(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
                            unsigned, Stream, void **, void **))                                   \
  FUNCTION(cuLaunchKernelEx, (const LaunchSettings *, Function, void **, void **))                 \
  FUNCTION(cuStreamGetCaptureInfo_v3, (Stream, int *, unsigned long long *, Graph *,               \
                                       const GraphNode **, const EdgeData **, size_t *))           \
  FUNCTION(cuGraphNodeGetType, (GraphNode, int *))

/// The loaded driver of this machine.
struct Driver {
#define TPC_DECLARE_POINTER(name, arguments) Result(*name) arguments = nullptr;
  TPC_DRIVER_FUNCTIONS(TPC_DECLARE_POINTER)
#undef TPC_DECLARE_POINTER
  int version = 0; ///< 13000: 13.0
  std::string file;
  bool isReal = true; ///< false in dry runs: calls only count, and handles are dummies

  /// Throws unless `result` is success. `what` completes the message: "to ...".
  void check(Result result, const char *what) const {
    if (result != success)
      raise(result, what);
  }
  [[noreturn]] void raise(Result result, const char *what) const;
  /// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
  std::string describe(Result result) const;

  /// "13.0"
  std::string versionText() const;
  /// Loads the driver once. Returns null and sets `problem` on failure.
  static const Driver *load(std::string &problem);
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_DRIVER_H
