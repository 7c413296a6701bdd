//===- AsyncCopies.cpp - Instructions cp.async ----------------------------===//
//
// By the manual, a copy runs at any time between cp.async and the end of a wait of the same thread,
// and nothing orders it with other accesses in between, not even with those of its own thread.
// Meanwhile its accesses have asyncFlag in shadow memory, and race with every other one. The wait
// turns them into accesses that the thread makes at the wait. So other threads are ordered after
// the copy only by a barrier after the wait.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"
#include "Text.h"

#include <cstring>

using namespace ptx;

static void complete(AsyncCopy &copy) {
  if (copy.isComplete)
    return;
  if (copy.read)
    std::memcpy(copy.to, copy.from, copy.read);
  std::memset(copy.to + copy.read, 0, copy.bytes - copy.read);
  copy.isComplete = true;
}

void Machine::copyAsync(Warp &warp, Mask lanes, unsigned bytes, const uint64_t *to,
                        const uint64_t *from, const uint32_t *read) {
  AsyncCopy made[warpSize];
  uint64_t offsets[warpSize];
  forLanes(lanes, [&](unsigned lane) {
    if (read[lane] > bytes)
      stop(Check::Memory, warp, lane, text("reads {} bytes of {}", read[lane], bytes));
    if (read[lane] && from[lane] % bytes)
      stop(Check::Memory, warp, lane,
           text("copies {} bytes from {}, which is not aligned to this size: {}", bytes,
                hex(from[lane]), memory.describe(from[lane])));
    made[lane].bytes = bytes;
    made[lane].read = read[lane];
    made[lane].group = warp.committed[lane];
  });
  Request target{
      .lanes = lanes, .kind = AccessKind::Write, .bytes = bytes, .addresses = to, .async = true};
  accessSpace(warp, Space::Shared, target, offsets,
              [&](const Region &region, Mask some, const uint64_t *at) {
                forLanes(some, [&](unsigned lane) {
                  made[lane].to = region.data + at[lane];
                  made[lane].toOffset = at[lane];
                });
              });
  // Bytes are read in pieces whose sizes are powers of two, the largest first.
  for (unsigned piece = bytes; piece; piece /= 2) {
    uint64_t addresses[warpSize];
    Mask some = 0;
    forLanes(lanes, [&](unsigned lane) {
      addresses[lane] = from[lane] + (read[lane] & ~(2 * piece - 1));
      some |= Mask(bool(read[lane] & piece)) << lane;
    });
    Request source{.lanes = some,
                   .kind = AccessKind::Read,
                   .bytes = piece,
                   .addresses = addresses,
                   .async = true};
    accessSpace(warp, Space::Global, source, offsets,
                [&](const Region &region, Mask found, const uint64_t *at) {
                  forLanes(found, [&](unsigned lane) {
                    AsyncCopy &copy = made[lane];
                    if (copy.source)
                      return;
                    copy.source = region.allocation;
                    copy.from = region.data + at[lane];
                    copy.fromOffset = at[lane];
                  });
                });
  }
  // Some copies run at once, the others at the wait.
  bool now = random() & 1;
  forLanes(lanes, [&](unsigned lane) {
    if (now)
      complete(made[lane]);
    warp.copies[lane].push_back(made[lane]);
  });
}

/// Turns accesses of a copy into accesses that the lane makes now.
void Machine::settle(const Warp &warp, unsigned lane, Shadow &shadow, uint64_t offset,
                     uint64_t bytes) {
  Record self = recordOf(warp, lane);
  auto settleOne = [&](Record &record) {
    if ((record & asyncFlag) && !((record ^ self) & (blockMask | threadMask)))
      record = self | (record & seenFlag);
  };
  for (uint64_t at = offset; at < offset + bytes; at += uint64_t(1) << shadow.cellShift()) {
    Cell &cell = shadow.at(at);
    for (unsigned i = 0; i < 2; ++i) {
      settleOne(cell.writes[i]);
      settleOne(cell.reads[i]);
    }
  }
}

void Machine::waitForCopies(Warp &warp, Mask lanes, uint32_t pending) {
  forLanes(lanes, [&](unsigned lane) {
    std::erase_if(warp.copies[lane], [&](AsyncCopy &copy) {
      if (uint64_t(copy.group) + pending >= warp.committed[lane])
        return false;
      complete(copy);
      settle(warp, lane, sharedShadow, copy.toOffset, copy.bytes);
      if (copy.source)
        settle(warp, lane, copy.source->shadow, copy.fromOffset, copy.read);
      return true;
    });
  });
}

namespace {

constexpr uint8_t narrowAddress = 1;

// src: base of the target, base of the source, bytes to read, offset of the source.
void runCopy(Warp &warp, const Inst &inst, Mask mask) {
  uint64_t to[warpSize], from[warpSize];
  addressesOf(warp, inst.src[0], inst.flags & narrowAddress, uint64_t(inst.offset), to);
  addressesOf(warp, inst.src[1], false, warp.data<uint64_t>(inst.src[3])[0], from);
  warp.machine.copyAsync(warp, mask, inst.bytes, to, from, warp.data<uint32_t>(inst.src[2]));
}

void runCommit(Warp &warp, const Inst &, Mask mask) {
  forLanes(mask, [&](unsigned lane) { ++warp.committed[lane]; });
}

void runWait(Warp &warp, const Inst &inst, Mask mask) {
  warp.machine.waitForCopies(warp, mask, inst.target);
}

// By the manual, the same as a commit and a wait for all groups.
void runWaitForAll(Warp &warp, const Inst &inst, Mask mask) {
  runCommit(warp, inst, mask);
  warp.machine.waitForCopies(warp, mask, 0);
}

uint32_t immediateOf(Decoder &decoder, size_t i) {
  const Operand &operand = decoder.operand(i);
  if (operand.kind != Operand::Imm || operand.number.kind != Number::Integer || operand.minus ||
      operand.number.bits > INT32_MAX)
    decoder.fail("an immediate integer expected");
  return uint32_t(operand.number.bits);
}

void decodeCopy(Decoder &decoder) {
  Inst &inst = decoder.inst;
  if (!decoder.take("async"))
    decoder.fail("only cp.async is supported");
  inst.cls = Class::Barrier;
  if (decoder.take("commit_group")) {
    decoder.expectCount(0);
    inst.run = runCommit;
    return;
  }
  if (decoder.take("wait_all")) {
    decoder.expectCount(0);
    inst.run = runWaitForAll;
    return;
  }
  if (decoder.take("wait_group")) {
    decoder.expectCount(1);
    inst.target = immediateOf(decoder, 0);
    inst.run = runWait;
    return;
  }
  decoder.expectCount(3, 4);
  inst.cls = Class::Global;
  int cache = decoder.takeOneOf({"ca", "cg"});
  if (cache < 0 || decoder.takeOneOf({"shared", "shared::cta"}) < 0 || !decoder.take("global"))
    decoder.fail("cp.async must have .ca or .cg, .shared and .global");
  decoder.takeOneOf({"L2::64B", "L2::128B", "L2::256B"});
  uint32_t bytes = immediateOf(decoder, 2);
  if (bytes != 16 && (cache == 1 || (bytes != 4 && bytes != 8)))
    decoder.fail("cp.async copies 4, 8 or 16 bytes, and with .cg 16");
  inst.bytes = uint8_t(bytes);
  bool narrow = false, none = false;
  inst.src[0] = decoder.addressBase(decoder.operand(0), Space::Shared, narrow);
  inst.src[1] = decoder.addressBase(decoder.operand(1), Space::Global, none);
  inst.src[2] =
      decoder.count() == 4 ? decoder.source(3, Type::U32) : decoder.kernel.constant(4, bytes);
  inst.src[3] = decoder.kernel.constant(8, uint64_t(decoder.operand(1).offset));
  inst.offset = decoder.operand(0).offset;
  inst.flags = narrow ? narrowAddress : 0;
  inst.run = runCopy;
}

} // namespace

void ptx::addAsyncCopies(OpcodeTable &table) { table["cp"] = decodeCopy; }
