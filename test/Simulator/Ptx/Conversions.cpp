//===- Conversions.cpp - Instruction cvt ----------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace ptx;

namespace {

constexpr uint8_t ftzFlag = 1, satFlag = 2, reluFlag = 4, finiteFlag = 8;

// ---- conversions between any two types, one lane at a time ----

// Registers may be wider than the type, whose bits are the low ones.
uint64_t readBits(const uint8_t *from, unsigned width, unsigned lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, from + width * lane, width);
  return bits;
}

long double readValue(Type type, uint64_t bits, bool ftz) {
  switch (type) {
  case Type::U8:
    return uint8_t(bits);
  case Type::S8:
    return int8_t(bits);
  case Type::U16:
    return uint16_t(bits);
  case Type::S16:
    return int16_t(bits);
  case Type::U32:
    return uint32_t(bits);
  case Type::S32:
    return int32_t(bits);
  case Type::U64:
    return bits;
  case Type::S64:
    return int64_t(bits);
  case Type::F16:
    return F16::widen(uint16_t(bits));
  case Type::BF16:
    return BF16::widen(uint16_t(bits));
  case Type::F32: {
    float value = toFloat(uint32_t(bits));
    return ftz ? flush<true>(value) : value;
  }
  default:
    return std::bit_cast<double>(bits);
  }
}

uint64_t toInteger(Type type, Type from, long double value) {
  unsigned bits = bitsOf(type);
  // By the manual, NaN becomes 0, or only the top bit is set if either side has 64 bits.
  if (std::isnan(value))
    return bits == 64 || from == Type::F64 ? uint64_t(1) << (bits - 1) : 0;
  long double low = isSigned(type) ? -ldexpl(1, int(bits) - 1) : 0;
  long double high = ldexpl(1, int(bits) - (isSigned(type) ? 1 : 0)) - 1;
  if (value <= low)
    return uint64_t(int64_t(low));
  if (value >= high)
    return isSigned(type) ? uint64_t(int64_t(high)) : uint64_t(high);
  return isSigned(type) ? uint64_t(int64_t(value)) : uint64_t(value);
}

uint64_t toFloatBits(Type type, long double value, Rounding rounding) {
  switch (type) {
  case Type::F16:
    return std::isnan(value) ? canonicalNan16
                             : F16::narrow(float(roundTo(value, f16Format, rounding)));
  case Type::BF16:
    return std::isnan(value) ? canonicalNan16
                             : BF16::narrow(float(roundTo(value, bf16Format, rounding)));
  case Type::F32:
    return std::isnan(value) ? canonicalNan : toBits(float(roundTo(value, f32Format, rounding)));
  default:
    return std::bit_cast<uint64_t>(double(roundTo(value, f64Format, rounding)));
  }
}

uint64_t convert(const Inst &inst, uint64_t bits) {
  Type to = inst.type, from = inst.type2;
  auto rounding = Rounding(inst.mode);
  bool ftz = inst.flags & ftzFlag, sat = inst.flags & satFlag;
  if (!isFloat(from) && !isFloat(to) && !sat) {
    // The integer is truncated, or extended by the source's signedness.
    unsigned width = std::min(bitsOf(from), 64u);
    if (width == 64)
      return bits;
    bits &= (uint64_t(1) << width) - 1;
    if (isSigned(from) && bits >> (width - 1))
      bits |= ~uint64_t(0) << width;
    return bits;
  }
  long double value = readValue(from, bits, ftz);
  if (!isFloat(to))
    return toInteger(to, from, isFloat(from) ? roundToInteger(value, rounding) : value);
  if (to == from) {
    // The conversion is a move, unless it rounds to an integer.
    if (rounding >= Rounding::IntNearest)
      value = roundToInteger(value, rounding);
  }
  if (sat)
    value = value > 0 ? std::min(value, 1.0L) : 0.0L;
  if ((inst.flags & reluFlag) && (value < 0 || (value == 0 && std::signbit(value))))
    value = 0;
  uint64_t result =
      toFloatBits(to, value, rounding >= Rounding::IntNearest ? Rounding::Nearest : rounding);
  if (ftz && to == Type::F32)
    result = toBits(flush<true>(toFloat(uint32_t(result))));
  return result;
}

/// Extends a value's bits to the register, by the signedness of its type.
uint64_t extend(Type type, uint64_t bits) {
  switch (type) {
  case Type::S8:
    return uint64_t(int8_t(bits));
  case Type::U8:
    return uint8_t(bits);
  case Type::S16:
    return uint64_t(int16_t(bits));
  case Type::U16:
    return uint16_t(bits);
  case Type::S32:
    return uint64_t(int32_t(bits));
  case Type::U32:
    return uint32_t(bits);
  default:
    return bits;
  }
}

void runConvert(Warp &warp, const Inst &inst, Mask mask) {
  const uint8_t *from = warp.data<uint8_t>(inst.src[0]);
  uint8_t *to = warp.data<uint8_t>(inst.dst);
  forLanes(mask, [&](unsigned lane) {
    uint64_t result = extend(inst.type, convert(inst, readBits(from, inst.bytes, lane)));
    std::memcpy(to + inst.vector * lane, &result, inst.vector);
  });
}

// ---- two f32 to a pair ----

template <class F> uint16_t narrowHalf(const Inst &inst, float value) {
  constexpr Format format = std::is_same_v<F, F16> ? f16Format : bf16Format;
  uint16_t bits = Rounding(inst.mode) == Rounding::Nearest
                      ? F::narrow(value)
                      : F::narrow(float(roundTo(value, format, Rounding(inst.mode))));
  if ((inst.flags & reluFlag) && value == value && (bits & 0x8000))
    return 0;
  if ((inst.flags & finiteFlag) && std::isinf(F::widen(bits)))
    return bits - 1; // the largest number of that sign
  return bits;
}

template <class F> void runPair(Warp &warp, const Inst &inst, Mask mask) {
  const float *high = warp.data<float>(inst.src[0]), *low = warp.data<float>(inst.src[1]);
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned lane) {
    return uint32_t(narrowHalf<F>(inst, high[lane])) << 16 | narrowHalf<F>(inst, low[lane]);
  });
}

template <class F> void runHalf(Warp &warp, const Inst &inst, Mask mask) {
  const float *from = warp.data<float>(inst.src[0]);
  eachLane<uint16_t>(warp, inst, mask,
                     [&](unsigned lane) { return narrowHalf<F>(inst, from[lane]); });
}

// ---- fast paths of common conversions ----

template <class D, class S> struct Cast {
  static D apply(S a) { return D(a); }
};
struct WidenF16 {
  static float apply(uint16_t a) { return canonical(F16::widen(a)); }
};
struct WidenBF16 {
  static float apply(uint16_t a) { return canonical(BF16::widen(a)); }
};
struct WidenF32 {
  static double apply(float a) { return a; }
};

template <int Direction> struct Whole {
  static float apply(float a) {
    return canonical(Direction == 0   ? std::nearbyint(a)
                     : Direction == 1 ? std::trunc(a)
                     : Direction == 2 ? std::floor(a)
                                      : std::ceil(a));
  }
};
// Truncates a float. Values out of range are clamped; NaN becomes 0.
struct CutToS32 {
  static int32_t apply(float a) {
    float clamped = a >= 0x1p31f ? 0.0f : a < -0x1p31f ? -0x1p31f : a == a ? a : 0.0f;
    return a >= 0x1p31f ? INT32_MAX : int32_t(clamped);
  }
};
template <int Direction> struct RoundToS32 {
  static int32_t apply(float a) { return CutToS32::apply(Whole<Direction>::apply(a)); }
};

/// Returns a fast handler for a conversion without flags between registers as wide as their types,
/// or null.
Handler fastPath(Type to, Type from, Rounding rounding) {
  auto is = [&](Type d, Type s) { return to == d && from == s; };
  if (is(Type::F32, Type::F16))
    return unary<WidenF16, float, uint16_t>;
  if (is(Type::F32, Type::BF16))
    return unary<WidenBF16, float, uint16_t>;
  if (is(Type::F64, Type::F32))
    return unary<WidenF32, double, float>;
  if (is(Type::F32, Type::F32)) {
    switch (rounding) {
    case Rounding::IntNearest:
      return unary<Whole<0>, float, float>;
    case Rounding::IntZero:
      return unary<Whole<1>, float, float>;
    case Rounding::IntDown:
      return unary<Whole<2>, float, float>;
    case Rounding::IntUp:
      return unary<Whole<3>, float, float>;
    default:
      return nullptr;
    }
  }
  if (is(Type::S32, Type::F32)) {
    switch (rounding) {
    case Rounding::IntNearest:
      return unary<RoundToS32<0>, int32_t, float>;
    case Rounding::IntZero:
      return unary<RoundToS32<1>, int32_t, float>;
    case Rounding::IntDown:
      return unary<RoundToS32<2>, int32_t, float>;
    default:
      return unary<RoundToS32<3>, int32_t, float>;
    }
  }
  if (rounding == Rounding::Nearest) {
    if (is(Type::F32, Type::S32))
      return unary<Cast<float, int32_t>, float, int32_t>;
    if (is(Type::F32, Type::U32))
      return unary<Cast<float, uint32_t>, float, uint32_t>;
    if (is(Type::F64, Type::S32))
      return unary<Cast<double, int32_t>, double, int32_t>;
    if (is(Type::F64, Type::S64))
      return unary<Cast<double, int64_t>, double, int64_t>;
  }
  if (isFloat(to) || isFloat(from))
    return nullptr;
  bool wide = bitsOf(to) == 64, narrow = bitsOf(from) == 32;
  if (wide && narrow)
    return isSigned(from) ? unary<Cast<int64_t, int32_t>, int64_t, int32_t>
                          : unary<Cast<uint64_t, uint32_t>, uint64_t, uint32_t>;
  if (bitsOf(to) == 32 && bitsOf(from) == 64)
    return unary<Cast<uint32_t, uint64_t>, uint32_t, uint64_t>;
  if (bitsOf(to) == 32 && bitsOf(from) == 16)
    return isSigned(from) ? unary<Cast<int32_t, int16_t>, int32_t, int16_t>
                          : unary<Cast<uint32_t, uint16_t>, uint32_t, uint16_t>;
  return nullptr;
}

void decodePair(Decoder &decoder, Type to, bool halves) {
  Inst &inst = decoder.inst;
  bool brain = to == Type::BF16x2 || to == Type::BF16;
  decoder.expectCount(halves ? 2 : 3);
  if (inst.mode != uint8_t(Rounding::Nearest) && inst.mode != uint8_t(Rounding::Zero))
    decoder.fail("rounding .rn or .rz expected");
  if (decoder.take("relu"))
    inst.flags |= reluFlag;
  if (decoder.take("satfinite"))
    inst.flags |= finiteFlag;
  decoder.sources(Type::F32, 1, halves ? 1 : 2);
  if (halves)
    inst.run = brain ? runHalf<BF16> : runHalf<F16>;
  else
    inst.run = brain ? runPair<BF16> : runPair<F16>;
  inst.dst = decoder.destination(0, halves ? Type::B16 : Type::B32);
}

/// Rounds to TF32, which has the exponents of f32 and 10 bits of mantissa.
struct NarrowTF32 {
  static uint32_t apply(float a) {
    constexpr Format format{10, -126, 127};
    return a != a ? canonicalNan : toBits(float(roundTo(a, format, Rounding::Away)));
  }
};

void decodeConvert(Decoder &decoder) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Convert;
  std::optional<Rounding> rounding = decoder.takeRounding();
  Type to = decoder.takeType(), from = decoder.takeType();
  inst.type = to;
  inst.type2 = from;
  inst.mode = uint8_t(rounding.value_or(Rounding::Nearest));
  bool pair = to == Type::F16x2 || to == Type::BF16x2;
  if (pair && from == Type::F32)
    return decodePair(decoder, to, false);
  if (to == Type::TF32 && from == Type::F32 && rounding == Rounding::Away) {
    decoder.expectCount(2);
    inst.run = unary<NarrowTF32, uint32_t, float>;
    decoder.sources(Type::F32, 1, 1);
    inst.dst = decoder.destination(0, Type::B32);
    return;
  }
  auto known = [](Type type) { return isInteger(type) || isFloat(type); };
  if (!known(to) || !known(from))
    decoder.fail("no such conversion");
  bool toHalf = to == Type::F16 || to == Type::BF16;
  if (isFloat(to) != isFloat(from) && !rounding)
    decoder.fail("the instruction's rounding is missing");
  if (isFloat(from) && !isFloat(to) && *rounding < Rounding::IntNearest)
    decoder.fail("a rounding to integers expected (.rni, .rzi, .rmi, .rpi)");
  if (isFloat(to) && to != from && bitsOf(to) <= bitsOf(from) && !rounding)
    decoder.fail("the instruction's rounding is missing");
  if (rounding && isFloat(to) && to != from && *rounding >= Rounding::IntNearest)
    decoder.fail("rounding to an integer must not change the type");
  if (rounding && !isFloat(to) && !isFloat(from))
    decoder.fail("a conversion between integers must not have a rounding");
  if (toHalf && from == Type::F32 &&
      (inst.mode == uint8_t(Rounding::Nearest) || inst.mode == uint8_t(Rounding::Zero))) {
    bool plain = true;
    for (auto flag : {"ftz", "sat"})
      for (std::string_view modifier : decoder.statement.modifiers)
        plain &= modifier != flag;
    if (plain && decoder.registerBytes(decoder.operand(0)) == 2)
      return decodePair(decoder, to, true);
  }
  if ((to == Type::F32 || from == Type::F32) && decoder.take("ftz"))
    inst.flags |= ftzFlag;
  if (decoder.take("sat"))
    inst.flags |= satFlag;
  decoder.expectCount(2);
  inst.src[0] = decoder.sourceOf(decoder.operand(1), from, true);
  inst.dst = decoder.destinationOf(decoder.operand(0), to, true);
  unsigned toBytes = decoder.registerBytes(decoder.operand(0));
  unsigned fromBytes = decoder.operand(1).kind == Operand::Reg
                           ? decoder.registerBytes(decoder.operand(1))
                           : std::max(bytesOf(from), 2u);
  if (!inst.flags && toBytes == bytesOf(to) && fromBytes == bytesOf(from))
    inst.run = fastPath(to, from, Rounding(inst.mode));
  if (!inst.run) {
    inst.run = runConvert;
    inst.bytes = uint8_t(fromBytes);
    inst.vector = uint8_t(toBytes);
  }
}

} // namespace

void ptx::addConversions(OpcodeTable &table) { table["cvt"] = decodeConvert; }
