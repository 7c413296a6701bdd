//===- DependentKernelsTest.cpp - Dependent launches of a step's kernels --===//
//
// All kernels of a step wait for the previous kernel (tpc/dependent_launch.h). The static check
// rejects each seeded violation.
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"
#include "Violations.h"

#include "cuda/library/AccumulateKernels.h"
#include "cuda/library/AppendKernels.h"
#include "cuda/library/GemvText.h"
#include "cuda/library/SamplingKernels.h"
#include "tpc/dependent_launch.h"

#include "tpc/Conversion/Cuda/Gemv.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::dependent_launch::enable;

namespace {

struct Text {
  std::string ptx;
  std::vector<std::string> kernels;
  ArrayRef<unsigned> constants;
};

/// Sums of rows, an elementwise kernel with a check, and a transposition.
Text makeGenerated() {
  cuda::Compiled compiled = cuda::compile(R"(
tpc_kernel.func @sum(%x: memref<?x?xf32> of [n, 768]) -> (%y: memref<?xf32> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %s, %y[%i] : memref<?xf32>
    }
  }
}
tpc_kernel.func @add(%x: memref<?x?xf32> of [n, m], %z: memref<?x?xf32> of [n, m]) -> (%y: memref<?x?xf32> of [n, m]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [m] {
      %a = memref.load %x[%i, %j] : memref<?x?xf32>
      %b = memref.load %z[%i, %j] : memref<?x?xf32>
      %c = arith.addf %a, %b : f32
      memref.store %c, %y[%i, %j] : memref<?x?xf32>
    }
  }
}
tpc_kernel.func @transpose(%x: memref<?x?xf32> of [m, n]) -> (%y: memref<?x?xf32> of [n, m]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [m] {
      %v = memref.load %x[%j, %i] : memref<?x?xf32>
      memref.store %v, %y[%i, %j] : memref<?x?xf32>
    }
  }
})");
  Text text{enable(compiled.code.ptx), {}, {}};
  for (const cuda::Launch &launch : compiled.code.launches)
    text.kernels.push_back(launch.name);
  return text;
}

Text makeAttention() {
  MLIRContext context;
  cuda::loadKernelDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Text text{{}, {}, ::tpc::attention::kConstants};
  for (cuda::AttentionVariant variant :
       {cuda::AttentionVariant{
            .element = TPC_BF16, .headSize = 64, .valueSize = 64, .causal = true, .cached = true},
        {.bias = TPC_F32, .headSize = 24, .valueSize = 24, .mask = true}}) {
    cuda::AttentionKernels made = cuda::makeAttentionKernels(*module, variant);
    text.kernels.push_back(made.tiles.name);
    text.kernels.push_back(made.split.name);
  }
  llvm::Expected<std::string> ptx = cuda::writePtx(*module, {80}, 3);
  EXPECT_TRUE(static_cast<bool>(ptx));
  if (ptx)
    text.ptx = enable(*ptx);
  return text;
}

std::vector<Text> makeTexts() {
  namespace rt = ::tpc::rt::cuda;
  std::vector<Text> texts;
  texts.push_back({enable(rt::accumulateKernels()), {rt::accumulateKernelNames[0]}, {}});
  texts.push_back({enable(rt::appendKernels()),
                   {std::begin(rt::appendKernelNames), std::end(rt::appendKernelNames)},
                   {}});
  texts.push_back({enable(rt::samplingKernels()),
                   {std::begin(rt::samplingKernelNames), std::end(rt::samplingKernelNames)},
                   {}});
  Text experts{enable(rt::expertsText()), {"tpc_experts_rows", "tpc_experts_combine"}, {}};
  for (const char *type : {"f32", "f16", "bf16"})
    for (const char *kind : {"inner", "outputs", "grouped"})
      experts.kernels.push_back(std::string("tpc_experts_") + kind + "_" + type);
  texts.push_back(std::move(experts));
  texts.push_back(makeGenerated());
  texts.push_back(makeAttention());
  return texts;
}

TEST(DependentKernels, ViolationsAreRejected) {
  size_t seeded = 0;
  for (const Text &text : makeTexts())
    for (const std::string &kernel : text.kernels) {
      auto check = [&](StringRef ptx) {
        return llvm::toString(cuda::checkDependentLaunch(ptx, kernel, text.constants));
      };
      EXPECT_EQ(check(text.ptx), "");
      EXPECT_TRUE(StringRef(text.ptx).contains(".target sm_90"));
      for (const std::string &wrong :
           compare::makeViolations(text.ptx, kernel, !text.constants.empty())) {
        ++seeded;
        EXPECT_NE(check(wrong), "") << kernel << "\n" << wrong;
      }
    }
  std::printf("%zu violations\n", seeded);
  EXPECT_GE(seeded, 200u);
}

TEST(DependentKernels, TextsOfArchitectures) {
  using ::tpc::dependent_launch::getText;
  const char *text = ".version 7.4\n.target sm_87\n// griddepcontrol.wait;\n";
  EXPECT_EQ(getText(text, 87), text);
  EXPECT_EQ(getText(text, 90), ".version 7.8\n.target sm_90\ngriddepcontrol.wait;\n");
  EXPECT_EQ(getText(".version 8.6\n.target sm_100\n\tgriddepcontrol.wait;\n", 100),
            ".version 8.6\n.target sm_100\n\tgriddepcontrol.wait;\n");
}

} // namespace
