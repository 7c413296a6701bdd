//===- NcclBackend.h - NCCL collective backend ----------------------------===//
//
// There is one communicator for each group; the rank's thread uses it. Messages and asynchronous
// collectives run on a separate stream, other operations on the compute stream (Transfers.h);
// operations complete in program order. Calls block where NCCL blocks. Another thread may abort all
// communicators; calls then fail and the device stops waiting. Two events for each operation record
// the device's progress. In recorded steps, operations copy a progress number to the host before
// and after them instead.
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

/// Progress numbers of a replayed step: an array 0, 1, 2, … in GPU memory, and the host word that
/// receives them.
struct StepNumbers {
  Address numbers = 0;
  uint32_t count = 0;
  uint32_t *reached = nullptr; ///< pinned; written by the GPU
};

class NcclBackend final : public CollectiveBackend {
public:
  /// `queue`, `memory` and `transfers` belong to the device. After `close` or `abort` the device
  /// may be destroyed before this object.
  NcclBackend(Queue &queue, const nccl::Library &library, NcclMemory &memory, Transfers &transfers,
              const StepNumbers &numbers);
  ~NcclBackend() override;

  std::string name() const override { return library.describe(); }
  // NCCL's max and min drop NaN.
  bool comparesLikeReduce() const override { return false; }
  Id makeId() override;
  int connect(const Id &id, int members, int index) override;
  void close() override;
  void carryOut(int communicator, const CommPlan &plan, const void *in, void *out,
                void *stage) override;
  int32_t start(int communicator, const CommPlan &plan, const void *in, void *out) override;
  void wait(int32_t token) override { transfers.wait(token); }
  Progress progress() override;
  std::string problem(int communicator) override;
  void abort() override;

  /// Operations of a step that is being recorded are not enqueued. endRecording returns their
  /// number.
  void beginRecording();
  uint64_t endRecording();
  /// Marks this number of operations as enqueued. All earlier ones must be complete.
  void replay(uint64_t operations);
  /// Progress word of a replayed step with this number of operations; null if the array is too
  /// short.
  const uint32_t *numberReached(uint64_t operations) const {
    return 2 * operations < numbers.count ? numbers.reached : nullptr;
  }

private:
  struct Connection {
    nccl::Comm comm;
    int index; ///< index of this member
  };
  /// Events before and after the calls of an operation.
  struct Marks {
    uint64_t operation; ///< counted from 1
    Event reached, done;
    bool isCalled;     ///< `done` is enqueued
    uint32_t recorded; ///< index within the step that is being recorded, from 1; else 0
  };
  struct Bytes {
    const Driver &driver;
    Stream stream;
    Address memories[3];
    Address at(CommAddress address) const {
      return memories[static_cast<int>(address.memory)] + static_cast<Address>(address.offset);
    }
    void copy(const CommCopy &copy) const;
    void fill(const CommFill &fill) const;
  };

  /// Returns the communicator of a group; throws if it was aborted.
  nccl::Comm use(int communicator);
  void check(nccl::Status status, nccl::Comm comm) const;
  void call(nccl::Comm comm, const CommCall &call, const Bytes &bytes) const;
  /// Issues the calls as one NCCL group.
  void call(nccl::Comm comm, const std::vector<CommCall> &calls, const Bytes &bytes);
  /// Marks the begin of an operation in stream `in`. Returns false if it is not marked: there are
  /// too many marks, or the communicators were aborted.
  bool beginOperation(Marks &mark, Stream in);
  void endOperation(const Marks &mark, Stream in);
  void writeProgress(uint32_t number, Stream in);
  void carryOut(nccl::Comm comm, const std::vector<CommCall> &calls, const Bytes &bytes);
  /// Marks all enqueued operations as complete.
  void completeAll();
  void destroyEvents();

  Queue &queue;
  const Driver &driver;
  const nccl::Library &library;
  const Context context;
  const Stream stream;
  NcclMemory &memory;
  Transfers &transfers;
  const StepNumbers numbers;
  uint32_t recorded = 0; ///< number of operations of the step that is being recorded
  bool isRecording = false;

  std::mutex mutex; // guards the members below
  std::vector<Connection> connections;
  bool aborted = false;
  uint64_t called = 0;   ///< number of enqueued operations
  uint64_t replayed = 0; ///< number of called operations that belong to the step being replayed
  Progress seen;
  std::deque<Marks> marks;   ///< operations whose end has not been observed
  std::vector<Event> events; ///< free for reuse
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_NCCLBACKEND_H
