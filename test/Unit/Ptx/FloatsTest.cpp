//===- FloatsTest.cpp - Float arithmetic against the manual ---------------===//

#include "Table.h"

#include <cmath>

using namespace ptx;

TEST(Floats, RoundsToNearest) {
  check("add.rn.f32", "rrr",
        {{f(3), f(1), f(2)},
         {f(16777216), f(16777216), f(1)},
         {f(16777220), f(16777218), f(1)},
         {nan32, inf, minusInf},
         {nan32, quiet, f(1)},
         {minusZero, minusZero, minusZero},
         {0, 0, minusZero},
         {inf, f(3e38f), f(3e38f)}});
  check("add.f32", "rrr", {{tiny + 1, tiny, tiny}});
  check("sub.rn.f32", "rrr", {{f(-1), f(1), f(2)}, {nan32, inf, inf}});
  check("mul.rn.f32", "rrr",
        {{f(6), f(2), f(3)},
         {nan32, inf, 0},
         {minusZero, minusZero, f(5)},
         {0x00400000, 0x00800000, f(0.5)}});
  check("fma.rn.f32", "rrrr",
        {{f(10), f(2), f(3), f(4)},
         {f(0x1p-46f), f(1 + 0x1p-23f), f(1 + 0x1p-23f), f(-(1 + 0x1p-22f))},
         {nan32, inf, 0, f(1)},
         {nan32, f(1), f(1), quiet}});
  check("mad.rn.f32", "rrrr", {{f(10), f(2), f(3), f(4)}});
  check("div.rn.f32", "rrr",
        {{f(1.0f / 3), f(1), f(3)},
         {inf, f(1), 0},
         {minusInf, f(1), minusZero},
         {nan32, 0, 0},
         {0, f(1), inf}});
  check("sqrt.rn.f32", "rr",
        {{f(std::sqrt(2.0f)), f(2)}, {minusZero, minusZero}, {nan32, f(-1)}, {inf, inf}});
  check("rcp.rn.f32", "rr",
        {{f(1.0f / 3), f(3)}, {inf, 0}, {minusInf, minusZero}, {minusZero, minusInf}});
  check("add.rn.f64", "ddd", {{d(3), d(1), d(2)}});
  check("sub.f64", "ddd", {{d(-1), d(1), d(2)}});
  check("mul.rn.f64", "ddd", {{d(6), d(2), d(3)}});
  check("fma.rn.f64", "dddd", {{d(10), d(2), d(3), d(4)}});
  check("div.rn.f64", "ddd", {{d(1.0 / 3), d(1), d(3)}});
  check("sqrt.rn.f64", "dd", {{d(std::sqrt(2.0)), d(2)}});
  check("rcp.rn.f64", "dd", {{d(1.0 / 3), d(3)}});
}

TEST(Floats, RoundsInOtherDirections) {
  uint64_t third = 0x3eaaaaaa; // below 1/3
  check("div.rz.f32", "rrr", {{third, f(1), f(3)}, {0xbeaaaaaa, f(-1), f(3)}});
  check("div.rm.f32", "rrr", {{third, f(1), f(3)}, {0xbeaaaaab, f(-1), f(3)}});
  check("div.rp.f32", "rrr", {{third + 1, f(1), f(3)}, {0xbeaaaaaa, f(-1), f(3)}});
  check("rcp.rp.f32", "rr", {{third + 1, f(3)}});
  check("add.rz.f32", "rrr",
        {{f(1), f(1), f(0x1p-30f)},
         {0x3f7fffff, f(1), f(-0x1p-30f)},
         {0x7f7fffff, f(3e38f), f(3e38f)},
         {0x3f7fffff, f(1), f(-0x1p-120f)}});
  check("add.rp.f32", "rrr",
        {{0x3f800001, f(1), f(0x1p-120f)}, {inf, f(3e38f), f(3e38f)}, {0, f(1), f(-1)}});
  check("add.rm.f32", "rrr",
        {{0x3f7fffff, f(1), f(-0x1p-120f)}, {minusZero, f(1), f(-1)}, {0, 0, 0}});
  check("sub.rp.f32", "rrr", {{0x3f800001, f(1), f(-0x1p-60f)}});
  check("mul.rp.f32", "rrr",
        {{tiny, f(0x1p-100f), f(0x1p-100f)},
         {f(1 + 0x1p-22f) + 1, f(1 + 0x1p-23f), f(1 + 0x1p-23f)}});
  check("mul.rz.f32", "rrr", {{0, f(0x1p-100f), f(0x1p-100f)}});
  check("fma.rp.f32", "rrrr", {{0x3f800001, f(0x1p-80f), f(0x1p-80f), f(1)}});
  check("fma.rm.f32", "rrrr", {{0x3f7fffff, f(-0x1p-80f), f(0x1p-80f), f(1)}});
  check("sqrt.rp.f32", "rr", {{f(std::sqrt(2.0f)) + 1, f(2)}, {f(2), f(4)}});
  check("sqrt.rz.f32", "rr", {{f(std::sqrt(2.0f)), f(2)}, {f(2), f(4)}});
}

TEST(Floats, FlushesAndSaturates) {
  check("add.rn.ftz.f32", "rrr",
        {{0, tiny, tiny}, {minusZero, minusTiny, minusTiny}, {0, 0x00c00000, 0x80800000}});
  check("mul.ftz.f32", "rrr", {{0, 0x00800000, f(0.5)}, {0, tiny, f(1e30f)}});
  check("fma.rn.ftz.f32", "rrrr", {{f(1), tiny, f(1e38f), f(1)}});
  check("add.sat.f32", "rrr",
        {{f(1), f(1), f(2)}, {0, f(-1), 0}, {0, quiet, f(1)}, {f(0.5), f(0.25), f(0.25)}});
  check("fma.rn.sat.f32", "rrrr", {{f(1), f(1), f(2), f(3)}});
  check("mul.rn.ftz.sat.f32", "rrr", {{f(1), f(8), f(2)}});
  check("add.rz.ftz.f32", "rrr", {{0, tiny, tiny}});
  check("div.rn.ftz.f32", "rrr", {{inf, f(1), tiny}});
  check("rcp.rn.ftz.f32", "rr", {{inf, tiny}});
  check("sqrt.rn.ftz.f32", "rr", {{0, tiny}});
}

TEST(Floats, Extremes) {
  check("min.f32", "rrr",
        {{f(1), f(1), f(2)},
         {f(1), quiet, f(1)},
         {f(1), f(1), quiet},
         {nan32, quiet, quiet},
         {minusZero, 0, minusZero},
         {minusZero, minusZero, 0},
         {minusInf, inf, minusInf}});
  check("max.f32", "rrr",
        {{f(2), f(1), f(2)},
         {f(1), quiet, f(1)},
         {nan32, quiet, quiet},
         {0, 0, minusZero},
         {0, minusZero, 0}});
  check("min.NaN.f32", "rrr", {{nan32, quiet, f(1)}, {nan32, f(1), quiet}, {f(1), f(1), f(2)}});
  check("max.NaN.f32", "rrr", {{nan32, quiet, f(1)}, {f(2), f(1), f(2)}, {0, minusZero, 0}});
  check("max.ftz.f32", "rrr", {{0, tiny, minusTiny}});
  check("min.ftz.NaN.f32", "rrr", {{nan32, tiny, quiet}});
  check("min.f64", "ddd", {{d(1), d(1), d(2)}, {d(-0.0), d(0), d(-0.0)}, {d(1), d(NAN), d(1)}});
  check("max.f64", "ddd", {{d(2), d(1), d(2)}, {d(0), d(-0.0), d(0)}});
  check("neg.f32", "rr", {{minusZero, 0}, {f(1), f(-1)}, {minusInf, inf}});
  check("neg.ftz.f32", "rr", {{minusZero, tiny}});
  check("abs.f32", "rr", {{0, minusZero}, {f(1), f(-1)}, {inf, minusInf}});
  check("abs.ftz.f32", "rr", {{0, minusTiny}});
  check("neg.f64", "dd", {{d(-2), d(2)}});
  check("abs.f64", "dd", {{d(2), d(-2)}});
  check("copysign.f32", "rrr", {{f(-2), f(-1), f(2)}, {f(2), f(1), f(-2)}});
  check("copysign.f64", "ddd", {{d(-2), d(-1), d(2)}});
}

// Results for 1, 2, 3 and 0.5 in f16 and bf16, the largest numbers, and NaN.
TEST(Floats, Halves) {
  uint64_t one = 0x3c00, two = 0x4000, three = 0x4200, largest = 0x7bff, infinite = 0x7c00;
  check("add.rn.f16", "hhh",
        {{three, one, two},
         {infinite, largest, largest},
         {0x7fff, infinite, 0xfc00},
         {0x6800, 0x6800, one}});
  check("sub.f16", "hhh", {{one, three, two}});
  check("mul.rn.f16", "hhh", {{0x4600, two, three}, {0, 1, 0x3800}});
  // The second sum is not a tie only because of a bit that f32 cannot represent.
  check("fma.rn.f16", "hhhh",
        {{0x4700, two, three, one}, {0x6601, 0x6401, 0x3e00, 0x8001}, {0x7bff, largest, one, 1}});
  check("add.rn.ftz.f16", "hhh", {{0, 1, 1}});
  check("add.rn.sat.f16", "hhh", {{one, one, two}, {0, 0xbc00, 0}});
  check("fma.rn.relu.f16", "hhhh", {{0, 0xbc00, one, 0}, {one, one, one, 0}});
  check("min.f16", "hhh", {{one, one, two}, {one, 0x7e01, one}, {0x8000, 0, 0x8000}});
  check("max.NaN.f16", "hhh", {{0x7fff, 0x7e01, one}, {0, 0, 0x8000}});
  check("neg.f16", "hh", {{0xbc00, one}});
  check("abs.f16", "hh", {{one, 0xbc00}});
  check("add.rn.f16x2", "rrr", {{three << 16 | two, one << 16 | one, two << 16 | one}});
  check("fma.rn.f16x2", "rrrr", {{0x47004600, two << 16 | two, three << 16 | three, one << 16}});
  uint64_t bone = 0x3f80, btwo = 0x4000, bthree = 0x4040;
  check("fma.rn.bf16", "hhhh",
        {{0x40e0, btwo, bthree, bone}, {bone, bone, bone, 1}, {0x7fff, 0x7f80, 0, 0}});
  check("add.bf16", "hhh", {{bthree, bone, btwo}, {0x4380, 0x4380, bone}});
  check("mul.bf16", "hhh", {{0x40c0, btwo, bthree}});
  check("max.bf16", "hhh", {{btwo, bone, btwo}});
  check("min.NaN.bf16", "hhh", {{0x7fff, 0x7fc1, btwo}});
  check("neg.bf16", "hh", {{0xbf80, bone}});
  check("fma.rn.bf16x2", "rrrr",
        {{0x40e040c0, btwo << 16 | btwo, bthree << 16 | bthree, bone << 16}});
  check("neg.bf16x2", "rr", {{0xbf803f80, 0x3f80bf80}});
}

// Instructions with mixed types exist from sm_100 on.
TEST(Floats, MixedTypes) {
  check("add.rn.f32.f16", "rhr", {{f(3), 0x3c00, f(2)}, {nan32, 0x7e00, f(1)}});
  check("sub.rn.f32.bf16", "rhr", {{f(-1), 0x3f80, f(2)}});
  check("fma.rn.f32.bf16", "rhhr", {{f(10), 0x4000, 0x4040, f(4)}});
  check("fma.rn.sat.f32.f16", "rhhr", {{f(1), 0x4000, 0x4200, f(4)}});
}

TEST(Floats, Kinds) {
  check("testp.finite.f32", "pr", {{1, f(1)}, {0, inf}, {0, quiet}});
  check("testp.infinite.f32", "pr", {{0, f(1)}, {1, minusInf}, {0, quiet}});
  check("testp.number.f32", "pr", {{1, inf}, {0, quiet}});
  check("testp.notanumber.f64", "pd", {{0, d(1)}, {1, d(NAN)}});
  check("testp.normal.f32", "pr", {{1, f(1)}, {0, tiny}, {0, 0}});
  check("testp.subnormal.f32", "pr", {{0, f(1)}, {1, tiny}, {0, 0}});
}

// An operand in double, and the error bound: relative or absolute.
static void near(const std::string &opcode, double (*exact)(double), double relative,
                 double absolute, double from, double to) {
  std::vector<Row> rows;
  for (int i = 0; i < 1000; ++i)
    rows.push_back({0, f(float(from + (to - from) * i / 999))});
  double largest = 0;
  bool differs = false;
  std::vector<uint64_t> first;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<uint64_t> values = evaluate(opcode, "rr", rows, "", seed);
    differs |= seed && values != first;
    if (!seed)
      first = values;
    EXPECT_EQ(values, evaluate(opcode, "rr", rows, "", seed)) << "another result of the same seed";
    for (size_t i = 0; i < rows.size(); ++i) {
      double want = exact(std::bit_cast<float>(uint32_t(rows[i].a))),
             got = std::bit_cast<float>(uint32_t(values[i]));
      double room = relative * std::fabs(want) + absolute;
      EXPECT_LE(std::fabs(got - want), room)
          << opcode << " of " << std::bit_cast<float>(uint32_t(rows[i].a));
      largest = std::max(largest, std::fabs(got - want) / room);
    }
  }
  EXPECT_TRUE(differs) << opcode << " does not depend on the seed";
  EXPECT_GT(largest, 0.5) << opcode << " is always more exact than the manual";
}

TEST(Approximations, ErrorsAreWithinBounds) {
  near("ex2.approx.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0, -20, 20);
  near("ex2.approx.ftz.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0, -20, 20);
  near("lg2.approx.f32", [](double x) { return std::log2(x); }, 0x1p-22, 0, 2.5, 1000);
  near("lg2.approx.ftz.f32", [](double x) { return std::log2(x); }, 0, 0x1p-22, 0.51, 1.9);
  near("rcp.approx.ftz.f32", [](double x) { return 1 / x; }, 0x1p-23, 0, 0.01, 100);
  near(
      "rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, std::exp2(-22.9), 0, 0.01,
      100);
  near("sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, 0, 0.01, 100);
  near("sin.approx.f32", [](double x) { return std::sin(x); }, 0, std::exp2(-20.5), -6, 6);
  near("cos.approx.f32", [](double x) { return std::cos(x); }, 0, std::exp2(-20.5), -6, 6);
  near("cos.approx.ftz.f32", [](double x) { return std::cos(x); }, 0, std::exp2(-14.7), 7, 300);
  near("tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, 0, 0.1, 5);
}

TEST(Approximations, SpecialValuesAreExact) {
  check("ex2.approx.f32", "rr",
        {{0, minusInf}, {inf, inf}, {f(1), 0}, {f(1), minusZero}, {f(1), tiny}, {nan32, quiet}});
  check("lg2.approx.f32", "rr", {{minusInf, 0}, {inf, inf}, {nan32, f(-1)}, {minusInf, minusZero}});
  check("lg2.approx.ftz.f32", "rr", {{minusInf, tiny}});
  check("rcp.approx.ftz.f32", "rr",
        {{inf, 0}, {minusInf, minusTiny}, {0, inf}, {minusZero, minusInf}, {nan32, quiet}});
  check("rsqrt.approx.f32", "rr", {{inf, 0}, {minusInf, minusZero}, {0, inf}, {nan32, f(-1)}});
  check("sqrt.approx.ftz.f32", "rr",
        {{0, tiny}, {minusZero, minusZero}, {inf, inf}, {nan32, f(-1)}});
  check("sin.approx.f32", "rr", {{0, 0}, {minusZero, minusZero}, {nan32, inf}, {nan32, quiet}});
  check("cos.approx.f32", "rr", {{f(1), 0}, {f(1), minusZero}, {nan32, minusInf}});
  check("tanh.approx.f32", "rr",
        {{0, 0}, {minusZero, minusZero}, {f(1), inf}, {f(-1), minusInf}, {nan32, quiet}});
  check("div.approx.f32", "rrr",
        {{0, f(1), f(0x1.8p126f)},
         {nan32, inf, f(0x1.8p126f)},
         {inf, f(1), 0},
         {nan32, 0, 0},
         {0, f(1), inf}});
  check("div.full.f32", "rrr", {{nan32, 0, 0}, {inf, f(1), 0}, {0, f(1), inf}});
  check("ex2.approx.f16", "hh", {{0x3c00, 0}, {0x7c00, 0x7c00}, {0, 0xfc00}});
  check("tanh.approx.bf16", "hh", {{0, 0}, {0x3f80, 0x7f80}});
  check("tanh.approx.f16x2", "rr", {{0x3c00bc00, 0x7c00fc00}});
}

TEST(Approximations, Quotients) {
  for (auto opcode : {"div.approx.f32", "div.full.f32", "div.approx.ftz.f32"})
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<Row> rows;
      for (int i = 1; i < 500; ++i)
        rows.push_back({0, f(float(i) * 0.37f), f(float(i % 17) + 0.3f)});
      auto values = evaluate(opcode, "rrr", rows, "", seed);
      for (size_t i = 0; i < rows.size(); ++i) {
        double want = double(std::bit_cast<float>(uint32_t(rows[i].a))) /
                      std::bit_cast<float>(uint32_t(rows[i].b));
        EXPECT_LE(std::fabs(std::bit_cast<float>(uint32_t(values[i])) - want), 0x1p-22 * want);
      }
    }
}
