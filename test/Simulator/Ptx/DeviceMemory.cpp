//===- DeviceMemory.cpp - Simulated global memory -------------------------===//

#include "DeviceMemory.h"
#include "Program.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

constexpr uint64_t gap = 4096;

Memory::Memory(uint64_t seed, uint64_t firstAddress)
    : next(firstAddress), state(seed * 0x9e3779b97f4a7c15 + 1) {
  next += random() % 4096 * 65536;
}

uint64_t Memory::random() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1d >> 16;
}

uint64_t Memory::allocate(uint64_t bytes, std::string name, uint64_t alignment, Fill fill) {
  auto made = std::make_unique<Allocation>();
  uint64_t step = alignment * 2;
  made->base = (next + gap + step - 1) / step * step + alignment;
  made->bytes = bytes;
  made->name = std::move(name);
  // Bytes 0xff are NaN in every float type, and as an index they are out of bounds of any table.
  made->data.assign(bytes, fill == Fill::Zero ? 0 : 0xff);
  made->written.assign(bytes, fill == Fill::Zero);
  made->unwritten = fill == Fill::Zero ? 0 : bytes;
  made->shadow.resize(bytes);
  next = made->end() + random() % 16 * 512;
  allocations.push_back(std::move(made));
  return allocations.back()->base;
}

Allocation *Memory::find(uint64_t address) {
  if (last && address >= last->base && address < last->end())
    return last;
  auto above = std::upper_bound(allocations.begin(), allocations.end(), address,
                                [](uint64_t at, const auto &one) { return at < one->base; });
  if (above == allocations.begin())
    return nullptr;
  Allocation *found = std::prev(above)->get();
  if (address >= found->end())
    return nullptr;
  return last = found;
}

Allocation *Memory::findLive(uint64_t address, uint64_t bytes) {
  Allocation *found = find(address);
  return found && !found->freed && bytes <= found->end() - address ? found : nullptr;
}

uint8_t *Memory::beginWrite(uint64_t address, uint64_t bytes) {
  Allocation *into = findLive(address, bytes);
  if (!into)
    return nullptr;
  uint64_t offset = address - into->base;
  if (into->unwritten) {
    into->unwritten -= countUnwritten(address, bytes);
    std::memset(into->written.data() + offset, 1, bytes);
  }
  return into->data.data() + offset;
}

const uint8_t *Memory::read(uint64_t address, uint64_t bytes) {
  Allocation *from = findLive(address, bytes);
  return from ? from->data.data() + (address - from->base) : nullptr;
}

bool Memory::copyIn(uint64_t address, const void *from, uint64_t bytes) {
  if (!bytes)
    return true;
  uint8_t *into = beginWrite(address, bytes);
  if (into)
    std::memcpy(into, from, bytes);
  return into;
}

bool Memory::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (!bytes)
    return true;
  Allocation *into = findLive(to, bytes), *source = findLive(from, bytes);
  if (!into || !source)
    return false;
  uint64_t at = to - into->base, sourceAt = from - source->base;
  std::memmove(into->data.data() + at, source->data.data() + sourceAt, bytes);
  if (into->unwritten || source->unwritten) {
    into->unwritten += countUnwritten(from, bytes);
    into->unwritten -= countUnwritten(to, bytes);
    std::memmove(into->written.data() + at, source->written.data() + sourceAt, bytes);
  }
  return true;
}

bool Memory::copyOut(void *to, uint64_t address, uint64_t bytes) const {
  if (!bytes)
    return true;
  const Allocation *from = const_cast<Memory *>(this)->findLive(address, bytes);
  if (!from)
    return false;
  std::memcpy(to, from->data.data() + (address - from->base), bytes);
  return true;
}

bool Memory::fill(uint64_t address, uint8_t value, uint64_t bytes) {
  if (!bytes)
    return true;
  uint8_t *into = beginWrite(address, bytes);
  if (into)
    std::memset(into, value, bytes);
  return into;
}

void Memory::enter(Allocation &allocation, uint32_t launch) {
  if (std::find(touched.begin(), touched.end(), &allocation) == touched.end()) {
    touched.push_back(&allocation);
    allocation.shadow.enter(launch);
  }
}

uint64_t Memory::countUnwritten(uint64_t address, uint64_t bytes) const {
  const Allocation *in = const_cast<Memory *>(this)->findLive(address, bytes);
  if (!in)
    return bytes;
  if (!in->unwritten)
    return 0;
  const uint8_t *from = in->written.data() + (address - in->base);
  return uint64_t(std::count(from, from + bytes, 0));
}

bool Memory::setReadOnly(uint64_t address, bool readOnly) {
  Allocation *found = findLive(address, 0);
  if (!found)
    return false;
  found->readOnly = readOnly;
  return true;
}

bool Memory::free(uint64_t address) {
  // find() does not find empty allocations, because they contain no address.
  for (auto &one : allocations)
    if (one->base == address && !one->freed) {
      one->freed = true;
      // The bytes are freed. The addresses stay reserved, so that findings can name the allocation.
      one->data.clear();
      one->written.clear();
      one->shadow.resize(0);
      return true;
    }
  return false;
}

std::string Memory::describe(uint64_t address) const {
  const Allocation *below = nullptr, *above = nullptr;
  for (const auto &one : allocations) {
    if (one->base <= address)
      below = one.get();
    else if (!above)
      above = one.get();
  }
  auto named = [](const Allocation &one) {
    return one.name + " (" + std::to_string(one.bytes) + " bytes" + (one.freed ? ", freed)" : ")");
  };
  constexpr uint64_t far = uint64_t(1) << 24;
  if (below && address < below->end())
    return "offset " + std::to_string(address - below->base) + " of " + named(*below);
  bool nearBelow = below && address - below->end() < far;
  bool nearAbove = above && above->base - address < far;
  if (nearBelow && (!nearAbove || address - below->end() <= above->base - address))
    return std::to_string(address - below->end()) + " bytes past the end of " + named(*below);
  if (nearAbove)
    return std::to_string(above->base - address) + " bytes before " + named(*above);
  return "near no allocation";
}

const std::vector<uint64_t> &Memory::variablesOf(const std::shared_ptr<const Program> &program) {
  for (auto &[known, addresses] : variables)
    if (known == program)
      return addresses;
  std::vector<uint64_t> addresses;
  for (const Variable &variable : program->variables) {
    uint64_t address = allocate(variable.bytes, variable.name, variable.alignment);
    if (variable.initialized) {
      std::vector<uint8_t> bytes = variable.data;
      bytes.resize(variable.bytes);
      copyIn(address, bytes.data(), bytes.size());
    } else if (variable.space == Space::Global || variable.space == Space::Const) {
      fill(address, 0, variable.bytes); // zero without an initializer, by the manual
    }
    setReadOnly(address, variable.space == Space::Const);
    addresses.push_back(address);
  }
  variables.emplace_back(program, std::move(addresses));
  return variables.back().second;
}
