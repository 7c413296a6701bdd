//===- InFlightOperations.cpp - Operations enqueued on a GPU --------------===//

#include "cuda/library/InFlightOperations.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tpc::rt::cuda {
namespace {

InFlightOperations *&ofThread() {
  thread_local InFlightOperations *inFlight = nullptr;
  return inFlight;
}

} // namespace

InFlightOperations::~InFlightOperations() {
  if (ofThread() == this)
    ofThread() = nullptr;
}

void InFlightOperations::use() { ofThread() = this; }

std::string InFlightOperations::Call::describe() const {
  std::string text = what;
  if (name)
    text += " '" + std::string(name) + "'";
  for (size_t i = 0; i < sizes.size() && sizes[0]; ++i)
    text += (i ? " x " : " of ") + std::to_string(sizes[i]);
  return text;
}

void InFlightOperations::add(const Driver &driver, Stream stream, const char *what,
                             const char *name, std::array<int64_t, 3> sizes) {
  InFlightOperations *operations = ofThread();
  if (!operations)
    return;
  {
    std::lock_guard<std::mutex> lock(operations->mutex);
    (operations->isRecording ? operations->recorded : operations->calls)
        .push_back({what, name, sizes, operations->lastProgress});
    ++operations->movements;
  }
  if (isBlocking())
    synchronize(driver, stream);
}

void InFlightOperations::addProgress(uint32_t number) {
  if (InFlightOperations *operations = ofThread()) {
    std::lock_guard<std::mutex> lock(operations->mutex);
    operations->lastProgress = number;
  }
}

void InFlightOperations::synchronize(const Driver &driver, Stream stream) {
  {
    Wait wait;
    driver.check(driver.cuStreamSynchronize(stream), "while it worked");
  }
  if (InFlightOperations *operations = ofThread())
    operations->clear();
}

bool InFlightOperations::isBlocking() {
  static const bool blocking = [] {
    const char *text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text && *text && std::strcmp(text, "0") != 0;
  }();
  return blocking;
}

std::string InFlightOperations::describe() {
  const InFlightOperations *operations = ofThread();
  if (!operations)
    return "";
  std::lock_guard<std::mutex> lock(operations->mutex);
  std::string text = operations->describeCalls();
  return text.empty() ? "" : ", in " + text;
}

InFlightOperations::Wait::Wait() : inFlight(ofThread()) {
  if (!inFlight)
    return;
  std::lock_guard<std::mutex> lock(inFlight->mutex);
  ++inFlight->waits;
  ++inFlight->movements;
}

InFlightOperations::Wait::~Wait() {
  if (!inFlight)
    return;
  std::lock_guard<std::mutex> lock(inFlight->mutex);
  --inFlight->waits;
  ++inFlight->movements;
}

void InFlightOperations::beginRecording() {
  std::lock_guard<std::mutex> lock(mutex);
  recorded.clear();
  lastProgress = 0;
  isRecording = true;
}

std::shared_ptr<const InFlightOperations::Calls> InFlightOperations::endRecording() {
  std::lock_guard<std::mutex> lock(mutex);
  isRecording = false;
  lastProgress = 0;
  return std::make_shared<const Calls>(std::exchange(recorded, {}));
}

void InFlightOperations::replay(std::shared_ptr<const Calls> all, const uint32_t *number) {
  std::lock_guard<std::mutex> lock(mutex);
  replayed = std::move(all);
  reached = number;
  ++movements;
}

void InFlightOperations::clear() {
  std::lock_guard<std::mutex> lock(mutex);
  calls.clear();
  replayed = nullptr;
  reached = nullptr;
  ++movements;
}

std::optional<std::string> InFlightOperations::pending() const {
  std::lock_guard<std::mutex> lock(mutex);
  std::string text = describeCalls();
  return text.empty() && !waits ? std::nullopt : std::optional(text);
}

std::string InFlightOperations::describeCalls() const {
  auto begin = calls.begin(), end = calls.end();
  if (replayed) {
    begin = replayed->begin();
    end = replayed->end();
    // An operation begins after the previous progress number is written, and ends before the next
    // number is written. Messages run on another stream and may write later numbers concurrently.
    if (reached) {
      auto isAfter = [](uint32_t progress, const Call &call) {
        return progress < call.afterProgress;
      };
      end = std::upper_bound(begin, end, __atomic_load_n(reached, __ATOMIC_ACQUIRE), isAfter);
      begin = std::find_if(begin, end, [&](const Call &call) {
        return call.afterProgress == std::prev(end)->afterProgress;
      });
    }
  }
  auto count = std::distance(begin, end);
  if (count == 0)
    return "";
  if (count == 1)
    return begin->describe();
  return "one of " + std::to_string(count) + " calls, from " + begin->describe() + " to " +
         std::prev(end)->describe() + " (CUDA_LAUNCH_BLOCKING=1 names it)";
}

} // namespace tpc::rt::cuda
