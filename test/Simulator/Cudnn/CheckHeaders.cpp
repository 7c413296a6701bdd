//===- CheckHeaders.cpp - Comparison with the vendor's headers ------------===//

#include "Cuda/SameShape.h"
#include "Functions.h"

#include <cudnn.h>

namespace sim::dnn {

#define TPC_SIM_STATUS(value, name) static_assert(int(CUDNN_STATUS_##name) == value);
TPC_SIM_DNN_STATUSES(TPC_SIM_STATUS)
#define TPC_SIM_KIND(value, name, vendors) static_assert(int(vendors) == value);
TPC_SIM_DNN_KINDS(TPC_SIM_KIND)
#define TPC_SIM_TYPE(value, name, vendors, bytes) static_assert(int(vendors) == value);
TPC_SIM_DNN_TYPES(TPC_SIM_TYPE)
#define TPC_SIM_ATTRIBUTE(value, name, vendors, kind, type, most, needed)                          \
  static_assert(int(CUDNN_ATTR_##vendors) == value);
TPC_SIM_DNN_ATTRIBUTES(TPC_SIM_ATTRIBUTE)

#define FUNCTION(result, name, parameters)                                                         \
  static_assert(sameShape<type::name, decltype(::name)>, "of " #name);
#include "Functions.def"

#define SAME(ours, theirs) static_assert(int(ours) == int(theirs))
SAME(F32, CUDNN_DATA_FLOAT);
SAME(F16, CUDNN_DATA_HALF);
SAME(I32, CUDNN_DATA_INT32);
SAME(Bf16, CUDNN_DATA_BFLOAT16);
SAME(Boolean, CUDNN_DATA_BOOLEAN);
SAME(Add, CUDNN_POINTWISE_ADD);
SAME(Mul, CUDNN_POINTWISE_MUL);
SAME(Div, CUDNN_POINTWISE_DIV);
SAME(Sub, CUDNN_POINTWISE_SUB);
SAME(Exp, CUDNN_POINTWISE_EXP);
SAME(Log, CUDNN_POINTWISE_LOG);
SAME(CmpGe, CUDNN_POINTWISE_CMP_GE);
SAME(GenIndex, CUDNN_POINTWISE_GEN_INDEX);
SAME(Select, CUDNN_POINTWISE_BINARY_SELECT);
SAME(ReduceAdd, CUDNN_REDUCE_TENSOR_ADD);
SAME(ReduceMax, CUDNN_REDUCE_TENSOR_MAX);
SAME(HeuristicFallback, CUDNN_HEUR_MODE_FALLBACK);
SAME(HeuristicA, CUDNN_HEUR_MODE_A);

} // namespace sim::dnn
