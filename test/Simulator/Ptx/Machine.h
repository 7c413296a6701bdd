//===- Machine.h - State of a launch --------------------------------------===//
//
// Blocks run one after the other, in random order. Warps of a block, and diverged lanes of a warp,
// run in turns of random length. Vector clocks detect races in every order (Tracking.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_MACHINE_H
#define TPC_TEST_SIMULATOR_PTX_MACHINE_H

#include "BlockOrder.h"
#include "Warp.h"

#include <memory>

namespace ptx {

/// Ends a launch.
struct Stop {};

enum class AccessKind : uint8_t { Read, Write, Atomic };

/// Memory accesses that the lanes of a warp request together.
struct Request {
  Mask lanes = 0;
  AccessKind kind = AccessKind::Read;
  bool strong = false;   // .relaxed or stronger
  bool readOnly = false; // .nc
  unsigned bytes = 0;    // bytes of each lane's access
  const uint64_t *addresses = nullptr;
  bool async = false;  // of cp.async
  bool counted = true; // in the counters of traffic
  bool tracked = true; // by the checks of races and initialization
};

/// A memory region in which accesses of lanes may conflict.
struct Region {
  uint8_t *data = nullptr;
  uint8_t *written = nullptr;
  Shadow *shadow = nullptr;         // null for memory that is private to a thread
  Allocation *allocation = nullptr; // the allocation, for global memory
};

/// Arrivals at one of a block's barriers.
struct Barrier {
  std::vector<unsigned> warps;
  uint32_t pc = 0;
  uint32_t threads = 0; // expected number of threads, or 0 for all
};

class Machine {
public:
  Machine(const Module &module, const Kernel &kernel, Memory &memory, const LaunchConfig &config,
          std::vector<uint8_t> parameters, Result &result);
  void run();
  /// Adds up the counters by allocation, and merges early accesses.
  void collect();

  uint64_t seed() const { return config.seed; }
  const uint8_t *parameterData() const { return parameters.data(); }
  uint64_t clockNow() const { return executed; }
  Counters &counters() { return result.counters; }

  /// Records a finding about a lane. Each kind of finding is recorded once for an instruction.
  void report(Check check, Warp &warp, unsigned lane, const std::string &message);
  /// Records a finding and ends the launch.
  [[noreturn]] void stop(Check check, Warp &warp, unsigned lane, const std::string &message);
  void reportUndefined(Warp &warp, const Inst &inst, Mask mask);

  // ---- memory: Tracking.cpp ----

  /// Checks a request to one space, counts it, and calls f(region, lanes, offsets) for each region.
  template <class F> void access(Warp &warp, const Inst &inst, const Request &request, F f) {
    uint64_t offsets[warpSize];
    if (inst.space != Space::Generic)
      return accessSpace(warp, inst.space, request, offsets, f);
    // A generic address determines its own space.
    Mask shared = 0, local = 0;
    uint64_t own[warpSize];
    forLanes(request.lanes, [&](unsigned lane) {
      uint64_t address = request.addresses[lane];
      own[lane] = address;
      if (address - sharedWindow < windowBytes)
        shared |= Mask(1) << lane, own[lane] -= sharedWindow;
      else if (address - localWindow < windowBytes)
        local |= Mask(1) << lane, own[lane] -= localWindow;
    });
    for (auto [space, lanes] : {std::pair(Space::Global, request.lanes & ~shared & ~local),
                                std::pair(Space::Shared, shared), std::pair(Space::Local, local)}) {
      Request part = request;
      part.addresses = own;
      part.lanes = lanes;
      if (lanes)
        accessSpace(warp, space, part, offsets, f);
    }
  }

  /// Records that each of these lanes has synchronized with all others of them.
  void syncLanes(Warp &warp, Mask lanes);
  /// Executes a fence that orders accesses of blocks.
  void fence(Warp &warp, Mask lanes);

  // ---- asynchronous copies: AsyncCopies.cpp ----

  /// Begins a copy of `bytes` bytes to shared memory in each lane, of which the first `read` come
  /// from global memory, and the others are zeros.
  void copyAsync(Warp &warp, Mask lanes, unsigned bytes, const uint64_t *to, const uint64_t *from,
                 const uint32_t *read);
  /// Ends the copies of each lane's groups, except its last `pending` groups.
  void waitForCopies(Warp &warp, Mask lanes, uint32_t pending);

private:
  template <class F>
  void accessSpace(Warp &warp, Space space, const Request &request, uint64_t *offsets, F f) {
    Mask left = request.lanes;
    while (left) {
      Region region;
      Mask lanes = resolve(warp, space, request, left, region, offsets);
      if (request.tracked)
        track(warp, request, lanes, region, offsets);
      f(region, lanes, offsets);
      left &= ~lanes;
    }
  }

  // ---- Tracking.cpp ----
  Mask resolve(Warp &warp, Space space, const Request &request, Mask left, Region &region,
               uint64_t *offsets);
  Mask resolveGlobal(Warp &warp, const Request &request, Mask left, Region &region,
                     uint64_t *offsets);
  void track(Warp &warp, const Request &request, Mask lanes, Region &region,
             const uint64_t *offsets);
  void trackRead(Warp &warp, unsigned lane, Cell &cell, Record self, const Request &request,
                 const Region &region, uint64_t offset);
  void trackWrite(Warp &warp, unsigned lane, Cell &cell, Record self, const Request &request,
                  const Region &region, uint64_t offset);
  void reportRace(Warp &warp, unsigned lane, const Request &request, Record other, uint32_t at,
                  bool otherWrites, const Region &region, uint64_t offset);
  bool ordered(const Warp &warp, unsigned lane, Record record) const;
  Record recordOf(const Warp &warp, unsigned lane) const;
  void noteEarly(const Warp &warp, const Request &request, Mask lanes, const Allocation &allocation,
                 const uint64_t *offsets);
  void settle(const Warp &warp, unsigned lane, Shadow &shadow, uint64_t offset, uint64_t bytes);
  void countGlobal(const Request &request, Mask lanes, Allocation &allocation);
  void countShared(const Request &request, Mask lanes);
  std::string where(const Region &region, uint64_t offset) const;

  // ---- Machine.cpp ----
  void placeShared();
  void runBlock(uint64_t block);
  void prepareWarp(Warp &warp);
  void checkConfig();
  Dim3 threadOf(const Warp &warp, unsigned lane) const;
  Dim3 blockOf(uint64_t linear) const;

  // ---- Schedule.cpp ----
  bool runs(const Warp &warp) const;
  void turn(Warp &warp);
  void runGroup(Warp &warp, Group group, unsigned budget);
  bool branchIndexed(Warp &warp, const Inst &inst, Group &group);
  bool arriveLanes(Warp &warp, const Inst &inst, Group &group);
  bool arriveBarrier(Warp &warp, const Inst &inst, Group &group);
  void takeWaiting(Warp &warp, const Inst &inst, Group &group);
  void release(Barrier &barrier);
  [[noreturn]] void stopStuck();
  uint64_t random() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d >> 20;
  }

  const Module &module;
  const Kernel &kernel;
  Memory &memory;
  const LaunchConfig &config;
  std::vector<uint8_t> parameters;
  Result &result;
  std::vector<std::unique_ptr<Warp>> warps;
  uint64_t block = 0; // block that runs, in row-major order
  uint64_t state;
  uint64_t executed = 0;
  uint32_t launchId;
  uint32_t sharedEpoch = 0;
  std::vector<uint64_t> sharedAt; // variables in address order
  std::vector<uint8_t> shared, sharedWritten, sharedOwner;
  Shadow sharedShadow;
  BlockOrder blockOrder;
  std::map<uint32_t, Barrier> barriers;
  std::map<const Allocation *, Traffic> traffic;
  Allocation *lastCounted = nullptr;
  Traffic *lastTraffic = nullptr;
};

} // namespace ptx

#endif
