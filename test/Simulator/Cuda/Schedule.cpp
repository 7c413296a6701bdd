//===- Schedule.cpp - Operation scheduler ---------------------------------===//
// Execution is lazy: operations need not run before the program waits. Each context has a thread
// that runs ready operations in random order:
//   * while the program waits;
//   * a few at random times;
//   * all after some time without new operations, because a device completes its work in any case.
//
//===----------------------------------------------------------------------===//

#include "Execute.h"

#include <csignal>
#include <unistd.h>

using namespace sim;
using namespace std::chrono_literals;

State &sim::state() {
  static auto *all = new State;
  return *all;
}

Context *&sim::currentContext() {
  thread_local Context *current = nullptr;
  return current;
}

CaptureMode &sim::captureModeOfThread() {
  thread_local CaptureMode mode = CaptureGlobal;
  return mode;
}

// Each device has a terabyte of addresses, far from those of host memory.
static uint64_t firstAddressOf(int device) {
  return 0x6000'0000'0000 + uint64_t(device) * 0x100'0000'0000;
}

Context::Context(int device, int ordinal)
    : device(device), ordinal(ordinal), random(settings().seed * 64 + uint64_t(device)),
      memory(settings().seed, firstAddressOf(device)) {
  reserveAddresses(firstAddressOf(device));
}

uint32_t sim::newLane() { return state().lanes++; }

bool sim::injected(const char *what, uint64_t count, int device) {
  for (const Injection &one : settings().injections)
    if (one.what == what && one.when == count && (one.device < 0 || one.device == device))
      return true;
  return false;
}

namespace {

void makeReady(Context &context, const OperationRef &operation) {
  context.ready.push_back(operation);
  context.wake.notify_one();
}

void finish(Context &context, const OperationRef &operation) {
  operation->done = true;
  for (const OperationRef &follower : operation->followers)
    if (!--follower->missing && !follower->context->failed)
      makeReady(*follower->context, follower);
  operation->followers.clear();
  operation->work = nullptr;
  context.progress.notify_all();
}

/// Runs one step of an operation, without the lock. Returns whether the operation is complete.
bool run(std::unique_lock<std::mutex> &lock, Context &context, const OperationRef &operation) {
  if (!operation->work) // a marker
    return true;
  bool first = !operation->begun;
  operation->begun = true;
  if (first) {
    ++context.executed;
    auto due = [&](const char *what) { return injected(what, context.executed, context.device); };
    if (due("kill"))
      kill(getpid(), SIGKILL);
    if (due("freeze"))
      kill(getpid(), SIGSTOP);
    for (auto [what, result] : {std::pair("fail", ERROR_LAUNCH_FAILED),
                                {"ecc", ERROR_ECC_UNCORRECTABLE},
                                {"address", ERROR_ILLEGAL_ADDRESS}})
      if (due(what)) {
        trace("injected " + std::string(what) + " into " + operation->work->name);
        fail(context, result);
        return true;
      }
    if (due("hang")) {
      trace("injected hang into " + operation->work->name);
      operation->work = std::make_shared<Forever>();
    }
  }
  uint64_t seed = context.random();
  std::shared_ptr<Work> work = operation->work;
  lock.unlock();
  Progress progress = Progress::Done;
  Result result = SUCCESS;
  std::string message;
  {
    Executing execution(context, *operation, seed);
    if (first)
      execution.addDuration(0.001);
    try {
      if (first)
        work->begin();
      progress = work->step(execution);
    } catch (const Fault &fault) {
      result = fault.result;
      message = fault.message;
      progress = Progress::Done;
    }
  }
  if (result)
    report("device " + std::to_string(context.device) + ": " + work->name + ": " + message);
  lock.lock();
  if (result)
    fail(context, result);
  return progress == Progress::Done;
}

void work(Context &context) {
  std::unique_lock lock(state().mutex);
  // Operations that wait for other devices or processes; they are polled again later.
  std::vector<OperationRef> waiting;
  auto pause = 50us;
  while (true) {
    if (context.failed) {
      context.ready.clear();
      waiting.clear();
    }
    if (context.ready.empty() && waiting.empty()) {
      context.wake.wait(lock);
      continue;
    }
    auto now = std::chrono::steady_clock::now();
    auto idle = 1ms * (2 + settings().seed % 7 * 4);
    if (!context.demand && !context.credit && now - context.lastSubmit < idle) {
      context.wake.wait_until(lock, context.lastSubmit + idle);
      continue;
    }
    if (context.ready.empty()) {
      context.wake.wait_for(lock, pause);
      pause = std::min(pause * 2, std::chrono::microseconds(1000));
      context.ready.swap(waiting);
      continue;
    }
    size_t next = context.random() % context.ready.size();
    OperationRef operation = context.ready[next];
    context.ready.erase(context.ready.begin() + int64_t(next));
    if (run(lock, context, operation)) {
      finish(context, operation);
      context.credit -= context.credit > 0;
      context.ready.insert(context.ready.end(), waiting.begin(), waiting.end());
      waiting.clear();
      pause = 50us;
    } else {
      waiting.push_back(operation);
    }
  }
}

} // namespace

void sim::submit(const OperationRef &operation, const std::vector<OperationRef> &before) {
  Context &context = *operation->context;
  if (!context.hasWorker) {
    context.hasWorker = true;
    // Like a device, the thread does not react to the end of the process. Signals go to the
    // program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(work, std::ref(context)).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (context.failed) {
    operation->done = true;
    return;
  }
  for (const OperationRef &other : before)
    if (other && !other->done) {
      other->followers.push_back(operation);
      ++operation->missing;
    }
  context.lastSubmit = std::chrono::steady_clock::now();
  // Sometimes operations may complete at once, as on a fast device.
  if (context.random() % 8 == 0)
    context.credit += context.random() % 8;
  if (!operation->missing)
    makeReady(context, operation);
}

OperationRef sim::append(Stream &stream, std::shared_ptr<Work> work,
                         const std::vector<OperationRef> &also) {
  auto operation = std::make_shared<Operation>();
  Context &context = *stream.context;
  operation->context = &context;
  std::vector<OperationRef> before = also;
  before.push_back(stream.last);
  // The legacy stream and all blocking streams wait for each other.
  if (stream.legacy) {
    for (const auto &other : context.streams)
      if (other->blocking)
        before.push_back(other->last);
  } else if (stream.blocking) {
    before.push_back(context.legacy->last);
  }
  join(stream.clock, state().host);
  for (const OperationRef &other : before)
    if (other)
      join(stream.clock, other->clock);
  operation->early = stream.clock;
  if (work && work->isDependent) {
    // The previous kernel may itself have begun early.
    operation->early = stream.last->early;
    join(operation->early, state().host);
  }
  stream.clock.resize(std::max<size_t>(stream.clock.size(), stream.lane + 1));
  operation->access = {stream.lane, ++stream.clock[stream.lane],
                       work ? std::make_shared<const std::string>(work->name) : nullptr};
  operation->clock = stream.clock;
  operation->isKernel = work && work->isKernel;
  operation->work = std::move(work);
  stream.last = operation;
  submit(operation, before);
  return operation;
}

Result sim::wait(std::unique_lock<std::mutex> &lock, Context &context,
                 const OperationRef &operation) {
  if (operation && !operation->done) {
    ++context.demand;
    context.wake.notify_one();
    context.progress.wait(lock, [&] { return operation->done || context.failed; });
    --context.demand;
  }
  if (context.failed)
    return context.failed;
  if (operation)
    join(state().host, operation->clock);
  return SUCCESS;
}

Result sim::drain(std::unique_lock<std::mutex> &lock, Context &context) {
  std::vector<OperationRef> all;
  for (const auto &stream : context.streams)
    all.push_back(stream->last);
  for (const OperationRef &one : all)
    if (Result result = wait(lock, context, one))
      return result;
  return context.failed;
}

void sim::fail(Context &context, Result result) {
  if (context.failed)
    return;
  context.failed = result;
  // Operations of a failed context no longer run. Threads that wait for them are woken.
  context.wake.notify_all();
  context.progress.notify_all();
}
