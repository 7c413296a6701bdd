//===- CudaTest.cpp - Checks of PTX, and lists of architectures -----------===//

#include "tpc/Conversion/Cuda/Cuda.h"

#include "gtest/gtest.h"

using namespace mlir::tpc;

static std::string check(llvm::StringRef line) {
  return llvm::toString(cuda::checkRounding((".version 7.0\n\t" + line).str()));
}

TEST(PtxGate, AcceptsExplicitRounding) {
  for (const char *line :
       {"add.rn.f32 \t%r1, %r2, %r3;", "@%p1 mul.rn.f32 %r1, %r2, %r3;",
        "fma.rn.f64 %d1, %d2, %d3, %d4;", "div.rn.f32 %r1, %r2, %r3;", "sqrt.rn.f32 %r1, %r2;",
        "rcp.rn.f32 %r1, %r2;", "cvt.rn.f16.f32 %h1, %r1;", "cvt.rn.f32.s64 %r1, %rd1;",
        "cvt.rzi.s32.f32 %r1, %r2;", "cvt.f32.f16 %r1, %h1;", "cvt.rni.f32.f32 %r1, %r2;",
        "neg.f32 %r1, %r2;", "setp.lt.f32 %p1, %r1, %r2;", "add.s32 %r1, %r2, %r3;",
        "ld.global.nc.v4.f32 {%r1, %r2}, [%rd1];", "// add.f32", "$L__BB0_1:"})
    EXPECT_EQ(check(line), "") << line;
}

TEST(PtxGate, RejectsImplicitRounding) {
  for (const char *line :
       {"add.f32 %r1, %r2, %r3;", "@%p1 mul.f32 %r1, %r2, %r3;", "{ sub.f64 %d1, %d2, %d3; }",
        "mad.f32 %r1, %r2, %r3, %r4;", "sin.approx.f32 %r1, %r2;", "ex2.approx.ftz.f32 %r1, %r2;",
        "div.full.f32 %r1, %r2, %r3;", "add.rn.ftz.f32 %r1, %r2, %r3;", "tanh.approx.f32 %r1, %r2;",
        "cvt.f16.f32 %h1, %r1;", "lg2.f32 %r1, %r2;", "add.f16x2 %r1, %r2, %r3;"})
    EXPECT_NE(check(line), "") << line;
  EXPECT_NE(check("add.f32 %r1, %r2, %r3;").find("line 2 of the PTX: 'add.f32"), std::string::npos);
}

TEST(PtxGate, ChecksEachInstructionOfALine) {
  EXPECT_NE(check("add.rn.f32 %r1, %r2, %r3; mul.f32 %r1, %r2, %r3;"), "");
  EXPECT_NE(check("$L__BB0_1: mul.f32 %r1, %r2, %r3;"), "");
}

/// Powers in kernels that multiply 16-bit elements are rounded to 16 bits afterwards.
TEST(PtxGate, AcceptsApproximatePowersWithHalvesOnly) {
  auto checkWith = [](llvm::StringRef product) {
    std::string power = "\tex2.approx.ftz.f32 %r1, %r2;\n";
    return llvm::toString(cuda::checkRounding(".visible .entry a()\n{\n" + power +
                                              "\tmma.sync.aligned.m16n8k" + product.str() +
                                              "\n\t\t{%r1, %r2},\n\t\t{%r3};\n}\n.visible .entry "
                                              "b()\n{\n\tadd.rn.f32 %r1, %r2, %r3;\n}\n"));
  };
  EXPECT_EQ(checkWith("16.row.col.f32.f16.f16.f32"), "");
  EXPECT_EQ(checkWith("16.row.col.f32.bf16.bf16.f32"), "");
  EXPECT_NE(checkWith("8.row.col.f32.tf32.tf32.f32").find("is approximate"), std::string::npos);
}

TEST(Architectures, AreAscending) {
  auto found = cuda::parseArchitectures("sm_100,sm_80");
  ASSERT_TRUE(static_cast<bool>(found));
  EXPECT_EQ(*found, (cuda::Architectures{80, 100}));
  EXPECT_TRUE(static_cast<bool>(cuda::parseArchitectures(cuda::kDefaultArchitectures)));
}

/// Checks a kernel with two pointers; no kernel writes the memory of the first.
static std::string checkDependent(llvm::StringRef body) {
  std::string text =
      (".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 k_param_1\n)\n{\n"
       "\t.reg .b32 %r<9>;\n\tld.param.b64 %rd1, [k_param_0];\n"
       "\tld.param.b64 %rd2, [k_param_1];\n" +
       body + "\nret;\n}\n")
          .str();
  return llvm::toString(cuda::checkDependentLaunch(text, "k", {0}));
}

TEST(DependencyGate, AsynchronousCopiesReadTheirSource) {
  constexpr llvm::StringRef wait = "griddepcontrol.wait;\n",
                            constant = "cp.async.cg.shared.global [%r1], [%rd1], 16;\n",
                            activation = "cp.async.ca.shared.global [%r1], [%rd2+64], 4, %r2;\n",
                            others = "cp.async.commit_group;\ncp.async.wait_group \t0;\n";
  EXPECT_EQ(checkDependent((constant + others + wait + activation).str()), "");
  EXPECT_NE(checkDependent((activation + others + wait).str()).find("memory of parameter 1"),
            std::string::npos);
  EXPECT_NE(checkDependent(
                ("ld.shared.b64 %rd3, [%r1];\nadd.s64 %rd1, %rd1, %rd3;\n" + constant + wait).str())
                .find("an address that is loaded"),
            std::string::npos);
  EXPECT_NE(
      checkDependent(("cp.async.bulk.shared::cluster.global [%r1], [%rd1], 16;\n" + wait).str()),
      "");
}

/// LLVM prints an mma on several lines.
TEST(DependencyGate, ReadsStatementsOfSeveralLines) {
  constexpr llvm::StringRef product =
      "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n\t\t{%r1, %r2, %r3, %r4},\n"
      "\t\t{%r1, %r2, %r3, %r4},\n\t\t{%r5, %r6},\n\t\t{%r1, %r2, %r3, %r4};\n";
  EXPECT_EQ(checkDependent((product + "griddepcontrol.wait;").str()), "");
  // The address depends on the product's first result.
  EXPECT_NE(checkDependent(("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r7];\n" + product +
                            "cvt.u64.u32 %rd3, %r1;\nadd.s64 %rd1, %rd1, %rd3;\n"
                            "ld.global.b32 %r8, [%rd1];\ngriddepcontrol.wait;")
                               .str())
                .find("an address that is loaded"),
            std::string::npos);
}

/// Kernels with matmuls of 16-bit elements on tensor cores may use the hardware's exp2; other
/// kernels of the same text may not.
TEST(PtxGate, AcceptsApproximatePowersOnTensorCoresOnly) {
  const std::string power = "\tex2.approx.ftz.f32 %r1, %r2;\n", end = "\tret;\n}\n";
  auto matmul = [](llvm::StringRef types) {
    return ("\tmma.sync.aligned.m16n8k16.row.col" + types +
            " {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4};\n")
        .str();
  };
  auto kernel = [&](llvm::StringRef name, const std::string &body) {
    return (".visible .entry " + name + "()\n{\n" + body + end).str();
  };
  const std::string bf16 = matmul(".f32.bf16.bf16.f32"), f16 = matmul(".f32.f16.f16.f32");
  EXPECT_EQ(check(kernel("a", power + bf16)), "");
  EXPECT_EQ(check(kernel("a", f16 + power)), "");
  EXPECT_NE(check(kernel("a", bf16) + kernel("b", power)), "");
  EXPECT_NE(check(kernel("b", power) + kernel("a", bf16)), "");
  EXPECT_NE(check(kernel("a", bf16 + "\tsin.approx.f32 %r1, %r2;\n")), "");
  EXPECT_EQ(check(kernel("a", matmul(".f32.tf32.tf32.f32"))), "");
  for (const char *types : {".f16.f16.f16.f16", ".f32.e4m3.e4m3.f32"})
    EXPECT_NE(check(kernel("a", matmul(types))), "") << types;
}
