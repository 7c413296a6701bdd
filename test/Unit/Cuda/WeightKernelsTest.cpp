//===- WeightKernelsTest.cpp - PTX of weight-loading kernels --------------===//
//
// Results are tested by the device suite (runtime/conformance/WeightLoaderTest.cpp).
//
//===----------------------------------------------------------------------===//

#include "cuda/library/WeightKernels.h"

#include "tpc/Conversion/Cuda/Cuda.h"

#include "Ptx/Ptx.h"

#include <gtest/gtest.h>

using namespace mlir::tpc;

TEST(WeightKernels, RoundingIsExplicit) {
  EXPECT_EQ(llvm::toString(cuda::checkRounding(tpc::rt::cuda::weightKernels())), "");
}

TEST(WeightKernels, TargetTheOldestArchitecture) {
  std::string text = tpc::rt::cuda::weightKernels(), error;
  EXPECT_NE(text.find(".target sm_80\n"), std::string::npos);
  EXPECT_TRUE(ptx::parse(text, error)) << error;
}
