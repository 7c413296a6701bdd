//===- Halves.cpp - Arithmetic of f16, bf16 and packed halves -------------===//

#include "Arithmetic.h"

using namespace ptx;

namespace {

// In f32, sums and products of both formats are exact enough to be rounded again; fma uses a double
// that is rounded to odd.
enum class HalfOp : uint8_t { Add, Sub, Mul, Fma, Min, Max, Neg, Abs };
constexpr uint8_t ftzFlag = 1, satFlag = 2, nanFlag = 4, reluFlag = 8;

template <class F> uint16_t flushHalf(uint16_t bits) {
  constexpr uint16_t exponent = std::is_same_v<F, F16> ? 0x7c00 : 0x7f80;
  return bits & exponent ? bits : bits & 0x8000;
}

template <class F> uint16_t compute(const Inst &inst, uint16_t a, uint16_t b, uint16_t c) {
  constexpr Format format = std::is_same_v<F, F16> ? f16Format : bf16Format;
  bool ftz = inst.flags & ftzFlag;
  if (ftz)
    a = flushHalf<F>(a), b = flushHalf<F>(b), c = flushHalf<F>(c);
  float x = F::widen(a), y = F::widen(b);
  uint16_t result = 0;
  switch (HalfOp(inst.mode)) {
  case HalfOp::Add:
    result = F::narrow(x + y);
    break;
  case HalfOp::Sub:
    result = F::narrow(x - y);
    break;
  case HalfOp::Mul:
    result = F::narrow(x * y);
    break;
  case HalfOp::Fma:
    result = F::narrow(
        float(roundTo(addToOdd(double(x) * double(y), F::widen(c)), format, Rounding::Nearest)));
    break;
  case HalfOp::Min:
  case HalfOp::Max: {
    bool max = HalfOp(inst.mode) == HalfOp::Max;
    if (x != x || y != y)
      result = (inst.flags & nanFlag) || (x != x && y != y) ? canonicalNan16 : x != x ? b : a;
    else if (x == y)
      result = (bool(a & 0x8000) != max) ? a : b;
    else
      result = (x > y) == max ? a : b;
    break;
  }
  case HalfOp::Neg:
    return a ^ 0x8000;
  case HalfOp::Abs:
    return a & 0x7fff;
  }
  if (ftz)
    result = flushHalf<F>(result);
  float value = F::widen(result);
  if (inst.flags & satFlag)
    return F::narrow(saturate<true>(value));
  if ((inst.flags & reluFlag) && value < 0)
    return 0;
  return result;
}

template <class F> void runHalf(Warp &warp, const Inst &inst, Mask mask) {
  const uint16_t *a = warp.data<uint16_t>(inst.src[0]), *b = warp.data<uint16_t>(inst.src[1]);
  const uint16_t *c = warp.data<uint16_t>(inst.src[2]);
  eachLane<uint16_t>(warp, inst, mask,
                     [&](unsigned lane) { return compute<F>(inst, a[lane], b[lane], c[lane]); });
}

template <class F> void runPair(Warp &warp, const Inst &inst, Mask mask) {
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]), *b = warp.data<uint32_t>(inst.src[1]);
  const uint32_t *c = warp.data<uint32_t>(inst.src[2]);
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned lane) {
    uint32_t low = compute<F>(inst, uint16_t(a[lane]), uint16_t(b[lane]), uint16_t(c[lane]));
    uint32_t high =
        compute<F>(inst, uint16_t(a[lane] >> 16), uint16_t(b[lane] >> 16), uint16_t(c[lane] >> 16));
    return high << 16 | low;
  });
}

struct Entry {
  std::string_view opcode;
  HalfOp op;
  unsigned operands;
};
constexpr Entry entries[] = {{"add", HalfOp::Add, 2}, {"sub", HalfOp::Sub, 2},
                             {"mul", HalfOp::Mul, 2}, {"fma", HalfOp::Fma, 3},
                             {"min", HalfOp::Min, 2}, {"max", HalfOp::Max, 2},
                             {"neg", HalfOp::Neg, 1}, {"abs", HalfOp::Abs, 1}};

} // namespace

void ptx::decodeHalf(Decoder &decoder, std::string_view opcode, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  bool brain = type == Type::BF16 || type == Type::BF16x2;
  bool pair = type == Type::F16x2 || type == Type::BF16x2;
  for (const Entry &entry : entries) {
    if (entry.opcode != opcode)
      continue;
    decoder.expectCount(entry.operands + 1);
    std::optional<Rounding> rounding = decoder.takeRounding();
    bool rounds = entry.op <= HalfOp::Fma;
    if (rounding && (!rounds || *rounding != Rounding::Nearest))
      decoder.fail("no such rounding");
    if (entry.op == HalfOp::Fma && !rounding)
      decoder.fail("the instruction's rounding is missing");
    inst.mode = uint8_t(entry.op);
    if (!brain && decoder.take("ftz"))
      inst.flags |= ftzFlag;
    if (!brain && rounds && decoder.take("sat"))
      inst.flags |= satFlag;
    if (entry.op == HalfOp::Fma && decoder.take("relu"))
      inst.flags |= reluFlag;
    if ((entry.op == HalfOp::Min || entry.op == HalfOp::Max) && decoder.take("NaN"))
      inst.flags |= nanFlag;
    inst.run =
        pair ? (brain ? runPair<BF16> : runPair<F16>) : (brain ? runHalf<BF16> : runHalf<F16>);
    Type bits = pair ? Type::B32 : Type::B16;
    decoder.sources(bits, 1, entry.operands);
    inst.dst = decoder.destination(0, bits);
    return;
  }
  decoder.fail("no such arithmetic on 16-bit floats");
}
