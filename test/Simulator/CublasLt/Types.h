//===- Types.h - Simulated subset of cuBLASLt's declarations --------------===//

#ifndef TPC_TEST_SIMULATOR_CUBLASLT_TYPES_H
#define TPC_TEST_SIMULATOR_CUBLASLT_TYPES_H

#include "Cuda/Types.h"

namespace sim::lt {

/// cublasStatus_t: value, and the vendor's name after CUBLAS_STATUS_.
#define TPC_SIM_STATUSES(S)                                                                        \
  S(0, SUCCESS)                                                                                    \
  S(1, NOT_INITIALIZED)                                                                            \
  S(3, ALLOC_FAILED)                                                                               \
  S(7, INVALID_VALUE)                                                                              \
  S(8, ARCH_MISMATCH)                                                                              \
  S(13, EXECUTION_FAILED)                                                                          \
  S(14, INTERNAL_ERROR)                                                                            \
  S(15, NOT_SUPPORTED)

enum Status : int {
#define TPC_SIM_STATUS(value, name) name = value,
  TPC_SIM_STATUSES(TPC_SIM_STATUS)
#undef TPC_SIM_STATUS
};

enum DataType : int { F32 = 0, F16 = 2, Bf16 = 14 };
enum ComputeType : int {
  Compute32F = 68,
  Compute32FPedantic = 69,
  Compute32FFast16F = 74,
  Compute32FFast16Bf = 75,
  Compute32FFastTf32 = 77,
};
enum Operation : int { OpN = 0, OpT = 1, OpC = 2 };
enum Order : int { Col = 0, Row = 1 };
enum PointerMode : int { Host = 0, Device = 1 };
enum Epilogue : int { Default = 1, Relu = 2, Bias = 4, ReluBias = 6, Gelu = 32, GeluBias = 36 };

enum DescAttribute : int {
  DescComputeType = 0,
  DescScaleType = 1,
  DescPointerMode = 2,
  DescTransA = 3,
  DescTransB = 4,
  DescTransC = 5,
  DescEpilogue = 7,
  DescBiasPointer = 8,
  DescBiasBatchStride = 10,
  DescBiasDataType = 26,
};
enum LayoutAttribute : int {
  LayoutType = 0,
  LayoutOrder = 1,
  LayoutRows = 2,
  LayoutCols = 3,
  LayoutLd = 4,
  LayoutBatchCount = 5,
  LayoutStridedBatchOffset = 6,
};
enum PreferenceAttribute : int {
  PrefSearchMode = 0,
  PrefMaxWorkspaceBytes = 1,
  PrefReductionSchemeMask = 3,
  PrefMinAlignmentA = 5,
  PrefMinAlignmentB = 6,
  PrefMinAlignmentC = 7,
  PrefMinAlignmentD = 8,
};

struct Context;
struct Desc;
struct Layout;
struct Preference;

/// cublasLtMatmulAlgo_t. Programs may store it and use it in another process with the same library.
struct Algo {
  uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  size_t workspaceSize;
  Status state;
  float wavesCount;
  int reserved[4];
};

} // namespace sim::lt

#endif
