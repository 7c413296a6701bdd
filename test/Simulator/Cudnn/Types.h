//===- Types.h - Simulated subset of cuDNN's declarations -----------------===//

#ifndef TPC_TEST_SIMULATOR_CUDNN_TYPES_H
#define TPC_TEST_SIMULATOR_CUDNN_TYPES_H

#include "Cuda/Types.h"

namespace sim::dnn {

/// cudnnStatus_t: value, and the vendor's name after CUDNN_STATUS_.
#define TPC_SIM_DNN_STATUSES(S)                                                                    \
  S(0, SUCCESS)                                                                                    \
  S(1001, NOT_INITIALIZED)                                                                         \
  S(2000, BAD_PARAM)                                                                               \
  S(2002, BAD_PARAM_NULL_POINTER)                                                                  \
  S(2003, BAD_PARAM_MISALIGNED_POINTER)                                                            \
  S(2004, BAD_PARAM_NOT_FINALIZED)                                                                 \
  S(2008, BAD_PARAM_SHAPE_MISMATCH)                                                                \
  S(2009, BAD_PARAM_DUPLICATED_ENTRIES)                                                            \
  S(2010, BAD_PARAM_ATTRIBUTE_TYPE)                                                                \
  S(2012, BAD_PARAM_DESCRIPTOR_TYPE)                                                               \
  S(3000, NOT_SUPPORTED)                                                                           \
  S(3001, NOT_SUPPORTED_GRAPH_PATTERN)                                                             \
  S(5000, EXECUTION_FAILED)

enum Status : int {
#define TPC_SIM_STATUS(value, name) name = value,
  TPC_SIM_DNN_STATUSES(TPC_SIM_STATUS)
#undef TPC_SIM_STATUS
};

/// cudnnBackendDescriptorType_t: value, name in this project, the vendor's name.
#define TPC_SIM_DNN_KINDS(K)                                                                       \
  K(0, KindPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)                                          \
  K(3, KindConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)                                             \
  K(4, KindHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)                                         \
  K(5, KindPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)                                          \
  K(13, KindPointwiseOp, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)                             \
  K(15, KindGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)                                        \
  K(16, KindPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)                                           \
  K(17, KindTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)                                               \
  K(18, KindMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR)                                               \
  K(19, KindMatmulOp, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)                                   \
  K(21, KindReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)                                         \
  K(22, KindReductionOp, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)

enum Kind : int {
#define TPC_SIM_KIND(value, name, vendors) name = value,
  TPC_SIM_DNN_KINDS(TPC_SIM_KIND)
#undef TPC_SIM_KIND
};

/// cudnnBackendAttributeType_t: value, name in this project, the vendor's name, element bytes.
#define TPC_SIM_DNN_TYPES(T)                                                                       \
  T(0, TypeHandle, CUDNN_TYPE_HANDLE, 8)                                                           \
  T(1, TypeData, CUDNN_TYPE_DATA_TYPE, 4)                                                          \
  T(2, TypeBoolean, CUDNN_TYPE_BOOLEAN, 1)                                                         \
  T(3, TypeInt64, CUDNN_TYPE_INT64, 8)                                                             \
  T(6, TypePointer, CUDNN_TYPE_VOID_PTR, 8)                                                        \
  T(8, TypeHeuristicMode, CUDNN_TYPE_HEUR_MODE, 4)                                                 \
  T(14, TypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE, 4)                                           \
  T(15, TypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR, 8)                                          \
  T(18, TypeReduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 4)

enum Type : int {
#define TPC_SIM_TYPE(value, name, vendors, bytes) name = value,
  TPC_SIM_DNN_TYPES(TPC_SIM_TYPE)
#undef TPC_SIM_TYPE
};

/// cudnnBackendAttributeName_t: value, name in this project, the vendor's name, its descriptor, its
/// type, the maximum number of elements, whether it is required.
#define TPC_SIM_DNN_ATTRIBUTES(A)                                                                  \
  A(0, PwMode, POINTWISE_MODE, KindPointwise, TypePointwiseMode, 1, true)                          \
  A(1, PwPrecision, POINTWISE_MATH_PREC, KindPointwise, TypeData, 1, true)                         \
  A(9, PwAxis, POINTWISE_AXIS, KindPointwise, TypeInt64, 1, false)                                 \
  A(200, HeurMode, ENGINEHEUR_MODE, KindHeuristic, TypeHeuristicMode, 1, true)                     \
  A(201, HeurGraph, ENGINEHEUR_OPERATION_GRAPH, KindHeuristic, TypeDescriptor, 1, true)            \
  A(202, HeurResults, ENGINEHEUR_RESULTS, KindHeuristic, TypeDescriptor, 0, false)                 \
  A(400, PlanHandle, EXECUTION_PLAN_HANDLE, KindPlan, TypeHandle, 1, true)                         \
  A(401, PlanConfig, EXECUTION_PLAN_ENGINE_CONFIG, KindPlan, TypeDescriptor, 1, true)              \
  A(402, PlanWorkspace, EXECUTION_PLAN_WORKSPACE_SIZE, KindPlan, TypeInt64, 0, false)              \
  A(750, PwOpHow, OPERATION_POINTWISE_PW_DESCRIPTOR, KindPointwiseOp, TypeDescriptor, 1, true)     \
  A(751, PwOpX, OPERATION_POINTWISE_XDESC, KindPointwiseOp, TypeDescriptor, 1, true)               \
  A(752, PwOpB, OPERATION_POINTWISE_BDESC, KindPointwiseOp, TypeDescriptor, 1, false)              \
  A(753, PwOpY, OPERATION_POINTWISE_YDESC, KindPointwiseOp, TypeDescriptor, 1, true)               \
  A(758, PwOpT, OPERATION_POINTWISE_TDESC, KindPointwiseOp, TypeDescriptor, 1, false)              \
  A(800, GraphHandle, OPERATIONGRAPH_HANDLE, KindGraph, TypeHandle, 1, true)                       \
  A(801, GraphOps, OPERATIONGRAPH_OPS, KindGraph, TypeDescriptor, 100, true)                       \
  A(900, TensorAlignment, TENSOR_BYTE_ALIGNMENT, KindTensor, TypeInt64, 1, true)                   \
  A(901, TensorType, TENSOR_DATA_TYPE, KindTensor, TypeData, 1, true)                              \
  A(902, TensorDims, TENSOR_DIMENSIONS, KindTensor, TypeInt64, 8, true)                            \
  A(903, TensorStrides, TENSOR_STRIDES, KindTensor, TypeInt64, 8, true)                            \
  A(906, TensorId, TENSOR_UNIQUE_ID, KindTensor, TypeInt64, 1, true)                               \
  A(907, TensorVirtual, TENSOR_IS_VIRTUAL, KindTensor, TypeBoolean, 1, false)                      \
  A(908, TensorByValue, TENSOR_IS_BY_VALUE, KindTensor, TypeBoolean, 1, false)                     \
  A(1000, PackIds, VARIANT_PACK_UNIQUE_IDS, KindPack, TypeInt64, 100, true)                        \
  A(1001, PackPointers, VARIANT_PACK_DATA_POINTERS, KindPack, TypePointer, 100, true)              \
  A(1003, PackWorkspace, VARIANT_PACK_WORKSPACE, KindPack, TypePointer, 1, true)                   \
  A(1500, MatmulPrecision, MATMUL_COMP_TYPE, KindMatmul, TypeData, 1, true)                        \
  A(1520, MatmulOpA, OPERATION_MATMUL_ADESC, KindMatmulOp, TypeDescriptor, 1, true)                \
  A(1521, MatmulOpB, OPERATION_MATMUL_BDESC, KindMatmulOp, TypeDescriptor, 1, true)                \
  A(1522, MatmulOpC, OPERATION_MATMUL_CDESC, KindMatmulOp, TypeDescriptor, 1, true)                \
  A(1523, MatmulOpHow, OPERATION_MATMUL_DESC, KindMatmulOp, TypeDescriptor, 1, true)               \
  A(1600, ReductionOperator, REDUCTION_OPERATOR, KindReduction, TypeReduction, 1, true)            \
  A(1601, ReductionPrecision, REDUCTION_COMP_TYPE, KindReduction, TypeData, 1, true)               \
  A(1610, ReductionOpX, OPERATION_REDUCTION_XDESC, KindReductionOp, TypeDescriptor, 1, true)       \
  A(1611, ReductionOpY, OPERATION_REDUCTION_YDESC, KindReductionOp, TypeDescriptor, 1, true)       \
  A(1612, ReductionOpHow, OPERATION_REDUCTION_DESC, KindReductionOp, TypeDescriptor, 1, true)

enum Attribute : int {
#define TPC_SIM_ATTRIBUTE(value, name, vendors, kind, type, most, needed) name = value,
  TPC_SIM_DNN_ATTRIBUTES(TPC_SIM_ATTRIBUTE)
#undef TPC_SIM_ATTRIBUTE
};

enum DataType : int { F32 = 0, F16 = 2, I32 = 4, Bf16 = 9, Boolean = 11 };
enum Pointwise : int {
  Add = 0,
  Mul = 1,
  Div = 6,
  Sub = 9,
  Exp = 13,
  Log = 15,
  CmpGe = 303,
  GenIndex = 501,
  Select = 601,
};
enum Reduction : int { ReduceAdd = 0, ReduceMax = 3 };
enum HeuristicMode : int { HeuristicFallback = 2, HeuristicA = 3 };

struct Context;
struct Descriptor;

} // namespace sim::dnn

#endif
