//===- Bits.cpp - Logic, shifts, bit fields -------------------------------===//

#include "Decoder.h"
#include "Lanes.h"

#include <algorithm>
#include <bit>

using namespace ptx;

namespace {

template <class T> struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T> struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T> struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T> struct Not {
  static T apply(T a) { return T(~a); }
};
template <class T> struct Cnot {
  static T apply(T a) { return a == 0; }
};

// Shift amounts beyond the width are clamped to the width.
template <class T> struct ShiftLeft {
  static T apply(T a, uint32_t by) { return by >= 8 * sizeof(T) ? T(0) : T(a << by); }
};
template <class T> struct ShiftRight {
  static T apply(T a, uint32_t by) {
    constexpr uint32_t last = 8 * sizeof(T) - 1;
    if (std::is_signed_v<T>)
      return T(a >> std::min(by, last));
    return by > last ? T(0) : T(a >> by);
  }
};

template <class T> struct ExtractField {
  static T apply(T a, uint32_t position, uint32_t length) {
    position &= 0xff;
    length &= 0xff;
    constexpr uint32_t top = 8 * sizeof(T) - 1;
    using U = std::make_unsigned_t<T>;
    bool fill = false;
    if (std::is_signed_v<T> && length)
      fill = U(a) >> std::min(position + length - 1, top) & 1;
    U result = 0;
    for (uint32_t bit = 0; bit <= top; ++bit) {
      bool value = bit < length && position + bit <= top ? U(a) >> (position + bit) & 1 : fill;
      result |= U(value) << bit;
    }
    return T(result);
  }
};

template <class T> T insertField(T field, T into, uint32_t position, uint32_t length) {
  position &= 0xff;
  length &= 0xff;
  for (uint32_t bit = 0; bit < length && position + bit < 8 * sizeof(T); ++bit) {
    T at = T(1) << (position + bit);
    into = T((into & ~at) | (field >> bit & 1 ? at : 0));
  }
  return into;
}

template <class T> void runInsert(Warp &warp, const Inst &inst, Mask mask) {
  const T *field = warp.data<T>(inst.src[0]), *into = warp.data<T>(inst.src[1]);
  const uint32_t *position = warp.data<uint32_t>(inst.src[2]);
  const uint32_t *length = warp.data<uint32_t>(inst.src[3]);
  eachLane<T>(warp, inst, mask, [&](unsigned lane) {
    return insertField(field[lane], into[lane], position[lane], length[lane]);
  });
}

template <class T> struct PopCount {
  static uint32_t apply(T a) { return uint32_t(std::popcount(a)); }
};
template <class T> struct LeadingZeros {
  static uint32_t apply(T a) { return uint32_t(std::countl_zero(a)); }
};
template <class T> struct Reverse {
  static T apply(T a) {
    T result = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
      result |= T(a >> bit & 1) << (8 * sizeof(T) - 1 - bit);
    return result;
  }
};

// Returns the position of the highest bit that differs from the sign; ~0 if there is none.
template <class T, bool Shift> struct FindBit {
  static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = std::is_signed_v<T> && a < 0 ? U(~a) : U(a);
    if (bits == 0)
      return ~0u;
    auto zeros = uint32_t(std::countl_zero(bits));
    return Shift ? zeros : uint32_t(8 * sizeof(T)) - 1 - zeros;
  }
};

enum class Permute : uint8_t { Any, F4e, B4e, Rc8, Ecl, Ecr, Rc16 };

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector, Permute mode) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t s = selector & 3, result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t pick = 0;
    bool sign = false;
    switch (mode) {
    case Permute::Any:
      pick = selector >> (4 * i) & 7;
      sign = selector >> (4 * i) & 8;
      break;
    case Permute::F4e:
      pick = s + i;
      break;
    case Permute::B4e:
      pick = (s + 8 - i) & 7;
      break;
    case Permute::Rc8:
      pick = s;
      break;
    case Permute::Ecl:
      pick = std::max(s, i);
      break;
    case Permute::Ecr:
      pick = std::min(s, i);
      break;
    case Permute::Rc16:
      pick = 2 * (s & 1) + (i & 1);
      break;
    }
    auto byte = uint32_t(bytes >> (8 * pick) & 0xff);
    if (sign)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

void runPermute(Warp &warp, const Inst &inst, Mask mask) {
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]), *b = warp.data<uint32_t>(inst.src[1]);
  const uint32_t *c = warp.data<uint32_t>(inst.src[2]);
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned lane) {
    return permute(a[lane], b[lane], c[lane], Permute(inst.mode));
  });
}

template <bool Left, bool WrapAround> struct Funnel {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t by) {
    by = WrapAround ? by & 31 : std::min(by, 32u);
    uint64_t both = uint64_t(b) << 32 | a;
    return Left ? uint32_t((both << by) >> 32) : uint32_t(both >> by);
  }
};

void runLop3(Warp &warp, const Inst &inst, Mask mask) {
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]), *b = warp.data<uint32_t>(inst.src[1]);
  const uint32_t *c = warp.data<uint32_t>(inst.src[2]);
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned lane) {
    uint32_t result = 0;
    for (unsigned row = 0; row < 8; ++row)
      if (inst.mode >> row & 1)
        result |= (row & 4 ? a[lane] : ~a[lane]) & (row & 2 ? b[lane] : ~b[lane]) &
                  (row & 1 ? c[lane] : ~c[lane]);
    return result;
  });
}

// ---- predicates: one bit per lane ----

enum class Logic : uint8_t { And, Or, Xor, Not };

void runPredicateLogic(Warp &warp, const Inst &inst, Mask mask) {
  Mask a = warp.predicate(inst.src[0]), b = warp.predicate(inst.src[1]), result = 0;
  switch (Logic(inst.mode)) {
  case Logic::And:
    result = a & b;
    break;
  case Logic::Or:
    result = a | b;
    break;
  case Logic::Xor:
    result = a ^ b;
    break;
  case Logic::Not:
    result = ~a;
    break;
  }
  Mask &d = warp.predicate(inst.dst);
  d = (d & ~mask) | (result & mask);
}

void decodeLogic(Decoder &decoder) {
  Inst &inst = decoder.inst;
  std::string_view opcode = decoder.statement.opcode;
  bool unaryOp = opcode == "not" || opcode == "cnot";
  decoder.expectCount(unaryOp ? 2 : 3);
  Type type = decoder.takeType();
  inst.cls = Class::Integer;
  if (type == Type::Pred && opcode != "cnot") {
    inst.mode = uint8_t(opcode == "and"   ? Logic::And
                        : opcode == "or"  ? Logic::Or
                        : opcode == "xor" ? Logic::Xor
                                          : Logic::Not);
    inst.run = runPredicateLogic;
  } else if (isBits(type)) {
    inst.run = opcode == "and"   ? binaryOf<And>(type)
               : opcode == "or"  ? binaryOf<Or>(type)
               : opcode == "xor" ? binaryOf<Xor>(type)
               : opcode == "not" ? unaryOf<Not>(type)
                                 : unaryOf<Cnot>(type);
  }
  if (!inst.run)
    decoder.fail("no such instruction on bits");
  decoder.sources(type, 1, unaryOp ? 1 : 2);
  inst.dst = decoder.destination(0, type);
}

template <template <class> class Op> Handler shiftOf(Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return binary<Op<uint16_t>, uint16_t, uint16_t, uint32_t>;
  case Type::S16:
    return binary<Op<int16_t>, int16_t, int16_t, uint32_t>;
  case Type::B32:
  case Type::U32:
    return binary<Op<uint32_t>, uint32_t, uint32_t, uint32_t>;
  case Type::S32:
    return binary<Op<int32_t>, int32_t, int32_t, uint32_t>;
  case Type::B64:
  case Type::U64:
    return binary<Op<uint64_t>, uint64_t, uint64_t, uint32_t>;
  case Type::S64:
    return binary<Op<int64_t>, int64_t, int64_t, uint32_t>;
  default:
    return nullptr;
  }
}

void decodeShift(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(3);
  Type type = decoder.takeType();
  inst.cls = Class::Integer;
  inst.run = decoder.statement.opcode == "shl" ? (isBits(type) ? shiftOf<ShiftLeft>(type) : nullptr)
                                               : shiftOf<ShiftRight>(type);
  if (!inst.run)
    decoder.fail("no such shift");
  decoder.sources(type, 1, 1);
  inst.src[1] = decoder.source(2, Type::U32);
  inst.dst = decoder.destination(0, type);
}

void decodeFunnel(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(4);
  bool left = decoder.take("l");
  if (!left && !decoder.take("r"))
    decoder.fail(".l or .r expected");
  bool wrap = decoder.take("wrap");
  if (!wrap && !decoder.take("clamp"))
    decoder.fail(".wrap or .clamp expected");
  if (decoder.takeType() != Type::B32)
    decoder.fail("only .b32 is supported");
  inst.cls = Class::Integer;
  auto of = [](auto op) { return ternary<decltype(op), uint32_t, uint32_t, uint32_t, uint32_t>; };
  inst.run = left ? (wrap ? of(Funnel<true, true>()) : of(Funnel<true, false>()))
                  : (wrap ? of(Funnel<false, true>()) : of(Funnel<false, false>()));
  decoder.sources(Type::B32, 1, 3);
  inst.dst = decoder.destination(0, Type::B32);
}

void decodeField(Decoder &decoder) {
  Inst &inst = decoder.inst;
  Type type = decoder.takeType();
  inst.cls = Class::Integer;
  if (decoder.statement.opcode == "bfe") {
    decoder.expectCount(4);
    switch (type) {
    case Type::U32:
      inst.run = ternary<ExtractField<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
      break;
    case Type::S32:
      inst.run = ternary<ExtractField<int32_t>, int32_t, int32_t, uint32_t, uint32_t>;
      break;
    case Type::U64:
      inst.run = ternary<ExtractField<uint64_t>, uint64_t, uint64_t, uint32_t, uint32_t>;
      break;
    case Type::S64:
      inst.run = ternary<ExtractField<int64_t>, int64_t, int64_t, uint32_t, uint32_t>;
      break;
    default:
      decoder.fail("no bfe of this type");
    }
    decoder.sources(type, 1, 1);
    inst.src[1] = decoder.source(2, Type::U32);
    inst.src[2] = decoder.source(3, Type::U32);
  } else {
    decoder.expectCount(5);
    if (type != Type::B32 && type != Type::B64)
      decoder.fail("no bfi of this type");
    inst.run = type == Type::B32 ? runInsert<uint32_t> : runInsert<uint64_t>;
    decoder.sources(type, 1, 2);
    inst.src[2] = decoder.source(3, Type::U32);
    inst.src[3] = decoder.source(4, Type::U32);
  }
  inst.dst = decoder.destination(0, type);
}

void decodeCount(Decoder &decoder) {
  Inst &inst = decoder.inst;
  std::string_view opcode = decoder.statement.opcode;
  decoder.expectCount(2);
  bool shift = opcode == "bfind" && decoder.take("shiftamt");
  Type type = decoder.takeType(), result = Type::U32;
  inst.cls = Class::Integer;
  bool wide = bitsOf(type) == 64;
  if (opcode == "popc")
    inst.run = wide ? unary<PopCount<uint64_t>, uint32_t, uint64_t>
                    : unary<PopCount<uint32_t>, uint32_t, uint32_t>;
  else if (opcode == "clz")
    inst.run = wide ? unary<LeadingZeros<uint64_t>, uint32_t, uint64_t>
                    : unary<LeadingZeros<uint32_t>, uint32_t, uint32_t>;
  else if (opcode == "brev")
    inst.run = wide ? unary<Reverse<uint64_t>, uint64_t, uint64_t>
                    : unary<Reverse<uint32_t>, uint32_t, uint32_t>,
    result = type;
  else if (type == Type::U32)
    inst.run = shift ? unary<FindBit<uint32_t, true>, uint32_t, uint32_t>
                     : unary<FindBit<uint32_t, false>, uint32_t, uint32_t>;
  else if (type == Type::S32)
    inst.run = shift ? unary<FindBit<int32_t, true>, uint32_t, int32_t>
                     : unary<FindBit<int32_t, false>, uint32_t, int32_t>;
  else if (type == Type::U64)
    inst.run = shift ? unary<FindBit<uint64_t, true>, uint32_t, uint64_t>
                     : unary<FindBit<uint64_t, false>, uint32_t, uint64_t>;
  else if (type == Type::S64)
    inst.run = shift ? unary<FindBit<int64_t, true>, uint32_t, int64_t>
                     : unary<FindBit<int64_t, false>, uint32_t, int64_t>;
  if (!inst.run || (opcode != "bfind" && !isBits(type)) || bitsOf(type) < 32)
    decoder.fail("no such instruction on bits");
  decoder.sources(type, 1, 1);
  inst.dst = decoder.destination(0, result);
}

void decodePermute(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(4);
  if (decoder.takeType() != Type::B32)
    decoder.fail("only .b32 is supported");
  inst.cls = Class::Integer;
  inst.mode = uint8_t(decoder.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
  inst.run = runPermute;
  decoder.sources(Type::B32, 1, 3);
  inst.dst = decoder.destination(0, Type::B32);
}

void decodeLop3(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(5);
  if (decoder.takeType() != Type::B32)
    decoder.fail("only .b32 is supported");
  const Operand &lut = decoder.operand(4);
  if (lut.kind != Operand::Imm || lut.number.bits > 255)
    decoder.fail("a table of 8 bits expected");
  inst.cls = Class::Integer;
  inst.mode = uint8_t(lut.number.bits);
  inst.run = runLop3;
  decoder.sources(Type::B32, 1, 3);
  inst.dst = decoder.destination(0, Type::B32);
}

} // namespace

void ptx::addBits(OpcodeTable &table) {
  for (auto opcode : {"and", "or", "xor", "not", "cnot"})
    table[opcode] = decodeLogic;
  for (auto opcode : {"shl", "shr"})
    table[opcode] = decodeShift;
  for (auto opcode : {"bfe", "bfi"})
    table[opcode] = decodeField;
  for (auto opcode : {"popc", "clz", "brev", "bfind"})
    table[opcode] = decodeCount;
  table["shf"] = decodeFunnel;
  table["prmt"] = decodePermute;
  table["lop3"] = decodeLop3;
}
