//===- Cudnn.h - Declarations of the cuDNN functions in use ---------------===//
//
// Functions of the backend interface of libcudnn.so.9. CudnnHeader.cpp compares them with NVIDIA's
// header where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDNN_H
#define TPC_RT_CUDA_LIBRARY_CUDNN_H

#include "cuda/library/Driver.h"
#include <string>

namespace tpc::rt::cuda::dnn {

using Status = int;
using Handle = struct HandleImpl *;
using Object = void *; // a descriptor

// Enumerators in use.
constexpr Status success = 0;
enum Kind : int {
  pointwiseKind = 0,
  engineConfigKind = 3,
  heuristicKind = 4,
  planKind = 5,
  pointwiseOpKind = 13,
  graphKind = 15,
  variantPackKind = 16,
  tensorKind = 17,
  matmulKind = 18,
  matmulOpKind = 19,
  reductionKind = 21,
  reductionOpKind = 22,
  devicePropertiesKind = 38,
};
enum Attribute : int {
  pointwiseMode = 0,
  pointwisePrecision = 1,
  pointwiseAxis = 9,
  heuristicMode = 200,
  heuristicGraph = 201,
  heuristicResults = 202,
  heuristicDevice = 204,
  planHandle = 400,
  planConfig = 401,
  planWorkspaceBytes = 402,
  planDevice = 407,
  pointwiseOpDescriptor = 750,
  pointwiseOpX = 751,
  pointwiseOpB = 752,
  pointwiseOpY = 753,
  pointwiseOpT = 758,
  graphHandle = 800,
  graphOps = 801,
  tensorAlignment = 900,
  tensorType = 901,
  tensorDims = 902,
  tensorStrides = 903,
  tensorId = 906,
  tensorIsVirtual = 907,
  tensorIsByValue = 908,
  packIds = 1000,
  packPointers = 1001,
  packWorkspace = 1003,
  matmulPrecision = 1500,
  matmulOpA = 1520,
  matmulOpB = 1521,
  matmulOpC = 1522,
  matmulOpDescriptor = 1523,
  reductionOperator = 1600,
  reductionPrecision = 1601,
  reductionOpX = 1610,
  reductionOpY = 1611,
  reductionOpDescriptor = 1612,
  deviceJson = 2702,
};
enum Type : int {
  handleType = 0,
  dataTypeType = 1,
  booleanType = 2,
  int64Type = 3,
  pointerType = 6,
  heuristicModeType = 8,
  pointwiseModeType = 14,
  descriptorType = 15,
  reductionOperatorType = 18,
  charType = 24,
};
enum DataType : int { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };
enum Pointwise : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exponential = 13,
  logarithm = 15,
  isGreaterOrEqual = 303,
  generateIndex = 501,
  select = 601,
};
constexpr int reduceSum = 0, reduceMax = 3;
constexpr int heuristicA = 3, heuristicFallback = 2;

/// FUNCTION(name, arguments); all return a Status.
#define TPC_CUDNN_FUNCTIONS(FUNCTION)                                                              \
  FUNCTION(Create, (Handle *))                                                                     \
  FUNCTION(Destroy, (Handle))                                                                      \
  FUNCTION(SetStream, (Handle, Stream))                                                            \
  FUNCTION(BackendCreateDescriptor, (int, Object *))                                               \
  FUNCTION(BackendDestroyDescriptor, (Object))                                                     \
  FUNCTION(BackendFinalize, (Object))                                                              \
  FUNCTION(BackendSetAttribute, (Object, int, int, int64_t, const void *))                         \
  FUNCTION(BackendGetAttribute, (Object, int, int, int64_t, int64_t *, void *))                    \
  FUNCTION(BackendExecute, (Handle, Object, Object))

/// The loaded library of this process.
struct Library {
#define TPC_DECLARE_POINTER(name, arguments) Status(*name) arguments = nullptr;
  TPC_CUDNN_FUNCTIONS(TPC_DECLARE_POINTER)
#undef TPC_DECLARE_POINTER
  size_t (*GetVersion)() = nullptr;
  const char *(*GetErrorString)(Status) = nullptr;
  std::string file;

  /// Throws unless `status` is success. `what` completes the message: "to ...".
  void check(Status status, const char *what) const;
  /// "cuDNN 9.19.0"
  std::string describe() const;
  /// Loads the library once. Returns null and sets `problem` on failure.
  static const Library *load(std::string &problem);
};

} // namespace tpc::rt::cuda::dnn

#endif // TPC_RT_CUDA_LIBRARY_CUDNN_H
