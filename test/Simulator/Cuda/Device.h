//===- Device.h - Contexts, streams, operations ---------------------------===//
//
// State::mutex, of which a process has one, guards all state except the memory of devices. Each
// device's memory has a lock of its own, which is held while an operation runs.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_DEVICE_H
#define TPC_TEST_SIMULATOR_CUDA_DEVICE_H

#include "Private.h"
#include "Ptx/Ptx.h"
#include "Races.h"
#include "Settings.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

namespace sim {

struct Capture;

/// An operation of a stream, or a marker in it.
struct Operation {
  std::shared_ptr<Work> work; // null for a marker
  Context *context = nullptr;
  Access access;        // position in its lane
  Clock clock;          // positions that are complete after the operation, including its own
  Clock early;          // positions that are complete before any part of the operation
  unsigned missing = 0; // number of operations that it still waits for
  std::vector<std::shared_ptr<Operation>> followers;
  bool begun = false, done = false;
  bool isKernel = false;
};
using OperationRef = std::shared_ptr<Operation>;

struct Stream {
  Context *context = nullptr;
  uint32_t lane = 0;
  bool blocking = true, legacy = false, destroyed = false;
  Clock clock; // clock of the next operation
  OperationRef last;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tips; // during a capture: nodes that the next node depends on
  size_t captureLane = 0;
};

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  OperationRef recorded;            // null if the event is not recorded
  std::shared_ptr<double> time;     // time of the recorded marker, in milliseconds
  std::shared_ptr<Capture> capture; // the capture that the marker is in, or null
  std::vector<size_t> tips;
};

struct GraphNode {
  std::shared_ptr<Work> work;
  std::vector<size_t> before;
  size_t lane = 0;
};

struct Graph {
  std::vector<GraphNode> nodes;
  size_t lanes = 0;
};

/// An executable graph.
struct GraphExec {
  Graph graph;
  Context *context = nullptr;
  std::vector<uint32_t> lanes;
  uint64_t ticks = 0;
  OperationRef last; // serializes launches of one graph
};

struct Capture {
  Stream *origin = nullptr;
  CaptureMode mode = CaptureGlobal;
  std::thread::id thread;
  bool invalidated = false, ended = false;
  std::string reason; // reason of its invalidation
  Graph graph;
  std::vector<Stream *> streams;
};

struct Function {
  Module *module = nullptr;
  ptx::KernelInfo info;
  bool loaded = false;
  uint32_t maxDynamicShared = 0;
};

struct Module {
  Context *context = nullptr;
  ptx::Module text;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions;
  std::shared_ptr<std::atomic<bool>> isLoaded = std::make_shared<std::atomic<bool>>(true);
};

/// A device and its primary context, which is its only context.
struct Context {
  Context(int device, int ordinal);

  const int device;  // unique among all contexts
  const int ordinal; // device number within the process
  unsigned retained = 0;
  bool active() const { return retained > 0; }
  Result failed = SUCCESS; // sticky error
  std::list<std::unique_ptr<Stream>> streams;
  Stream *legacy = nullptr;
  struct Allocation {
    uint64_t bytes = 0;
    bool ofLibrary = false;
    unsigned uses = 0; // number of uses by libraries
  };
  std::map<uint64_t, Allocation> allocations; // live, by address
  /// Returns the allocation that contains these bytes, or null.
  Allocation *allocationOf(uint64_t address, uint64_t bytes);
  /// Bytes used by allocations, counted as by a driver: in pages of 2 MiB, which small allocations
  /// share.
  uint64_t used = 0;
  uint64_t small = 0, large = 0; // bytes of allocations below 1 MiB, and pages of the others
  uint64_t peakUsed = 0;

  // ---- execution: Schedule.cpp ----
  std::vector<OperationRef> ready;
  unsigned demand = 0; // threads that wait for an operation
  unsigned credit = 0; // operations that may run although no thread waits
  std::chrono::steady_clock::time_point lastSubmit;
  std::condition_variable wake, progress;
  std::thread::id worker;
  bool hasWorker = false;
  Random random;
  uint64_t executed = 0, launches = 0, allocated = 0;
  double clock = 0; // milliseconds, total of all operations

  // ---- held while an operation runs ----
  std::mutex memoryMutex;
  ptx::Memory memory;
  Races races;
};

/// A range of host memory that devices can access; its key is the address.
struct Pinned {
  uint64_t bytes = 0;
  bool ours = false; // allocated by the driver; otherwise registered
};

struct State {
  std::mutex mutex;
  bool initialized = false;
  std::vector<std::unique_ptr<Context>> contexts; // by ordinal
  uint32_t lanes = 0;
  Clock host; // operations that the host has waited for
  uint64_t pinnedAllocations = 0;
  std::map<uintptr_t, Pinned> pinned;
  std::set<std::shared_ptr<Capture>> captures; // captures in progress
  // Live handles. Handles of contexts are found in `contexts`.
  std::unordered_map<void *, std::unique_ptr<Module>> modules;
  std::unordered_map<void *, std::unique_ptr<Event>> events;
  std::unordered_map<void *, std::unique_ptr<Graph>> graphs;
  std::unordered_map<void *, std::unique_ptr<GraphExec>> execs;
  std::set<Function *> functions;
};

/// Returns the state of the process, which is never destroyed.
State &state();
/// Current context of the calling thread.
Context *&currentContext();
CaptureMode &captureModeOfThread();

// ---- Schedule.cpp: under the lock ----

uint32_t newLane();
/// Adds an operation after others. The operation is in no stream, and the caller sets its position.
void submit(const OperationRef &operation, const std::vector<OperationRef> &before);
/// Adds an operation after all operations of the stream and after `also`. Ignores captures.
OperationRef append(Stream &stream, std::shared_ptr<Work> work,
                    const std::vector<OperationRef> &also = {});
/// Waits until the operation is complete or the context has failed.
Result wait(std::unique_lock<std::mutex> &lock, Context &context, const OperationRef &operation);
/// Waits for all streams of a context.
Result drain(std::unique_lock<std::mutex> &lock, Context &context);
/// Sets a sticky error and drops pending operations.
void fail(Context &context, Result result);
/// Whether an injected fault of this kind is due at this call, the n-th of its kind on this device.
bool injected(const char *what, uint64_t count, int device);
inline bool injected(const char *what, uint64_t count, const Context &context) {
  return injected(what, count, context.device);
}

// ---- Capture.cpp: under the lock ----

/// Adds an operation to the stream or, during a capture, to its graph.
Result enqueue(Context &context, Stream &stream, std::shared_ptr<Work> work);
/// Rejects a call if this thread captures, and invalidates the captures.
Result checkUnsafe(const char *call);
void invalidate(Capture &capture, const std::string &why);

} // namespace sim

#endif
