//===- GemvStaticTest.cpp - Resources of matrix-vector kernels ------------===//

#include "GemvCases.h"

#include "cuda/library/GemvText.h"

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Gemv.h"

#include <gtest/gtest.h>

using namespace mlir::tpc;
using llvm::StringRef;

namespace {

constexpr std::pair<bool, bool> kinds[] = {{false, false}, {true, false}, {false, true}};

TEST(GemvStatic, RoundingIsExplicit) {
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16})
    for (auto [transposed, fused] : kinds)
      EXPECT_EQ(llvm::toString(
                    cuda::checkRounding(::tpc::rt::cuda::gemvText(element, transposed, fused))),
                "");
  EXPECT_EQ(llvm::toString(cuda::checkRounding(::tpc::rt::cuda::expertsText())), "");
  EXPECT_EQ(llvm::toString(cuda::checkRounding(::tpc::rt::cuda::routedText())), "");
}

/// Weights are read by accesses of 16 bytes. Activations are not read through the read-only cache:
/// with programmatic dependent launch, they may change while the kernel runs.
TEST(GemvStatic, LoadsAreWide) {
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16})
    for (auto [transposed, fused] : kinds) {
      StringRef text = ::tpc::rt::cuda::gemvText(element, transposed, fused);
      EXPECT_EQ(text.count("ld.global.nc"), 0u);
      EXPECT_GE(text.count("ld.global.v4"), 4u * 2 * ::tpc::gemv::kLoads);
    }
  StringRef experts = ::tpc::rt::cuda::expertsText();
  EXPECT_EQ(experts.count("ld.global.nc"), 0u);
  // Three matrices, four accesses at once, three types.
  EXPECT_GE(experts.count("ld.global.v4"), 3u * 4 * 3);
}

/// Kernels of experts do not spill, and a block fits into a multiprocessor.
TEST(GemvStatic, ExpertsFitIntoRegisters) {
  std::string assembler = cuda::findAssembler();
  if (assembler.empty())
    GTEST_SKIP() << "there is no ptxas";
  cuda::Code code;
  code.ptx = ::tpc::rt::cuda::expertsText();
  for (const char *type : {"f32", "f16", "bf16"})
    for (const char *kind : {"inner", "outputs", "grouped"})
      code.launches.emplace_back().name = std::string("tpc_experts_") + kind + "_" + type;
  llvm::Error error = cuda::assemble(code, {90}, assembler);
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  for (auto [launch, needs] : llvm::zip_equal(code.launches, code.cubins[0].kernels)) {
    EXPECT_EQ(needs.spillBytes + needs.stackBytes, 0u) << launch.name;
    EXPECT_LE(needs.registers * ::tpc::gemv::kThreads, cuda::kRegisters) << launch.name;
    EXPECT_LE(needs.sharedBytes, 48u << 10) << launch.name;
  }
}

/// A multiprocessor has registers for the required number of blocks, and no kernel spills.
TEST(GemvStatic, FitsIntoRegisters) {
  std::string assembler = cuda::findAssembler();
  if (assembler.empty())
    GTEST_SKIP() << "there is no ptxas";
  const char *level = std::getenv("TPC_TESTS");
  bool isLong = level && StringRef(level) == "long";
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16})
    for (auto [transposed, fused] : kinds) {
      if (!isLong && (element == TPC_F16 || (element == TPC_F32 && transposed)))
        continue;
      cuda::Code code;
      code.ptx = ::tpc::rt::cuda::gemvText(element, transposed, fused);
      std::vector<cuda::GemvVariant> variants;
      for (int64_t m = 1; m <= ::tpc::gemv::kMaxRows; ++m) {
        variants.push_back({element, transposed, m, fused});
        code.launches.emplace_back().name = cuda::getName(variants.back());
      }
      cuda::Architectures architectures{90};
      if (isLong)
        architectures = {80, 90, 100};
      llvm::Error error = cuda::assemble(code, architectures, assembler);
      ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
      for (const cuda::Cubin &cubin : code.cubins)
        for (auto [i, needs] : llvm::enumerate(cubin.kernels)) {
          std::string what = code.launches[i].name + " for sm_" +
                             std::to_string(cubin.architecture) + ": " +
                             std::to_string(needs.registers) + " registers";
          EXPECT_EQ(needs.spillBytes, 0u) << what;
          EXPECT_EQ(needs.stackBytes, 0u) << what;
          EXPECT_LE(needs.registers * ::tpc::gemv::kThreads * cuda::getMinBlocks(variants[i]),
                    cuda::kRegisters)
              << what;
          EXPECT_LE(needs.sharedBytes + (fused ? ::tpc::gemv::kMaxStagedBytes : 0), 48u << 10)
              << what;
        }
    }
}

} // namespace
