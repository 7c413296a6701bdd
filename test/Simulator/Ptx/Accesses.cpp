//===- Accesses.cpp - Instructions ld and st ------------------------------===//

#include "Decoder.h"
#include "Lanes.h"
#include "Machine.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

namespace {

constexpr uint8_t narrowAddress = 1, readOnly = 2, strong = 4, extendSign = 8;

/// Loads one element into a register, which may be wider than the type.
void loadElement(uint8_t *to, unsigned width, const uint8_t *from, const Inst &inst) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, inst.bytes);
  if ((inst.flags & extendSign) && inst.bytes < 8 && bits >> (8 * inst.bytes - 1))
    bits |= ~uint64_t(0) << (8 * inst.bytes);
  std::memcpy(to, &bits, width);
}

// The instruction's list has a slot and the width of the register for each element.
void runLoad(Warp &warp, const Inst &inst, Mask mask) {
  uint64_t addresses[warpSize];
  addressesOf(warp, inst.src[0], inst.flags & narrowAddress, uint64_t(inst.offset), addresses);
  Request request{mask,
                  AccessKind::Read,
                  bool(inst.flags & strong),
                  bool(inst.flags & readOnly),
                  unsigned(inst.bytes) * inst.vector,
                  addresses};
  const Slot *list = warp.kernel.lists.data() + inst.list;
  warp.machine.access(
      warp, inst, request, [&](const Region &region, Mask lanes, const uint64_t *offsets) {
        for (unsigned i = 0; i < inst.vector; ++i) {
          Slot slot = list[2 * i];
          unsigned width = list[2 * i + 1];
          auto *to = warp.data<uint8_t>(slot);
          const uint8_t *from = region.data + i * inst.bytes;
          if (width == 4 && inst.bytes == 4)
            forLanes(lanes,
                     [&](unsigned lane) { std::memcpy(to + 4 * lane, from + offsets[lane], 4); });
          else
            forLanes(lanes, [&](unsigned lane) {
              loadElement(to + width * lane, width, from + offsets[lane], inst);
            });
          warp.defined(slot) |= lanes;
        }
      });
}

void runStore(Warp &warp, const Inst &inst, Mask mask) {
  uint64_t addresses[warpSize];
  addressesOf(warp, inst.src[0], inst.flags & narrowAddress, uint64_t(inst.offset), addresses);
  Request request{mask,
                  AccessKind::Write,
                  bool(inst.flags & strong),
                  false,
                  unsigned(inst.bytes) * inst.vector,
                  addresses};
  const Slot *list = warp.kernel.lists.data() + inst.list;
  for (unsigned i = 0; i < inst.vector; ++i)
    if (Mask missing = mask & ~warp.defined(list[2 * i]))
      warp.machine.report(Check::Initialization, warp, unsigned(std::countr_zero(missing)),
                          "writes a register that this thread has not written");
  warp.machine.access(warp, inst, request,
                      [&](const Region &region, Mask lanes, const uint64_t *offsets) {
                        for (unsigned i = 0; i < inst.vector; ++i) {
                          unsigned width = list[2 * i + 1];
                          const auto *from = warp.data<uint8_t>(list[2 * i]);
                          uint8_t *to = region.data + i * inst.bytes;
                          forLanes(lanes, [&](unsigned lane) {
                            std::memcpy(to + offsets[lane], from + width * lane, inst.bytes);
                          });
                        }
                      });
}

void runLoadParameter(Warp &warp, const Inst &inst, Mask mask) {
  const uint8_t *from = warp.machine.parameterData() + inst.offset;
  const Slot *list = warp.kernel.lists.data() + inst.list;
  for (unsigned i = 0; i < inst.vector; ++i) {
    unsigned width = list[2 * i + 1];
    auto *to = warp.data<uint8_t>(list[2 * i]);
    forLanes(mask, [&](unsigned lane) {
      loadElement(to + width * lane, width, from + i * inst.bytes, inst);
    });
    warp.defined(list[2 * i]) |= mask;
  }
}

Class classOf(Space space) {
  switch (space) {
  case Space::Shared:
    return Class::Shared;
  case Space::Local:
    return Class::Local;
  case Space::Param:
    return Class::Parameter;
  default:
    return Class::Global;
  }
}

/// Decodes the registers of an access, from an operand that is one register or a vector.
void decodeElements(Decoder &decoder, const Operand &operand, Type type, bool load) {
  Inst &inst = decoder.inst;
  std::vector<Slot> list;
  auto add = [&](const Operand &each) {
    list.push_back(load ? decoder.destinationOf(each, type, true)
                        : decoder.sourceOf(each, type, true));
    unsigned width = decoder.registerBytes(each);
    list.push_back(width ? width : load ? 8 : std::max(bytesOf(type), 2u));
  };
  if (operand.kind == Operand::Vector) {
    for (const Operand &each : operand.elements)
      add(each);
  } else {
    add(operand);
  }
  if (list.size() != size_t(inst.vector) * 2)
    decoder.fail("the vector must have as many elements as the access");
  auto &lists = decoder.kernel.kernel.lists;
  inst.list = uint32_t(lists.size());
  lists.insert(lists.end(), list.begin(), list.end());
}

void decodeAccess(Decoder &decoder) {
  Inst &inst = decoder.inst;
  bool load = decoder.statement.opcode == "ld" || decoder.statement.opcode == "ldu";
  decoder.expectCount(2);
  inst.space = Space::Generic;
  // .weak and .volatile accesses race; stronger ones do not.
  int order = decoder.takeOneOf({"weak", "volatile", "relaxed", "acquire", "release"});
  if ((order == 3 && !load) || (order == 4 && load))
    decoder.fail("the access has an unsupported memory order");
  if (order >= 2) {
    if (decoder.takeOneOf({"cta", "cluster", "gpu", "sys"}) < 0)
      decoder.fail("the instruction's scope is missing");
    inst.flags |= strong;
  }
  int space = decoder.takeOneOf({"global", "shared", "local", "param", "const", "shared::cta"});
  decoder.takeOneOf(
      {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}); // cache hints have no visible effect
  decoder.takeOneOf({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                     "L1::no_allocate"});
  decoder.takeOneOf({"L2::64B", "L2::128B", "L2::256B"});
  if (space >= 0)
    inst.space = std::array{Space::Global, Space::Shared, Space::Local,
                            Space::Param,  Space::Const,  Space::Shared}[size_t(space)];
  if (load && inst.space == Space::Global && decoder.take("nc"))
    inst.flags |= readOnly;
  int vector = decoder.takeOneOf({"v2", "v4", "v8"});
  inst.vector = uint8_t(vector < 0 ? 1 : 2 << vector);
  Type type = decoder.takeType();
  inst.bytes = uint8_t(bytesOf(type));
  if (!inst.bytes || unsigned(inst.bytes) * inst.vector > 32)
    decoder.fail("the access has an unsupported type");
  if (isSigned(type))
    inst.flags |= extendSign;
  inst.cls = classOf(inst.space);
  decodeElements(decoder, decoder.operand(load ? 0 : 1), type, load);

  const Operand &address = decoder.operand(load ? 1 : 0);
  if (address.kind != Operand::Address)
    decoder.fail("an address expected");
  inst.offset = address.offset;
  inst.run = load ? runLoad : runStore;
  if (inst.space == Space::Param) {
    const Parameter *parameter = decoder.kernel.findParameter(address.name);
    if (!load || !parameter)
      decoder.fail("the address must be the name of a parameter of the entry");
    int64_t bytes = inst.bytes * inst.vector;
    if (address.offset < 0 || address.offset > int64_t(parameter->bytes) - bytes)
      decoder.fail("the access is outside of the parameter");
    inst.offset += parameter->offset;
    if (inst.offset % bytes)
      decoder.fail("the offset in the parameter must be a multiple of the size that is read");
    inst.run = runLoadParameter;
    return;
  }
  if (inst.space == Space::Const && !load)
    decoder.fail("constants cannot be written");
  bool narrow = false;
  inst.src[0] = decoder.addressBase(address, inst.space, narrow);
  inst.flags |= narrow ? narrowAddress : 0;
}

} // namespace

void ptx::addAccesses(OpcodeTable &table) {
  for (auto opcode : {"ld", "st"})
    table[opcode] = decodeAccess;
}
