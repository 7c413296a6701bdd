//===- Tracking.cpp - Bounds, initialization, races, traffic --------------===//
//
// An access is ordered before another if the same thread makes both, or if a barrier of both
// threads separates them. Each lane has a clock that barriers advance. Each warp records up to
// which clock it has synchronized with other warps, and each lane with other lanes of its warp. So
// races are detected in every order of the accesses. Only fences and strong accesses order blocks
// (BlockOrder.h). Two atomic accesses do not race.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "Text.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

static const char *verb(const Request &request) {
  return request.kind == AccessKind::Read    ? "reads"
         : request.kind == AccessKind::Write ? "writes"
                                             : "updates";
}

// ---- address resolution ----

Mask Machine::resolve(Warp &warp, Space space, const Request &request, Mask left, Region &region,
                      uint64_t *offsets) {
  forLanes(left, [&](unsigned lane) {
    if (request.addresses[lane] % request.bytes)
      stop(Check::Memory, warp, lane,
           text("{} {} bytes at {}, which is not aligned to this size{}", verb(request),
                request.bytes, hex(request.addresses[lane]),
                space == Space::Global ? ": " + memory.describe(request.addresses[lane]) : ""));
  });
  if (space == Space::Global || space == Space::Const)
    return resolveGlobal(warp, request, left, region, offsets);
  if (space == Space::Shared) {
    region = {shared.data(), sharedWritten.data(), &sharedShadow, nullptr};
    forLanes(left, [&](unsigned lane) {
      uint64_t address = request.addresses[lane], last = address + request.bytes - 1;
      if (address >= shared.size() || last >= shared.size() || !sharedOwner[address] ||
          sharedOwner[address] != sharedOwner[last]) {
        region.data = nullptr;
        stop(Check::Memory, warp, lane,
             text("{} {} bytes of shared memory at {}: {}", verb(request), request.bytes,
                  hex(address), where(region, address)));
      }
      offsets[lane] = address;
    });
    if (request.counted)
      countShared(request, left);
    return left;
  }
  region = {warp.local.data(), warp.localWritten.data(), nullptr, nullptr};
  forLanes(left, [&](unsigned lane) {
    uint64_t address = request.addresses[lane];
    if (address < spaceBegin || address > kernel.localBytes ||
        kernel.localBytes - address < request.bytes)
      stop(Check::Memory, warp, lane,
           text("{} {} bytes of local memory at {}, which a thread has {} bytes of, from {}",
                verb(request), request.bytes, hex(address),
                kernel.localBytes - std::min(kernel.localBytes, spaceBegin), hex(spaceBegin)));
    offsets[lane] = uint64_t(lane) * kernel.localBytes + address;
  });
  return left;
}

Mask Machine::resolveGlobal(Warp &warp, const Request &request, Mask left, Region &region,
                            uint64_t *offsets) {
  auto first = unsigned(std::countr_zero(left));
  Allocation *allocation = memory.find(request.addresses[first]);
  auto outside = [&](unsigned lane) {
    stop(Check::Memory, warp, lane,
         text("{} {} bytes at {}: {}", verb(request), request.bytes, hex(request.addresses[lane]),
              memory.describe(request.addresses[lane])));
  };
  if (!allocation)
    outside(first);
  if (allocation->freed)
    stop(Check::Memory, warp, first,
         text("{} {} bytes that were freed: {}", verb(request), request.bytes,
              memory.describe(request.addresses[first])));
  if (allocation->readOnly && request.kind != AccessKind::Read)
    stop(Check::Memory, warp, first,
         text("{} read-only memory: {}", verb(request), memory.describe(request.addresses[first])));
  Mask lanes = 0;
  forLanes(left, [&](unsigned lane) {
    uint64_t offset = request.addresses[lane] - allocation->base;
    if (offset >= allocation->bytes)
      return;
    if (allocation->bytes - offset < request.bytes)
      outside(lane);
    offsets[lane] = offset;
    lanes |= Mask(1) << lane;
  });
  memory.enter(*allocation, launchId);
  region = {allocation->data.data(), allocation->written.data(), &allocation->shadow, allocation};
  if (request.counted)
    countGlobal(request, lanes, *allocation);
  return lanes;
}

std::string Machine::where(const Region &region, uint64_t offset) const {
  if (region.allocation)
    return text("offset {} of {} ({} bytes)", offset, region.allocation->name,
                region.allocation->bytes);
  size_t count = 0;
  while (count < sharedAt.size() && sharedAt[count] <= offset)
    ++count;
  if (!count)
    return "before all shared memory";
  const Variable *below = &kernel.shared[count - 1];
  uint64_t size = below->external ? config.sharedBytes : below->bytes,
           at = offset - sharedAt[count - 1];
  if (at < size)
    return text("offset {} of {} ({} bytes of shared memory)", at, below->name, size);
  return text("{} bytes past the end of {} ({} bytes of shared memory)", at - size, below->name,
              size);
}

// ---- order ----

Record Machine::recordOf(const Warp &warp, unsigned lane) const {
  return validFlag | block << blockShift | Record(warp.index * warpSize + lane) << threadShift |
         warp.clock[lane];
}

bool Machine::ordered(const Warp &warp, unsigned lane, Record record) const {
  if (record & (readOnlyFlag | asyncFlag))
    return false;
  auto thread = unsigned((record & threadMask) >> threadShift);
  auto clock = uint32_t(record & clockMask);
  if (uint64_t other = (record & blockMask) >> blockShift; other != block)
    return blockOrder.isOrdered(warp.index * warpSize + lane, other, thread, clock);
  unsigned other = thread / warpSize, otherLane = thread % warpSize;
  if (other != warp.index)
    return clock < warp.warpsSeen[other];
  return otherLane == lane || clock < warp.lanesSeen[lane][otherLane];
}

static bool sameThread(Record a, Record b) { return !((a ^ b) & (blockMask | threadMask)); }

/// Whether an earlier access needs no record, because every access that races with it also races
/// with this later one. A copy in flight is not ordered with its own thread.
static bool supersedes(Record self, Record earlier) {
  return sameThread(self, earlier) && !(earlier & ~self & asyncFlag);
}

void Machine::reportRace(Warp &warp, unsigned lane, const Request &request, Record other,
                         uint32_t at, bool otherWrites, const Region &region, uint64_t offset) {
  uint64_t otherBlock = (other & blockMask) >> blockShift;
  Dim3 id = blockOf(otherBlock);
  auto thread = unsigned((other & threadMask) >> threadShift);
  Dim3 threadId = threadOf(*warps[thread / warpSize], thread % warpSize);
  const Inst &inst = kernel.code[at];
  std::string what = other & atomicFlag     ? "updated"
                     : otherWrites          ? "written"
                     : other & readOnlyFlag ? "read as read-only (.nc)"
                                            : "read";
  if (other & asyncFlag)
    what = otherWrites ? "begun to write with cp.async" : "begun to read with cp.async";
  report(Check::Race, warp, lane,
         text("{} {}, which thread ({},{},{}) of block ({},{},{}) has {} at line {} ({}), and {}",
              verb(request), where(region, offset), threadId.x, threadId.y, threadId.z, id.x, id.y,
              id.z, what, inst.line, kernel.texts[inst.text],
              otherBlock != block ? "nothing orders blocks"
              : other & asyncFlag ? "it has not waited for the copy"
                                  : "no barrier orders them"));
}

// Records an access, so that the two recorded ones are of different threads, and of different
// blocks if possible.
static void keep(Record (&records)[2], uint16_t (&at)[2], Record self, uint16_t pc,
                 bool firstOrdered, bool secondOrdered) {
  Record seen = records[0] & seenFlag;
  auto put = [&](unsigned slot) {
    records[slot] = self | (slot == 0 ? seen : 0);
    at[slot] = pc;
  };
  if (!(records[0] & validFlag) || supersedes(self, records[0]))
    put(0);
  else if (!(records[1] & validFlag) || supersedes(self, records[1]))
    firstOrdered ? put(0) : put(1);
  else if (firstOrdered)
    put(0);
  else if (secondOrdered ||
           (((records[0] ^ records[1]) & blockMask) == 0 && ((records[0] ^ self) & blockMask) != 0))
    put(1);
}

void Machine::trackRead(Warp &warp, unsigned lane, Cell &cell, Record self, const Request &request,
                        const Region &region, uint64_t offset) {
  for (unsigned i = 0; i < 2; ++i) {
    Record write = cell.writes[i];
    if (!(write & validFlag) || (!request.readOnly && ordered(warp, lane, write)))
      continue;
    if (request.strong && (write & atomicFlag))
      continue;
    reportRace(warp, lane, request, write, cell.writeAt[i], true, region, offset);
  }
  auto pc = uint16_t(warp.pc);
  if (request.readOnly)
    self |= readOnlyFlag;
  if (request.strong)
    self |= atomicFlag;
  Record first = cell.reads[0];
  if (!(first & validFlag) || supersedes(self, first)) {
    // A flag of an earlier .nc read, which conflicts with every write, stays set.
    cell.reads[0] = self | (first & (seenFlag | readOnlyFlag));
    cell.readAt[0] = pc;
    return;
  }
  bool firstOrdered = ordered(warp, lane, first);
  bool secondOrdered = (cell.reads[1] & validFlag) && ordered(warp, lane, cell.reads[1]);
  keep(cell.reads, cell.readAt, self, pc, firstOrdered, secondOrdered);
}

void Machine::trackWrite(Warp &warp, unsigned lane, Cell &cell, Record self, const Request &request,
                         const Region &region, uint64_t offset) {
  bool atomic = request.kind == AccessKind::Atomic || request.strong;
  bool writesOrdered[2] = {true, true};
  for (unsigned i = 0; i < 2; ++i) {
    Record write = cell.writes[i];
    if (!(write & validFlag))
      continue;
    writesOrdered[i] = ordered(warp, lane, write);
    if (!writesOrdered[i] && !(atomic && (write & atomicFlag)))
      reportRace(warp, lane, request, write, cell.writeAt[i], true, region, offset);
  }
  bool readsOrdered = true;
  for (unsigned i = 0; i < 2; ++i) {
    Record read = cell.reads[i];
    if (!(read & validFlag) || ordered(warp, lane, read))
      continue;
    readsOrdered = false;
    if (!(atomic && (read & atomicFlag)))
      reportRace(warp, lane, request, read, cell.readAt[i], false, region, offset);
  }
  if (atomic)
    self |= atomicFlag;
  auto pc = uint16_t(warp.pc);
  if (writesOrdered[0] && writesOrdered[1]) {
    // Earlier writes need no record: they are ordered before each access that is ordered after this
    // one.
    cell.writes[0] = self | (cell.writes[0] & seenFlag);
    cell.writeAt[0] = pc;
    cell.writes[1] = 0;
  } else {
    keep(cell.writes, cell.writeAt, self, pc, writesOrdered[0], writesOrdered[1]);
  }
  if (readsOrdered) {
    cell.reads[0] &= seenFlag;
    cell.reads[1] = 0;
  }
}

void Machine::track(Warp &warp, const Request &request, Mask lanes, Region &region,
                    const uint64_t *offsets) {
  bool reads = request.kind != AccessKind::Write, writes = request.kind != AccessKind::Read;
  Allocation *allocation = region.allocation;
  if (config.dependent && allocation)
    noteEarly(warp, request, lanes, *allocation, offsets);
  if (reads && (!allocation || allocation->unwritten))
    forLanes(lanes, [&](unsigned lane) {
      const uint8_t *written = region.written + offsets[lane];
      const void *missing = std::memchr(written, 0, request.bytes);
      if (!missing)
        return;
      uint64_t offset = offsets[lane] + uint64_t(static_cast<const uint8_t *>(missing) - written);
      report(Check::Initialization, warp, lane,
             text("{} unwritten memory: {}", verb(request),
                  region.shadow ? where(region, offset) : "local memory"));
    });
  if (region.shadow) {
    Shadow &shadow = *region.shadow;
    unsigned width = request.bytes < 4 ? (request.bytes == 1 ? 0 : 1) : 2;
    // Cells must not be wider than the access, nor extend beyond the allocation.
    if (width < shadow.cellShift())
      shadow.refine(width);
    unsigned step = 1u << shadow.cellShift();
    uint64_t newlyRead = 0, newlyWritten = 0;
    forLanes(lanes, [&](unsigned lane) {
      Record self = recordOf(warp, lane) | (request.async ? asyncFlag : 0);
      for (uint64_t offset = offsets[lane], end = offset + request.bytes; offset < end;
           offset += step) {
        Cell &cell = shadow.at(offset);
        if (writes) {
          trackWrite(warp, lane, cell, self, request, region, offset);
          newlyWritten += cell.writes[0] & seenFlag ? 0 : step;
          cell.writes[0] |= seenFlag;
        } else {
          trackRead(warp, lane, cell, self, request, region, offset);
        }
        if (reads) {
          newlyRead += cell.reads[0] & seenFlag ? 0 : step;
          cell.reads[0] |= seenFlag;
        }
      }
      if (request.strong && allocation)
        blockOrder.access(warp.index * warpSize + lane, allocation->base + offsets[lane], reads,
                          writes);
    });
    if (allocation) {
      lastTraffic->distinctReadBytes += newlyRead;
      lastTraffic->distinctWrittenBytes += newlyWritten;
    }
  }
  if (!writes || (allocation && !allocation->unwritten))
    return;
  forLanes(lanes, [&](unsigned lane) {
    uint8_t *written = region.written + offsets[lane];
    if (allocation)
      for (unsigned byte = 0; byte < request.bytes; ++byte)
        allocation->unwritten -= !written[byte];
    std::memset(written, 1, request.bytes);
  });
}

void Machine::noteEarly(const Warp &warp, const Request &request, Mask lanes,
                        const Allocation &allocation, const uint64_t *offsets) {
  bool isWritten = request.kind != AccessKind::Read;
  forLanes(request.readOnly ? lanes : lanes & ~warp.waited, [&](unsigned lane) {
    uint64_t from = allocation.base + offsets[lane], to = from + request.bytes;
    std::vector<EarlyAccess> &all = result.early;
    if (!all.empty() && all.back().to == from && all.back().written == isWritten)
      all.back().to = to;
    else
      all.push_back({from, to, isWritten});
  });
}

// ---- counters ----

void Machine::countGlobal(const Request &request, Mask lanes, Allocation &allocation) {
  if (lastCounted != &allocation) {
    lastCounted = &allocation;
    lastTraffic = &traffic[&allocation];
  }
  uint64_t sectors[2 * warpSize];
  unsigned count = 0;
  bool sorted = true;
  forLanes(lanes, [&](unsigned lane) {
    uint64_t sector = request.addresses[lane] / 32;
    for (uint64_t last = (request.addresses[lane] + request.bytes - 1) / 32; sector <= last;
         ++sector) {
      if (count && sectors[count - 1] == sector)
        continue;
      sorted &= !count || sectors[count - 1] < sector;
      sectors[count++] = sector;
    }
  });
  if (!sorted) {
    std::sort(sectors, sectors + count);
    count = unsigned(std::unique(sectors, sectors + count) - sectors);
  }
  uint64_t bytes = uint64_t(std::popcount(lanes)) * request.bytes;
  if (request.kind != AccessKind::Write) {
    ++lastTraffic->readRequests;
    lastTraffic->readSectors += count;
    lastTraffic->readBytes += bytes;
  }
  if (request.kind != AccessKind::Read) {
    ++lastTraffic->writeRequests;
    lastTraffic->writtenSectors += count;
    lastTraffic->writtenBytes += bytes;
  }
}

// 32 banks of 4 bytes. Accesses of 8 and 16 bytes are served by halves and quarters of a warp.
void Machine::countShared(const Request &request, Mask lanes) {
  unsigned words = std::max(request.bytes / 4, 1u), group = warpSize / words;
  ++result.counters.sharedRequests;
  for (unsigned from = 0; from < warpSize; from += group) {
    Mask part = lanes >> from & (group == warpSize ? allLanes : (Mask(1) << group) - 1);
    if (!part)
      continue;
    uint64_t wanted[warpSize];
    unsigned count = 0;
    forLanes(part, [&](unsigned lane) {
      uint64_t word = request.addresses[from + lane] / 4;
      for (unsigned i = 0; i < words; ++i)
        wanted[count++] = word + i;
    });
    std::sort(wanted, wanted + count);
    count = unsigned(std::unique(wanted, wanted + count) - wanted);
    uint8_t perBank[32] = {};
    unsigned most = 0;
    for (unsigned i = 0; i < count; ++i)
      most = std::max<unsigned>(most, ++perBank[wanted[i] % 32]);
    result.counters.sharedCycles += most;
    result.counters.sharedConflicts += most - 1;
  }
}

// ---- barriers ----

void Machine::syncLanes(Warp &warp, Mask lanes) {
  std::array<uint32_t, warpSize> joined{};
  forLanes(lanes, [&](unsigned lane) {
    for (unsigned other = 0; other < warpSize; ++other)
      joined[other] = std::max(joined[other], warp.lanesSeen[lane][other]);
  });
  forLanes(lanes, [&](unsigned lane) { joined[lane] = ++warp.clock[lane]; });
  forLanes(lanes, [&](unsigned lane) { warp.lanesSeen[lane] = joined; });
  std::vector<unsigned> threads;
  forLanes(lanes, [&](unsigned lane) { threads.push_back(warp.index * warpSize + lane); });
  blockOrder.join(threads);
}

void Machine::fence(Warp &warp, Mask lanes) {
  forLanes(lanes, [&](unsigned lane) {
    std::vector<uint32_t> bounds;
    for (uint32_t seen : warp.warpsSeen)
      bounds.insert(bounds.end(), warpSize, seen);
    auto self = bounds.begin() + warp.index * warpSize;
    std::copy(warp.lanesSeen[lane].begin(), warp.lanesSeen[lane].end(), self);
    // The lane's accesses before the fence have lower clocks than those after it.
    self[lane] = ++warp.clock[lane];
    blockOrder.fence(warp.index * warpSize + lane, block, std::move(bounds));
  });
}

void Machine::release(Barrier &barrier) {
  std::vector<uint32_t> joined(warps.size(), 0);
  for (unsigned index : barrier.warps)
    for (size_t other = 0; other < warps.size(); ++other)
      joined[other] = std::max(joined[other], warps[index]->warpsSeen[other]);
  for (unsigned index : barrier.warps) {
    Warp &warp = *warps[index];
    uint32_t now = *std::max_element(warp.clock.begin(), warp.clock.end()) + 1;
    if (now >= clockMask)
      stop(Check::Limit, warp, 0, "more barriers than the interpreter can distinguish");
    warp.clock.fill(now);
    for (auto &seen : warp.lanesSeen)
      seen.fill(now);
    joined[index] = now;
  }
  std::vector<unsigned> threads;
  for (unsigned index : barrier.warps)
    for (unsigned lane = 0; lane < warpSize; ++lane)
      threads.push_back(index * warpSize + lane);
  blockOrder.join(threads);
  for (unsigned index : barrier.warps) {
    Warp &warp = *warps[index];
    warp.warpsSeen = joined;
    for (Group &group : warp.groups)
      if (group.state == Group::WaitsForWarps) {
        group.state = Group::Runs;
        ++group.pc;
      }
  }
  ++result.counters.barriers;
}
