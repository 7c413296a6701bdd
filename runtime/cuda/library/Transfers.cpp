//===- Transfers.cpp - Messages and started collectives on a second stream ===//

#include "cuda/library/Transfers.h"
#include "cuda/library/InFlightOperations.h"
#include <algorithm>
#include <iterator>

namespace tpc::rt::cuda {

Transfers::RecordedEvent::RecordedEvent(const Driver &driver) : driver(driver) {
  driver.check(driver.cuEventCreate(&event, noTiming), "to create an event");
}

Transfers::RecordedEvent::~RecordedEvent() { driver.cuEventDestroy_v2(event); }

void Transfers::RecordedEvent::set(Stream in) {
  driver.check(driver.cuEventRecord(event, in), "to record an event");
  isSet = true;
}

void Transfers::RecordedEvent::delay(Stream stream) {
  if (isSet)
    driver.check(driver.cuStreamWaitEvent(stream, event, 0), "to wait for an event");
}

Transfers::Transfers(const Driver &driver, Stream compute)
    : driver(driver), compute(compute), sends(driver), receives(driver), lastOfCompute(driver),
      last(driver), beginning(driver), end(driver) {
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
    beginning.set(compute);
    beginning.delay(stream);
  }
  isIdle = false;
}

Transfers::Slot &Transfers::take(Direction &direction, int64_t bytes) {
  fork();
  // Slots grow in the first step of a shape, all at once: the recorded step may use any of them.
  if (bytes > direction.bytes) {
    if (direction.bytes) { // the old slots are in use until then
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
  slot.emptied.delay(compute);
  copy(slot.memory->address, from, bytes);
  slot.filled.set(compute);
  slot.filled.delay(stream);
  return slot.memory->address;
}

void Transfers::endSend() { sends.slots[1 - sends.next].emptied.set(stream); }

Address Transfers::beginReceive(int64_t bytes) {
  Slot &slot = take(receives, bytes);
  slot.emptied.delay(stream);
  return slot.memory->address;
}

void Transfers::endReceive(Address to, int64_t bytes) {
  Slot &slot = receives.slots[1 - receives.next];
  slot.filled.set(stream);
  slot.filled.delay(compute);
  copy(to, slot.memory->address, bytes);
  slot.emptied.set(compute);
}

int32_t Transfers::beginStarted() {
  fork();
  auto free = std::find_if(started.begin(), started.end(),
                           [](const Started &other) { return other.isFree; });
  if (free == started.end()) {
    started.emplace_back(driver);
    free = std::prev(started.end());
  }
  free->isFree = false;
  free->ready.set(compute);
  free->ready.delay(stream);
  return static_cast<int32_t>(free - started.begin()) + 1;
}

void Transfers::endStarted(int32_t token) {
  started[static_cast<size_t>(token) - 1].done.set(stream);
}

void Transfers::wait(int32_t token) {
  Started &operation = started[static_cast<size_t>(token) - 1];
  operation.done.delay(compute);
  operation.isFree = true;
}

void Transfers::beginOperation(Stream in) { (in == stream ? lastOfCompute : last).delay(in); }

void Transfers::endOperation(Stream in) { (in == stream ? last : lastOfCompute).set(in); }

void Transfers::join() {
  if (isIdle)
    return;
  end.set(stream);
  end.delay(compute);
}

void Transfers::reset(bool recording) {
  isRecording = recording;
  isIdle = true;
  for (Direction *direction : {&sends, &receives}) {
    direction->next = 0;
    for (Slot &slot : direction->slots)
      slot.filled.isSet = slot.emptied.isSet = false;
  }
  for (Started &operation : started) // a recording that was abandoned has no waits
    operation.isFree = true;
  lastOfCompute.isSet = last.isSet = false;
}

} // namespace tpc::rt::cuda
