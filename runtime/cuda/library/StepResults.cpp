//===- StepResults.cpp - Results of steps in flight -----------------------===//

#include "cuda/library/StepResults.h"
#include <cstring>

namespace tpc::rt::cuda {

static int64_t paddedTo16(int64_t bytes) { return (bytes + 15) / 16 * 16; }

void StepResults::reserve(int64_t bytes, size_t number) {
  while (steps.size() < number)
    steps.emplace_back(queue);
  stepBytes = std::max(stepBytes, bytes);
  memory.reserve(stepBytes * static_cast<int64_t>(steps.size()));
}

void StepResults::reserve(const std::vector<StepResult> &results, size_t number) {
  int64_t bytes = paddedTo16(sizeof(tpc_status));
  for (const StepResult &result : results)
    bytes += paddedTo16(result.bytes);
  reserve(bytes, number);
}

void StepResults::enqueue(const std::vector<StepResult> &results, Address status, bool isAhead) {
  std::vector<std::byte *> destinations;
  int64_t bytes = paddedTo16(sizeof(tpc_status));
  for (const StepResult &result : results) {
    destinations.push_back(result.destination ? result.destination() : nullptr);
    bytes += destinations.back() ? 0 : paddedTo16(result.bytes);
  }
  if (count == 0)
    reserve(bytes, 1);
  const Driver &driver = queue.driver;
  size_t index = (first + count++) % steps.size();
  Step &step = steps[index];
  std::byte *next = memory.data() + stepBytes * static_cast<int64_t>(index);
  auto copy = [&](std::byte *to, Address from, int64_t size) {
    if (size > 0)
      driver.check(driver.cuMemcpyDtoHAsync_v2(to, from, static_cast<size_t>(size), queue.stream),
                   "to copy to the host");
  };
  copy(next, status, sizeof(tpc_status));
  next += paddedTo16(sizeof(tpc_status));
  step.arrivals.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    std::byte *to = destinations[i] ? destinations[i] : next;
    copy(to, results[i].from, results[i].bytes);
    next += destinations[i] ? 0 : paddedTo16(results[i].bytes);
    step.arrivals.push_back(to);
  }
  step.results = &results;
  if (isAhead)
    step.arrived.set();
}

tpc_status StepResults::take() {
  Step &step = steps[first];
  step.arrived.wait();
  tpc_status status = {};
  std::memcpy(&status, memory.data() + stepBytes * static_cast<int64_t>(first), sizeof(status));
  first = (first + 1) % steps.size();
  --count;
  for (size_t i = 0; i < step.results->size(); ++i)
    (*step.results)[i].take(step.arrivals[i]);
  return status;
}

} // namespace tpc::rt::cuda
