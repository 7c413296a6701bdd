//===- Types.h - Simulated subset of NCCL's declarations ------------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_TYPES_H
#define TPC_TEST_SIMULATOR_NCCL_TYPES_H

#include "Cuda/Types.h"

namespace sim::nccl {

/// ncclResult_t.
enum Status : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

enum DataType : int {
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9,
};

enum RedOp : int { Sum = 0, Prod = 1, Max = 2, Min = 3, Avg = 4 };

constexpr int undefined = -2147483647 - 1; // NCCL_CONFIG_UNDEF_INT
constexpr int noColor = -1;                // NCCL_SPLIT_NOCOLOR
constexpr unsigned configMagic = 0xcafebeef;
constexpr size_t windowAlignment = 4096;

struct UniqueId {
  char internal[128];
};

/// ncclConfig_t of 2.28.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
  int collnetEnable, ctaPolicy, shrinkShare, nvlsCTAs, channelsPerNetPeer, nvlinkCentricSched;
};

struct Comm;
struct Window;

} // namespace sim::nccl

#endif
