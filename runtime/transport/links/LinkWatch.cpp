//===- LinkWatch.cpp - what becomes of the links of a process's ranks -----===//

#include "transport/links/LinkWatch.h"
#include "core/World.h"
#include "transport/links/LinkTransport.h"
#include <algorithm>
#include <chrono>

namespace tpc::rt {

namespace {

constexpr auto period = std::chrono::milliseconds(100);
/// A process that was stopped itself goes on with one look, which counts as no more than this.
constexpr double longestLook = 0.5;
/// Of a run that has failed, for ranks to return.
constexpr double graceForEnd = 5;
/// A link fails because a rank has: it, or who watches it, is to say so first.
constexpr double graceForProblem = 1;

} // namespace

std::shared_ptr<LinkWatch> LinkWatch::of(World &world) {
  static std::mutex mutex;
  static std::map<World *, std::weak_ptr<LinkWatch>> all;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(all, [](const auto &entry) { return entry.second.expired(); });
  std::weak_ptr<LinkWatch> &entry = all[&world];
  std::shared_ptr<LinkWatch> watch = entry.lock();
  if (!watch)
    entry = watch = std::make_shared<LinkWatch>(world);
  return watch;
}

LinkWatch::LinkWatch(World &world) : world(world), thread(&LinkWatch::run, this) {}

LinkWatch::~LinkWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
}

void LinkWatch::add(LinkTransport &transport, int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  transports[rank] = &transport;
}

void LinkWatch::remove(int rank) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !ends; });
  transports.erase(rank);
}

void LinkWatch::abortLinks() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[rank, transport] : transports)
    transport->abortLinks();
}

void LinkWatch::run() {
  auto last = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, period, [&] { return ending; })) {
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed = now - last;
    last = now;
    // Who makes a link waits in a library for others that have gone, and who waits for a device
    // that hangs does so in its driver: nobody can end that.
    stuck = world.failed() && world.runs() ? stuck + std::min(passed.count(), longestLook) : 0;
    if (stuck > graceForEnd)
      endTerminated();
    int rank = 0;
    std::string problem = world.failed() ? "" : judge(std::min(passed.count(), longestLook), rank);
    if (problem.empty() || !world.recordError(rank, problem))
      continue;
    LinkTransport &transport = *transports.at(rank);
    ends = true;
    lock.unlock();
    transport.abortWorld(rank, world.errorMessage());
    lock.lock();
    ends = false;
    changed.notify_all();
  }
}

std::string LinkWatch::judge(double seconds, int &rank) {
  std::string problem;
  for (auto &[of, transport] : transports)
    if (problem = transport->problem(); !problem.empty()) {
      rank = of;
      break;
    }
  broken = problem.empty() ? 0 : broken + seconds;
  if (broken >= graceForProblem)
    return problem;
  LocalRanks *threads = world.localThreads();
  if (!threads || world.timeout() <= 0)
    return "";
  uint64_t sum = 0;
  int first = -1, late = -1;
  for (auto &[of, transport] : transports) {
    sum += transport->deviceMoves();
    auto wait = transport->deviceWait();
    if (!wait)
      continue;
    if (first < 0)
      first = of;
    // The first to wait for somebody who does not.
    if (late < 0 && std::any_of(
                        wait->missing.begin(), wait->missing.end(),
                        [&](int missing) {
                          return !threads->isWaiting(missing) &&
                                 !transports.at(missing)->deviceWait();
                        }))
      late = of;
  }
  // If nobody's device waits, that is for the host's transport to find out. If one does, so does
  // somebody's for whom it waits, or it hangs: what devices compute between two operations does not
  // take so long.
  idle = first >= 0 && sum == moves ? idle + seconds : 0;
  moves = sum;
  if (late >= 0)
    first = late;
  if (idle < world.timeout())
    return "";
  rank = first;
  return describeStandstill(first);
}

std::string LinkWatch::describeStandstill(int first) const {
  std::map<int, Transport::DeviceWait> waits;
  for (auto &[rank, transport] : transports)
    if (auto wait = transport->deviceWait())
      waits.emplace(rank, std::move(*wait));
  auto describe = [&](int rank) {
    auto mine = waits.find(rank);
    std::string text = world.grid().describe(rank) + " ";
    if (mine == waits.end())
      return text + world.describeActivity(world.local(rank).activity);
    text += mine->second.at;
    const char *join = " for ";
    for (int other : mine->second.missing) {
      // Who is in the same one is not missing.
      auto theirs = waits.find(other);
      if (theirs != waits.end() && theirs->second.at == mine->second.at)
        continue;
      text += join + world.grid().describe(other);
      join = ", ";
    }
    return text;
  };
  std::string message = world.describeTimeout() + ": " + describe(first);
  for (auto &[rank, transport] : transports)
    if (rank != first)
      message += "; " + describe(rank);
  return message;
}

} // namespace tpc::rt
