//===- Transfers.h - Messages and async collectives on a second stream ----===//
//
// A pipeline stage sends and receives on a separate stream, so that messages overlap with the next
// micro-batch. The program may overwrite a tensor as soon as its send is enqueued, and may enqueue
// the last use of a tensor right before receiving into it. Messages therefore pass through buffers
// (slots), and the compute stream copies to and from slots:
//   send      compute: waits until the slot is free, copies to it      transfers: waits, sends
//   receive   transfers: waits until the slot is free, receives        compute: waits, copies
// An asynchronous collective needs no slots: until the wait, the program writes neither its operand
// nor its result.
//   start     compute: everything before                  transfers: waits, runs the collective
//   wait      compute: waits for the collective
// NCCL operations stay in program order across both streams: each begins after the previous one has
// ended. tpc-verify-comms certified this order. If several operations were in progress, devices
// might order them differently and deadlock.
//
// While a step is recorded, streams wait only for events of this step; all earlier work is
// complete.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_TRANSFERS_H
#define TPC_RT_CUDA_LIBRARY_TRANSFERS_H

#include "cuda/library/Block.h"
#include <array>
#include <deque>
#include <memory>

namespace tpc::rt::cuda {

class Transfers {
public:
  Transfers(const Driver &driver, Stream compute);
  Transfers(const Transfers &) = delete;
  Transfers &operator=(const Transfers &) = delete;
  ~Transfers();

  Stream stream = nullptr;

  /// Returns a slot with the copy of `from` enqueued. The transfer stream may send it.
  Address beginSend(Address from, int64_t bytes);
  void endSend();
  /// beginReceive returns a slot that the transfer stream may receive into; endReceive enqueues the
  /// copy to the program's tensor.
  Address beginReceive(int64_t bytes);
  void endReceive(Address to, int64_t bytes);

  /// beginAsync makes the transfer stream wait for all work enqueued before, and returns a token;
  /// endAsync follows the operation's calls. `wait` makes later compute work wait for them.
  int32_t beginAsync();
  void endAsync(int32_t token);
  void wait(int32_t token);

  /// Enclose each NCCL operation, in the compute stream or the transfer stream.
  void beginOperation(Stream in);
  void endOperation(Stream in);

  /// Makes later compute work wait for all messages.
  void join();
  /// Starts or ends a recording: streams no longer wait for earlier work.
  void reset(bool recording);
  void synchronize();
  uint64_t memoryVersion() const { return moves; }

private:
  /// Event, and whether it was recorded.
  class RecordedEvent {
  public:
    explicit RecordedEvent(const Driver &driver);
    RecordedEvent(const RecordedEvent &) = delete;
    RecordedEvent &operator=(const RecordedEvent &) = delete;
    ~RecordedEvent();
    void record(Stream in);
    /// Makes later work of `stream` wait for this event, if it was recorded.
    void makeWait(Stream stream);
    bool isSet = false;

  private:
    const Driver &driver;
    Event event = nullptr;
  };
  struct Slot {
    explicit Slot(const Driver &driver) : filled(driver), emptied(driver) {}
    std::unique_ptr<Block> memory;
    RecordedEvent filled, emptied;
  };
  /// Slots of one direction, used in turn.
  struct Direction {
    explicit Direction(const Driver &driver) : slots{Slot(driver), Slot(driver)} {}
    std::array<Slot, 2> slots;
    size_t next = 0;
    int64_t bytes = 0; ///< per slot
  };
  struct AsyncOperation {
    explicit AsyncOperation(const Driver &driver) : ready(driver), done(driver) {}
    RecordedEvent ready, done;
    bool isFree = true;
  };
  /// Called before any work of the transfer stream: in a recording, the stream joins the capture.
  void fork();
  Slot &take(Direction &direction, int64_t bytes);
  void copy(Address to, Address from, int64_t bytes);

  const Driver &driver;
  const Stream compute;
  Direction sends, receives;
  std::deque<AsyncOperation> asyncOperations; ///< by token, from 1; reused
  /// End of the last NCCL operation in the compute stream and in the transfer stream.
  RecordedEvent lastOnCompute, lastOnTransfers;
  RecordedEvent beginning, end; ///< fork the transfer stream from the compute stream, and join it
  bool isRecording = false, isIdle = true;
  uint64_t moves = 0; ///< reallocations of slots
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_TRANSFERS_H
