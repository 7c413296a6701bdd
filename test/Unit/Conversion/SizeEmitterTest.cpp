//===- SizeEmitterTest.cpp - Evaluation of sizes emitted as LLVM IR -------===//

#include "tpc/Conversion/Env/SizeEmitter.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// A program with inputs [n, s] and [8, p + n] on a grid, and a function to which a SizeEmitter
/// adds ops.
class SizeEmission : public ::testing::Test {
protected:
  SizeEmission() {
    context.loadDialect<TpcDialect, LLVM::LLVMDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(R"(
      module attributes {tpc.mesh = #tpc.mesh<tp = 4, dp = 3, pp = 1, mb = 2>} {
        tpc.pipeline @main(%x: tensor<?x?xf32, #tpc.dist<[n, s], local>>,
                           %y: tensor<8x?xf32, #tpc.dist<[8, "p + n"], local>>) inputs [{}, {}] outputs [] {
          tpc.stage 0 {
          }
        }
      })",
                                         &context);
    layout = *EnvLayout::get(*module);
    OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&context),
                                            {LLVM::LLVMPointerType::get(&context)});
    auto function = LLVM::LLVMFuncOp::create(b, b.getUnknownLoc(), "sizes", type);
    body = function.addEntryBlock(b);
    b.setInsertionPointToStart(body);
    sizes = std::make_unique<SizeEmitter>(b, b.getUnknownLoc(), layout, body->getArgument(0));
  }

  /// Evaluates an op as the CPU does. Returns nullopt if it traps.
  std::optional<int64_t> evaluate(Value v, ArrayRef<int64_t> env) {
    if (std::optional<int64_t> constant = asConstant(v))
      return constant;
    Operation *op = v.getDefiningOp();
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      auto address = load.getAddr().getDefiningOp<LLVM::GEPOp>();
      return env[cast<IntegerAttr>(address.getIndices()[0]).getInt()];
    }
    SmallVector<int64_t> x;
    for (Value operand : op->getOperands()) {
      std::optional<int64_t> value = evaluate(operand, env);
      if (!value)
        return std::nullopt;
      x.push_back(*value);
    }
    if (isa<LLVM::AddOp>(op))
      return x[0] + x[1];
    if (isa<LLVM::SubOp>(op))
      return x[0] - x[1];
    if (isa<LLVM::MulOp>(op))
      return x[0] * x[1];
    if (isa<LLVM::SMinOp>(op))
      return std::min(x[0], x[1]);
    if (isa<LLVM::SMaxOp>(op))
      return std::max(x[0], x[1]);
    if (isa<LLVM::SelectOp>(op))
      return x[0] ? x[1] : x[2];
    if (auto compare = dyn_cast<LLVM::ICmpOp>(op))
      return compare.getPredicate() == LLVM::ICmpPredicate::slt ? x[0] < x[1] : -1;
    if (x[1] == 0)
      return std::nullopt;
    return isa<LLVM::SDivOp>(op) ? x[0] / x[1] : x[0] % x[1];
  }

  Value emit(StringRef text) { return sizes->expr(*SymExpr::parse(text.str())); }

  /// Calls `check(env, symbols)` for all small sizes and all ranks.
  void forAll(function_ref<void(ArrayRef<int64_t>, const std::map<std::string, int64_t> &)> check) {
    for (int64_t n : {0, 1, 2, 7})
      for (int64_t s : {0, 1, 3})
        for (int64_t p : {0, 5})
          for (int64_t tp = 0; tp < 4; ++tp)
            for (int64_t dp = 0; dp < 3; ++dp)
              for (int64_t mb = 0; mb < 2; ++mb)
                check({n, s, p, tp, dp, 0, mb}, {{"n", n},
                                                 {"s", s},
                                                 {"p", p},
                                                 {"rank.tp", tp},
                                                 {"rank.dp", dp},
                                                 {"rank.mb", mb}});
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  EnvLayout layout;
  Block *body = nullptr;
  std::unique_ptr<SizeEmitter> sizes;
};
} // namespace

TEST_F(SizeEmission, EnvIsSymbolsCoordinatesMicroBatch) {
  // Symbols are in the order of the inputs. Symbols of one size are sorted by name. Each occurs
  // once.
  EXPECT_EQ(layout.symbols, (SmallVector<std::string>{"n", "s", "p"}));
  EXPECT_EQ(layout.symbolIndex("p"), 2u);
  EXPECT_EQ(layout.symbolIndex("q"), std::nullopt);
  EXPECT_EQ(layout.axisIndex("tp"), 3u);
  EXPECT_EQ(layout.axisIndex("dp"), 4u);
  EXPECT_EQ(layout.axisIndex("pp"), 5u);
  EXPECT_EQ(layout.axisIndex("mb"), 6u);
  EXPECT_EQ(layout.axisIndex("cp"), std::nullopt);
  EXPECT_EQ(layout.size(), 7u);
  EXPECT_EQ(layout.axisSize("dp"), 3);

  EnvLayout alone; // no grid
  EXPECT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone.axisIndex("mb"), 0u);
  EXPECT_EQ(alone.axisSize("tp"), 1);
}

TEST_F(SizeEmission, EmittedCodeMatchesExpressions) {
  for (const char *text :
       {"n", "n*s + 2*n - 3", "p - n*n", "floordiv(n - 5, 3)", "mod(n - 5, 3)",
        "floordiv(n, s + 1)", "mod(p - n, s + 1)", "min(n, s)", "max(n - s, 0)",
        "min(n, 3)*max(p, 2)", "rank.mb + n", "n*floordiv(n - rank.tp + 3, 4) + rank.dp",
        "floordiv(floordiv(n, 2) - 4, 3)"}) {
    SymExpr expr = *SymExpr::parse(text);
    Value value = sizes->expr(expr);
    forAll([&](ArrayRef<int64_t> env, const std::map<std::string, int64_t> &symbols) {
      EXPECT_EQ(evaluate(value, env), expr.evaluate(symbols)) << text;
    });
  }
}

TEST_F(SizeEmission, DivisionByZeroDoesNotTrap) {
  for (const char *text :
       {"floordiv(n, s)", "mod(n, s)", "floordiv(n - 5, s - 1)", "mod(n, s - 3)"}) {
    SymExpr expr = *SymExpr::parse(text);
    Value value = sizes->expr(expr);
    forAll([&](ArrayRef<int64_t> env, const std::map<std::string, int64_t> &symbols) {
      std::optional<int64_t> computed = evaluate(value, env), meant = expr.evaluate(symbols);
      EXPECT_TRUE(computed.has_value()) << text;
      if (meant) {
        EXPECT_EQ(computed, meant) << text;
      }
    });
  }
}

TEST_F(SizeEmission, StaticSizesAreConstants) {
  EXPECT_EQ(asConstant(emit("_12.tp*2 + 1")), 7);
  EXPECT_EQ(asConstant(emit("ranks.dp*ranks.mb")), 6);
  EXPECT_EQ(asConstant(emit("_384.at128")), 128);
  EXPECT_EQ(asConstant(emit("floordiv(-7, 2)")), -4);
  EXPECT_EQ(asConstant(emit("mod(-7, 3)")), 2);
  EXPECT_EQ(asConstant(emit("max(_3, _5)*min(_3, _5)")), 15);
  // Terms that cancel, and coordinates on axes of one rank.
  EXPECT_EQ(asConstant(emit("n - n")), 0);
  EXPECT_EQ(asConstant(sizes->coordinate("pp")), 0);
  EXPECT_EQ(asConstant(sizes->coordinate("cp")), 0);
  EXPECT_EQ(asConstant(emit("n")), std::nullopt);
  // The only op that these expressions emit is the load of n.
  EXPECT_EQ(llvm::range_size(body->getOps<LLVM::LoadOp>()), 1);
  EXPECT_TRUE(body->getOps<LLVM::AddOp>().empty());
  EXPECT_TRUE(body->getOps<LLVM::MulOp>().empty());
}

TEST_F(SizeEmission, EachExpressionIsEmittedOnce) {
  Value first = emit("n*s + floordiv(n, 4)");
  size_t count = body->getOperations().size();
  EXPECT_EQ(emit("floordiv(n, 4) + s*n"), first);
  EXPECT_EQ(body->getOperations().size(), count);
  // A subexpression is not emitted again either.
  Value product = emit("n*s");
  EXPECT_EQ(body->getOperations().size(), count);
  EXPECT_EQ(sizes->mul(emit("n"), emit("s")), product);
}

TEST_F(SizeEmission, ShardsAreBalanced) {
  auto tp = StringAttr::get(&context, "tp"), pp = StringAttr::get(&context, "pp");
  Value n = emit("n"), part = sizes->shardSize(n, tp);
  forAll([&](ArrayRef<int64_t> env, const std::map<std::string, int64_t> &symbols) {
    EXPECT_EQ(evaluate(part, env), ::tpc::shardSize(symbols.at("n"), 4, symbols.at("rank.tp")));
  });
  EXPECT_EQ(sizes->shardSize(n, pp), n);
}

TEST_F(SizeEmission, TensorsHaveSizesOfTheRank) {
  auto type =
      parseType("tensor<?x?x6xi1, #tpc.dist<[n{dp, mb}, (s * 10){tp}, 6], local>>", &context);
  SmallVector<Value> local = sizes->localSizes(type);
  ASSERT_EQ(local.size(), 3u);
  Value all = sizes->numElements(type);
  forAll([&](ArrayRef<int64_t> env, const std::map<std::string, int64_t> &symbols) {
    int64_t batch = ::tpc::shardSize(::tpc::shardSize(symbols.at("n"), 3, symbols.at("rank.dp")), 2,
                                     symbols.at("rank.mb"));
    int64_t tokens = ::tpc::shardSize(symbols.at("s") * 10, 4, symbols.at("rank.tp"));
    EXPECT_EQ(evaluate(local[0], env), batch);
    EXPECT_EQ(evaluate(local[1], env), tokens);
    EXPECT_EQ(evaluate(local[2], env), 6);
    EXPECT_EQ(evaluate(all, env), batch * tokens * 6);
  });
}
