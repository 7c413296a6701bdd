//===- GemvDependentTest.cpp - Dependent launches of GEMV kernels ---------===//
//
// Seeds violations of tpc/dependent_launch.h. The static check rejects each, or the interpreter
// finds it.
//
//===----------------------------------------------------------------------===//

#include "GemvCases.h"
#include "Violations.h"

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Gemv.h"

#include <gtest/gtest.h>

using namespace gemv;
using namespace mlir::tpc;
using llvm::StringRef;

namespace {

constexpr Variant variants[] = {
    {TPC_BF16, false, 2}, {TPC_F32, true, 3}, {TPC_BF16, false, 1, true}};

std::string check(StringRef text, const Variant &variant) {
  return llvm::toString(cuda::checkDependentLaunch(text, getName(variant), tpc::gemv::kConstants));
}

TEST(GemvDependent, AllKernelsMayBeginEarly) {
  for (const Variant &variant : getVariants()) {
    std::string text = getText(variant);
    EXPECT_EQ(check(text, variant), "");
    EXPECT_GE(StringRef(text).count("\tgriddepcontrol.launch_dependents;"), 4u);
  }
}

TEST(GemvDependent, ErrorsNameTheLine) {
  Variant variant{TPC_F32, false, 1};
  std::string text = getText(variant);
  size_t at = 0;
  while ((at = text.find("griddepcontrol.wait;", at)) != std::string::npos)
    text.replace(at, 20, "");
  std::string error = check(text, variant);
  EXPECT_TRUE(StringRef(error).starts_with("kernel 'tpc_gemv_f32_kn_1', line ")) << error;
  EXPECT_TRUE(StringRef(error).ends_with(
      "reads memory of parameter 1, which is not constant, before griddepcontrol.wait"))
      << error;
  EXPECT_EQ(check(text, {TPC_F32, true, 1}), "kernel 'tpc_gemv_f32_nk_1': there is no such kernel");
}

// The gate does not follow calls and computed branches, so it rejects them before the wait.
TEST(GemvDependent, CallsBeforeTheWait) {
  Variant variant{TPC_F32, false, 1};
  const std::string text = getText(variant), begin = ".visible .entry " + getName(variant) + "(";
  size_t wait = text.find("griddepcontrol.wait;", text.find(begin));
  ASSERT_NE(wait, std::string::npos);
  for (const char *op : {"call.uni other, ();\n\t", "brx.idx %r1, places;\n\t"}) {
    std::string error = check(std::string(text).insert(wait, op), variant);
    EXPECT_TRUE(StringRef(error).ends_with("leaves the checked code before griddepcontrol.wait"))
        << error;
  }
}

TEST(GemvDependent, ViolationsAreFound) {
  size_t seeded = 0, rejected = 0, caught = 0;
  for (const Variant &variant : variants) {
    std::vector<Case> cases;
    for (uint64_t seed = 0; seed < 8; ++seed)
      cases.push_back(drawCase(variant, 31 * seed + 3));
    for (const std::string &text :
         compare::makeViolations(getText(variant), getName(variant), /*readsConstants=*/true)) {
      std::string error;
      auto module = ptx::parse(text, error);
      ASSERT_TRUE(module) << error;
      ++seeded;
      bool isRejected = !check(text, variant).empty();
      bool isCaught = std::any_of(cases.begin(), cases.end(), [&](const Case &made) {
        return !run(*module, made).problem.empty();
      });
      rejected += isRejected;
      caught += isCaught;
      EXPECT_TRUE(isRejected || isCaught) << text;
    }
  }
  std::printf("%zu violations: %zu rejected, %zu found by the interpreter\n", seeded, rejected,
              caught);
  EXPECT_GE(seeded, 60u);
  EXPECT_GE(rejected * 100, seeded * 95);
  EXPECT_GE(caught * 100, seeded * 80);
}

} // namespace
