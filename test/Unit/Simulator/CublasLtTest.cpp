//===- CublasLtTest.cpp - Matmuls against sums in double ------------------===//

#include "CublasLt/Functions.h"
#include "SimulatorTesting.h"

#include <cmath>

using namespace sim;

namespace {

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

/// A product as numbers: op(A) is m x k.
struct Shape {
  uint64_t m, n, k;
  bool transA, transB, rowsA, rowsB, rowsD;
  int32_t batches;
  unsigned padding; // of leading dimensions
};

struct Matrix {
  uint64_t rows, cols, ld, stride;
  lt::Order order;
  std::vector<float> data;

  Matrix(uint64_t rows, uint64_t cols, bool byRow, const Shape &shape, float seed)
      : rows(rows), cols(cols), ld((byRow ? cols : rows) + shape.padding),
        stride(ld * (byRow ? rows : cols)), order(byRow ? lt::Row : lt::Col),
        data(stride * uint64_t(shape.batches)) {
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = float(std::sin(double(i) * 0.7 + seed));
  }
  float at(int32_t batch, uint64_t row, uint64_t col) const {
    return data[uint64_t(batch) * stride + (order == lt::Row ? row * ld + col : col * ld + row)];
  }
};

void checkProduct(CublasLt &lib, const Shape &shape) {
  Matrix a(shape.transA ? shape.k : shape.m, shape.transA ? shape.m : shape.k, shape.rowsA, shape,
           1);
  Matrix b(shape.transB ? shape.n : shape.k, shape.transB ? shape.k : shape.n, shape.rowsB, shape,
           2);
  Matrix d(shape.m, shape.n, shape.rowsD, shape, 3);
  auto layout = [&](const Matrix &of) {
    return lib.layout(of.rows, of.cols, int64_t(of.ld), of.order, shape.batches,
                      int64_t(of.stride));
  };
  lt::Layout *aLayout = layout(a), *bLayout = layout(b), *dLayout = layout(d);
  lt::Desc *desc = nullptr;
  lt::Preference *preference = nullptr;
  EXPECT_EQ(lib.cublasLtMatmulDescCreate(&desc, lt::Compute32F, lt::F32), lt::SUCCESS);
  EXPECT_EQ(lib.set(lib.cublasLtMatmulDescSetAttribute, desc, lt::DescTransA,
                    shape.transA ? lt::OpT : lt::OpN),
            lt::SUCCESS);
  EXPECT_EQ(lib.set(lib.cublasLtMatmulDescSetAttribute, desc, lt::DescTransB,
                    shape.transB ? lt::OpT : lt::OpN),
            lt::SUCCESS);
  EXPECT_EQ(lib.cublasLtMatmulPreferenceCreate(&preference), lt::SUCCESS);
  EXPECT_EQ(lib.set(lib.cublasLtMatmulPreferenceSetAttribute, preference, lt::PrefMaxWorkspaceBytes,
                    uint64_t(65536)),
            lt::SUCCESS);
  lt::HeuristicResult results[8];
  int count = 0;
  ASSERT_EQ(lib.cublasLtMatmulAlgoGetHeuristic(lib.handle, desc, aLayout, bLayout, dLayout, dLayout,
                                               preference, 8, results, &count),
            lt::SUCCESS);
  ASSERT_GE(count, 1);
  DevicePointer workspace = lib.allocate(65536);
  auto pointer = [](DevicePointer address) { return reinterpret_cast<void *>(address); };
  bool any = false;
  for (int i = 0; i < count; ++i) {
    if (results[i].state != lt::SUCCESS)
      continue;
    ASSERT_LE(results[i].workspaceSize, 65536u);
    DevicePointer aMemory = lib.upload(a.data), bMemory = lib.upload(b.data);
    DevicePointer dMemory = lib.upload(d.data);
    lt::Status status =
        lib.cublasLtMatmul(lib.handle, desc, &lib.one, pointer(aMemory), aLayout, pointer(bMemory),
                           bLayout, &lib.zero, nullptr, dLayout, pointer(dMemory), dLayout,
                           &results[i].algo, pointer(workspace), 65536, nullptr);
    if (status == lt::NOT_SUPPORTED)
      continue;
    ASSERT_EQ(status, lt::SUCCESS);
    any = true;
    Matrix out = d;
    out.data = lib.download<float>(dMemory, d.data.size());
    for (int32_t batch = 0; batch < shape.batches; ++batch)
      for (uint64_t row = 0; row < shape.m; ++row)
        for (uint64_t col = 0; col < shape.n; ++col) {
          double sum = 0;
          for (uint64_t k = 0; k < shape.k; ++k)
            sum += double(shape.transA ? a.at(batch, k, row) : a.at(batch, row, k)) *
                   double(shape.transB ? b.at(batch, col, k) : b.at(batch, k, col));
          ASSERT_NEAR(out.at(batch, row, col), sum, 1e-4);
        }
    // What lies between is as it was.
    for (uint64_t i = shape.rowsD ? shape.n : shape.m; i < d.ld; ++i)
      EXPECT_EQ(out.data[i], d.data[i]);
  }
  EXPECT_TRUE(any);
}

} // namespace

TEST(CublasLt, HasAllEntryPoints) {
  auto check = [] {
    CublasLt lib;
#define FUNCTION(result, name, parameters) EXPECT_TRUE(lib.name) << #name;
#include "CublasLt/Functions.def"
#undef FUNCTION
  };
  EXPECT_PASSES({}, check);
}

TEST(CublasLt, Multiplies) {
  for (int seed = 0; seed < 3; ++seed)
    EXPECT_PASSES((Variables{{"TPC_SIM_SEED", std::to_string(seed)}}), [] {
      CublasLt lib;
      for (unsigned bits = 0; bits < 32; ++bits)
        checkProduct(lib, {5, 7, 20 + bits, bool(bits & 1), bool(bits & 2), bool(bits & 4),
                           bool(bits & 8), bool(bits & 16), 1 + int(bits % 2), bits % 3});
      checkProduct(lib, {130, 3, 257, false, false, false, false, false, 1, 0});
    });
}

namespace {

/// D[3, 2] = A[3, 4] B[4, 2], all in column order, ones.
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
  /// C and D in f32, of which C has what 16 bits have not.
  void single() {
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
  /// With the first algorithm that is not refused.
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

} // namespace

TEST(CublasLt, AddsToC) {
  EXPECT_PASSES({}, [] {
    Small lib;
    EXPECT_EQ(lib.multiplySomehow(2, 3), lt::SUCCESS);
    EXPECT_EQ(lib.download<float>(lib.d, 6), std::vector<float>(6, 11));
    lib.c = lib.d; // in place
    EXPECT_EQ(lib.multiplySomehow(1, 1), lt::SUCCESS);
    EXPECT_EQ(lib.download<float>(lib.d, 6), std::vector<float>(6, 15));
    lib.c = 0; // not read without beta
    EXPECT_EQ(lib.multiplySomehow(1, 0), lt::SUCCESS);
    EXPECT_EQ(lib.multiplySomehow(1, 1), lt::INVALID_VALUE);
  });
}

TEST(CublasLt, EpiloguesAreThereForSomeProblems) {
  int there = 0, without = 0;
  for (int seed = 0; seed < 24; ++seed) {
    int status = inProcess(seeded(seed), [] {
      Small lib;
      lib.epilogue(lt::Bias, lib.upload<float>({10, 20, 30}));
      lt::Status status = lib.multiplySomehow(1, 1);
      if (status == lt::NOT_SUPPORTED)
        _exit(2);
      EXPECT_EQ(status, lt::SUCCESS);
      EXPECT_EQ(lib.download<float>(lib.d, 6), (std::vector<float>{15, 25, 35, 15, 25, 35}));
    });
    there += status == 0;
    without += WEXITSTATUS(status) == 2;
  }
  EXPECT_EQ(there + without, 24);
  EXPECT_GT(there, 12);
  EXPECT_GT(without, 0);
}

TEST(CublasLt, SomeAlgorithmsAreRefusedAndOneIsNot) {
  int refused = 0;
  for (int seed = 0; seed < 12; ++seed)
    refused += WEXITSTATUS(inProcess(seeded(seed), [] {
      Small lib;
      EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
      int here = 0;
      for (int i = 0; i < lib.count; ++i) {
        if (lib.results[i].state != lt::SUCCESS) {
          ++here;
          continue;
        }
        lt::HeuristicResult checked;
        lt::Status status = lib.multiply(&lib.results[i].algo);
        here += status != lt::SUCCESS;
        EXPECT_EQ(lib.cublasLtMatmulAlgoCheck(lib.handle, lib.desc, lib.aLayout, lib.bLayout,
                                              lib.dLayout, lib.dLayout, &lib.results[i].algo,
                                              &checked),
                  status);
      }
      EXPECT_LT(here, lib.count);
      if (!testing::Test::HasFailure())
        _exit(here);
    }));
  EXPECT_GT(refused, 0);
}

TEST(CublasLt, SomeEntriesAreNoAlgorithms) {
  int none = 0;
  for (int seed = 0; seed < 12; ++seed) {
    Findings findings;
    none += WEXITSTATUS(inProcess(findings.with(seeded(seed)), [] {
      Small lib;
      EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
      EXPECT_EQ(lib.results[lib.count - 1].state, lt::SUCCESS);
      int here = 0;
      for (int i = 0; i < 8; ++i)
        if (i >= lib.count || lib.results[i].state != lt::SUCCESS) {
          here += i < lib.count;
          EXPECT_EQ(lib.multiply(&lib.results[i].algo), lt::INVALID_VALUE);
        }
      if (!testing::Test::HasFailure())
        _exit(here);
    }));
    EXPECT_FINDS(findings, "an algorithm that no heuristic gave");
  }
  EXPECT_GT(none, 0);
}

TEST(CublasLt, OneSearchMayFindNone) {
  EXPECT_PASSES((Variables{{"TPC_SIM_INJECT", "heuristic@2"}}), [] {
    Small lib;
    EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
    EXPECT_EQ(lib.heuristic(), lt::NOT_SUPPORTED);
    EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
  });
}

TEST(CublasLt, AnEpilogueMayBeRefusedOfEachAlgorithm) {
  int refused = 0;
  for (int seed = 0; seed < 40; ++seed)
    refused += WEXITSTATUS(inProcess(seeded(seed), [] {
      Small lib;
      lib.epilogue(lt::Bias, lib.upload<float>({10, 20, 30}));
      if (lib.heuristic() == lt::SUCCESS) {
        EXPECT_GT(lib.count, 0);
        _exit(lib.multiplySomehow() == lt::NOT_SUPPORTED);
      }
      _exit(0);
    }));
  EXPECT_GT(refused, 0);
}

TEST(CublasLt, SixteenBits) {
  for (lt::DataType type : {lt::F16, lt::Bf16})
    EXPECT_PASSES({}, [&] {
      Small lib(type, 2);
      EXPECT_EQ(lib.multiplySomehow(2, 1), lt::SUCCESS);
      EXPECT_EQ(lib.download<uint16_t>(lib.d, 6),
                std::vector<uint16_t>(6, type == lt::F16 ? 0x4880 : 0x4110)); // 9
    });
}

TEST(CublasLt, SixteenBitsGiveSumsInSingle) {
  int with = 0;
  for (int seed = 0; seed < 12; ++seed)
    for (lt::DataType type : {lt::F16, lt::Bf16})
      with += WEXITSTATUS(inProcess(seeded(seed), [&] {
        Small lib(type, 2);
        lib.single();
        EXPECT_EQ(lib.multiplySomehow(1, 1), lt::SUCCESS);
        // 16 bits have no such number.
        EXPECT_EQ(lib.download<float>(lib.d, 6), std::vector<float>(6, 5 + 0x1p-12f));
        lib.epilogue(lt::Bias, lib.upload<float>({0x1p-13f, 20, 30}));
        lt::Status status = lib.multiplySomehow(1, 1);
        if (status == lt::SUCCESS)
          EXPECT_EQ(lib.download<float>(lib.d, 1)[0], 5 + 0x1p-12f + 0x1p-13f);
        else
          EXPECT_EQ(status, lt::NOT_SUPPORTED);
        // A bias is of D's type.
        EXPECT_EQ(
            lib.set(lib.cublasLtMatmulDescSetAttribute, lib.desc, lt::DescBiasDataType, int(type)),
            lt::SUCCESS);
        EXPECT_EQ(lib.heuristic(), lt::NOT_SUPPORTED);
        if (!testing::Test::HasFailure())
          _exit(status == lt::SUCCESS);
      }));
  EXPECT_GT(with, 6);
}

TEST(CublasLt, OtherTypesAreNotThereTogether) {
  using Types = std::array<lt::DataType, 4>; // of A, B, C, D
  for (Types types : {Types{lt::F32, lt::F32, lt::F16, lt::F16},
                      {lt::F16, lt::F16, lt::Bf16, lt::Bf16},
                      {lt::F16, lt::Bf16, lt::F32, lt::F32},
                      {lt::F16, lt::F32, lt::F32, lt::F32},
                      {lt::F16, lt::F16, lt::F16, lt::F32},
                      {lt::Bf16, lt::Bf16, lt::F32, lt::Bf16}})
    EXPECT_PASSES({}, [&] {
      Small lib;
      lt::Layout *c = nullptr;
      EXPECT_EQ(lib.cublasLtMatrixLayoutCreate(&c, types[2], 3, 2, 3), lt::SUCCESS);
      lt::Layout *layouts[] = {lib.aLayout, lib.bLayout, c, lib.dLayout};
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(
            lib.set(lib.cublasLtMatrixLayoutSetAttribute, layouts[i], lt::LayoutType, types[i]),
            lt::SUCCESS);
      EXPECT_EQ(lib.cublasLtMatmulAlgoGetHeuristic(lib.handle, lib.desc, lib.aLayout, lib.bLayout,
                                                   c, lib.dLayout, lib.preference, 8, lib.results,
                                                   &lib.count),
                lt::NOT_SUPPORTED);
    });
}

TEST(CublasLt, FasterTypesRoundTheirInputs) {
  for (auto [compute, sum] :
       {std::pair(lt::Compute32F, 4 + 4 * 0x1p-12f), {lt::Compute32FFastTf32, 4.0f}})
    EXPECT_PASSES({}, [&] {
      Small lib;
      EXPECT_EQ(lib.set(lib.cublasLtMatmulDescSetAttribute, lib.desc, lt::DescComputeType, compute),
                lt::SUCCESS);
      lib.a = lib.upload(std::vector<float>(12, 1 + 0x1p-12f));
      EXPECT_EQ(lib.multiplySomehow(), lt::SUCCESS);
      EXPECT_EQ(lib.download<float>(lib.d, 1)[0], sum);
    });
}

TEST(CublasLt, RefusesMisuse) {
  using Use = std::function<lt::Status(Small &)>;
  struct Case {
    const char *wanted;
    Use use;
  };
  auto layout = [](Small &lib, lt::Layout *of, lt::LayoutAttribute attribute, auto value) {
    EXPECT_EQ(lib.set(lib.cublasLtMatrixLayoutSetAttribute, of, attribute, value), lt::SUCCESS);
    return lib.heuristic();
  };
  Case cases[] = {
      {"leading dimension of A",
       [&](Small &lib) { return layout(lib, lib.aLayout, lt::LayoutLd, int64_t(2)); }},
      {"op(A) has 4 columns and op(B) 5 rows",
       [&](Small &lib) {
         layout(lib, lib.bLayout, lt::LayoutLd, int64_t(5));
         return layout(lib, lib.bLayout, lt::LayoutRows, uint64_t(5));
       }},
      {"C or D", [&](Small &lib) { return layout(lib, lib.dLayout, lt::LayoutCols, uint64_t(3)); }},
      {"batches of A",
       [&](Small &lib) { return layout(lib, lib.aLayout, lt::LayoutBatchCount, int32_t(2)); }},
      {"attribute 4 has 8 bytes",
       [&](Small &lib) {
         return lib.set(lib.cublasLtMatrixLayoutSetAttribute, lib.aLayout, lt::LayoutLd,
                        int32_t(3));
       }},
      {"an epilogue with a bias, and no bias",
       [&](Small &lib) {
         lib.epilogue(lt::Bias, 0);
         return lib.heuristic();
       }},
      {"algorithm of another product",
       [&](Small &lib) {
         EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
         EXPECT_EQ(
             lib.set(lib.cublasLtMatrixLayoutSetAttribute, lib.dLayout, lt::LayoutLd, int64_t(4)),
             lt::SUCCESS);
         return lib.multiply(lib.first());
       }},
      {"no heuristic gave",
       [&](Small &lib) {
         lt::Algo algo = {};
         return lib.multiply(&algo);
       }},
      {"no such description",
       [&](Small &lib) {
         EXPECT_EQ(lib.cublasLtMatrixLayoutDestroy(lib.aLayout), lt::SUCCESS);
         return lib.cublasLtMatrixLayoutDestroy(lib.aLayout);
       }},
  };
  for (const Case &one : cases) {
    Findings findings;
    SCOPED_TRACE(one.wanted);
    EXPECT_PASSES(findings.with(), [&] {
      Small lib;
      EXPECT_EQ(one.use(lib), lt::INVALID_VALUE);
    });
    EXPECT_FINDS(findings, one.wanted);
  }
}

TEST(CublasLt, WorkspaceAndAlignmentAreAsTheAlgorithmSays) {
  int workspaces = 0, alignments = 0, whole = 0;
  for (int seed = 0; seed < 12; ++seed) {
    int status = inProcess(seeded(seed), [] {
      Small lib;
      for (auto attribute : {lt::PrefMinAlignmentA, lt::PrefMinAlignmentB})
        lib.set(lib.cublasLtMatmulPreferenceSetAttribute, lib.preference, attribute, uint32_t(256));
      lib.set(lib.cublasLtMatmulPreferenceSetAttribute, lib.preference, lt::PrefMaxWorkspaceBytes,
              uint64_t(1 << 20));
      EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
      DevicePointer memory = lib.allocate(1 << 20), shifted = lib.upload(std::vector<float>(16));
      int seen = 0;
      for (int i = 0; i < lib.count; ++i) {
        const lt::HeuristicResult &result = lib.results[i];
        if (result.state != lt::SUCCESS)
          continue;
        auto multiply = [&](size_t bytes) {
          return lib.multiply(&result.algo, 1, 0, reinterpret_cast<void *>(memory), bytes);
        };
        if (multiply(1 << 20) == lt::NOT_SUPPORTED)
          continue;
        if (result.workspaceSize == 1 << 20) // all that there is
          seen |= 4;
        if (result.workspaceSize) {
          seen |= 1;
          EXPECT_EQ(multiply(result.workspaceSize - 1), lt::INVALID_VALUE);
        }
        DevicePointer whole = lib.a;
        lib.a = shifted + 4;
        if (multiply(1 << 20) != lt::SUCCESS)
          seen |= 2;
        lib.a = whole;
        if (seen & 2)
          break;
      }
      if (!testing::Test::HasFailure())
        _exit(10 + seen);
    });
    EXPECT_GE(WEXITSTATUS(status), 10);
    workspaces += (WEXITSTATUS(status) - 10) & 1;
    alignments += (WEXITSTATUS(status) - 10) >> 1 & 1;
    whole += (WEXITSTATUS(status) - 10) >> 2 & 1;
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(workspaces, 0);
  EXPECT_GT(alignments, 0);
}

TEST(CublasLt, IsAnOperationOfItsStream) {
  Findings findings;
  EXPECT_PASSES(findings.with(), [] {
    Small lib;
    DevicePointer b = lib.b;
    lib.b = lib.allocate(32); // written by nobody
    EXPECT_EQ(lib.multiplySomehow(), lt::SUCCESS);
    EXPECT_EQ(lib.cuCtxSynchronize(), ERROR_LAUNCH_FAILED);
    lib.b = b;
    EXPECT_EQ(lib.multiplySomehow(), lt::EXECUTION_FAILED);
  });
  EXPECT_FINDS(findings, "matmul 3x2x4: initialization: reads 32 bytes of B that nobody wrote");
}
