//===- Comparisons.cpp - Instructions setp, set, selp, slct ---------------===//

#include "Decoder.h"
#include "Lanes.h"

#include <cmath>
#include <type_traits>

using namespace ptx;

namespace {

enum class Compare : uint8_t {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Lo,
  Ls,
  Hi,
  Hs,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};
enum class Combine : uint8_t { None, And, Or, Xor };
constexpr uint8_t ftzFlag = 1, negatedFlag = 2, pairFlag = 4;

// Reads a register as a number. 16-bit floats are widened.
template <class T> struct Plain {
  using Bits = T;
  static T read(T bits) { return bits; }
};
template <bool Ftz> struct Single {
  using Bits = float;
  static float read(float value) { return flush<Ftz>(value); }
};
template <class F> struct Half {
  using Bits = uint16_t;
  static float read(uint16_t bits) { return F::widen(bits); }
};

template <class Read, class F> Mask compareLanes(Warp &warp, const Inst &inst, F holds) {
  using T = typename Read::Bits;
  const T *a = warp.data<T>(inst.src[0]), *b = warp.data<T>(inst.src[1]);
  alignas(64) uint8_t results[warpSize];
  for (unsigned lane = 0; lane < warpSize; ++lane)
    results[lane] = holds(Read::read(a[lane]), Read::read(b[lane]));
  Mask mask = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    mask |= Mask(results[lane]) << lane;
  return mask;
}

template <class Read> Mask compareAll(Warp &warp, const Inst &inst) {
  auto with = [&](auto holds) { return compareLanes<Read>(warp, inst, holds); };
  switch (Compare(inst.mode)) {
  case Compare::Eq:
    return with([](auto a, auto b) { return a == b; });
  case Compare::Ne:
    return with([](auto a, auto b) { return a == a && b == b && a != b; });
  case Compare::Lt:
  case Compare::Lo:
    return with([](auto a, auto b) { return a < b; });
  case Compare::Le:
  case Compare::Ls:
    return with([](auto a, auto b) { return a <= b; });
  case Compare::Gt:
  case Compare::Hi:
    return with([](auto a, auto b) { return a > b; });
  case Compare::Ge:
  case Compare::Hs:
    return with([](auto a, auto b) { return a >= b; });
  // The unordered comparisons are also true if an operand is NaN.
  case Compare::Equ:
    return with([](auto a, auto b) { return !(a < b || a > b); });
  case Compare::Neu:
    return with([](auto a, auto b) { return a != b; });
  case Compare::Ltu:
    return with([](auto a, auto b) { return !(a >= b); });
  case Compare::Leu:
    return with([](auto a, auto b) { return !(a > b); });
  case Compare::Gtu:
    return with([](auto a, auto b) { return !(a <= b); });
  case Compare::Geu:
    return with([](auto a, auto b) { return !(a < b); });
  case Compare::Num:
    return with([](auto a, auto b) { return a == a && b == b; });
  case Compare::Nan:
    return with([](auto a, auto b) { return a != a || b != b; });
  }
  return 0;
}

Mask compare(Warp &warp, const Inst &inst) {
  switch (inst.type) {
  case Type::U16:
  case Type::B16:
    return compareAll<Plain<uint16_t>>(warp, inst);
  case Type::S16:
    return compareAll<Plain<int16_t>>(warp, inst);
  case Type::U32:
  case Type::B32:
    return compareAll<Plain<uint32_t>>(warp, inst);
  case Type::S32:
    return compareAll<Plain<int32_t>>(warp, inst);
  case Type::U64:
  case Type::B64:
    return compareAll<Plain<uint64_t>>(warp, inst);
  case Type::S64:
    return compareAll<Plain<int64_t>>(warp, inst);
  case Type::F16:
    return compareAll<Half<F16>>(warp, inst);
  case Type::BF16:
    return compareAll<Half<BF16>>(warp, inst);
  case Type::F32:
    return inst.flags & ftzFlag ? compareAll<Single<true>>(warp, inst)
                                : compareAll<Single<false>>(warp, inst);
  default:
    return compareAll<Plain<double>>(warp, inst);
  }
}

Mask combine(Warp &warp, const Inst &inst, Mask compared) {
  Mask other = warp.predicate(inst.src[2]) ^ (inst.flags & negatedFlag ? allLanes : 0);
  switch (Combine(inst.vector)) {
  case Combine::None:
    break;
  case Combine::And:
    return compared & other;
  case Combine::Or:
    return compared | other;
  case Combine::Xor:
    return compared ^ other;
  }
  return compared;
}

void assign(Mask &to, Mask value, Mask mask) { to = (to & ~mask) | (value & mask); }

void runSetp(Warp &warp, const Inst &inst, Mask mask) {
  Mask compared = compare(warp, inst);
  Mask first = combine(warp, inst, compared), second = combine(warp, inst, ~compared);
  assign(warp.predicate(inst.dst), first, mask);
  if (inst.flags & pairFlag) {
    assign(warp.predicate(inst.list), second, mask);
    warp.defined(inst.list) |= mask;
  }
}

template <class T> void runSet(Warp &warp, const Inst &inst, Mask mask) {
  Mask result = combine(warp, inst, compare(warp, inst));
  T yes = T(inst.offset);
  eachLane<T>(warp, inst, mask, [&](unsigned lane) { return result >> lane & 1 ? yes : T(0); });
}

/// Decodes modifiers and operands that setp and set have in common.
void decodeComparison(Decoder &decoder, Type type, size_t first) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Compare;
  inst.type = type;
  if (type == Type::None || type == Type::Pred || bitsOf(type) < 16 || type == Type::F16x2 ||
      type == Type::BF16x2)
    decoder.fail("no comparison of this type");
  static constexpr std::initializer_list<std::string_view> names = {
      "eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
      "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  int compare = decoder.takeOneOf(names);
  auto op = Compare(compare);
  bool equality = op == Compare::Eq || op == Compare::Ne;
  bool unsignedOnly = op >= Compare::Lo && op <= Compare::Hs;
  if (compare < 0 || (op >= Compare::Equ && !isFloat(type)) ||
      (unsignedOnly && !isUnsigned(type)) || (isBits(type) && !equality))
    decoder.fail("no such comparison of this type");
  inst.mode = uint8_t(compare);
  if ((type == Type::F32 || type == Type::F16) && decoder.take("ftz"))
    inst.flags |= ftzFlag;
  inst.vector = uint8_t(decoder.takeOneOf({"and", "or", "xor"}) + 1);
  decoder.expectCount(first + 2 + (inst.vector ? 1 : 0));
  decoder.sources(type, first, 2);
  if (inst.vector) {
    inst.src[2] = decoder.predicateOf(decoder.operand(first + 2));
    if (decoder.operand(first + 2).negated)
      inst.flags |= negatedFlag;
  }
}

void decodeSetp(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decodeComparison(decoder, decoder.takeType(), 1);
  const Operand &to = decoder.operand(0);
  inst.dst = decoder.destinationOf(to, Type::Pred);
  if (to.pair >= 0) {
    inst.flags |= pairFlag;
    inst.list = decoder.pairOf(to);
  }
  inst.run = runSetp;
}

void decodeSet(Decoder &decoder) {
  Inst &inst = decoder.inst;
  Type result = decoder.takeType();
  decodeComparison(decoder, decoder.takeType(), 1);
  switch (result) {
  case Type::U32:
  case Type::S32:
    inst.offset = -1;
    break;
  case Type::F32:
    inst.offset = 0x3f800000;
    break;
  default:
    decoder.fail("no set to this type");
  }
  inst.run = runSet<uint32_t>;
  inst.dst = decoder.destination(0, Type::B32);
}

// ---- selp, slct: the operand that is not selected may be undefined ----

template <class T> void runSelect(Warp &warp, const Inst &inst, Mask mask) {
  Mask chosen = warp.predicate(inst.src[2]);
  const T *a = warp.data<T>(inst.src[0]), *b = warp.data<T>(inst.src[1]);
  Mask have = (warp.defined(inst.src[0]) & chosen) | (warp.defined(inst.src[1]) & ~chosen);
  Mask &defined = warp.defined(inst.dst);
  defined = (defined & ~mask) | (have & warp.defined(inst.src[2]) & mask);
  eachLane<T>(warp, inst, mask,
              [&](unsigned lane) { return chosen >> lane & 1 ? a[lane] : b[lane]; });
}

void runSelectPredicate(Warp &warp, const Inst &inst, Mask mask) {
  Mask chosen = warp.predicate(inst.src[2]);
  Mask value = (warp.predicate(inst.src[0]) & chosen) | (warp.predicate(inst.src[1]) & ~chosen);
  assign(warp.predicate(inst.dst), value, mask);
  warp.defined(inst.dst) |= mask;
}

void decodeSelp(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(4);
  Type type = decoder.takeType();
  inst.cls = Class::Compare;
  inst.flow = Flow::Custom;
  decoder.sources(type, 1, 2);
  inst.src[2] = decoder.predicateOf(decoder.operand(3));
  if (decoder.operand(3).negated)
    std::swap(inst.src[0], inst.src[1]);
  switch (bitsOf(type)) {
  case 0:
    inst.run = runSelectPredicate;
    break;
  case 16:
    inst.run = runSelect<uint16_t>;
    break;
  case 32:
    inst.run = runSelect<uint32_t>;
    break;
  case 64:
    inst.run = runSelect<uint64_t>;
    break;
  default:
    decoder.fail("no selp of this type");
  }
  inst.dst = decoder.destination(0, type);
}

// Selects a if c >= 0 (also for -0), otherwise b, also if c is NaN.
template <class T, class C> struct Choose {
  static T apply(T a, T b, C c) { return c >= C(0) ? a : b; }
};

template <class C> Handler chooseBy(Type type) {
  switch (bitsOf(type)) {
  case 16:
    return ternary<Choose<uint16_t, C>, uint16_t, uint16_t, uint16_t, C>;
  case 32:
    return ternary<Choose<uint32_t, C>, uint32_t, uint32_t, uint32_t, C>;
  case 64:
    return ternary<Choose<uint64_t, C>, uint64_t, uint64_t, uint64_t, C>;
  default:
    return nullptr;
  }
}

void decodeSlct(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(4);
  Type type = decoder.takeType(), by = decoder.takeType();
  inst.cls = Class::Compare;
  inst.run = by == Type::S32   ? chooseBy<int32_t>(type)
             : by == Type::F32 ? chooseBy<float>(type)
                               : nullptr;
  if (!inst.run)
    decoder.fail("no slct of this type");
  decoder.sources(type, 1, 2);
  inst.src[2] = decoder.source(3, by);
  inst.dst = decoder.destination(0, type);
}

// ---- testp: classes of floats ----

enum class Kind : uint8_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <class T> void runTest(Warp &warp, const Inst &inst, Mask mask) {
  const T *a = warp.data<T>(inst.src[0]);
  Mask result = 0;
  forLanes(mask, [&](unsigned lane) {
    bool is = false;
    switch (Kind(inst.mode)) {
    case Kind::Finite:
      is = std::isfinite(a[lane]);
      break;
    case Kind::Infinite:
      is = std::isinf(a[lane]);
      break;
    case Kind::Number:
      is = !std::isnan(a[lane]);
      break;
    case Kind::NotANumber:
      is = std::isnan(a[lane]);
      break;
    case Kind::Normal:
      is = std::isnormal(a[lane]);
      break;
    case Kind::Subnormal:
      is = std::fpclassify(a[lane]) == FP_SUBNORMAL;
      break;
    }
    result |= Mask(is) << lane;
  });
  assign(warp.predicate(inst.dst), result, mask);
}

void decodeTest(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(2);
  int kind =
      decoder.takeOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  Type type = decoder.takeType();
  if (kind < 0 || (type != Type::F32 && type != Type::F64))
    decoder.fail("no such test");
  inst.cls = Class::Compare;
  inst.mode = uint8_t(kind);
  inst.run = type == Type::F32 ? runTest<float> : runTest<double>;
  decoder.sources(type, 1, 1);
  inst.dst = decoder.destination(0, Type::Pred);
}

} // namespace

void ptx::addComparisons(OpcodeTable &table) {
  table["setp"] = decodeSetp;
  table["set"] = decodeSet;
  table["selp"] = decodeSelp;
  table["slct"] = decodeSlct;
  table["testp"] = decodeTest;
}
