//===- ReadProgramTest.cpp - Textual programs -----------------------------===//

#include "ReadProgram.h"
#include "TestFolder.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace tpc;

namespace {

class ReadProgram : public TestFolder {
protected:
  /// Returns the level of a program, or the first error.
  std::string levelOf(const std::string &text, const std::string &name = "p.mlir") {
    mlir::MLIRContext context;
    std::string firstError;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      if (firstError.empty())
        firstError = diagnostic.str();
    });
    Emit level;
    mlir::OwningOpRef<mlir::ModuleOp> module = readProgram(write(name, text), &context, level);
    EXPECT_NE(bool(module), !firstError.empty());
    return module ? emitName(level).str() : firstError;
  }
  std::string specOf(const std::string &attribute) {
    mlir::MLIRContext context;
    context.loadDialect<mlir::tpc::TpcDialect>();
    auto grid =
        llvm::dyn_cast_or_null<mlir::tpc::MeshAttr>(mlir::parseAttribute(attribute, &context));
    EXPECT_TRUE(grid) << attribute;
    std::optional<ShardSpec> spec = grid ? getSpec(grid) : std::nullopt;
    return spec ? spec->str() : "nothing";
  }
};

constexpr char kGrid[] = "module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {\n";

} // namespace

TEST_F(ReadProgram, RecognizesTextByNameOrFirstBytes) {
  EXPECT_TRUE(isProgramText(write("a.mlir", "")));
  EXPECT_TRUE(isProgramText(write("program", "func.func @main() {\n\treturn\n}\n")));
  EXPECT_FALSE(isProgramText(write("model.onnx", std::string("\x08\x0a\x12\x03tpc", 7))));
  EXPECT_FALSE(isProgramText(write("empty", "")));
  EXPECT_FALSE(isProgramText(path("absent.onnx")));
  EXPECT_TRUE(isProgramText(write("bytecode", "ML\xefR and more")));
}

TEST_F(ReadProgram, FindsTheLevel) {
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                    "  return %x : tensor<4xf32>\n}"),
            "import");
  EXPECT_EQ(levelOf(std::string(kGrid) +
                    "func.func @main(%x: tensor<4xf32, #tpc.dist<[4{tp}]>>) {\n  return\n}\n}"),
            "sharded");
  EXPECT_EQ(levelOf(std::string(kGrid) +
                    "func.func @main(%x: tensor<2xf32, #tpc.dist<[4{tp}], local>>) {\n"
                    "  return\n}\n}"),
            "spmd");
  EXPECT_EQ(levelOf(std::string(kGrid) +
                    "tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {\n"
                    "  tpc.stage 0 {\n    tpc.micro_batches {\n    }\n  }\n}\n}"),
            "staged");
  // A program with a grid is sharded, even with one rank.
  EXPECT_EQ(levelOf("module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 1, mb = 1>} {\n"
                    "func.func @main(%x: tensor<4xf32>) {\n  return\n}\n}"),
            "sharded");
}

TEST_F(ReadProgram, RejectsInvalidPrograms) {
  EXPECT_EQ(levelOf("ML\xefR"), "is MLIR bytecode, but programs must be text; print it "
                                "with tpc-opt " +
                                    path("p.mlir"));
  EXPECT_EQ(levelOf("func.func private @layer(%x: tensor<4xf32>) {\n  return\n}"),
            "there is no function @main, and no tpc.pipeline: nothing to compile");
  EXPECT_EQ(levelOf("func.func private @main(tensor<4xf32>)"),
            "@main is declared, but has no body");
  EXPECT_EQ(levelOf("func.func @main(%x: i32) {\n  return\n}"),
            "an argument must be a tensor, but has type 'i32'");
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<4xindex>) {\n  return\n}"),
            "an argument must have integer or float elements, but has 'index'");
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<?xf32>) {\n  return\n}"),
            "an argument of type 'tensor<?xf32>' has unknown sizes; declare them in a "
            "#tpc.dist");
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<4xf32, 5>) {\n  return\n}"),
            "an argument of type 'tensor<4xf32, 5 : i64>' must have a #tpc.dist as its encoding");
}

TEST_F(ReadProgram, RejectsRecursion) {
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<4xf32>) {\n"
                    "  func.call @a(%x) : (tensor<4xf32>) -> ()\n  return\n}\n"
                    "func.func private @a(%x: tensor<4xf32>) {\n"
                    "  func.call @b(%x) : (tensor<4xf32>) -> ()\n  return\n}\n"
                    "func.func private @b(%x: tensor<4xf32>) {\n"
                    "  func.call @a(%x) : (tensor<4xf32>) -> ()\n  return\n}\n"),
            "@a must not be recursive, but calls itself here");
}

TEST_F(ReadProgram, RejectsMixedLevels) {
  EXPECT_EQ(levelOf("func.func @main(%x: tensor<4xf32, #tpc.dist<[4{tp}]>>) {\n  return\n}")
                    .find("the module has no tpc.mesh") == std::string::npos,
            false);
  EXPECT_EQ(levelOf(std::string(kGrid) +
                    "func.func @main(%x: tensor<4xf32, #tpc.dist<[4{tp}]>>, %y: tensor<2xf32, "
                    "#tpc.dist<[4{tp}], local>>) {\n  return\n}\n}"),
            "'func.func' belongs to the sharded level, because its type is split, but not local");
}

TEST_F(ReadProgram, PrintsTheGridAsAShardSpec) {
  EXPECT_EQ(specOf("#tpc.mesh<tp = 2, cp = 1, ep = 1, dp = 3, pp = 4, mb = 8>"), "tp2,pp4,dp3,mb8");
  EXPECT_EQ(specOf("#tpc.mesh<tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, mb = 1>"), "tp1");
  EXPECT_EQ(specOf("#tpc.mesh<atoms = [tpx = 2, tpy = 4, cp = 1, ep = 1, dp = 1, pp = 1], "
                   "views = {tp = [tpx, tpy]}, mb = 1>"),
            "tp2x4");
  EXPECT_EQ(specOf("#tpc.mesh<tp = 8, cp = 1, ep = 1, dp = 2, pp = 1, mb = 1, gpus_per_node = 8>"),
            "tp8,dp2,gpus-per-node=8");
  // Experts: each axis is a part of a dense axis and of an axis of experts.
  EXPECT_EQ(specOf("#tpc.mesh<atoms = [tp_etp = 2, tp_ep = 2, cp = 1, dp_ep = 2, dp_edp = 2, "
                   "pp = 1], views = {dp = [dp_ep, dp_edp], edp = [cp, dp_edp], "
                   "ep = [tp_ep, dp_ep], etp = [tp_etp], tp = [tp_etp, tp_ep]}, mb = 1>"),
            "tp4,dp4,ep4,etp2");
  EXPECT_EQ(specOf("#tpc.mesh<tp = 2, cp = 1, ep = 4, dp = 1, pp = 1, mb = 1>"), "tp2,ep4");
  EXPECT_EQ(specOf("#tpc.mesh<atoms = [tp_ep = 2, cp = 1, dp = 3, pp = 1], "
                   "views = {ep = [tp_ep], etp = [], tp = [tp_ep]}, mb = 1>"),
            "tp2,dp3,ep2,etp1");
  // Views that no grid has: replicas of experts within tp, and ranks of tp that are not in etp.
  EXPECT_EQ(specOf("#tpc.mesh<atoms = [tp_edp = 2, cp = 1, ep = 1, dp = 1, pp = 1], "
                   "views = {edp = [tp_edp, cp, dp], etp = [], tp = [tp_edp]}, mb = 1>"),
            "nothing");
  EXPECT_EQ(specOf("#tpc.mesh<atoms = [tp_etp = 2, cp = 1, ep = 1, dp = 1, pp = 1], "
                   "views = {tp = [tp_etp]}, mb = 1>"),
            "nothing");
  // There is no flag for an axis of another name.
  EXPECT_EQ(specOf("#tpc.mesh<rows = 2, mb = 1>"), "nothing");
}
