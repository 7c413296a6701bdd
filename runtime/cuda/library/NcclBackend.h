//===- NcclBackend.h - GPUs that reach each other by NCCL -------------------===//
//
// A communicator for each link, used by the rank's thread; messages on a stream of their own, all
// else on that of compute (Transfers.h): what is called for is done in the order of the program.
// Calls block where NCCL blocks; another thread may abort all communicators, after which calls fail
// and the device waits for nobody. Two events for each operation say how far the device is;
// operations that are recorded copy a number to the host before and behind them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_NCCLBACKEND_H
#define TPC_RT_CUDA_LIBRARY_NCCLBACKEND_H

#include "core/CollectiveBackend.h"
#include "cuda/library/NcclMemory.h"
#include "cuda/library/Transfers.h"
#include <deque>
#include <mutex>

namespace tpc::rt::cuda {

/// By what a replayed step says how far it is: numbers from 0 on in the GPU's memory, and where the
/// host finds one of them.
struct StepNumbers {
  Address numbers = 0;
  uint32_t count = 0;
  uint32_t *reached = nullptr; ///< pinned; written by the GPU
};

class NcclBackend final : public CollectiveBackend {
public:
  /// `queue`, `memory` and `transfers` are the device's, which need not be there any more when this
  /// is destroyed after `close` or `abort`.
  NcclBackend(Queue &queue, const nccl::Library &library, NcclMemory &memory, Transfers &transfers,
              const StepNumbers &numbers);
  ~NcclBackend() override;

  std::string name() const override { return library.describe(); }
  // Its max and min are the larger and the smaller of two numbers: a NaN is dropped.
  bool comparesAsRanksDo() const override { return false; }
  Id makeId() override;
  int connect(const Id &id, int members, int index) override;
  void close() override;
  void carryOut(int link, const CommPlan &plan, const void *in, void *out, void *stage) override;
  Progress progress() override;
  std::string problem(int link) override;
  void abort() override;

  /// Operations of a step that is recorded are not called for; how many it has.
  void beginRecording();
  uint64_t endRecording();
  /// As many are called for now, all before being done.
  void replay(uint64_t operations);
  /// By what a replayed step of so many says how far it is; null: not by all.
  const uint32_t *numberReached(uint64_t operations) const {
    return 2 * operations < numbers.count ? numbers.reached : nullptr;
  }

private:
  struct Connection {
    nccl::Comm comm;
    int index; ///< this member
  };
  /// Before and behind the calls of an operation.
  struct Marks {
    uint64_t operation; ///< counted from 1 on
    Event reached, done;
    bool isCalled;     ///< `done` was recorded
    uint32_t recorded; ///< within a step that is; 0: it is not
  };
  struct Bytes {
    const Driver &driver;
    Stream stream;
    Address memories[3];
    Address at(CommPlace place) const {
      return memories[static_cast<int>(place.memory)] + static_cast<Address>(place.offset);
    }
    void copy(const CommCopy &copy) const;
    void fill(const CommFill &fill) const;
  };

  /// The communicator of a link for a call; throws if it was aborted.
  nccl::Comm use(int link);
  void check(nccl::Status status, nccl::Comm comm) const;
  void call(nccl::Comm comm, const CommCall &call, const Bytes &bytes) const;
  /// As one.
  void call(nccl::Comm comm, const std::vector<CommCall> &calls, const Bytes &bytes);
  /// Marks that the device comes to an operation; false: it is not marked, because the stream
  /// records what it is told, or too many are.
  bool beginOperation(Marks &mark, Stream in);
  void endOperation(const Marks &mark, Stream in);
  void say(uint32_t number, Stream in);
  void carryOut(nccl::Comm comm, const std::vector<CommCall> &calls, const Bytes &bytes);
  /// All that was called for is done.
  void settle();
  void destroyEvents();

  Queue &queue;
  const Driver &driver;
  const nccl::Library &library;
  const Context context;
  const Stream stream;
  NcclMemory &memory;
  Transfers &transfers;
  const StepNumbers numbers;
  uint32_t recorded = 0; ///< operations of the step that is recorded
  bool isRecording = false;

  std::mutex mutex; // of what follows
  std::vector<Connection> connections;
  bool aborted = false;
  uint64_t called = 0;
  uint64_t replayed = 0; ///< of these the last ones, by the step that is being replayed
  Progress seen;
  std::deque<Marks> marks;   ///< of operations whose end has not been seen
  std::vector<Event> events; ///< that can be used again
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_NCCLBACKEND_H
