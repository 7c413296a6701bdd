//===- InFlightOperations.h - Operations enqueued on a GPU ----------------===//
//
// GPU errors surface at a later call, and a hang surfaces nowhere. Each queue therefore records the
// operations it enqueued since the last synchronization, so that a message can name them. In a
// replayed step, the progress numbers of communication (NcclBackend.h) narrow down which of its
// operations may be running. If CUDA_LAUNCH_BLOCKING is set to anything but 0, as for CUDA
// debuggers, the thread waits for each operation, so that an error is assigned to its operation.
//
// This class also records whether the rank's thread is waiting for its GPU or, inside a library
// call, for other ranks. The watchdog reads this state (core/DeviceMonitor.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_INFLIGHTOPERATIONS_H
#define TPC_RT_CUDA_LIBRARY_INFLIGHTOPERATIONS_H

#include "cuda/library/Driver.h"
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpc::rt::cuda {

class InFlightOperations {
public:
  struct Call {
    const char *what, *name;      ///< kind, such as "kernel", and name; `name` may be null
    std::array<int64_t, 3> sizes; ///< sizes of a GEMM; zeros for other operations
    uint32_t afterProgress = 0;   ///< in a recorded step: last progress number before the operation
    std::string describe() const;
  };
  using Calls = std::vector<Call>;

  InFlightOperations() = default;
  InFlightOperations(const InFlightOperations &) = delete;
  InFlightOperations &operator=(const InFlightOperations &) = delete;
  ~InFlightOperations();

  //===--- by the rank's thread -------------------------------------------===//

  /// Makes this the object of the static functions below in the calling thread.
  void use();
  /// Records an operation enqueued in `stream`.
  static void add(const Driver &driver, Stream stream, const char *what, const char *name = nullptr,
                  std::array<int64_t, 3> sizes = {});
  /// Within a recording: the compute stream reports progress `number` at this point.
  static void addProgress(uint32_t number);
  /// Waits for the compute stream; all operations are complete afterwards.
  static void synchronize(const Driver &driver, Stream stream);
  /// Whether the thread waits for each operation.
  static bool isBlocking();
  /// ", in kernel 'x'", or the operations that may have caused an error; empty if there are none.
  static std::string describe();

  /// Scope in which the thread waits for its GPU or, inside a library call, for other ranks.
  class Wait {
  public:
    Wait();
    Wait(const Wait &) = delete;
    Wait &operator=(const Wait &) = delete;
    ~Wait();

  private:
    InFlightOperations *const inFlight;
  };

  /// Operations added between begin and end are recorded, not enqueued.
  void beginRecording();
  std::shared_ptr<const Calls> endRecording();
  /// Marks all recorded operations as enqueued. `reached`: latest progress number; may be null.
  void replay(std::shared_ptr<const Calls> calls, const uint32_t *reached);
  void clear();

  //===--- by any thread --------------------------------------------------===//

  /// "kernel 'x'": the incomplete operations, if known. Returns nullopt if there are none and no
  /// thread is waiting.
  std::optional<std::string> pending() const;
  /// A number that changes whenever an operation is enqueued, and at the start and end of a wait.
  uint64_t moves() const { return movements.load(std::memory_order_relaxed); }

private:
  /// Describes the operations that may be running: their number, the first and the last.
  std::string describeCalls() const;

  mutable std::mutex mutex; // guards the members below
  Calls calls, recorded;
  bool isRecording = false;
  uint32_t lastProgress = 0;
  std::shared_ptr<const Calls> replayed;
  const uint32_t *reached = nullptr;
  int waits = 0;
  std::atomic<uint64_t> movements{0};
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_INFLIGHTOPERATIONS_H
