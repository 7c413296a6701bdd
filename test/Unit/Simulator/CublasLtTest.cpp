//===- CublasLtTest.cpp - Matmuls against sums in double ------------------===//

#include "CublasLtTesting.h"

#include <cmath>

using namespace sim;

namespace {

/// Sizes of a matmul: op(A) is m x k.
struct Shape {
  uint64_t m, n, k;
  bool transA, transB, rowsA, rowsB, rowsD;
  int32_t batches;
  unsigned padding; // leading dimensions minus the lengths of columns, or of rows if row-major
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
    // Padding between columns is not changed.
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

TEST(CublasLt, EpiloguesAreSupportedForSomeProblems) {
  int numSupported = 0, numRejected = 0;
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
    numSupported += status == 0;
    numRejected += WEXITSTATUS(status) == 2;
  }
  EXPECT_EQ(numSupported + numRejected, 24);
  EXPECT_GT(numSupported, 12);
  EXPECT_GT(numRejected, 0);
}

TEST(CublasLt, AtLeastOneAlgorithmIsAccepted) {
  int refused = 0;
  for (int seed = 0; seed < 12; ++seed)
    refused += WEXITSTATUS(inProcess(seeded(seed), [] {
      Small lib;
      EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
      int numUnusable = 0;
      for (int i = 0; i < lib.count; ++i) {
        if (lib.results[i].state != lt::SUCCESS) {
          ++numUnusable;
          continue;
        }
        lt::HeuristicResult checked;
        lt::Status status = lib.multiply(&lib.results[i].algo);
        numUnusable += status != lt::SUCCESS;
        EXPECT_EQ(lib.cublasLtMatmulAlgoCheck(lib.handle, lib.desc, lib.aLayout, lib.bLayout,
                                              lib.dLayout, lib.dLayout, &lib.results[i].algo,
                                              &checked),
                  status);
      }
      EXPECT_LT(numUnusable, lib.count);
      if (!testing::Test::HasFailure())
        _exit(numUnusable);
    }));
  EXPECT_GT(refused, 0);
}

TEST(CublasLt, SomeHeuristicResultsAreInvalid) {
  int none = 0;
  for (int seed = 0; seed < 12; ++seed) {
    Findings findings;
    none += WEXITSTATUS(inProcess(findings.with(seeded(seed)), [] {
      Small lib;
      EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
      EXPECT_EQ(lib.results[lib.count - 1].state, lt::SUCCESS);
      int numInvalid = 0;
      for (int i = 0; i < 8; ++i)
        if (i >= lib.count || lib.results[i].state != lt::SUCCESS) {
          numInvalid += i < lib.count;
          EXPECT_EQ(lib.multiply(&lib.results[i].algo), lt::INVALID_VALUE);
        }
      if (!testing::Test::HasFailure())
        _exit(numInvalid);
    }));
    EXPECT_FINDS(findings, "the algorithm is not a result of a heuristic");
  }
  EXPECT_GT(none, 0);
}

TEST(CublasLt, AnInjectedSearchFindsNoAlgorithm) {
  EXPECT_PASSES((Variables{{"TPC_SIM_INJECT", "heuristic@2"}}), [] {
    Small lib;
    EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
    EXPECT_EQ(lib.heuristic(), lt::NOT_SUPPORTED);
    EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
  });
}

TEST(CublasLt, AnEpilogueMayBeRejectedByAllAlgorithms) {
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
