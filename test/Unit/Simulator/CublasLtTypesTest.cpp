//===- CublasLtTypesTest.cpp - Matmul types, workspaces, and misuse -------===//

#include "CublasLtTesting.h"

#include <cmath>

using namespace sim;

TEST(CublasLt, SixteenBits) {
  for (lt::DataType type : {lt::F16, lt::Bf16})
    EXPECT_PASSES({}, [&] {
      Small lib(type, 2);
      EXPECT_EQ(lib.multiplySomehow(2, 1), lt::SUCCESS);
      EXPECT_EQ(lib.download<uint16_t>(lib.d, 6),
                std::vector<uint16_t>(6, type == lt::F16 ? 0x4880 : 0x4110)); // 9
    });
}

TEST(CublasLt, SixteenBitInputsMayHaveF32Results) {
  int numWithBias = 0;
  for (int seed = 0; seed < 12; ++seed)
    for (lt::DataType type : {lt::F16, lt::Bf16})
      numWithBias += WEXITSTATUS(inProcess(seeded(seed), [&] {
        Small lib(type, 2);
        lib.useF32Results();
        EXPECT_EQ(lib.multiplySomehow(1, 1), lt::SUCCESS);
        // 16-bit types cannot represent this number.
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
  EXPECT_GT(numWithBias, 6);
}

TEST(CublasLt, RejectsUnsupportedCombinationsOfTypes) {
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

TEST(CublasLt, ReportsMisuse) {
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
      {"the epilogue needs a bias, but none is set",
       [&](Small &lib) {
         lib.epilogue(lt::Bias, 0);
         return lib.heuristic();
       }},
      {"the algorithm is for another matmul",
       [&](Small &lib) {
         EXPECT_EQ(lib.heuristic(), lt::SUCCESS);
         EXPECT_EQ(
             lib.set(lib.cublasLtMatrixLayoutSetAttribute, lib.dLayout, lt::LayoutLd, int64_t(4)),
             lt::SUCCESS);
         return lib.multiply(lib.first());
       }},
      {"not a result of a heuristic",
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

TEST(CublasLt, ChecksWorkspaceAndAlignment) {
  int workspaces = 0, alignments = 0, wholeWorkspaces = 0;
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
        if (result.workspaceSize == 1 << 20) // all of the workspace
          seen |= 4;
        if (result.workspaceSize) {
          seen |= 1;
          EXPECT_EQ(multiply(result.workspaceSize - 1), lt::INVALID_VALUE);
        }
        DevicePointer aligned = lib.a;
        lib.a = shifted + 4;
        if (multiply(1 << 20) != lt::SUCCESS)
          seen |= 2;
        lib.a = aligned;
        if (seen & 2)
          break;
      }
      if (!testing::Test::HasFailure())
        _exit(10 + seen);
    });
    EXPECT_GE(WEXITSTATUS(status), 10);
    workspaces += (WEXITSTATUS(status) - 10) & 1;
    alignments += (WEXITSTATUS(status) - 10) >> 1 & 1;
    wholeWorkspaces += (WEXITSTATUS(status) - 10) >> 2 & 1;
  }
  EXPECT_GT(wholeWorkspaces, 0);
  EXPECT_GT(workspaces, 0);
  EXPECT_GT(alignments, 0);
}

TEST(CublasLt, RunsInStreamOrder) {
  Findings findings;
  EXPECT_PASSES(findings.with(), [] {
    Small lib;
    DevicePointer b = lib.b;
    lib.b = lib.allocate(32); // unwritten
    EXPECT_EQ(lib.multiplySomehow(), lt::SUCCESS);
    EXPECT_EQ(lib.cuCtxSynchronize(), ERROR_LAUNCH_FAILED);
    lib.b = b;
    EXPECT_EQ(lib.multiplySomehow(), lt::EXECUTION_FAILED);
  });
  EXPECT_FINDS(findings, "matmul 3x2x4: initialization: reads 32 bytes of B that are unwritten");
}
