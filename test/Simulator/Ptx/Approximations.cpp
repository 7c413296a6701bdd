//===- Approximations.cpp - Instructions with a stated error bound --------===//
//
// Results deviate by up to the bound in the manual. The error depends only on the seed, the
// instruction and the operands. So equal inputs give equal results, as on a device.
//
//===----------------------------------------------------------------------===//

#include "Arithmetic.h"
#include "Machine.h"

#include <cmath>

using namespace ptx;

namespace {

enum class Approx : uint8_t { Rcp, Sqrt, Rsqrt, Ex2, Lg2, Sin, Cos, Tanh, Div, DivFull, NumApprox };
constexpr uint8_t ftzFlag = 1;

/// Error bound, in units in the last place, relative, or absolute.
struct Bound {
  double ulps = 0, relative = 0, absolute = 0;
};

/// Returns a deterministic hash of the inputs, from -1 to 1.
double deviationOf(uint64_t seed, Approx op, uint64_t operands) {
  uint64_t x = (seed * 0x9e3779b97f4a7c15) ^ (operands + uint64_t(op) * 0xd1b54a32d192ed03);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return double(int64_t(x)) * 0x1p-63;
}

// Perturbs a result so that its error is at most the bound after it is rounded to f32.
float perturb(double exact, Bound bound, double by) {
  if (!std::isfinite(exact) || exact == 0)
    return canonical(float(exact));
  int exponent = std::max(std::ilogb(exact), -126);
  double ulp = std::ldexp(1.0, exponent - 23);
  double room = bound.ulps * ulp + bound.relative * std::fabs(exact) + bound.absolute - ulp / 2;
  double moved = exact + by * std::max(room, 0.0);
  return float(moved);
}

float compute(uint64_t seed, Approx op, float a, float b) {
  double by = deviationOf(seed, op, uint64_t(toBits(a)) << 32 | toBits(b));
  double x = a;
  switch (op) {
  case Approx::Rcp:
    return perturb(1 / x, {.ulps = 1}, by);
  case Approx::Sqrt:
    return perturb(std::sqrt(x), {.relative = 0x1p-23}, by);
  case Approx::Rsqrt:
    return perturb(1 / std::sqrt(x), {.relative = std::exp2(-22.9)}, by);
  case Approx::Ex2:
    // By the manual, the result is exactly 1 for zeros and subnormal numbers.
    if (std::fabs(x) < 0x1p-126)
      return 1.0f;
    return perturb(std::exp2(x), {.ulps = 2}, by);
  case Approx::Lg2:
    if (x > 0.5 && x < 2)
      return float(std::log2(x) + by * (0x1p-22 - 0x1p-25));
    return perturb(std::log2(x), {.relative = 0x1p-22}, by);
  case Approx::Sin:
  case Approx::Cos: {
    if (op == Approx::Sin && x == 0)
      return a;
    if (op == Approx::Cos && std::fabs(x) < 0x1p-126)
      return 1.0f;
    if (!std::isfinite(x))
      return toFloat(canonicalNan);
    constexpr double pi = 3.14159265358979323846;
    double exact = op == Approx::Sin ? std::sin(x) : std::cos(x);
    if (std::fabs(x) <= 2 * pi)
      return float(exact + by * (std::exp2(-20.5) - 0x1p-25));
    if (std::fabs(x) <= 100 * pi)
      return float(exact + by * (std::exp2(-14.7) - 0x1p-25));
    return float(by); // "best effort": no bound is documented
  }
  case Approx::Tanh:
    if (std::isinf(x))
      return std::copysign(1.0f, a);
    return perturb(std::tanh(x), {.relative = 0x1p-11}, by);
  case Approx::Div: {
    // The reciprocal of a number from 2^126 on is subnormal and becomes 0.
    double size = std::fabs(double(b));
    if (size > 0x1p126 && std::isfinite(size))
      return std::isinf(a) ? toFloat(canonicalNan)
                           : std::copysign(0.0f, a) * std::copysign(1.0f, b);
    return perturb(x / double(b), {.ulps = 2}, by);
  }
  case Approx::DivFull:
    return perturb(x / double(b), {.ulps = 2}, by);
  case Approx::NumApprox:
    break;
  }
  return 0;
}

void runApprox(Warp &warp, const Inst &inst, Mask mask) {
  const float *a = warp.data<float>(inst.src[0]), *b = warp.data<float>(inst.src[1]);
  bool ftz = inst.flags & ftzFlag, two = inst.flags & 2;
  uint64_t seed = warp.machine.seed();
  eachLane<float>(warp, inst, mask, [&](unsigned lane) {
    float x = ftz ? flush<true>(a[lane]) : a[lane];
    float y = two ? (ftz ? flush<true>(b[lane]) : b[lane]) : 0.0f;
    float result = canonical(compute(seed, Approx(inst.mode), x, y));
    return ftz ? flush<true>(result) : result;
  });
}

// tanh and ex2 of 16-bit floats.
template <class F> uint16_t computeHalf(uint64_t seed, Approx op, uint16_t bits) {
  constexpr bool brain = std::is_same_v<F, BF16>;
  float x = F::widen(bits);
  double by = deviationOf(seed, op, bits);
  double exact = op == Approx::Tanh ? std::tanh(double(x)) : std::exp2(double(x));
  if (!std::isfinite(exact) || exact == 0 || exact == 1)
    return F::narrow(float(exact));
  double half = std::ldexp(0.5, std::ilogb(exact) - (brain ? 7 : 10)); // error of the rounding
  double room = op == Approx::Ex2 ? std::exp2(brain ? -7 : -9.9) * exact
                : brain           ? 0x1p-8 * std::fabs(exact)
                                  : std::exp2(-10.987);
  return F::narrow(float(exact + by * std::max(room - half, 0.0)));
}

template <class F> void runHalf(Warp &warp, const Inst &inst, Mask mask) {
  const uint16_t *a = warp.data<uint16_t>(inst.src[0]);
  uint64_t seed = warp.machine.seed();
  eachLane<uint16_t>(warp, inst, mask, [&](unsigned lane) {
    return computeHalf<F>(seed, Approx(inst.mode), a[lane]);
  });
}

template <class F> void runPair(Warp &warp, const Inst &inst, Mask mask) {
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]);
  uint64_t seed = warp.machine.seed();
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned lane) {
    uint32_t low = computeHalf<F>(seed, Approx(inst.mode), uint16_t(a[lane]));
    uint32_t high = computeHalf<F>(seed, Approx(inst.mode), uint16_t(a[lane] >> 16));
    return high << 16 | low;
  });
}

void decodeFunction(Decoder &decoder) {
  Inst &inst = decoder.inst;
  std::string_view opcode = decoder.statement.opcode;
  decoder.expectCount(2);
  if (!decoder.take("approx"))
    decoder.fail(".approx is missing");
  Type type = decoder.takeType();
  inst.cls = Class::Approximate;
  inst.mode = uint8_t(opcode == "rsqrt" ? Approx::Rsqrt
                      : opcode == "ex2" ? Approx::Ex2
                      : opcode == "lg2" ? Approx::Lg2
                      : opcode == "sin" ? Approx::Sin
                      : opcode == "cos" ? Approx::Cos
                                        : Approx::Tanh);
  bool half = opcode == "ex2" || opcode == "tanh";
  if (type == Type::F32) {
    if (opcode != "tanh" && decoder.take("ftz"))
      inst.flags = ftzFlag;
    inst.run = runApprox;
  } else if (half && (type == Type::F16 || type == Type::F16x2)) {
    inst.run = type == Type::F16 ? runHalf<F16> : runPair<F16>;
  } else if (half && (type == Type::BF16 || type == Type::BF16x2)) {
    if (opcode == "ex2" && !decoder.take("ftz"))
      decoder.fail(".ftz is missing");
    inst.run = type == Type::BF16 ? runHalf<BF16> : runPair<BF16>;
  } else {
    decoder.fail("no such function of this type");
  }
  decoder.sources(type, 1, 1);
  inst.dst = decoder.destination(0, type);
}

} // namespace

void ptx::decodeApproximateDivision(Decoder &decoder, bool full) {
  Inst &inst = decoder.inst;
  std::string_view opcode = decoder.statement.opcode;
  bool two = opcode == "div";
  decoder.expectCount(two ? 3 : 2);
  inst.cls = Class::Approximate;
  if (opcode == "rcp")
    inst.mode = uint8_t(Approx::Rcp);
  else if (opcode == "sqrt")
    inst.mode = uint8_t(Approx::Sqrt);
  else if (two)
    inst.mode = uint8_t(full ? Approx::DivFull : Approx::Div);
  else
    decoder.fail("there is no approximate instruction of this name");
  inst.flags = (decoder.take("ftz") ? ftzFlag : 0) | (two ? 2 : 0);
  inst.run = runApprox;
  decoder.sources(Type::F32, 1, two ? 2 : 1);
  inst.dst = decoder.destination(0, Type::F32);
}

void ptx::addApproximations(OpcodeTable &table) {
  for (auto opcode : {"rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})
    table[opcode] = decodeFunction;
}
