//===- Trail.cpp - what a GPU was called for ------------------------------===//

#include "cuda/library/Trail.h"
#include <cstdlib>
#include <cstring>

namespace tpc::rt::cuda {
namespace {

struct Calls {
  Trail::Call first{}, last{};
  uint64_t count = 0;
};

Calls &callsOfThread() {
  thread_local Calls calls;
  return calls;
}

} // namespace

std::string Trail::Call::describe() const {
  std::string text = what;
  if (name)
    text += " '" + std::string(name) + "'";
  for (size_t i = 0; i < sizes.size() && sizes[0]; ++i)
    text += (i ? " x " : " of ") + std::to_string(sizes[i]);
  return text;
}

void Trail::add(const Driver &driver, Stream stream, const char *what, const char *name,
                std::array<int64_t, 3> sizes) {
  Calls &calls = callsOfThread();
  calls.last = {what, name, sizes};
  if (!calls.count++)
    calls.first = calls.last;
  if (!isBlocking()) // and if it is, nothing is captured
    return;
  driver.check(driver.cuStreamSynchronize(stream), "while it worked");
  clear();
}

bool Trail::isBlocking() {
  static const bool blocking = [] {
    const char *text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text && *text && std::strcmp(text, "0") != 0;
  }();
  return blocking;
}

void Trail::clear() { callsOfThread().count = 0; }

std::string Trail::describe() {
  const Calls &calls = callsOfThread();
  if (!calls.count)
    return "";
  if (calls.count == 1)
    return ", in " + calls.last.describe();
  return ", in one of " + std::to_string(calls.count) + " calls, from " + calls.first.describe() +
         " to " + calls.last.describe() + " (CUDA_LAUNCH_BLOCKING=1 tells which)";
}

} // namespace tpc::rt::cuda
