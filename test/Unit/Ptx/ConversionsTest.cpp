//===- ConversionsTest.cpp - Instruction cvt, comparisons and moves -------===//

#include "Table.h"

#include <cmath>

using namespace ptx;

TEST(Conversions, IntegersToIntegers) {
  check("cvt.s64.s32", "dr", {{~0ull, 0xffffffff}});
  check("cvt.u64.u32", "dr", {{0xffffffff, 0xffffffff}});
  check("cvt.s64.u32", "dr", {{0xffffffff, 0xffffffff}});
  check("cvt.u64.s32", "dr", {{~0ull, 0xffffffff}});
  check("cvt.u32.u64", "rd", {{0x9abcdef0, 0x123456789abcdef0}});
  check("cvt.s32.s8", "rr", {{0xffffffff, 0xff}, {0x7f, 0x17f}});
  check("cvt.u32.u8", "rr", {{0xff, 0xffffffff}});
  check("cvt.s32.s16", "rh", {{0xffff8000, 0x8000}});
  check("cvt.u32.u16", "rh", {{0x8000, 0x8000}});
  check("cvt.u16.u32", "hr", {{0x5678, 0x12345678}});
  check("cvt.u8.u32", "hr", {{0x78, 0x12345678}});
  check("cvt.s8.s32", "rr", {{0xffffff80, 0x12345680}});
  check("cvt.s16.s64", "hd", {{0x8000, 0x8000}});
  check("cvt.sat.u8.s32", "rr", {{0xff, 300}, {0, 0xffffffff}, {7, 7}});
  check("cvt.sat.s32.s64", "rd", {{0x7fffffff, 1ull << 40}, {0x80000000, uint64_t(-1) << 40}});
  check("cvt.sat.u32.s32", "rr", {{0, 0x80000000}});
}

TEST(Conversions, FloatsToIntegers) {
  check("cvt.rzi.s32.f32", "rr",
        {{1, f(1.9f)},
         {0xffffffff, f(-1.9f)},
         {0x7fffffff, f(3e9f)},
         {0x80000000, f(-3e9f)},
         {0, quiet},
         {0x7fffffff, inf},
         {0x80000000, minusInf}});
  check("cvt.rni.s32.f32", "rr", {{2, f(1.5f)}, {2, f(2.5f)}, {0xfffffffe, f(-2.5f)}});
  check("cvt.rmi.s32.f32", "rr", {{1, f(1.9f)}, {0xfffffffe, f(-1.1f)}});
  check("cvt.rpi.s32.f32", "rr", {{2, f(1.1f)}, {0xffffffff, f(-1.9f)}});
  check("cvt.rzi.u32.f32", "rr",
        {{0, f(-5)}, {0xffffffff, f(5e9f)}, {0, quiet}, {3000000000, f(3e9f)}});
  check("cvt.rzi.s64.f32", "dr", {{uint64_t(-3), f(-3.5f)}, {1ull << 63, quiet}, {INT64_MAX, inf}});
  check("cvt.rzi.u64.f32", "dr", {{1ull << 63, quiet}, {~0ull, inf}, {0, f(-1)}});
  check("cvt.rzi.s32.f64", "rd", {{1, d(1.9)}, {0x80000000, d(NAN)}, {0x7fffffff, d(1e300)}});
  check("cvt.rzi.s16.f32", "hr", {{0x7fff, f(40000)}, {0x8000, f(-40000)}, {0, quiet}});
  check("cvt.rzi.u8.f32", "hr", {{255, f(300)}, {0, f(-1)}, {7, f(7.9f)}});
  check("cvt.rni.ftz.s32.f32", "rr", {{0, tiny}});
  check("cvt.rzi.s32.f16", "rh", {{1, 0x3e00}});
}

TEST(Conversions, IntegersToFloats) {
  check("cvt.rn.f32.s32", "rr",
        {{f(-1), 0xffffffff}, {f(16777216), 16777217}, {f(0x1p31f), 0x7fffffff}});
  check("cvt.rn.f32.u32", "rr", {{f(0x1p32f), 0xffffffff}});
  check("cvt.rz.f32.u32", "rr", {{0x4f7fffff, 0xffffffff}});
  check("cvt.rp.f32.s32", "rr", {{f(16777218), 16777217}});
  check("cvt.rm.f32.s32", "rr", {{f(-16777218), uint32_t(-16777217)}});
  check("cvt.rn.f32.s64", "rd", {{f(-1), ~0ull}, {f(0x1p63f), INT64_MAX}});
  check("cvt.rn.f32.u64", "rd",
        {{f(0x1p64f), ~0ull}, {0x5f000001, (1ull << 63) + (1ull << 39) + 1}});
  check("cvt.rn.f64.s32", "dr", {{d(-1), 0xffffffff}});
  check("cvt.rn.f64.s64", "dd", {{d(0x1p63), INT64_MAX}});
  check("cvt.rn.f64.u64", "dd", {{d(0x1p64), ~0ull}});
  check("cvt.rn.f16.s32", "hr", {{0x3c00, 1}, {0x7c00, 70000}});
  check("cvt.rn.f32.u8", "rr", {{f(255), 0xfff}});
  check("cvt.rn.f32.s16", "rh", {{f(-1), 0xffff}});
}

TEST(Conversions, FloatsToFloats) {
  check("cvt.f32.f16", "rh",
        {{f(1), 0x3c00}, {f(0x1p-24f), 1}, {inf, 0x7c00}, {nan32, 0x7e01}, {minusZero, 0x8000}});
  check("cvt.rn.f16.f32", "hr",
        {{0x3c00, f(1)},
         {0x7c00, f(65520)},
         {0x7bff, f(65519)},
         {0x7fff, quiet},
         {0, f(0x1p-25f)},
         {1, f(0x1.8p-25f)},
         {0x3c00, f(1 + 0x1p-11f)},
         {0x3c02, f(1 + 0x3p-11f)}});
  check("cvt.rz.f16.f32", "hr", {{0x7bff, f(1e10f)}, {0x3c00, f(1.0009f)}});
  check("cvt.f32.bf16", "rh", {{f(1), 0x3f80}, {inf, 0x7f80}, {nan32, 0x7fc1}});
  check("cvt.rn.bf16.f32", "hr",
        {{0x3f80, f(1)},
         {0x3f80, 0x3f808000},
         {0x3f82, 0x3f818000},
         {0x3f81, 0x3f808001},
         {0x7f80, 0x7f7fffff},
         {0x7fff, quiet}});
  check("cvt.rn.relu.f16.f32", "hr", {{0, f(-1)}, {0x3c00, f(1)}, {0x7fff, quiet}, {0, minusZero}});
  check("cvt.rn.satfinite.bf16.f32", "hr", {{0x7f7f, inf}});
  check("cvt.f64.f32", "dr", {{d(1.5), f(1.5)}});
  check("cvt.rn.f32.f64", "rd",
        {{f(1), d(1 + 0x1p-25)}, {inf, d(1e300)}, {nan32, d(NAN)}, {tiny, d(0x1p-149)}});
  check("cvt.rz.f32.f64", "rd", {{0x7f7fffff, d(1e300)}});
  check("cvt.rp.f32.f64", "rd", {{0x3f800001, d(1 + 0x1p-40)}});
  check("cvt.rn.ftz.f32.f64", "rd", {{0, d(0x1p-149)}});
  check("cvt.rni.f32.f32", "rr", {{f(2), f(2.5f)}, {minusZero, f(-0.5f)}, {inf, inf}});
  check("cvt.rzi.f32.f32", "rr", {{f(2), f(2.9f)}, {f(-2), f(-2.9f)}, {minusZero, f(-0.9f)}});
  check("cvt.rmi.f32.f32", "rr", {{f(-3), f(-2.1f)}});
  check("cvt.rpi.f32.f32", "rr", {{f(3), f(2.1f)}});
  check("cvt.rmi.ftz.f32.f32", "rr", {{minusZero, minusTiny}});
  check("cvt.sat.f32.f32", "rr", {{f(1), f(7)}, {0, f(-7)}, {0, quiet}, {f(0.25), f(0.25)}});
  check("cvt.rn.sat.f32.f64", "rd", {{f(1), d(7)}});
  check("cvt.ftz.f32.f16", "rh", {{f(0x1p-24f), 1}});
  check("cvt.rn.bf16x2.f32", "rrr", {{0x3f804000, f(1), f(2)}});
  check("cvt.rn.f16x2.f32", "rrr", {{0x3c004000, f(1), f(2)}});
  check("cvt.rn.relu.f16x2.f32", "rrr", {{0x3c000000, f(1), f(-2)}});
}

TEST(Comparisons, Integers) {
  check("setp.lt.s32", "prr", {{1, 0xffffffff, 0}, {0, 1, 1}});
  check("setp.lt.u32", "prr", {{0, 0xffffffff, 0}, {1, 0, 1}});
  check("setp.lo.u32", "prr", {{1, 0, 1}});
  check("setp.hs.u32", "prr", {{1, 1, 1}});
  check("setp.ls.u64", "pdd", {{1, 1, 1}, {0, 2, 1}});
  check("setp.hi.u16", "phh", {{1, 2, 1}});
  check("setp.eq.b32", "prr", {{1, 7, 7}, {0, 7, 8}});
  check("setp.ne.s64", "pdd", {{1, 7, 8}});
  check("setp.ge.s16", "phh", {{0, 0xffff, 0}, {1, 0, 0xffff}});
  check("setp.le.s64", "pdd", {{1, ~0ull, 0}});
  check("setp.gt.u64", "pdd", {{1, ~0ull, 0}});
  check("setp.lt.and.s32", "prrp", {{1, 0, 1, 1}, {0, 0, 1, 0}});
  check("setp.lt.or.s32", "prrp", {{1, 1, 0, 1}, {0, 1, 0, 0}});
  check("setp.lt.xor.s32", "prrp", {{1, 1, 0, 1}, {0, 0, 1, 1}});
  check("set.lt.u32.s32", "rrr", {{0xffffffff, 0, 1}, {0, 1, 1}});
  check("set.gt.f32.f32", "rrr", {{f(1), f(2), f(1)}, {0, quiet, f(1)}});
}

TEST(Comparisons, Floats) {
  struct Case {
    const char *name;
    uint64_t less, equal, greater, unordered;
  };
  for (Case one : {Case{"eq", 0, 1, 0, 0},
                   {"ne", 1, 0, 1, 0},
                   {"lt", 1, 0, 0, 0},
                   {"le", 1, 1, 0, 0},
                   {"gt", 0, 0, 1, 0},
                   {"ge", 0, 1, 1, 0},
                   {"equ", 0, 1, 0, 1},
                   {"neu", 1, 0, 1, 1},
                   {"ltu", 1, 0, 0, 1},
                   {"leu", 1, 1, 0, 1},
                   {"gtu", 0, 0, 1, 1},
                   {"geu", 0, 1, 1, 1},
                   {"num", 1, 1, 1, 0},
                   {"nan", 0, 0, 0, 1}}) {
    std::string name = std::string("setp.") + one.name;
    check(name + ".f32", "prr",
          {{one.less, f(1), f(2)},
           {one.equal, minusZero, 0},
           {one.greater, inf, f(2)},
           {one.unordered, quiet, f(2)},
           {one.unordered, f(2), quiet},
           {one.unordered, quiet, quiet}});
    check(name + ".f64", "pdd",
          {{one.less, d(1), d(2)},
           {one.equal, d(2), d(2)},
           {one.greater, d(3), d(2)},
           {one.unordered, d(NAN), d(2)}});
    check(name + ".f16", "phh",
          {{one.less, 0x3c00, 0x4000},
           {one.equal, 0x8000, 0},
           {one.greater, 0x4000, 0x3c00},
           {one.unordered, 0x7e00, 0}});
    check(name + ".bf16", "phh", {{one.less, 0x3f80, 0x4000}, {one.unordered, 0x7fc0, 0}});
  }
  check("setp.gt.f32", "prr", {{1, tiny, 0}});
  check("setp.gt.ftz.f32", "prr", {{0, tiny, 0}});
}

TEST(Comparisons, Selections) {
  check("selp.b32", "rrrp", {{1, 1, 2, 1}, {2, 1, 2, 0}});
  check("selp.f64", "dddp", {{d(2), d(1), d(2), 0}});
  check("selp.b16", "hhhp", {{1, 1, 2, 1}});
  check("slct.b32.s32", "rrrr", {{1, 1, 2, 0}, {2, 1, 2, 0xffffffff}});
  check("slct.u64.f32", "dddr", {{1, 1, 2, minusZero}, {2, 1, 2, f(-1)}, {2, 1, 2, quiet}});
}

TEST(Moves, Vectors) {
  Module module = parsed(entry(1, R"(
  mov.b32 %r1, 0x12345678;
  mov.b32 {%rs1, %rs2}, %r1;
  mov.b32 %r2, {%rs2, %rs1};
  mov.b64 %rd1, {%r1, %r2};
  mov.b64 {_, %r3}, %rd1;
  mov.b64 {%rs3, %rs4, %rs5, %rs6}, %rd1;
  mov.b64 %rd2, {%rs6, %rs5, %rs4, %rs3};
  st.global.v2.b32 [%rd0], {%r2, %r3};
  st.global.b64 [%rd0+8], %rd1;
  st.global.b64 [%rd0+16], %rd2;
  { .reg .b16 tmp; mov.b32 {tmp, %rs7}, %r1; }
  st.global.b16 [%rd0+24], %rs7;
  mov.f32 %r4, 0f3F800000;
  mov.b32 %r5, -2;
  mov.b16 %rs8, -1;
  mov.f64 %rd3, 0d3FF0000000000000;
  st.global.b32 [%rd0+28], %r4;
  st.global.b32 [%rd0+32], %r5;
  st.global.b16 [%rd0+36], %rs8;
  st.global.b16 [%rd0+38], 0x7;
  st.global.b64 [%rd0+40], %rd3;)"));
  Memory memory;
  uint64_t at = upload(memory, std::vector<uint32_t>(12), "out");
  std::array arguments{Argument::pointer(at)};
  Result result = launch(module, "k", arguments, memory, {.grid = {1}, .block = {1}});
  EXPECT_TRUE(result.clean()) << result.str();
  EXPECT_EQ(
      download<uint32_t>(memory, at, 12),
      (std::vector<uint32_t>{0x56781234, 0x56781234, 0x12345678, 0x56781234, 0x12345678, 0x56781234,
                             0x1234, 0x3f800000, 0xfffffffe, 0x7ffff, 0, 0x3ff00000}));
}

TEST(Conversions, ToTf32) {
  check("cvt.rna.tf32.f32", "rr",
        {{f(1), f(1)},
         {0x3f802000, 0x3f801000}, // ties away from zero
         {0x3f800000, 0x3f800fff},
         {0xbf802000, 0xbf801000},
         {inf, 0x7f7fffff},
         {nan32, quiet},
         {minusZero, minusZero}});
}
