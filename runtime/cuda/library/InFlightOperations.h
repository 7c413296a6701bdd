//===- InFlightOperations.h - what a GPU was called for -------------------------------===//
//
// Errors of a GPU show at some later call, and one that hangs shows nothing. So each queue keeps
// what it was called for since all of it was seen to be done, as far as a message needs it. Of a
// step that is replayed, what communication says of how far it is (NcclBackend.h) tells which of
// its calls may be under way. Where CUDA_LAUNCH_BLOCKING is set to anything but 0, as debuggers of
// CUDA know it, each call is waited for, and an error is that of its call.
//
// Also whether the rank's thread waits for its GPU, or in a library for other ranks, for whoever
// watches (core/DeviceWatch.h).
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
    const char *what, *name;      ///< "kernel", and which; `name` may be null
    std::array<int64_t, 3> sizes; ///< of a product; zeros: none
    uint32_t behind = 0;          ///< of a recorded step: what was said last before it
    std::string describe() const;
  };
  using Calls = std::vector<Call>;

  InFlightOperations() = default;
  InFlightOperations(const InFlightOperations &) = delete;
  InFlightOperations &operator=(const InFlightOperations &) = delete;
  ~InFlightOperations();

  //===--- by the rank's thread -------------------------------------------===//

  /// The calling thread's from now on: of the functions below that have no object.
  void use();
  /// It was called for, in `stream`.
  static void add(const Driver &driver, Stream stream, const char *what, const char *name = nullptr,
                  std::array<int64_t, 3> sizes = {});
  /// Within a recording, in the stream of compute: it will say this number when it comes here.
  static void said(uint32_t number);
  /// Waits for the stream of compute; all is done then.
  static void synchronize(const Driver &driver, Stream stream);
  /// Whether each call is waited for.
  static bool isBlocking();
  /// ", in kernel 'x'", or in which calls an error may have come about; empty: in none.
  static std::string describe();

  /// Within it the thread waits for its GPU or, in a library, for others.
  class Wait {
  public:
    Wait();
    Wait(const Wait &) = delete;
    Wait &operator=(const Wait &) = delete;
    ~Wait();

  private:
    InFlightOperations *const trail;
  };

  /// What is added between these is not called for, but recorded.
  void beginRecording();
  std::shared_ptr<const Calls> endRecording();
  /// All of it is called for. `reached`: the number that was said last; may be null.
  void replay(std::shared_ptr<const Calls> calls, const uint32_t *reached);
  void clear();

  //===--- by any thread --------------------------------------------------===//

  /// "kernel 'x'": what is not done, as far as it is known. Null: nothing, and nobody waits.
  std::optional<std::string> pending() const;
  /// Another number whenever something was called for, was waited for, or is.
  uint64_t moves() const { return movements.load(std::memory_order_relaxed); }

private:
  /// Those that may be under way: how many, the first and the last.
  std::string describeCalls() const;

  mutable std::mutex mutex; // of what follows
  Calls calls, recorded;
  bool isRecording = false;
  uint32_t lastSaid = 0;
  std::shared_ptr<const Calls> replayed;
  const uint32_t *reached = nullptr;
  int waits = 0;
  std::atomic<uint64_t> movements{0};
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_INFLIGHTOPERATIONS_H
