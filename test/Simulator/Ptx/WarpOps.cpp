//===- WarpOps.cpp - Warp-wide instructions -------------------------------===//
//
// A handler runs when all lanes of a mask have arrived, and receives these lanes.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"
#include "Text.h"

#include <algorithm>

using namespace ptx;

namespace {

enum class Shuffle : uint8_t { Up, Down, Bfly, Idx };

void runShuffle(Warp &warp, const Inst &inst, Mask mask) {
  uint32_t *d = warp.data<uint32_t>(inst.dst);
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]);
  const uint32_t *b = warp.data<uint32_t>(inst.src[1]), *c = warp.data<uint32_t>(inst.src[2]);
  uint32_t result[warpSize];
  Mask valid = 0;
  forLanes(mask, [&](unsigned lane) {
    // By the manual, c has the clamp in its low bits, and above it a mask that divides the warp
    // into segments.
    uint32_t by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    auto most = int((lane & segment) | (clamp & ~segment)), least = int(lane & segment);
    int from = 0;
    bool inside = false;
    switch (Shuffle(inst.mode)) {
    case Shuffle::Up:
      from = int(lane) - int(by), inside = from >= most;
      break;
    case Shuffle::Down:
      from = int(lane + by), inside = from <= most;
      break;
    case Shuffle::Bfly:
      from = int(lane ^ by), inside = from <= most;
      break;
    case Shuffle::Idx:
      from = least | int(by & ~segment), inside = from <= most;
      break;
    }
    if (!inside)
      from = int(lane);
    valid |= Mask(inside) << lane;
    if (!(mask >> from & 1))
      warp.machine.stop(Check::Synchronization, warp, lane,
                        text("reads lane {}, which its mask {} does not name", from, hex(mask, 8)));
    result[lane] = a[from];
  });
  blend(d, result, mask);
  if (inst.list) {
    Mask &p = warp.predicate(inst.list);
    p = (p & ~mask) | valid;
    warp.defined(inst.list) |= mask;
  }
}

void decodeShuffle(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(5);
  inst.cls = Class::Shuffle;
  inst.flow = Flow::Warp;
  if (!decoder.take("sync"))
    decoder.fail("shfl must have .sync since sm_70");
  int mode = decoder.takeOneOf({"up", "down", "bfly", "idx"});
  if (mode < 0 || decoder.takeType() != Type::B32)
    decoder.fail("no such shuffle");
  inst.mode = uint8_t(mode);
  inst.run = runShuffle;
  decoder.sources(Type::B32, 1, 3);
  inst.src[3] = decoder.source(4, Type::B32);
  inst.dst = decoder.destination(0, Type::B32);
  if (decoder.operand(0).pair >= 0)
    inst.list = decoder.pairOf(decoder.operand(0));
}

enum class Vote : uint8_t { All, Any, Uni, Ballot };

void runVote(Warp &warp, const Inst &inst, Mask mask) {
  Mask value = warp.predicate(inst.src[0]) ^ (inst.flags ? allLanes : 0);
  value &= mask;
  if (Vote(inst.mode) == Vote::Ballot)
    return eachLane<uint32_t>(warp, inst, mask, [&](unsigned) { return value; });
  bool all = value == mask, any = value != 0;
  bool result = Vote(inst.mode) == Vote::All   ? all
                : Vote(inst.mode) == Vote::Any ? any
                                               : all || !any;
  Mask &d = warp.predicate(inst.dst);
  d = (d & ~mask) | (result ? mask : 0);
}

void decodeVote(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(3);
  inst.cls = Class::Shuffle;
  inst.flow = Flow::Warp;
  if (!decoder.take("sync"))
    decoder.fail("vote must have .sync since sm_70");
  int mode = decoder.takeOneOf({"all", "any", "uni", "ballot"});
  Type type = decoder.takeType();
  if (mode < 0 || type != (mode == int(Vote::Ballot) ? Type::B32 : Type::Pred))
    decoder.fail("no such vote");
  inst.mode = uint8_t(mode);
  inst.run = runVote;
  inst.src[0] = decoder.predicateOf(decoder.operand(1));
  inst.flags = decoder.operand(1).negated;
  inst.src[3] = decoder.source(2, Type::B32);
  inst.dst = decoder.destination(0, type);
}

enum class Reduce : uint8_t { Add, Min, Max, And, Or, Xor };

void runReduce(Warp &warp, const Inst &inst, Mask mask) {
  const uint32_t *a = warp.data<uint32_t>(inst.src[0]);
  uint32_t sum = a[std::countr_zero(mask)];
  bool isSigned = inst.type == Type::S32;
  forLanes(mask & (mask - 1), [&](unsigned lane) {
    uint32_t value = a[lane];
    bool less = isSigned ? int32_t(value) < int32_t(sum) : value < sum;
    switch (Reduce(inst.mode)) {
    case Reduce::Add:
      sum += value;
      break;
    case Reduce::Min:
      sum = less ? value : sum;
      break;
    case Reduce::Max:
      sum = less ? sum : value;
      break;
    case Reduce::And:
      sum &= value;
      break;
    case Reduce::Or:
      sum |= value;
      break;
    case Reduce::Xor:
      sum ^= value;
      break;
    }
  });
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned) { return sum; });
}

void decodeReduce(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(3);
  inst.cls = Class::Shuffle;
  inst.flow = Flow::Warp;
  int mode = decoder.takeOneOf({"add", "min", "max", "and", "or", "xor"});
  inst.type = decoder.takeType();
  bool bitwise = mode >= int(Reduce::And);
  if (!decoder.take("sync") || mode < 0 || bitsOf(inst.type) != 32 ||
      (bitwise ? !isBits(inst.type) : !isInteger(inst.type)))
    decoder.fail("no such reduction");
  inst.mode = uint8_t(mode);
  inst.run = runReduce;
  decoder.sources(inst.type, 1, 1);
  inst.src[3] = decoder.source(2, Type::B32);
  inst.dst = decoder.destination(0, inst.type);
}

template <class T> void runMatchAny(Warp &warp, const Inst &inst, Mask mask) {
  const T *a = warp.data<T>(inst.src[0]);
  uint32_t result[warpSize];
  forLanes(mask, [&](unsigned lane) {
    Mask same = 0;
    forLanes(mask, [&](unsigned other) { same |= Mask(a[other] == a[lane]) << other; });
    result[lane] = same;
  });
  blend(warp.data<uint32_t>(inst.dst), result, mask);
}

template <class T> void runMatchAll(Warp &warp, const Inst &inst, Mask mask) {
  const T *a = warp.data<T>(inst.src[0]);
  bool all = true;
  forLanes(mask, [&](unsigned lane) { all &= a[lane] == a[std::countr_zero(mask)]; });
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned) { return all ? mask : 0; });
  if (inst.list) {
    Mask &p = warp.predicate(inst.list);
    p = (p & ~mask) | (all ? mask : 0);
    warp.defined(inst.list) |= mask;
  }
}

void decodeMatch(Decoder &decoder) {
  Inst &inst = decoder.inst;
  decoder.expectCount(3);
  inst.cls = Class::Shuffle;
  inst.flow = Flow::Warp;
  int mode = decoder.takeOneOf({"any", "all"});
  Type type = decoder.takeType();
  if (!decoder.take("sync") || mode < 0 || (type != Type::B32 && type != Type::B64))
    decoder.fail("no such match");
  bool wide = type == Type::B64;
  inst.run = mode == 0 ? (wide ? runMatchAny<uint64_t> : runMatchAny<uint32_t>)
                       : (wide ? runMatchAll<uint64_t> : runMatchAll<uint32_t>);
  decoder.sources(type, 1, 1);
  inst.src[3] = decoder.source(2, Type::B32);
  inst.dst = decoder.destination(0, Type::B32);
  if (mode == 1 && decoder.operand(0).pair >= 0)
    inst.list = decoder.pairOf(decoder.operand(0));
}

// Sets the result to the lanes that execute together. If a kernel relies on this set, its results
// depend on the schedule.
void runActive(Warp &warp, const Inst &inst, Mask mask) {
  eachLane<uint32_t>(warp, inst, mask, [&](unsigned) { return mask; });
}

void decodeActive(Decoder &decoder) {
  decoder.expectCount(1);
  if (decoder.takeType() != Type::B32)
    decoder.fail("only .b32 is supported");
  decoder.inst.cls = Class::Shuffle;
  decoder.inst.run = runActive;
  decoder.inst.dst = decoder.destination(0, Type::B32);
}

// ---- barriers ----

void runSyncLanes(Warp &warp, const Inst &, Mask mask) { warp.machine.syncLanes(warp, mask); }

void decodeBarrier(Decoder &decoder) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Barrier;
  if (decoder.take("warp")) {
    decoder.expectCount(1);
    if (!decoder.take("sync"))
      decoder.fail("only bar.warp.sync is supported");
    inst.flow = Flow::Warp;
    inst.run = runSyncLanes;
    inst.src[3] = decoder.source(0, Type::B32);
    return;
  }
  decoder.take("cta");
  if (!decoder.take("sync"))
    decoder.fail("only barriers with .sync are supported");
  // Without .aligned, lanes of a warp may diverge. In the interpreter, they must still reach the
  // same barrier.
  decoder.take("aligned");
  decoder.expectCount(1, 2);
  inst.flow = Flow::Barrier;
  inst.src[0] = decoder.source(0, Type::U32);
  if (decoder.count() == 2) {
    inst.flags = 1;
    inst.src[1] = decoder.source(1, Type::U32);
  }
}

} // namespace

void ptx::addWarpOps(OpcodeTable &table) {
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["redux"] = decodeReduce;
  table["match"] = decodeMatch;
  table["activemask"] = decodeActive;
  table["bar"] = decodeBarrier;
  table["barrier"] = decodeBarrier;
}
