//===- OnnxShardedTest.cpp - Partitions as ONNX multi-device fields -------===//

#include "OnnxSharded.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Driver/Register.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace tpc;

namespace {

class OnnxSharded : public testing::Test {
protected:
  OnnxSharded() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module;
  }
  static ShardSpec specOf(llvm::StringRef text) {
    std::string message;
    std::optional<ShardSpec> spec = ShardSpec::parse(text.str(), message);
    EXPECT_TRUE(spec) << message;
    return *spec;
  }
  /// Prints a tensor's shards as "40 / 3 80{0 1}": the factors of each dimension and, in braces
  /// after a split factor, the shard of each rank.
  std::string print(const OnnxDevices &devices, const std::string &name) {
    auto found = devices.tensors.find(name);
    if (found == devices.tensors.end())
      return "nothing";
    std::string text;
    for (const auto &dim : found->second.dims) {
      text += text.empty() ? "" : " / ";
      for (size_t i = 0; i < dim.size(); ++i) {
        text += (i ? " " : "") + dim[i].size;
        if (dim[i].shards == 1)
          continue;
        text += "{";
        for (int64_t rank = 0; rank < devices.ranks; ++rank)
          text += (rank ? " " : "") + std::to_string(dim[i].shardOf(rank));
        text += "}";
      }
    }
    return text;
  }

  mlir::MLIRContext context;
};

#define X "tensor<?x40xf32, #tpc.dist<[batch, 40]>>"
#define H "tensor<?x80xf32, #tpc.dist<[batch, 80]>>"
#define H2 "tensor<?x160xf32, #tpc.dist<[batch, 160]>>"

/// An MLP whose first weight has two halves, [40, 2 * 80], each of which is a matrix.
constexpr char kGated[] = R"(
tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @w2 in "w" at 25600 : tensor<80x40xf32>
func.func @main(%x: )" X R"( {tpc.name = "x"}) -> )" X R"( {
  %a = tpc.parameter @w1 view <0 [[40 x 160], [80 x 1]]> : tensor<40x80xf32>
  %b = tpc.parameter @w1 view <80 [[40 x 160], [80 x 1]]> : tensor<40x80xf32>
  %c = tpc.parameter @w2 : tensor<80x40xf32>
  %g = tpc.matmul %x, %a : )" X R"(, tensor<40x80xf32> -> )" H R"(
  %u = tpc.matmul %x, %b : )" X R"(, tensor<40x80xf32> -> )" H R"(
  %s = tpc.silu %g : )" H " -> " H R"(
  %m = tpc.mul %s, %u : )" H ", " H " -> " H R"(
  %y = tpc.matmul %m, %c : )" H R"(, tensor<80x40xf32> -> )" X R"(
  return %y : )" X R"(
})";

} // namespace

TEST_F(OnnxSharded, ViewsDetermineShardsOfWeights) {
  auto module = parse(kGated);
  OnnxDevices devices;
  ASSERT_TRUE(mlir::succeeded(collectShardings(*module, specOf("tp2"), devices)));
  EXPECT_EQ(devices.ranks, 2);
  EXPECT_EQ(devices.stages, 1);
  // Both halves of each row are split in the same way: each rank has a shard of both blocks of 80
  // columns.
  EXPECT_EQ(print(devices, "w1"), "40 / 2 80{0 1}");
  EXPECT_EQ(print(devices, "w2"), "80{0 1} / 40");
  EXPECT_EQ(print(devices, "x"), "nothing");
  EXPECT_EQ(devices.tensors.size(), 2u);
  // The program is unchanged.
  EXPECT_FALSE((*module)->hasAttr("tpc.tactics"));
}

TEST_F(OnnxSharded, RanksFollowTheOrderOfAxes) {
  OnnxDevices devices;
  ASSERT_TRUE(
      mlir::succeeded(collectShardings(*parse(kGated), specOf("tp2,dp2,order=dp-tp"), devices)));
  EXPECT_EQ(devices.ranks, 4);
  EXPECT_EQ(print(devices, "w1"), "40 / 2 80{0 0 1 1}");
  // Replicas have different samples; the input's declared sizes are global.
  EXPECT_EQ(print(devices, "x"), "batch{0 1 0 1} / 40");
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(devices.stageOf(rank), 0);
}

TEST_F(OnnxSharded, WeightsWithDifferentUsesAreOmitted) {
  // Two matmuls, split by columns and by rows, with two weights or with one.
  auto with = [&](const std::string &second) {
    return parse(R"(
tpc.weight @w in "w" at 0 : tensor<40x40xf32>
tpc.weight @v in "w" at 6400 : tensor<40x40xf32>
func.func @main(%x: )" X R"() -> )" X R"( {
  %a = tpc.parameter @w : tensor<40x40xf32>
  %b = tpc.parameter @)" +
                 second + R"( : tensor<40x40xf32>
  %h = tpc.matmul %x, %a : )" X R"(, tensor<40x40xf32> -> )" X R"(
  %g = tpc.gelu tanh %h : )" X " -> " X R"(
  %y = tpc.matmul %g, %b : )" X R"(, tensor<40x40xf32> -> )" X R"(
  return %y : )" X R"(
})");
  };
  OnnxDevices two, one;
  ASSERT_TRUE(mlir::succeeded(collectShardings(*with("v"), specOf("tp2"), two)));
  EXPECT_EQ(print(two, "w"), "40 / 40{0 1}");
  EXPECT_EQ(print(two, "v"), "40{0 1} / 40");
  ASSERT_TRUE(mlir::succeeded(collectShardings(*with("w"), specOf("tp2"), one)));
  EXPECT_TRUE(one.tensors.empty());
}

TEST_F(OnnxSharded, AnnotationsAddValuesAndReplicatedTensors) {
  constexpr char program[] = R"(
tpc.weight @split in "w" at 0 {tpc.sharding = [unit, #tpc.dim<80{tp}>]} : tensor<40x80xf32>
tpc.weight @whole in "w" at 0 {tpc.sharding = [#tpc.dim<40>, #tpc.dim<80>]} : tensor<40x80xf32>
func.func @main(%x: )" X R"() -> )" X R"( {
  %y = tpc.exp %x {tpc.sharding = [%FIRST, #tpc.dim<40{tp}>]} : )" X " -> " X
                             R"( loc("node"("Exp"("y")))
  return %y : )" X R"(
})";
  auto with = [&](llvm::StringRef first) {
    std::string text = program;
    return parse(text.replace(text.find("%FIRST"), 6, first.str()));
  };
  OnnxDevices devices;
  EXPECT_TRUE(
      mlir::succeeded(collectAnnotations(*with("#tpc.dim<batch>"), specOf("tp2"), devices)));
  EXPECT_EQ(print(devices, "split"), "nothing"); // no annotation: tactics determine the split
  EXPECT_EQ(print(devices, "whole"), "40 / 80");
  std::string text;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) { text = diagnostic.str(); });
  EXPECT_TRUE(mlir::failed(collectAnnotations(*with("unit"), specOf("tp2"), devices)));
  EXPECT_NE(text.find("cannot be written to an ONNX file, which cannot express '?'"),
            std::string::npos)
      << text;
}

TEST_F(OnnxSharded, NodesOfSeveralStagesHaveNoStage) {
  OnnxDevices devices;
  collectStages(*parse(R"(
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 2, mb = 1>} {
func.func private @stage_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = tpc.exp %x : tensor<4xf32> -> tensor<4xf32> loc("mask")
  %y = tpc.add %x, %m : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> loc("h.0")
  return %y : tensor<4xf32>
}
func.func private @stage_1(%x: tensor<4xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %m = tpc.exp %i : tensor<4xf32> -> tensor<4xf32> loc("mask")
  %y = tpc.add %x, %m : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> loc("h.1")
  return %y : tensor<4xf32>
}
func.func private @not_called(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = tpc.exp %x : tensor<4xf32> -> tensor<4xf32> loc("dead")
  return %m : tensor<4xf32>
}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %y = func.call @stage_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
      tpc.send %y to 1 : tensor<4xf32>
    }
  }
  tpc.stage 1 {
    tpc.micro_batches {
      %r = tpc.recv from 0 : tensor<4xf32>
      %y = func.call @stage_1(%r, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      tpc.output 0, %y : tensor<4xf32>
    }
  }
}
})"),
                devices);
  EXPECT_EQ(devices.nodes, (std::map<std::string, int64_t>{{"h.0", 0}, {"h.1", 1}}));
}
