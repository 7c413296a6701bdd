//===- Transfers.h - messages beside the work of a GPU --------------------===//
//
// What a pipeline stage sends and receives is on a stream of its own, so that it overlaps with the
// micro-batch that comes next. Tensors are the program's, which writes them again as soon as it
// has called for a send, and has called for their last use when it receives: so messages go through
// slots, and the stream of compute copies to and from these.
//
//   send      compute: waits until the slot is free, copies to it      transfers: waits, sends
//   receive   transfers: waits until the slot is free, receives        compute: waits, copies
//
// Operations of NCCL stay in the order of the program, of whichever stream they are: each begins
// when the one before has ended. It is the order that verify-comms has certified, and of several
// operations at a time devices may choose differently and wait for each other.
//
// While a step is recorded only events of it are waited for; what was before it is over.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_TRANSFERS_H
#define TPC_RT_CUDA_LIBRARY_TRANSFERS_H

#include "cuda/library/Block.h"
#include <array>
#include <memory>

namespace tpc::rt::cuda {

class Transfers {
public:
  Transfers(const Driver &driver, Stream compute);
  Transfers(const Transfers &) = delete;
  Transfers &operator=(const Transfers &) = delete;
  ~Transfers();

  Stream stream = nullptr;

  /// A slot, on its way from the program's tensor; the stream may send it.
  Address beginSend(Address from, int64_t bytes);
  void endSend();
  /// A slot that the stream may receive into; then to the program's tensor.
  Address beginReceive(int64_t bytes);
  void endReceive(Address to, int64_t bytes);

  /// Around each operation of NCCL, in the stream of compute or this one.
  void beginOperation(Stream in);
  void endOperation(Stream in);

  /// What compute does next is behind all messages.
  void join();
  /// A recording begins or has ended: what was called for before is not to be waited for.
  void reset(bool recording);
  void synchronize();
  uint64_t memoryMoves() const { return moves; }

private:
  class Point {
  public:
    explicit Point(const Driver &driver);
    Point(const Point &) = delete;
    Point &operator=(const Point &) = delete;
    ~Point();
    void set(Stream in);
    /// What comes next there is behind it, if it was set.
    void holdUp(Stream stream);
    bool isSet = false;

  private:
    const Driver &driver;
    Event event = nullptr;
  };
  struct Slot {
    explicit Slot(const Driver &driver) : filled(driver), emptied(driver) {}
    std::unique_ptr<Block> memory;
    Point filled, emptied;
  };
  /// Those of one direction are used in turns.
  struct Direction {
    explicit Direction(const Driver &driver) : slots{Slot(driver), Slot(driver)} {}
    std::array<Slot, 2> slots;
    size_t next = 0;
    int64_t bytes = 0; ///< of each
  };
  Slot &take(Direction &direction, int64_t bytes);
  void copy(Address to, Address from, int64_t bytes);

  const Driver &driver;
  const Stream compute;
  Direction sends, receives;
  Point lastOfCompute, last; ///< operations of NCCL in each stream
  Point beginning, end;      ///< of what this stream has of a recording
  bool isRecording = false, isIdle = true;
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_TRANSFERS_H
