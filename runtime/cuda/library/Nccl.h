//===- Nccl.h - Declarations of the NCCL functions in use -----------------===//
//
// Functions of libnccl.so.2. NcclHeader.cpp compares them with NVIDIA's header where that is
// installed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_NCCL_H
#define TPC_RT_CUDA_LIBRARY_NCCL_H

#include "cuda/library/Driver.h"

namespace tpc::rt::cuda::nccl {

using Status = int;
using Comm = struct CommImpl *;
struct UniqueId {
  char bytes[128];
};

/// Layout of 2.28. `size` and `version` define how many fields a library reads.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCtas, maxCtas;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
  int collnetEnable, ctaPolicy, shrinkShare, nvlsCtas, channelsPerNetPeer, nvlinkCentricSched;
};

// Enumerators in use.
constexpr Status success = 0, unhandledCudaError = 1, systemError = 2, remoteError = 6,
                 inProgress = 7;
constexpr int undefined = -2147483647 - 1;
constexpr unsigned configMagic = 0xcafebeef;
constexpr int int8 = 0, uint8 = 1, int32 = 2, int64 = 4, float16 = 6, float32 = 7, float64 = 8,
              bfloat16 = 9;
constexpr int sum = 0, max = 2, min = 3;

/// FUNCTION(name, arguments); all return a Status.
#define TPC_NCCL_FUNCTIONS(FUNCTION)                                                               \
  FUNCTION(GetVersion, (int *))                                                                    \
  FUNCTION(GetUniqueId, (UniqueId *))                                                              \
  FUNCTION(CommInitRankConfig, (Comm *, int, UniqueId, int, Config *))                             \
  FUNCTION(CommDestroy, (Comm))                                                                    \
  FUNCTION(CommAbort, (Comm))                                                                      \
  FUNCTION(CommGetAsyncError, (Comm, Status *))                                                    \
  FUNCTION(AllReduce, (const void *, void *, size_t, int, int, Comm, Stream))                      \
  FUNCTION(AllGather, (const void *, void *, size_t, int, Comm, Stream))                           \
  FUNCTION(ReduceScatter, (const void *, void *, size_t, int, int, Comm, Stream))                  \
  FUNCTION(Broadcast, (const void *, void *, size_t, int, int, Comm, Stream))                      \
  FUNCTION(Send, (const void *, size_t, int, int, Comm, Stream))                                   \
  FUNCTION(Recv, (void *, size_t, int, int, Comm, Stream))                                         \
  FUNCTION(GroupStart, ())                                                                         \
  FUNCTION(GroupEnd, ())

/// Functions of NCCL 2.19 and later; null in older libraries.
#define TPC_NCCL_MEMORY_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(MemAlloc, (void **, size_t))                                                            \
  FUNCTION(MemFree, (void *))                                                                      \
  FUNCTION(CommRegister, (Comm, void *, size_t, void **))                                          \
  FUNCTION(CommDeregister, (Comm, void *))

/// The loaded library of this process.
struct Library {
#define TPC_DECLARE_POINTER(name, arguments) Status(*name) arguments = nullptr;
  TPC_NCCL_FUNCTIONS(TPC_DECLARE_POINTER)
  TPC_NCCL_MEMORY_FUNCTIONS(TPC_DECLARE_POINTER)
#undef TPC_DECLARE_POINTER
  const char *(*GetErrorString)(Status) = nullptr;
  const char *(*GetLastError)(Comm) = nullptr;
  int version = 0; ///< 22809: 2.28.9
  std::string file;

  /// Whether the library has the functions for memory registration.
  bool registersMemory() const { return MemAlloc && MemFree && CommRegister && CommDeregister; }
  /// "NCCL 2.28.9"
  std::string describe() const;
  /// "unhandled cuda error (…)", with the library's last error in parentheses if there is one.
  std::string describe(Status status, Comm comm) const;
  /// Loads the library once. Returns null and sets `problem` on failure.
  static const Library *load(std::string &problem);
};

} // namespace tpc::rt::cuda::nccl

#endif // TPC_RT_CUDA_LIBRARY_NCCL_H
