//===- Moves.cpp - Instructions mov, cvta, isspacep -----------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

namespace {

// A copy of an undefined value is no finding, but a use of it is.
template <class T> void runMove(Warp &warp, const Inst &inst, Mask mask) {
  T *d = warp.data<T>(inst.dst);
  const T *a = warp.data<T>(inst.src[0]);
  Mask &defined = warp.defined(inst.dst);
  defined = (defined & ~mask) | (warp.defined(inst.src[0]) & mask);
  if (mask == allLanes)
    std::memmove(d, a, sizeof(T) * warpSize);
  else
    blend(d, a, mask);
}

void runMovePredicate(Warp &warp, const Inst &inst, Mask mask) {
  Mask &d = warp.predicate(inst.dst), &defined = warp.defined(inst.dst);
  d = (d & ~mask) | (warp.predicate(inst.src[0]) & mask);
  defined = (defined & ~mask) | (warp.defined(inst.src[0]) & mask);
}

// Packs {a, b} into d. Elements have inst.bytes bytes, and the first is in the low bits.
void runPack(Warp &warp, const Inst &inst, Mask mask) {
  const Slot *slots = warp.kernel.lists.data() + inst.list;
  auto *to = warp.data<uint8_t>(inst.dst);
  Mask have = mask;
  for (unsigned i = 0; i < inst.vector; ++i) {
    have &= warp.defined(slots[i]);
    const auto *from = warp.data<uint8_t>(slots[i]);
    forLanes(mask, [&](unsigned lane) {
      std::memcpy(to + (lane * inst.vector + i) * inst.bytes, from + lane * inst.bytes, inst.bytes);
    });
  }
  Mask &defined = warp.defined(inst.dst);
  defined = (defined & ~mask) | have;
}

// Unpacks d into {a, b}. The source may be one of the results, so it is read first.
void runUnpack(Warp &warp, const Inst &inst, Mask mask) {
  const Slot *slots = warp.kernel.lists.data() + inst.list;
  unsigned width = inst.bytes * inst.vector;
  uint8_t from[8 * warpSize];
  std::memcpy(from, warp.data<uint8_t>(inst.src[0]), size_t(width) * warpSize);
  Mask have = warp.defined(inst.src[0]);
  for (unsigned i = 0; i < inst.vector; ++i) {
    auto *to = warp.data<uint8_t>(slots[i]);
    forLanes(mask, [&](unsigned lane) {
      std::memcpy(to + lane * inst.bytes, from + lane * width + i * inst.bytes, inst.bytes);
    });
    Mask &defined = warp.defined(slots[i]);
    defined = (defined & ~mask) | (have & mask);
  }
}

void runClock(Warp &warp, const Inst &inst, Mask mask) {
  uint64_t now = warp.machine.clockNow();
  if (inst.type == Type::U64)
    eachLane<uint64_t>(warp, inst, mask, [&](unsigned) { return now; });
  else
    eachLane<uint32_t>(warp, inst, mask, [&](unsigned) { return uint32_t(now); });
  warp.defined(inst.dst) |= mask;
}

void decodeVectorMove(Decoder &decoder, Type type) {
  Inst &inst = decoder.inst;
  bool pack = decoder.operand(1).kind == Operand::Vector;
  const Operand &vector = decoder.operand(pack ? 1 : 0);
  size_t elements = vector.elements.size();
  unsigned bits = bitsOf(type);
  if (!isBits(type) || (elements != 2 && elements != 4) || bits / elements < 16)
    decoder.fail("no such vector");
  inst.vector = uint8_t(elements);
  inst.bytes = uint8_t(bits / elements / 8);
  Type element = inst.bytes == 2 ? Type::B16 : Type::B32;
  std::vector<Slot> slots;
  for (const Operand &each : vector.elements)
    slots.push_back(pack ? decoder.sourceOf(each, element) : decoder.destinationOf(each, element));
  auto &lists = decoder.kernel.kernel.lists;
  inst.list = uint32_t(lists.size());
  lists.insert(lists.end(), slots.begin(), slots.end());
  if (pack) {
    inst.run = runPack;
    inst.dst = decoder.destination(0, type);
  } else {
    inst.run = runUnpack;
    inst.src[0] = decoder.source(1, type);
  }
}

Handler moveOf(Type type) {
  switch (bitsOf(type)) {
  case 0:
    return runMovePredicate;
  case 16:
    return runMove<uint16_t>;
  case 32:
    return runMove<uint32_t>;
  case 64:
    return runMove<uint64_t>;
  default:
    return nullptr;
  }
}

void decodeMove(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(2);
  Type type = decoder.takeType();
  inst.cls = Class::Move;
  inst.flow = Flow::Custom;
  if (decoder.operand(0).kind == Operand::Vector || decoder.operand(1).kind == Operand::Vector)
    return decodeVectorMove(decoder, type);
  const Operand &from = decoder.operand(1);
  if (from.kind == Operand::Special &&
      (from.name == "%clock" || from.name == "%clock64" || from.name == "%globaltimer" ||
       from.name == "%globaltimer_lo")) {
    bool wide = from.name == "%clock64" || from.name == "%globaltimer";
    if (bitsOf(type) != (wide ? 64u : 32u))
      decoder.fail("the register must have the width of the type");
    inst.type = wide ? Type::U64 : Type::U32;
    inst.run = runClock;
  } else {
    inst.run = moveOf(type);
    if (!inst.run)
      decoder.fail("no mov of this type");
    inst.src[0] = decoder.source(1, type);
  }
  inst.dst = decoder.destination(0, type);
}

template <uint64_t Window, bool To> struct ToGeneric {
  static uint64_t apply(uint64_t a) { return To ? a + Window : a - Window; }
};

void decodeAddress(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(2);
  inst.cls = Class::Move;
  bool toSpace = decoder.take("to");
  int space = decoder.takeOneOf({"global", "const", "shared", "local"});
  if (space < 0)
    decoder.fail("a state space expected");
  Type type = decoder.takeType();
  if (type != Type::U64 && type != Type::B64)
    decoder.fail("only 64-bit addresses are supported");
  if (space < 2) {
    inst.flow = Flow::Custom;
    inst.run = runMove<uint64_t>;
  } else if (space == 2) {
    inst.run = toSpace ? unary<ToGeneric<sharedWindow, false>, uint64_t, uint64_t>
                       : unary<ToGeneric<sharedWindow, true>, uint64_t, uint64_t>;
  } else {
    inst.run = toSpace ? unary<ToGeneric<localWindow, false>, uint64_t, uint64_t>
                       : unary<ToGeneric<localWindow, true>, uint64_t, uint64_t>;
  }
  inst.src[0] = decoder.source(1, Type::U64);
  inst.dst = decoder.destination(0, Type::U64);
}

void runIsSpace(Warp &warp, const Inst &inst, Mask mask) {
  const uint64_t *address = warp.data<uint64_t>(inst.src[0]);
  Mask &d = warp.predicate(inst.dst);
  forLanes(mask, [&](unsigned lane) {
    bool shared = address[lane] - sharedWindow < windowBytes,
         local = address[lane] - localWindow < windowBytes;
    bool is = inst.space == Space::Shared  ? shared
              : inst.space == Space::Local ? local
                                           : !shared && !local;
    d = (d & ~(Mask(1) << lane)) | Mask(is) << lane;
  });
}

void decodeIsSpace(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(2);
  inst.cls = Class::Compare;
  int space = decoder.takeOneOf({"global", "shared", "local"});
  if (space < 0)
    decoder.fail("a state space expected");
  inst.space = space == 0 ? Space::Global : space == 1 ? Space::Shared : Space::Local;
  inst.run = runIsSpace;
  inst.src[0] = decoder.source(1, Type::U64);
  inst.dst = decoder.destination(0, Type::Pred);
}

} // namespace

void ptx::addMoves(OpcodeTable &table) {
  table["mov"] = decodeMove;
  table["cvta"] = decodeAddress;
  table["isspacep"] = decodeIsSpace;
}
