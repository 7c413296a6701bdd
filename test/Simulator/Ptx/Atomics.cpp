//===- Atomics.cpp - Instructions atom and red ----------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"

#include <cstring>

using namespace ptx;

namespace {

enum class Update : uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor, Exch, Cas };

template <class T> T update(Update op, T old, T value, T other) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
  case Update::Add:
    return T(U(old) + U(value));
  case Update::Min:
    return value < old ? value : old;
  case Update::Max:
    return value > old ? value : old;
  case Update::Inc:
    return old >= value ? T(0) : T(old + 1);
  case Update::Dec:
    return old == 0 || old > value ? value : T(old - 1);
  case Update::And:
    return old & value;
  case Update::Or:
    return old | value;
  case Update::Xor:
    return old ^ value;
  case Update::Exch:
    return value;
  case Update::Cas:
    return old == value ? other : old;
  }
  return old;
}

uint64_t updateBits(Type type, Update op, uint64_t old, uint64_t value, uint64_t other) {
  switch (type) {
  case Type::S32:
    return uint32_t(update<int32_t>(op, int32_t(old), int32_t(value), int32_t(other)));
  case Type::U32:
  case Type::B32:
    return update<uint32_t>(op, uint32_t(old), uint32_t(value), uint32_t(other));
  case Type::S64:
    return uint64_t(update<int64_t>(op, int64_t(old), int64_t(value), int64_t(other)));
  case Type::U64:
  case Type::B64:
    return update<uint64_t>(op, old, value, other);
  case Type::B16:
    return update<uint16_t>(op, uint16_t(old), uint16_t(value), uint16_t(other));
  case Type::F32:
    return toBits(canonical(toFloat(uint32_t(old)) + toFloat(uint32_t(value))));
  default:
    return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(value));
  }
}

constexpr uint8_t narrowAddress = 1, hasResult = 2, acquires = 4, releases = 8;

void runAtomic(Warp &warp, const Inst &inst, Mask mask) {
  uint64_t addresses[warpSize];
  addressesOf(warp, inst.src[0], inst.flags & narrowAddress, uint64_t(inst.offset), addresses);
  Request request{mask, AccessKind::Atomic, true, false, inst.bytes, addresses};
  unsigned bytes = inst.bytes;
  if (inst.flags & releases)
    warp.machine.fence(warp, mask);
  auto read = [&](Slot slot, unsigned lane) {
    uint64_t bits = 0;
    std::memcpy(&bits, warp.data<uint8_t>(slot) + lane * bytes, bytes);
    return bits;
  };
  warp.machine.access(
      warp, inst, request, [&](const Region &region, Mask lanes, const uint64_t *offsets) {
        // The order of lanes is unspecified. Here it starts at a lane that the seed selects.
        unsigned first = unsigned(warp.machine.seed() * 7 + warp.machine.clockNow()) % warpSize;
        for (unsigned i = 0; i < warpSize; ++i) {
          unsigned lane = (first + i) % warpSize;
          if (!(lanes >> lane & 1))
            continue;
          uint64_t old = 0;
          std::memcpy(&old, region.data + offsets[lane], bytes);
          uint64_t made = updateBits(inst.type, Update(inst.mode), old, read(inst.src[1], lane),
                                     read(inst.src[2], lane));
          std::memcpy(region.data + offsets[lane], &made, bytes);
          if (inst.flags & hasResult)
            std::memcpy(warp.data<uint8_t>(inst.dst) + lane * bytes, &old, bytes);
        }
      });
  if (inst.flags & acquires)
    warp.machine.fence(warp, mask);
}

void decodeAtomic(Decoder &decoder) {
  Inst &inst = decoder.inst;
  bool result = decoder.statement.opcode == "atom";
  inst.cls = Class::Atomic;
  int order = decoder.takeOneOf({"relaxed", "acquire", "release", "acq_rel"});
  int scope = decoder.takeOneOf({"cta", "cluster", "gpu", "sys"});
  int space = decoder.takeOneOf({"global", "shared"});
  inst.space = space == 0 ? Space::Global : space == 1 ? Space::Shared : Space::Generic;
  // .acquire and .release are like a fence after and before the update. Narrower scopes do not
  // order blocks.
  if (scope >= 2 && inst.space == Space::Global)
    inst.flags |= (order == 1 || order == 3 ? acquires : 0) | (order >= 2 ? releases : 0);
  int op =
      decoder.takeOneOf({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  if (op < 0 || (!result && op >= int(Update::Exch)))
    decoder.fail("no such update");
  inst.mode = uint8_t(op);
  Type type = decoder.takeType();
  auto which = Update(op);
  bool bitwise = which >= Update::And && which <= Update::Cas;
  bool good =
      bitwise ? isBits(type) && (bitsOf(type) >= 32 || (which == Update::Cas && bitsOf(type) == 16))
      : which == Update::Add ? type == Type::U32 || type == Type::S32 || type == Type::U64 ||
                                   type == Type::F32 || type == Type::F64
      : which == Update::Inc || which == Update::Dec ? type == Type::U32
                                                     : isInteger(type) && bitsOf(type) >= 32;
  if (!good)
    decoder.fail("no such update of this type");
  inst.type = type;
  inst.bytes = uint8_t(bytesOf(type));
  inst.run = runAtomic;
  size_t at = result ? 1 : 0;
  decoder.expectCount(at + (which == Update::Cas ? 3 : 2));
  const Operand &address = decoder.operand(at);
  bool narrow = false;
  inst.src[0] = decoder.addressBase(address, inst.space, narrow);
  inst.flags |= narrow ? narrowAddress : 0;
  inst.offset = address.offset;
  inst.src[1] = decoder.source(at + 1, type);
  inst.src[2] = which == Update::Cas ? decoder.source(at + 2, type) : decoder.kernel.zero;
  if (result) {
    inst.flags |= hasResult;
    inst.dst = decoder.destination(0, type);
  }
}

} // namespace

void ptx::addAtomics(OpcodeTable &table) {
  table["atom"] = decodeAtomic;
  table["red"] = decodeAtomic;
}
