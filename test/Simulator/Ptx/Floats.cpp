//===- Floats.cpp - Correctly rounded f32 and f64 arithmetic --------------===//

#include "Arithmetic.h"

#include <cmath>

using namespace ptx;

namespace {

// Operations on floats of one width. `flush` is applied to operands, and `finish` to the result.
struct Sum {
  template <class T> static T of(T a, T b) { return a + b; }
};
struct Difference {
  template <class T> static T of(T a, T b) { return a - b; }
};
struct Product {
  template <class T> static T of(T a, T b) { return a * b; }
};
struct Quotient {
  template <class T> static T of(T a, T b) { return a / b; }
};
struct Fused {
  static float of(float a, float b, float c) { return std::fma(a, b, c); }
  static double of(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Root {
  static float of(float a) { return std::sqrt(a); }
  static double of(double a) { return std::sqrt(a); }
};
struct Inverse {
  template <class T> static T of(T a) { return T(1) / a; }
};

template <class Op, bool Ftz, bool Sat> struct Single {
  static float apply(float a) { return finish<Ftz, Sat>(Op::of(flush<Ftz>(a))); }
  static float apply(float a, float b) {
    return finish<Ftz, Sat>(Op::of(flush<Ftz>(a), flush<Ftz>(b)));
  }
  static float apply(float a, float b, float c) {
    return finish<Ftz, Sat>(Op::of(flush<Ftz>(a), flush<Ftz>(b), flush<Ftz>(c)));
  }
};
template <class Op> struct Double {
  template <class... T> static double apply(T... a) { return Op::of(a...); }
};

template <class T> T smaller(T a, T b) {
  if (a != a)
    return b;
  if (b != b)
    return a;
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T> T larger(T a, T b) {
  if (a != a)
    return b;
  if (b != b)
    return a;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <bool Max, bool Nan> struct Extreme {
  template <class T> static T of(T a, T b) {
    if (Nan && (a != a || b != b))
      return std::numeric_limits<T>::quiet_NaN();
    return Max ? larger(a, b) : smaller(a, b);
  }
};

template <bool Ftz> struct Negate {
  static float apply(float a) { return toFloat(toBits(flush<Ftz>(a)) ^ 0x80000000); }
};
template <bool Ftz> struct Magnitude {
  static float apply(float a) { return toFloat(toBits(flush<Ftz>(a)) & 0x7fffffff); }
};
struct NegateDouble {
  static double apply(double a) { return -a; }
};
struct MagnitudeDouble {
  static double apply(double a) { return std::fabs(a); }
};
// Returns b with the sign of a.
struct CopySign {
  static uint32_t apply(uint32_t a, uint32_t b) { return (a & 0x80000000) | (b & 0x7fffffff); }
  static uint64_t apply(uint64_t a, uint64_t b) {
    return (a & (uint64_t(1) << 63)) | (b & ~(uint64_t(1) << 63));
  }
};

// ---- the other three rounding directions of f32 ----

enum class Directed : uint8_t { Add, Sub, Mul, Fma, Div, Sqrt, Rcp };
constexpr uint8_t ftzFlag = 1, satFlag = 2;

void runDirected(Warp &warp, const Inst &inst, Mask mask) {
  auto rounding = Rounding(inst.offset);
  const float *a = warp.data<float>(inst.src[0]), *b = warp.data<float>(inst.src[1]);
  const float *c = warp.data<float>(inst.src[2]);
  auto in = [&](float value) { return inst.flags & ftzFlag ? flush<true>(value) : value; };
  eachLane<float>(warp, inst, mask, [&](unsigned lane) {
    float result = 0;
    switch (Directed(inst.mode)) {
    case Directed::Add:
      result = addRounded(in(a[lane]), in(b[lane]), rounding);
      break;
    case Directed::Sub:
      result = addRounded(in(a[lane]), -in(b[lane]), rounding);
      break;
    case Directed::Mul:
      result = mulRounded(in(a[lane]), in(b[lane]), rounding);
      break;
    case Directed::Fma:
      result = fmaRounded(in(a[lane]), in(b[lane]), in(c[lane]), rounding);
      break;
    case Directed::Div:
      result = divRounded(in(a[lane]), in(b[lane]), rounding);
      break;
    case Directed::Sqrt:
      result = sqrtRounded(in(a[lane]), rounding);
      break;
    case Directed::Rcp:
      result = divRounded(1.0f, in(a[lane]), rounding);
      break;
    }
    result = inst.flags & ftzFlag ? flush<true>(result) : result;
    return inst.flags & satFlag ? saturate<true>(result) : result;
  });
}

template <class Op> Handler singleUnary(bool ftz, bool sat) {
  if (sat)
    return ftz ? unary<Single<Op, true, true>, float, float>
               : unary<Single<Op, false, true>, float, float>;
  return ftz ? unary<Single<Op, true, false>, float, float>
             : unary<Single<Op, false, false>, float, float>;
}
template <class Op> Handler singleBinary(bool ftz, bool sat) {
  if (sat)
    return ftz ? binary<Single<Op, true, true>, float, float, float>
               : binary<Single<Op, false, true>, float, float, float>;
  return ftz ? binary<Single<Op, true, false>, float, float, float>
             : binary<Single<Op, false, false>, float, float, float>;
}
template <class Op> Handler singleTernary(bool ftz, bool sat) {
  if (sat)
    return ftz ? ternary<Single<Op, true, true>, float, float, float, float>
               : ternary<Single<Op, false, true>, float, float, float, float>;
  return ftz ? ternary<Single<Op, true, false>, float, float, float, float>
             : ternary<Single<Op, false, false>, float, float, float, float>;
}
template <class Op> constexpr Handler doubleUnary = unary<Double<Op>, double, double>;
template <class Op> constexpr Handler doubleBinary = binary<Double<Op>, double, double, double>;
template <class Op>
constexpr Handler doubleTernary = ternary<Double<Op>, double, double, double, double>;

/// An opcode, with its handlers by width.
struct Entry {
  std::string_view opcode;
  unsigned operands;
  Directed directed;
  Handler (*single)(bool ftz, bool sat);
  Handler wide;
  bool mustRound; // an explicit rounding is required, as operations may be fused without it
};

constexpr Entry entries[] = {
    {"add", 2, Directed::Add, singleBinary<Sum>, doubleBinary<Sum>, false},
    {"sub", 2, Directed::Sub, singleBinary<Difference>, doubleBinary<Difference>, false},
    {"mul", 2, Directed::Mul, singleBinary<Product>, doubleBinary<Product>, false},
    {"fma", 3, Directed::Fma, singleTernary<Fused>, doubleTernary<Fused>, true},
    {"mad", 3, Directed::Fma, singleTernary<Fused>, doubleTernary<Fused>, true},
    {"div", 2, Directed::Div, singleBinary<Quotient>, doubleBinary<Quotient>, true},
    {"sqrt", 1, Directed::Sqrt, singleUnary<Root>, doubleUnary<Root>, true},
    {"rcp", 1, Directed::Rcp, singleUnary<Inverse>, doubleUnary<Inverse>, true},
};

void decodeRounded(Decoder &decoder, const Entry &entry, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  decoder.expectCount(entry.operands + 1);
  std::optional<Rounding> rounding = decoder.takeRounding();
  if (!rounding && entry.mustRound)
    decoder.fail("the instruction's rounding is missing");
  if (rounding && *rounding > Rounding::Up)
    decoder.fail("no such rounding");
  bool ftz = type == Type::F32 && decoder.take("ftz");
  bool sat =
      type == Type::F32 && entry.operands != 1 && entry.opcode != "div" && decoder.take("sat");
  if (!rounding || *rounding == Rounding::Nearest) {
    inst.run = type == Type::F32 ? entry.single(ftz, sat) : entry.wide;
  } else if (type == Type::F32) {
    inst.mode = uint8_t(entry.directed);
    inst.offset = int64_t(*rounding);
    inst.flags = (ftz ? ftzFlag : 0) | (sat ? satFlag : 0);
    inst.run = runDirected;
  } else {
    decoder.fail("f64 is supported only with rounding to nearest");
  }
  decoder.sources(type, 1, entry.operands);
  inst.dst = decoder.destination(0, type);
}

void decodeExtreme(Decoder &decoder, bool max, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  decoder.expectCount(3);
  bool nan = type == Type::F32 && decoder.take("NaN");
  bool ftz = type == Type::F32 && decoder.take("ftz");
  if (type == Type::F64)
    inst.run = max ? doubleBinary<Extreme<true, false>> : doubleBinary<Extreme<false, false>>;
  else if (max)
    inst.run = nan ? singleBinary<Extreme<true, true>>(ftz, false)
                   : singleBinary<Extreme<true, false>>(ftz, false);
  else
    inst.run = nan ? singleBinary<Extreme<false, true>>(ftz, false)
                   : singleBinary<Extreme<false, false>>(ftz, false);
  decoder.sources(type, 1, 2);
  inst.dst = decoder.destination(0, type);
}

void decodeSign(Decoder &decoder, bool negate, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  decoder.expectCount(2);
  bool ftz = type == Type::F32 && decoder.take("ftz");
  if (type == Type::F64)
    inst.run =
        negate ? unary<NegateDouble, double, double> : unary<MagnitudeDouble, double, double>;
  else if (negate)
    inst.run = ftz ? unary<Negate<true>, float, float> : unary<Negate<false>, float, float>;
  else
    inst.run = ftz ? unary<Magnitude<true>, float, float> : unary<Magnitude<false>, float, float>;
  decoder.sources(type, 1, 1);
  inst.dst = decoder.destination(0, type);
}

void decodeCopySign(Decoder &decoder) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  decoder.expectCount(3);
  Type type = decoder.takeType();
  if (type != Type::F32 && type != Type::F64)
    decoder.fail("no copysign of this type");
  inst.run = type == Type::F32 ? binary<CopySign, uint32_t, uint32_t, uint32_t>
                               : binary<CopySign, uint64_t, uint64_t, uint64_t>;
  decoder.sources(type, 1, 2);
  inst.dst = decoder.destination(0, type);
}

// ---- f32 with 16-bit factors or addends, from sm_100 on ----

template <class F> void runMixed(Warp &warp, const Inst &inst, Mask mask) {
  const uint16_t *a = warp.data<uint16_t>(inst.src[0]), *b = warp.data<uint16_t>(inst.src[1]);
  const float *c = warp.data<float>(inst.src[2]);
  eachLane<float>(warp, inst, mask, [&](unsigned lane) {
    float x = F::widen(a[lane]), result = 0;
    switch (Directed(inst.mode)) {
    case Directed::Add:
      result = x + c[lane];
      break;
    case Directed::Sub:
      result = x - c[lane];
      break;
    default:
      result = std::fma(x, F::widen(b[lane]), c[lane]);
      break;
    }
    return inst.flags & satFlag ? finish<false, true>(result) : finish<false>(result);
  });
}

void decodeMixed(Decoder &decoder, std::string_view opcode, Type half) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Float;
  bool three = opcode == "fma";
  decoder.expectCount(three ? 4 : 3);
  std::optional<Rounding> rounding = decoder.takeRounding();
  if ((opcode != "add" && opcode != "sub" && !three) || (half != Type::F16 && half != Type::BF16) ||
      rounding.value_or(Rounding::Nearest) != Rounding::Nearest)
    decoder.fail("no such arithmetic of two types");
  inst.mode = uint8_t(three ? Directed::Fma : opcode == "add" ? Directed::Add : Directed::Sub);
  inst.flags = decoder.take("sat") ? satFlag : 0;
  inst.run = half == Type::F16 ? runMixed<F16> : runMixed<BF16>;
  decoder.sources(half, 1, three ? 2 : 1);
  inst.src[2] = decoder.source(three ? 3 : 2, Type::F32);
  inst.dst = decoder.destination(0, Type::F32);
}

/// Decodes opcodes that have integer and float variants, and opcodes for floats only.
void decodeArithmetic(Decoder &decoder) {
  std::string_view opcode = decoder.statement.opcode;
  bool full = opcode == "div" && decoder.take("full");
  Type type = decoder.takeType();
  if (isInteger(type)) {
    if (opcode == "mad")
      return decodeIntegerMad(decoder, type);
    if (opcode == "neg" || opcode == "abs")
      return decodeIntegerUnary(decoder, opcode, type);
    return decodeIntegerBinary(decoder, opcode, type);
  }
  if (type == Type::F16 || type == Type::F16x2 || type == Type::BF16 || type == Type::BF16x2)
    return decodeHalf(decoder, opcode, type);
  if (type != Type::F32 && type != Type::F64)
    decoder.fail("no arithmetic on this type");
  if (type == Type::F32)
    if (std::optional<Type> half = decoder.takeTypeIf())
      return decodeMixed(decoder, opcode, *half);
  if (opcode == "min" || opcode == "max")
    return decodeExtreme(decoder, opcode == "max", type);
  if (opcode == "neg" || opcode == "abs")
    return decodeSign(decoder, opcode == "neg", type);
  if (type == Type::F32 && (full || (opcode != "add" && decoder.take("approx"))))
    return decodeApproximateDivision(decoder, full);
  for (const Entry &entry : entries)
    if (entry.opcode == opcode)
      return decodeRounded(decoder, entry, type);
  decoder.fail("no such arithmetic on floats");
}

} // namespace

void ptx::addArithmetic(OpcodeTable &table) {
  for (auto opcode :
       {"add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "neg", "abs", "sqrt", "rcp"})
    table[opcode] = decodeArithmetic;
  table["copysign"] = decodeCopySign;
}
