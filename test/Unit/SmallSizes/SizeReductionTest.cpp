//===- SizeReductionTest.cpp - Small attention windows and sizes ----------===//

#include "SizeReduction.h"

#include "tpc/Verify/Verify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tpc;
using equivalence::SizeReduction;

namespace {
/// Attention with heads of size 4, 3 kv heads of 6, 24 channels, 48 words.
class SmallSizes : public ::testing::Test {
protected:
  SmallSizes() {
    DialectRegistry registry;
    registry.insert<TpcDialect, func::FuncDialect>();
    registerVerification(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  OwningOpRef<ModuleOp> make(ArrayRef<int64_t> windows) {
    std::string text = R"(
      !x = tensor<?x?x24xf32, #tpc.dist<[batch, sequence, 24]>>
      !q = tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>
      !kv = tensor<?x?x3x4xf32, #tpc.dist<[batch, sequence, 3, 4]>>
      !y = tensor<?x?x48xf32, #tpc.dist<[batch, sequence, 48]>>
      tpc.weight @w in "w" at 0 : tensor<24x48xf32>
      func.func @main(%x: !x, %k: !kv) -> !y {
        %w = tpc.parameter @w : tensor<24x48xf32>
        %q = tpc.reshape %x : !x -> !q
    )";
    std::string last = "%q";
    for (auto [i, window] : llvm::enumerate(windows)) {
      std::string next = "%a" + std::to_string(i);
      text += next + " = tpc.attention causal " + last + ", %k, %k scale 0.5 window " +
              std::to_string(window) + " : !q, !kv, !kv -> !q\n";
      last = next;
    }
    text += "%o = tpc.reshape " + last +
            " : !q -> !x\n"
            "%y = tpc.matmul %o, %w : !x, tensor<24x48xf32> -> !y\n"
            "return %y : !y }";
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module;
  }

  SizeReduction reduce(ArrayRef<int64_t> model, ArrayRef<int64_t> program, int64_t base = 3) {
    modules.push_back(make(model));
    modules.push_back(make(program));
    return SizeReduction(*modules.end()[-2], *modules.end()[-1], {},
                         MeshAttr::get(&context, {}, {}, 1), base);
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};
} // namespace

TEST_F(SmallSizes, WindowsAreNotSizes) {
  // Windows that equal the head size, kv heads, heads, channels, words, or a factor of a reshape.
  SizeReduction without = reduce({5}, {5});
  for (int64_t window : {4, 3, 6, 24, 48, 2, 12}) {
    SizeReduction sizes = reduce({window}, {window});
    for (int64_t n : {2, 3, 4, 6, 24, 48})
      EXPECT_EQ(sizes.get(n), without.get(n)) << n << " with a window of " << window;
    EXPECT_EQ(sizes.evaluateWindow(window), 2) << window;
    EXPECT_EQ(sizes.get(24), sizes.get(6) * sizes.get(4));
    EXPECT_EQ(sizes.get(6), sizes.get(3) * sizes.get(2));
  }
}

TEST_F(SmallSizes, DifferentWindowsStayDifferent) {
  for (auto [one, other] : {std::pair(6, 4), std::pair(24, 48), std::pair(3, 6), std::pair(7, 8),
                            std::pair(1, 24), std::pair(4096, 4095)}) {
    SizeReduction sizes = reduce({one}, {other});
    EXPECT_NE(sizes.evaluateWindow(one), sizes.evaluateWindow(other)) << one << ", " << other;
    EXPECT_EQ(sizes.evaluateWindow(one) < sizes.evaluateWindow(other), one < other);
  }
}

TEST_F(SmallSizes, UnknownWindowsDifferFromKnownOnes) {
  SizeReduction sizes = reduce({4, 6}, {6, 24});
  for (int64_t window : {4, 6, 24})
    for (int64_t other : {1, 5, 7, 48, 100000})
      EXPECT_NE(sizes.evaluateWindow(window), sizes.evaluateWindow(other))
          << window << ", " << other;
}

TEST_F(SmallSizes, SequencesAreLongerThanWindows) {
  SizeReduction sizes = reduce({4, 6, 24}, {4, 6, 48});
  int64_t sequence = sizes.evaluate(::tpc::SymExpr::symbol("sequence"));
  for (int64_t window : {4, 6, 24, 48})
    EXPECT_LT(sizes.evaluateWindow(window), sequence);
}

TEST_F(SmallSizes, ShortTablesShortenWindows) {
  SizeReduction sizes = reduce({24}, {24});
  int samples = 1;
  bool shorter = false;
  for (; sizes.setNextSample(); ++samples)
    shorter |= sizes.evaluateWindow(24) == 1;
  EXPECT_TRUE(shorter);
  EXPECT_EQ(samples, 2 * SizeReduction::samples);
  // If there is a window of one key already, no other becomes as short.
  SizeReduction with = reduce({1, 24}, {1, 24});
  while (with.setNextSample())
    EXPECT_NE(with.evaluateWindow(24), with.evaluateWindow(1));
}
