//===- DeviceWatch.cpp - Error detection on a process's devices -----------===//

#include "core/DeviceWatch.h"
#include "core/HangDetector.h"
#include "core/Timeout.h"
#include "core/Transport.h"
#include "core/World.h"
#include <algorithm>
#include <chrono>
#include <vector>

namespace tpc::rt {
namespace {

constexpr auto period = std::chrono::milliseconds(100);
/// After this process was stopped, the first check counts as at most this many seconds.
constexpr double longestLook = 0.5;
/// Seconds for ranks to return after a run has failed.
constexpr double graceForEnd = 5;

} // namespace

DeviceWatch::DeviceWatch(World &world) : world(world), thread(&DeviceWatch::run, this) {}

DeviceWatch::~DeviceWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
}

void DeviceWatch::leave() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !ends; });
  hasLeft = true;
}

void DeviceWatch::run() {
  auto last = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, period, [&] { return ending; })) {
    auto now = std::chrono::steady_clock::now();
    double passed = std::min(std::chrono::duration<double>(now - last).count(), longestLook);
    last = now;
    stuck = world.failed() && (world.runs() || world.ends()) ? stuck + passed : 0;
    if (stuck > graceForEnd)
      endTerminated(world);
    int rank = 0;
    std::string problem = world.failed() || hasLeft ? "" : judge(passed, rank);
    if (problem.empty() || !world.recordError(rank, problem))
      continue;
    ends = true;
    lock.unlock();
    world.contextOf(rank).transport->abortWorld(rank, world.errorMessage());
    lock.lock();
    ends = false;
    changed.notify_all();
  }
}

std::string DeviceWatch::judge(double seconds, int &rank) {
  std::string problem;
  for (int i = 0; i < world.numLocal() && problem.empty(); ++i) {
    rank = world.local(i).rank;
    problem = world.local(i).transport->deviceProblem();
  }
  broken = problem.empty() ? 0 : broken + seconds;
  if (broken >= graceForOthers)
    return problem;
  return world.localThreads() && world.timeout() > 0 ? judgeWaits(seconds, rank) : "";
}

std::string DeviceWatch::judgeWaits(double seconds, int &rank) {
  std::vector<Heartbeat> beats;
  uint64_t sum = 0;
  bool anyOnDevice = false;
  for (int i = 0; i < world.numLocal(); ++i) {
    beats.push_back(heartbeatOf(i));
    sum += beats.back().moves;
    anyOnDevice |= beats.back().onDevice;
  }
  // If no rank waits for its device, the host transport detects the hang. If one waits, some rank
  // that it waits for is waiting for its device too, or its device hangs: computation between two
  // operations does not take that long.
  idle = anyOnDevice && sum == moves ? idle + seconds : 0;
  moves = sum;
  if (idle < world.timeout())
    return "";
  HangDetector standstill{world.size(), [&](int of) -> const Heartbeat & { return beats[of]; },
                          [&](int of) { return world.grid().describe(of); }};
  rank = standstill.first();
  std::string message = world.describeTimeout() + ": " + standstill.describeWait(rank);
  for (int other = 0; other < world.size(); ++other)
    if (other != rank)
      message += "; " + standstill.describeWait(other);
  return message;
}

Heartbeat DeviceWatch::heartbeatOf(int rank) const {
  const tpc_context &ctx = world.local(rank);
  Heartbeat beat;
  beat.moves = world.deviceMoves(ctx);
  if (auto wait = world.deviceWait(ctx)) {
    beat.waits = beat.onDevice = true;
    beat.missing = std::move(wait->missing);
    beat.at = std::move(wait->at);
    beat.axes = wait->axes;
    beat.number = wait->number;
    return beat;
  }
  beat.waits = world.localThreads()->isWaiting(rank);
  beat.at = world.describeActivity(ctx.activity);
  return beat;
}

} // namespace tpc::rt
