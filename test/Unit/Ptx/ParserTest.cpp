//===- ParserTest.cpp - Invalid and unsupported PTX -----------------------===//

#include "Kernels.h"
#include "PtxTesting.h"

using namespace ptx;

static std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(parse(text, error)) << text;
  return error;
}

TEST(Parser, ParsesDeclarations) {
  Module module =
      parsed(std::string(layerNormText) +
             ".extern .shared .align 16 .b8 more[];\n.visible .entry other(.param .align 4 .b8 "
             "p[12]) .reqntid 8, 4, 1 { .reg .b64 %rd<2>; mov.b64 %rd1, more; ret; }");
  EXPECT_EQ(module.target(), "sm_80");
  EXPECT_EQ(module.version(), "7.0");
  auto kernels = module.kernels();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "layer_norm");
  EXPECT_EQ(kernels[0].parameters.size(), 5u);
  EXPECT_EQ(kernels[0].sharedBytes, 256u);
  EXPECT_EQ(kernels[0].maxThreads, 1024u);
  EXPECT_FALSE(kernels[0].dynamicShared);
  EXPECT_EQ(kernels[1].parameters[0].bytes, 12u);
  EXPECT_TRUE(kernels[1].dynamicShared);
  EXPECT_EQ(kernels[1].block, (std::array<uint32_t, 3>{8, 4, 1}));
}

TEST(Parser, RejectsUnsupportedStatements) {
  struct Case {
    const char *body, *error;
  };
  for (Case one :
       {Case{"frob.b32 %r1, %r2;", "unknown instruction 'frob'"},
        {"add.s32.frob %r1, %r2, %r3;", "unknown modifier '.frob'"},
        {"add.cc.s32 %r1, %r2, %r3;", "unknown modifier '.cc'"},
        {"add.s32 %r1, %r2;", "wrong number of operands"},
        {"add.s32 %r1, %r2, %rd3;", "must have the width of"},
        {"add.s32 %rd1, %r2, %r3;", "must have the width of"},
        {"add.s32 %r1, %r2, %r99;", "unknown register '%r99'"},
        {"add.s32 %r1, %r2, name;", "unknown name 'name'"},
        {"fma.f32 %r1, %r2, %r3, %r4;", "rounding is missing"},
        {"sin.f32 %r1, %r2;", ".approx is missing"},
        {"bra $L_nowhere;", "unknown label"},
        {"@%r1 bra $L;", "the guard must be a predicate"},
        {"ld.global.v4.b64 {%rd1, %rd2}, [%rd3];", "must have as many elements"},
        {"ld.shared.b32 %r1, [%rs1];", "an address of 64 bits"},
        {"ld.global.L2::cache_hint.b32 %r1, [%rd3];", "unknown modifier '.L2::cache_hint'"},
        {"st.global.nc.b32 [%rd3], %r1;", "unknown modifier '.nc'"},
        {"st.const.b32 [%rd3], %r1;", "constants cannot be written"},
        {"ld.param.b64 %rd1, [p0+4];", "outside of the parameter"},
        {"cvt.f32.s32 %r1, %r2;", "rounding is missing"},
        {"cvt.rn.s32.f32 %r1, %r2;", "a rounding to integers"},
        {"setp.lo.s32 %p1, %r1, %r2;", "no such comparison"},
        {"setp.nan.s32 %p1, %r1, %r2;", "no such comparison"},
        {"shfl.bfly.b32 %r1, %r2, 1, 31;", "wrong number of operands"},
        {"atom.global.add.f16 %rs1, [%rd3], %rs2;", "no such update of this type"},
        {"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};",
         "mma must have .m16n8k4, .m16n8k8 or .m16n8k16"},
        {"wgmma.fence.sync.aligned;", "unknown instruction 'wgmma'"},
        {"call foo;", "unknown instruction 'call'"},
        {"add.s32 %r1, -%r2, %r3;", "'-' must be before a number"},
        {"add.s32 %r1|%p1, %r2, %r3;", "'|' is not allowed"},
        {"mov.pred %p1, !%p2;", "'!' must be before a predicate"},
        {"add.rn.f32 %r1, %r2, 1;", "the number is invalid for its type"},
        {"add.rn.f16 %rs1, %rs2, 1.0;", "the number is invalid for its type"},
        {"ld.param.b32 %r1, [p0+2];", "must be a multiple of the size that is read"},
        {"ld.param.b32 %r1, [p0+9223372036854775807];", "outside of the parameter"},
        {".reg .b32 %r1;", "register '%r1' is declared twice"},
        {".reg .b64 %many<1000000>;", "more than 100000 registers"},
        {".local .b8 x[4294967297];", "more bytes than the maximum"},
        {".local .b8 x[300000]; .local .b8 y[300000];", "bytes of local memory"},
        {".shared .b8 x[4294967296];", "more bytes than the maximum"},
        {".shared .b8 x[4294967296][4294967296];", "more bytes than the maximum"},
        {".shared .u32 x; .shared .u32 x;", "variable 'x' is declared twice"},
        {".shared .u32 x = 1;", "only .global and .const variables"},
        {".shared .align 3 .b8 x[4];", "an alignment must be a power of two"},
        {"mov.b64 {{%r1, %r2}, %r3}, %rd1;", "a vector must not contain a vector"},
        {"bar.red.popc.u32 %r1, 0, %p1;", "only barriers with .sync"}}) {
    std::string error = errorOf(entry(1, one.body));
    EXPECT_NE(error.find(one.error), std::string::npos) << one.body << ": " << error;
    EXPECT_EQ(error.rfind("line 7: ", 0), 0u) << one.body << ": " << error;
  }
}

TEST(Parser, RejectsInvalidText) {
  EXPECT_NE(errorOf("").find(".version"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".frob 1").find("unknown directive '.frob'"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".func f() { ret; }").find("functions"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".address_size 32").find("64"), std::string::npos);
  EXPECT_NE(errorOf(header() + "/* no end").find("does not end"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".entry k() .frob {}").find("unknown directive '.frob'"),
            std::string::npos);
  EXPECT_NE(errorOf(header() + ".global .u32 x = {1, 2};").find("more values"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".global .u32 x[0] = 1;").find("more values"), std::string::npos);
  EXPECT_NE(errorOf(header() + ".global .align 0 .u32 x;").find("power of two"), std::string::npos);
  EXPECT_NE(
      errorOf(header() + ".global .u32 x; .const .u32 x;").find("variable 'x' is declared twice"),
      std::string::npos);
  EXPECT_NE(errorOf(header() + ".global .b64 x[99999999999999999];").find("more bytes"),
            std::string::npos);
  auto withTuning = [](const std::string &parameters, const std::string &tuning) {
    return errorOf(header() + ".entry k(" + parameters + ") " + tuning + " { ret; }");
  };
  EXPECT_NE(withTuning("", ".reqntid 0").find("a block must have threads"), std::string::npos);
  EXPECT_NE(withTuning("", ".maxntid 65536, 65536").find("at most 1024"), std::string::npos);
  EXPECT_NE(withTuning("", ".maxntid 1, 1, 1, 1").find("three sizes"), std::string::npos);
  EXPECT_NE(withTuning(".param .u64 a, .param .u64 a", "").find("parameter 'a' is declared twice"),
            std::string::npos);
  EXPECT_NE(withTuning(".param .b8 a[4294967297]", "").find("a parameter of 4294967297"),
            std::string::npos);
  EXPECT_NE(withTuning(".param .b8 a[32764], .param .u8 b", "").find("bytes of parameters"),
            std::string::npos);
  EXPECT_NE(withTuning(".param .align 3 .b8 a[8]", "").find("power of two"), std::string::npos);
  // Deeply nested text does not overflow the stack.
  EXPECT_NE(errorOf(entry(0, "mov.b32 " + std::string(1000000, '{')))
                .find("a vector must not contain a vector"),
            std::string::npos);
  // Any prefix of a text is an error, not a crash.
  std::string whole = layerNormText;
  for (size_t length = 0; length < whole.size() - 3; length += 7)
    errorOf(whole.substr(0, length));
}
