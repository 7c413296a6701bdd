//===- Integers.cpp - Integer add, mul, mad, div, min, … ------------------===//

#include "Arithmetic.h"

#include <limits>
#include <type_traits>

using namespace ptx;

namespace {

// Unsigned type for arithmetic, because signed overflow wraps in PTX. Narrow types are computed in
// 32 bits.
template <class T> using Wrap = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
using Twice = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T> struct Add {
  static T apply(T a, T b) { return T(Wrap<T>(a) + Wrap<T>(b)); }
};
template <class T> struct Sub {
  static T apply(T a, T b) { return T(Wrap<T>(a) - Wrap<T>(b)); }
};
template <class T> struct MulLow {
  static T apply(T a, T b) { return T(Wrap<T>(a) * Wrap<T>(b)); }
};
template <class T> struct MulHigh {
  static T apply(T a, T b) { return T((Twice<T>(a) * Twice<T>(b)) >> (8 * sizeof(T))); }
};
template <class T> struct MadLow {
  static T apply(T a, T b, T c) { return T(Wrap<T>(a) * Wrap<T>(b) + Wrap<T>(c)); }
};
template <class T> struct MadHigh {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulHigh<T>::apply(a, b), c); }
};
template <class T> struct MulWide {
  static Twice<T> apply(T a, T b) { return Twice<T>(a) * Twice<T>(b); }
};
template <class T> struct MadWide {
  static Twice<T> apply(T a, T b, Twice<T> c) {
    return Add<Twice<T>>::apply(Twice<T>(a) * Twice<T>(b), c);
  }
};
// Division by zero is undefined in the manual. Devices return all ones as the quotient, and the
// dividend as the remainder.
template <class T> struct Div {
  static T apply(T a, T b) {
    if (b == 0)
      return T(~T(0));
    if (std::is_signed_v<T> && b == T(-1))
      return Sub<T>::apply(0, a);
    return T(a / b);
  }
};
template <class T> struct Rem {
  static T apply(T a, T b) {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == T(-1))
      return 0;
    return T(a % b);
  }
};
template <class T> struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T> struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T> struct Neg {
  static T apply(T a) { return Sub<T>::apply(0, a); }
};
template <class T> struct Abs {
  static T apply(T a) { return std::is_signed_v<T> && a < T(0) ? Sub<T>::apply(0, a) : a; }
};
struct AddSat {
  static int32_t clamp(int64_t value) {
    return int32_t(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
  }
  static int32_t apply(int32_t a, int32_t b) { return clamp(int64_t(a) + b); }
};
struct SubSat {
  static int32_t apply(int32_t a, int32_t b) { return AddSat::clamp(int64_t(a) - b); }
};

Type widened(Type type) {
  switch (type) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  default:
    return Type::S64;
  }
}

template <template <class> class Op> Handler wideBinary(Type type) {
  switch (type) {
  case Type::U16:
    return binary<Op<uint16_t>, uint32_t, uint16_t, uint16_t>;
  case Type::S16:
    return binary<Op<int16_t>, int32_t, int16_t, int16_t>;
  case Type::U32:
    return binary<Op<uint32_t>, uint64_t, uint32_t, uint32_t>;
  case Type::S32:
    return binary<Op<int32_t>, int64_t, int32_t, int32_t>;
  default:
    return nullptr;
  }
}

template <template <class> class Op> Handler wideTernary(Type type) {
  switch (type) {
  case Type::U16:
    return ternary<Op<uint16_t>, uint32_t, uint16_t, uint16_t, uint32_t>;
  case Type::S16:
    return ternary<Op<int16_t>, int32_t, int16_t, int16_t, int32_t>;
  case Type::U32:
    return ternary<Op<uint32_t>, uint64_t, uint32_t, uint32_t, uint64_t>;
  case Type::S32:
    return ternary<Op<int32_t>, int64_t, int32_t, int32_t, int64_t>;
  default:
    return nullptr;
  }
}

} // namespace

void ptx::decodeIntegerBinary(Decoder &decoder, std::string_view opcode, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Integer;
  decoder.expectCount(3);
  Type result = type;
  if (opcode == "add" && type == Type::S32 && decoder.take("sat"))
    inst.run = binary<AddSat, int32_t, int32_t, int32_t>;
  else if (opcode == "sub" && type == Type::S32 && decoder.take("sat"))
    inst.run = binary<SubSat, int32_t, int32_t, int32_t>;
  else if (opcode == "add")
    inst.run = binaryOf<Add>(type);
  else if (opcode == "sub")
    inst.run = binaryOf<Sub>(type);
  else if (opcode == "div")
    inst.run = binaryOf<Div>(type);
  else if (opcode == "rem")
    inst.run = binaryOf<Rem>(type);
  else if (opcode == "min")
    inst.run = binaryOf<Min>(type);
  else if (opcode == "max")
    inst.run = binaryOf<Max>(type);
  else if (decoder.take("lo"))
    inst.run = binaryOf<MulLow>(type);
  else if (decoder.take("hi"))
    inst.run = binaryOf<MulHigh>(type);
  else if (decoder.take("wide"))
    inst.run = wideBinary<MulWide>(type), result = widened(type);
  if (!inst.run || !isInteger(type) || bitsOf(type) < 16)
    decoder.fail("no such instruction on integers");
  decoder.sources(type, 1, 2);
  inst.dst = decoder.destination(0, result);
}

void ptx::decodeIntegerUnary(Decoder &decoder, std::string_view opcode, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Integer;
  decoder.expectCount(2);
  inst.run = opcode == "neg" ? unaryOf<Neg>(type) : unaryOf<Abs>(type);
  if (!isSigned(type) || bitsOf(type) < 16)
    decoder.fail("no such instruction on integers");
  decoder.sources(type, 1, 1);
  inst.dst = decoder.destination(0, type);
}

void ptx::decodeIntegerMad(Decoder &decoder, Type type) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Integer;
  decoder.expectCount(4);
  Type result = type;
  if (decoder.take("lo"))
    inst.run = ternaryOf<MadLow>(type);
  else if (decoder.take("hi"))
    inst.run = ternaryOf<MadHigh>(type);
  else if (decoder.take("wide"))
    inst.run = wideTernary<MadWide>(type), result = widened(type);
  if (!inst.run || !isInteger(type))
    decoder.fail("no such instruction on integers");
  decoder.sources(type, 1, 2);
  inst.src[2] = decoder.source(3, result);
  inst.dst = decoder.destination(0, result);
}
