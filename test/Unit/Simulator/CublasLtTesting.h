//===- CublasLtTesting.h - Fixtures of cuBLASLt tests -----------*- C++ -*-===//

#ifndef TPC_TEST_UNIT_SIMULATOR_CUBLASLTTESTING_H
#define TPC_TEST_UNIT_SIMULATOR_CUBLASLTTESTING_H

#include "CublasLt/Functions.h"
#include "SimulatorTesting.h"

namespace sim {

struct CublasLt : Device {
  void *ltLibrary = open("libcublasLt.so.13");
#define FUNCTION(result, name, parameters)                                                         \
  lt::type::name *name = reinterpret_cast<lt::type::name *>(dlsym(ltLibrary, #name));
#include "CublasLt/Functions.def"
#undef FUNCTION

  CublasLt() { EXPECT_EQ(cublasLtCreate(&handle), lt::SUCCESS); }

  lt::Layout *layout(uint64_t rows, uint64_t cols, int64_t ld, lt::Order order = lt::Col,
                     int32_t batches = 1, int64_t stride = 0) {
    lt::Layout *made = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, lt::F32, rows, cols, ld), lt::SUCCESS);
    EXPECT_EQ(set(cublasLtMatrixLayoutSetAttribute, made, lt::LayoutOrder, order), lt::SUCCESS);
    EXPECT_EQ(set(cublasLtMatrixLayoutSetAttribute, made, lt::LayoutBatchCount, batches),
              lt::SUCCESS);
    EXPECT_EQ(set(cublasLtMatrixLayoutSetAttribute, made, lt::LayoutStridedBatchOffset, stride),
              lt::SUCCESS);
    return made;
  }

  template <class F, class H, class A, class T> lt::Status set(F f, H *of, A attribute, T value) {
    return f(of, attribute, &value, sizeof(value));
  }

  lt::Context *handle = nullptr;
  float one = 1, zero = 0;
};

/// D[3, 2] = A[3, 4] B[4, 2], all in column-major order, with ones as elements.
struct Small : CublasLt {
  explicit Small(lt::DataType type = lt::F32, size_t width = 4) : width(width) {
    auto ones = [&](size_t count) {
      return width == 4 ? upload(std::vector<float>(count, 1))
                        : upload(std::vector<uint16_t>(count, type == lt::F16 ? 0x3c00 : 0x3f80));
    };
    a = ones(12);
    b = ones(8);
    c = ones(6);
    d = ones(6);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&aLayout, type, 3, 4, 3), lt::SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&bLayout, type, 4, 2, 4), lt::SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&dLayout, type, 3, 2, 3), lt::SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&desc, lt::Compute32F, lt::F32), lt::SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), lt::SUCCESS);
    for (auto attribute : {lt::PrefMinAlignmentA, lt::PrefMinAlignmentB, lt::PrefMinAlignmentC,
                           lt::PrefMinAlignmentD})
      EXPECT_EQ(set(cublasLtMatmulPreferenceSetAttribute, preference, attribute, uint32_t(width)),
                lt::SUCCESS);
  }
  /// Makes C and D f32, because 16 bits cannot represent the values of C.
  void useF32Results() {
    c = upload(std::vector<float>(6, 1 + 0x1p-12f));
    d = upload(std::vector<float>(6));
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&dLayout, lt::F32, 3, 2, 3), lt::SUCCESS);
    for (auto attribute : {lt::PrefMinAlignmentC, lt::PrefMinAlignmentD})
      EXPECT_EQ(set(cublasLtMatmulPreferenceSetAttribute, preference, attribute, uint32_t(4)),
                lt::SUCCESS);
  }
  void epilogue(lt::Epilogue which, DevicePointer bias) {
    EXPECT_EQ(set(cublasLtMatmulDescSetAttribute, desc, lt::DescEpilogue, which), lt::SUCCESS);
    EXPECT_EQ(set(cublasLtMatmulDescSetAttribute, desc, lt::DescBiasPointer, bias), lt::SUCCESS);
  }
  lt::Status heuristic() {
    return cublasLtMatmulAlgoGetHeuristic(handle, desc, aLayout, bLayout, dLayout, dLayout,
                                          preference, 8, results, &count);
  }
  lt::Status multiply(const lt::Algo *algo, float alpha = 1, float beta = 0,
                      void *workspace = nullptr, size_t bytes = 0) {
    return cublasLtMatmul(handle, desc, &alpha, reinterpret_cast<void *>(a), aLayout,
                          reinterpret_cast<void *>(b), bLayout, &beta, reinterpret_cast<void *>(c),
                          dLayout, reinterpret_cast<void *>(d), dLayout, algo, workspace, bytes,
                          nullptr);
  }
  /// Uses the first algorithm that is not rejected.
  lt::Status multiplySomehow(float alpha = 1, float beta = 0) {
    if (lt::Status status = heuristic())
      return status;
    lt::Status status = lt::NOT_SUPPORTED;
    for (int i = 0; i < count && status == lt::NOT_SUPPORTED; ++i)
      if (results[i].state == lt::SUCCESS)
        status = multiply(&results[i].algo, alpha, beta);
    return status;
  }
  const lt::Algo *first() const {
    int i = 0;
    while (results[i].state != lt::SUCCESS)
      ++i;
    return &results[i].algo;
  }

  size_t width;
  DevicePointer a, b, c, d;
  lt::Layout *aLayout = nullptr, *bLayout = nullptr, *dLayout = nullptr;
  lt::Desc *desc = nullptr;
  lt::Preference *preference = nullptr;
  lt::HeuristicResult results[8] = {};
  int count = 0;
};

} // namespace sim

#endif
