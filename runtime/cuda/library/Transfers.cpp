//===- Transfers.cpp - Messages and async collectives on a second stream --===//

#include "cuda/library/Transfers.h"
#include "cuda/library/InFlightOperations.h"
#include <algorithm>
#include <iterator>

namespace tpc::rt::cuda {

Transfers::RecordedEvent::RecordedEvent(const Driver &driver) : driver(driver) {
  driver.check(driver.cuEventCreate(&event, noTiming), "to create an event");
}

Transfers::RecordedEvent::~RecordedEvent() { driver.cuEventDestroy_v2(event); }

void Transfers::RecordedEvent::record(Stream in) {
  driver.check(driver.cuEventRecord(event, in), "to record an event");
  isSet = true;
}

void Transfers::RecordedEvent::makeWait(Stream stream) {
  if (isSet)
    driver.check(driver.cuStreamWaitEvent(stream, event, 0), "to wait for an event");
}

Transfers::Transfers(const Driver &driver, Stream compute)
    : driver(driver), compute(compute), sends(driver), receives(driver), lastOnCompute(driver),
      lastOnTransfers(driver), beginning(driver), end(driver) {
  driver.check(driver.cuStreamCreate(&stream, nonBlocking), "to be set up");
}

Transfers::~Transfers() {
  driver.cuStreamSynchronize(stream);
  driver.cuStreamDestroy_v2(stream);
}

void Transfers::synchronize() {
  InFlightOperations::Wait wait;
  driver.check(driver.cuStreamSynchronize(stream), "while it communicated");
}

void Transfers::fork() {
  if (isRecording && isIdle) {
    beginning.record(compute);
    beginning.makeWait(stream);
  }
  isIdle = false;
}

Transfers::Slot &Transfers::take(Direction &direction, int64_t bytes) {
  fork();
  // Grows both slots: a recorded step cannot allocate, and may use either.
  if (bytes > direction.bytes) {
    if (direction.bytes) { // the streams may still use the old slots
      join();
      InFlightOperations::synchronize(driver, compute);
      ++moves;
    }
    direction.bytes = std::max(bytes, minBlockBytes);
    for (Slot &slot : direction.slots) {
      slot.memory.reset();
      slot.memory = std::make_unique<Block>(driver, direction.bytes);
    }
  }
  Slot &slot = direction.slots[direction.next];
  direction.next = (direction.next + 1) % direction.slots.size();
  return slot;
}

void Transfers::copy(Address to, Address from, int64_t bytes) {
  driver.check(driver.cuMemcpyDtoDAsync_v2(to, from, static_cast<size_t>(bytes), compute),
               "to copy a message");
}

Address Transfers::beginSend(Address from, int64_t bytes) {
  Slot &slot = take(sends, bytes);
  slot.emptied.makeWait(compute);
  copy(slot.memory->address, from, bytes);
  slot.filled.record(compute);
  slot.filled.makeWait(stream);
  return slot.memory->address;
}

void Transfers::endSend() { sends.slots[1 - sends.next].emptied.record(stream); }

Address Transfers::beginReceive(int64_t bytes) {
  Slot &slot = take(receives, bytes);
  slot.emptied.makeWait(stream);
  return slot.memory->address;
}

void Transfers::endReceive(Address to, int64_t bytes) {
  Slot &slot = receives.slots[1 - receives.next];
  slot.filled.record(stream);
  slot.filled.makeWait(compute);
  copy(to, slot.memory->address, bytes);
  slot.emptied.record(compute);
}

int32_t Transfers::beginAsync() {
  fork();
  auto free = std::find_if(asyncOperations.begin(), asyncOperations.end(),
                           [](const AsyncOperation &other) { return other.isFree; });
  if (free == asyncOperations.end()) {
    asyncOperations.emplace_back(driver);
    free = std::prev(asyncOperations.end());
  }
  free->isFree = false;
  free->ready.record(compute);
  free->ready.makeWait(stream);
  return static_cast<int32_t>(free - asyncOperations.begin()) + 1;
}

void Transfers::endAsync(int32_t token) {
  asyncOperations[static_cast<size_t>(token) - 1].done.record(stream);
}

void Transfers::wait(int32_t token) {
  AsyncOperation &operation = asyncOperations[static_cast<size_t>(token) - 1];
  operation.done.makeWait(compute);
  operation.isFree = true;
}

void Transfers::beginOperation(Stream in) {
  (in == stream ? lastOnCompute : lastOnTransfers).makeWait(in);
}

void Transfers::endOperation(Stream in) {
  (in == stream ? lastOnTransfers : lastOnCompute).record(in);
}

void Transfers::join() {
  if (isIdle)
    return;
  end.record(stream);
  end.makeWait(compute);
}

void Transfers::reset(bool recording) {
  isRecording = recording;
  isIdle = true;
  for (Direction *direction : {&sends, &receives}) {
    direction->next = 0;
    for (Slot &slot : direction->slots)
      slot.filled.isSet = slot.emptied.isSet = false;
  }
  // After an abandoned recording, nothing waits for its operations.
  for (AsyncOperation &operation : asyncOperations)
    operation.isFree = true;
  lastOnCompute.isSet = lastOnTransfers.isSet = false;
}

} // namespace tpc::rt::cuda
