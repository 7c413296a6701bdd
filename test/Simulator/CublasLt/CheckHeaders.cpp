//===- CheckHeaders.cpp - Comparison with the vendor's headers ------------===//

#include "Cuda/SameShape.h"
#include "Functions.h"

#include <cublasLt.h>

namespace sim::lt {

#define TPC_SIM_STATUS(value, name) static_assert(int(CUBLAS_STATUS_##name) == value);
TPC_SIM_STATUSES(TPC_SIM_STATUS)

#define FUNCTION(result, name, parameters)                                                         \
  static_assert(sameShape<type::name, decltype(::name)>, "of " #name);
#include "Functions.def"

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(Algo));
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == sizeof(HeuristicResult));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(HeuristicResult, workspaceSize));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == offsetof(HeuristicResult, state));
#define SAME(ours, theirs) static_assert(int(ours) == int(theirs))
SAME(F32, CUDA_R_32F);
SAME(F16, CUDA_R_16F);
SAME(Bf16, CUDA_R_16BF);
SAME(Compute32F, CUBLAS_COMPUTE_32F);
SAME(Compute32FPedantic, CUBLAS_COMPUTE_32F_PEDANTIC);
SAME(Compute32FFast16F, CUBLAS_COMPUTE_32F_FAST_16F);
SAME(Compute32FFast16Bf, CUBLAS_COMPUTE_32F_FAST_16BF);
SAME(Compute32FFastTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(OpN, CUBLAS_OP_N);
SAME(OpT, CUBLAS_OP_T);
SAME(OpC, CUBLAS_OP_C);
SAME(Col, CUBLASLT_ORDER_COL);
SAME(Row, CUBLASLT_ORDER_ROW);
SAME(Host, CUBLASLT_POINTER_MODE_HOST);
SAME(Device, CUBLASLT_POINTER_MODE_DEVICE);
SAME(Default, CUBLASLT_EPILOGUE_DEFAULT);
SAME(Relu, CUBLASLT_EPILOGUE_RELU);
SAME(Bias, CUBLASLT_EPILOGUE_BIAS);
SAME(ReluBias, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(Gelu, CUBLASLT_EPILOGUE_GELU);
SAME(GeluBias, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(DescComputeType, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
SAME(DescScaleType, CUBLASLT_MATMUL_DESC_SCALE_TYPE);
SAME(DescPointerMode, CUBLASLT_MATMUL_DESC_POINTER_MODE);
SAME(DescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(DescTransB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(DescTransC, CUBLASLT_MATMUL_DESC_TRANSC);
SAME(DescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(DescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(DescBiasBatchStride, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
SAME(DescBiasDataType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(LayoutType, CUBLASLT_MATRIX_LAYOUT_TYPE);
SAME(LayoutOrder, CUBLASLT_MATRIX_LAYOUT_ORDER);
SAME(LayoutRows, CUBLASLT_MATRIX_LAYOUT_ROWS);
SAME(LayoutCols, CUBLASLT_MATRIX_LAYOUT_COLS);
SAME(LayoutLd, CUBLASLT_MATRIX_LAYOUT_LD);
SAME(LayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(LayoutStridedBatchOffset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(PrefSearchMode, CUBLASLT_MATMUL_PREF_SEARCH_MODE);
SAME(PrefMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(PrefReductionSchemeMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(PrefMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(PrefMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(PrefMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(PrefMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

} // namespace sim::lt
