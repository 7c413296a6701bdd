//===- TacticTest.cpp - Order of tactics, and one outside of the compiler -===//

#include "tpc/Transforms/Tactics/Tactic.h"
#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Transforms/Tactics/ValueExplanation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::tpc;

namespace {

::tpc::ShardSpec parse(StringRef text) {
  std::string error;
  std::optional<::tpc::ShardSpec> spec = ::tpc::ShardSpec::parse(text.str(), error);
  EXPECT_TRUE(spec) << error;
  return *spec;
}

/// Tactic that runs only while `enabled`, so that it does not disturb other tests.
struct TestTactic : Tactic {
  TestTactic(StringRef name, SmallVector<StringRef> needs, SmallVector<StringRef> provides)
      : name(name), needs(std::move(needs)), provides(std::move(provides)) {}
  StringRef getName() const override { return name; }
  StringRef getSummary() const override { return "nothing"; }
  bool isEnabled(const ::tpc::ShardSpec &) const override { return enabled == name; }
  SmallVector<StringRef> getNeeds() const override { return needs; }
  SmallVector<StringRef> getProvides() const override { return provides; }
  LogicalResult seed(PartitionState &) const override { return success(); }

  StringRef name;
  SmallVector<StringRef> needs, provides;
  static StringRef enabled;
};
StringRef TestTactic::enabled;

class Tactics : public testing::Test {
protected:
  Tactics() { context.loadDialect<TpcDialect, func::FuncDialect>(); }

  /// Returns the names in execution order, or the error.
  std::string order(StringRef spec) {
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diag) { text = diag.str(); });
    auto tactics = getTactics(parse(spec), [&] { return emitError(UnknownLoc::get(&context)); });
    if (succeeded(tactics))
      for (const Tactic *tactic : *tactics)
        text += (text.empty() ? "" : " ") + tactic->getName().str();
    return text;
  }

  MLIRContext context;
};

TEST_F(Tactics, RunInTheOrderOfFacts) {
  EXPECT_EQ(order("tp1"), "annotations dp tp vocabulary conflicts");
  EXPECT_EQ(order("tp2,ep2,etp1,sp"), "annotations dp ep tp vocabulary positions conflicts sp");
  EXPECT_EQ(order("tp2x2"), "annotations dp tp vocabulary rows positions conflicts");
  EXPECT_EQ(order("tp2,manual"), "annotations dp conflicts");
}

TEST_F(Tactics, AreRejectedInACycle) {
  static bool once = [] {
    registerTactic(std::make_unique<TestTactic>("late", SmallVector<StringRef>{"tokens"},
                                                SmallVector<StringRef>{"axes"}));
    registerTactic(std::make_unique<TestTactic>("lost", SmallVector<StringRef>{"tokns"},
                                                SmallVector<StringRef>{"axes"}));
    return true;
  }();
  (void)once;
  TestTactic::enabled = "late";
  EXPECT_EQ(order("tp2,sp"), "tactics need each other: conflicts, sp, late");
  TestTactic::enabled = "lost";
  EXPECT_EQ(order("tp2"), "tactic 'lost' needs 'tokns', which no tactic provides");
  TestTactic::enabled = "";
  EXPECT_EQ(order("tp2"), "annotations dp tp vocabulary positions conflicts");
}

constexpr char program[] = R"mlir(
tpc.weight @w in "w" at 0 : tensor<50x8xf32>
tpc.weight @p in "w" at 1600 : tensor<12x8xf32>
func.func @main(%x: tensor<6xi64>, %y: tensor<6xi64>) -> tensor<6x8xf32> {
  %w = tpc.parameter @w : tensor<50x8xf32>
  %p = tpc.parameter @p : tensor<12x8xf32>
  %a = tpc.embedding %w, %x : tensor<50x8xf32>, tensor<6xi64> -> tensor<6x8xf32> loc("words")
  %b = tpc.embedding %p, %y : tensor<12x8xf32>, tensor<6xi64> -> tensor<6x8xf32> loc("places")
  %c = tpc.add %a, %b : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32> loc("sum")
  %n = tpc.softmax %c dim 1 : tensor<6x8xf32> -> tensor<6x8xf32> loc("last")
  return %n : tensor<6x8xf32>
}
)mlir";

TEST_F(Tactics, OutsideOfTheCompilerSplitATable) {
  auto module = parseSourceString<ModuleOp>(program, &context);
  PassManager pm(&context);
  AssignShardingsOptions options;
  options.shard = parse("tp2");
  pm.addPass(createAssignShardings(options));
  pm.addPass(createInsertReshards());
  pm.addPass(createLowerReshards()); // rejects collectives that no tactic expects
  ASSERT_TRUE(succeeded(pm.run(*module)));

  std::string splits, predicted;
  for (auto record :
       (*module)->getAttrOfType<ArrayAttr>(kTacticsAttr).getAsRange<DictionaryAttr>()) {
    std::string name = record.getAs<StringAttr>("name").str();
    for (auto split : record.getAs<ArrayAttr>("splits").getAsRange<StringAttr>())
      splits += name + ": " + split.str() + "\n";
    for (auto one : record.getAs<ArrayAttr>("predicts").getAsRange<DictionaryAttr>())
      predicted += name + ": " + one.getAs<StringAttr>("kind").str() + "\n";
  }
  EXPECT_EQ(splits, "vocabulary: 50 over tp 2: words\npositions: 12 over tp: places\n");
  EXPECT_EQ(predicted, "vocabulary: all_reduce\npositions: all_reduce\n");
  int sums = 0;
  module->walk([&](AllReduceOp) { ++sums; });
  EXPECT_EQ(sums, 1); // both tables are added before the reduction
}

TEST_F(Tactics, OutsideOfTheCompilerAreExplained) {
  auto module = parseSourceString<ModuleOp>(program, &context);
  auto found = explainDistributions(*module, parse("tp2"), "p");
  ASSERT_TRUE(succeeded(found) && found->size() == 1);
  const SplitReason &rows = found->front().splits.front();
  EXPECT_EQ(rows.what, "dimension 0: 12 over tp");
  EXPECT_EQ(rows.tactic, "positions");
  EXPECT_EQ(rows.why, "a rank stores its part of the table");
  EXPECT_EQ(rows.path, std::vector<std::string>{"reduced by 'places' (tpc.embedding)"});
}

} // namespace
