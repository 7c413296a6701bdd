//===- DeviceMonitor.cpp - Error detection on a process's devices ---------===//

#include "core/DeviceMonitor.h"
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
/// After this process was stopped, the first check accounts for at most this many seconds.
constexpr double longestInterval = 0.5;
/// Seconds for ranks to return after a run has failed.
constexpr double graceForEnd = 5;

} // namespace

DeviceMonitor::DeviceMonitor(World &world) : world(world), thread(&DeviceMonitor::run, this) {}

DeviceMonitor::~DeviceMonitor() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isDestroyed = true;
  }
  changed.notify_all();
  thread.join();
}

void DeviceMonitor::leave() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !isAborting; });
  hasLeft = true;
}

void DeviceMonitor::run() {
  auto last = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, period, [&] { return isDestroyed; })) {
    auto now = std::chrono::steady_clock::now();
    double passed = std::min(std::chrono::duration<double>(now - last).count(), longestInterval);
    last = now;
    stuck = world.failed() && (world.runs() || world.ends()) ? stuck + passed : 0;
    if (stuck > graceForEnd)
      endTerminated(world);
    int rank = 0;
    std::string problem = world.failed() || hasLeft ? "" : judge(passed, rank);
    if (problem.empty() || !world.recordError(rank, problem))
      continue;
    isAborting = true;
    lock.unlock();
    world.contextOf(rank).transport->abortWorld(rank, world.errorMessage());
    lock.lock();
    isAborting = false;
    changed.notify_all();
  }
}

std::string DeviceMonitor::judge(double seconds, int &rank) {
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

std::string DeviceMonitor::judgeWaits(double seconds, int &rank) {
  std::vector<Heartbeat> beats;
  uint64_t sum = 0;
  bool anyOnDevice = false;
  for (int i = 0; i < world.numLocal(); ++i) {
    beats.push_back(heartbeatOf(i));
    sum += beats.back().moves;
    anyOnDevice |= beats.back().onDevice;
  }
  // Assumes that computation between two operations is shorter than the timeout. Then, if no device
  // moves, one hangs, or ranks wait for each other on their devices. If no rank waits for its
  // device, the host transport detects the hang.
  idle = anyOnDevice && sum == moves ? idle + seconds : 0;
  moves = sum;
  if (idle < world.timeout())
    return "";
  HangDetector hangDetector{world.size(), [&](int of) -> const Heartbeat & { return beats[of]; },
                            [&](int of) { return world.grid().describe(of); }};
  rank = hangDetector.rankToReport();
  std::string message = world.describeTimeout() + ": " + hangDetector.describeWait(rank);
  for (int other = 0; other < world.size(); ++other)
    if (other != rank)
      message += "; " + hangDetector.describeWait(other);
  return message;
}

Heartbeat DeviceMonitor::heartbeatOf(int rank) const {
  const tpc_context &ctx = world.local(rank);
  Heartbeat heartbeat;
  heartbeat.moves = world.deviceMoves(ctx);
  if (auto wait = world.deviceWait(ctx)) {
    heartbeat.waits = heartbeat.onDevice = true;
    heartbeat.awaited = std::move(wait->awaited);
    heartbeat.at = std::move(wait->at);
    heartbeat.axes = wait->axes;
    heartbeat.number = wait->number;
    return heartbeat;
  }
  heartbeat.waits = world.localThreads()->isWaiting(rank);
  heartbeat.at = world.describeOperation(ctx.activity);
  return heartbeat;
}

} // namespace tpc::rt
