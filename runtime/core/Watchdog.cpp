//===- Watchdog.cpp - Heartbeat watchdog of the processes of a world ------===//

#include "core/Context.h"
#include "core/Diagnostic.h"
#include "core/LaunchMonitor.h"
#include "core/Termination.h"
#include "core/Transport.h"
#include "core/WatchdogPeer.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

namespace tpc::rt {

namespace {

constexpr double period = 0.1; ///< seconds between heartbeats
/// After this process was stopped, the first iteration accounts for at most this many seconds.
constexpr double longestStep = 0.5;
/// Grace periods in seconds. A launcher ends all processes as soon as one has ended. The failed
/// process is then the first to end, or ends soon after the first.
constexpr double graceForConnection = 0.06, graceForLauncher = 0.5, graceForTerminated = 1;
/// Launchers signal all ranks within graceForOtherSignals seconds. A rank that is signaled alone
/// continues for graceForTerminatedAlone seconds, so that the others name it first.
constexpr double graceForOtherSignals = 0.4, graceForTerminatedAlone = 1.2;
/// The last messages of an ended process may still be in flight.
constexpr double graceForLeft = 1.5;
/// Seconds between the end of a process's connections and its own end.
constexpr double graceForEnd = 0.5;
} // namespace

Watchdog::Watchdog(int rank, std::vector<Member> members, double timeout)
    : rank(rank), timeout(timeout), others(members.size()) {
  for (size_t i = 0; i < members.size(); ++i) {
    bool isNear = members[i].host == members[rank].host;
    others[i].process = PeerProcess(members[i].process, isNear);
    others[i].host = members[i].host;
    others[i].address = std::move(members[i].address);
    others[i].channel = std::move(members[i].channel);
  }
  if (members.size() == 1)
    return;
  wakeUp = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (isHub())
    notifyMidLine(wakeUp);
  Termination::expect();
  LaunchMonitor::noteThatRanksHaveMet();
  thread = std::thread(&Watchdog::run, this);
}

Watchdog::~Watchdog() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
    // During stack unwinding, this process has an unreported error and does not wait for the
    // others.
    informed = std::uncaught_exceptions() > 0;
  }
  eventfd_write(wakeUp, 1);
  thread.join();
  if (isHub())
    notifyMidLine(-1);
  Termination::forget();
  close(wakeUp);
}

void Watchdog::observe(World *newWorld) {
  std::lock_guard<std::mutex> lock(mutex);
  world = newWorld;
}

void Watchdog::follow(const std::atomic<const char *> &newDoing) {
  std::lock_guard<std::mutex> lock(mutex);
  doing = &newDoing;
}

void Watchdog::waitsFor(const std::vector<int> &newAwaited) {
  std::lock_guard<std::mutex> lock(mutex);
  waits = true;
  hasWaited.store(true, std::memory_order_relaxed);
  awaited = newAwaited;
}

void Watchdog::moves() {
  movements.fetch_add(1, std::memory_order_relaxed);
  if (!hasWaited.load(std::memory_order_relaxed))
    return;
  std::lock_guard<std::mutex> lock(mutex);
  hasWaited.store(false, std::memory_order_relaxed);
  waits = false;
}

void Watchdog::setLeft(bool newLeft) { left.store(newLeft, std::memory_order_relaxed); }

void Watchdog::failWorld() {
  if (!thread.joinable())
    return;
  std::unique_lock<std::mutex> lock(mutex);
  failing = true;
  eventfd_write(wakeUp, 1);
  changed.wait_for(lock, std::chrono::milliseconds(1500), [&] { return informed; });
}

std::string Watchdog::describe(int of) const {
  std::lock_guard<std::mutex> lock(mutex);
  return world ? world->grid().describe(of) : "rank " + std::to_string(of);
}

Heartbeat Watchdog::heartbeat() const {
  std::lock_guard<std::mutex> lock(mutex);
  Heartbeat heartbeat;
  heartbeat.waits = waits;
  heartbeat.awaited = awaited;
  heartbeat.left = left.load(std::memory_order_relaxed);
  heartbeat.moves = movements.load(std::memory_order_relaxed);
  heartbeat.at = world ? world->describeOperation(world->local(0).activity) : "";
  if (heartbeat.at.empty())
    heartbeat.at = std::string(doing ? doing->load() : "at the start") + ",";
  heartbeat.isMidLine = isMidLine();
  if (!world)
    return heartbeat;
  const tpc_context &ctx = world->local(0);
  heartbeat.moves += world->deviceMoves(ctx);
  if (auto wait = world->deviceWait(ctx)) {
    heartbeat.waits = heartbeat.onDevice = true;
    heartbeat.awaited = std::move(wait->awaited);
    heartbeat.at = std::move(wait->at);
    heartbeat.axes = wait->axes;
    heartbeat.number = wait->number;
  }
  return heartbeat;
}

void Watchdog::run() {
  prctl(PR_SET_NAME, watchThreadName);
  auto last = Clock::now();
  double untilHeartbeat = 0;
  std::vector<pollfd> polled;
  for (;;) {
    polled = {{wakeUp, POLLIN, 0}, {Termination::event(), POLLIN, 0}};
    bool hasPending = false;
    for (Other &other : others)
      if (other.channel && other.channel->isOpen())
        polled.push_back({other.channel->socket(),
                          static_cast<short>(POLLIN | (other.channel->hasUnsent() ? POLLOUT : 0)),
                          0});
      else
        hasPending |= other.channel && !other.sentBye;
    // Checks more often while a peer or this process may have failed.
    if (terminated >= 0)
      polled[1].fd = -1;
    double wait = hasPending || terminated >= 0 ? 0.02 : std::max(untilHeartbeat, 0.0);
    poll(polled.data(), polled.size(), static_cast<int>(wait * 1e3) + 1);
    eventfd_t ignored;
    if (eventfd_read(wakeUp, &ignored) == 0)
      untilHeartbeat = 0;

    auto now = Clock::now();
    double passed = std::chrono::duration<double>(now - last).count();
    last = now;
    for (size_t i = 0; i < others.size(); ++i)
      if (others[i].channel)
        others[i].received =
            others[i].channel->receive([&](MessageSocket::MessageType type, std::string_view text) {
              receive(static_cast<int>(i), type, text);
            });
    untilHeartbeat -= passed;
    if (untilHeartbeat <= 0) {
      untilHeartbeat = period;
      std::string text = heartbeat().encode();
      for (Other &other : others)
        if (other.channel && !sentBye)
          other.channel->send(MessageSocket::MessageType::Heartbeat, text);
    }
    bool isEnding, isFailing, alone;
    {
      std::lock_guard<std::mutex> lock(mutex);
      isEnding = ending;
      isFailing = failing && !informed;
      alone = informed;
    }
    if (isFailing) {
      informOthers(-1, /*reportsWaits=*/false);
      std::lock_guard<std::mutex> lock(mutex);
      informed = true;
      changed.notify_all();
      return; // the process ends
    }
    if (isEnding && !sentBye && (!isHub() || alone || isOver())) {
      for (Other &other : others)
        if (other.channel)
          other.channel->send(MessageSocket::MessageType::Bye);
      sentBye = true;
    }
    if (sentBye && (isHub() || alone || isOver()))
      return;
    judge(std::min(passed, longestStep));
  }
}

bool Watchdog::isOver() const {
  for (const Other &other : others)
    if (other.channel && !other.sentBye)
      return false;
  return true;
}

void Watchdog::receive(int from, MessageSocket::MessageType type, std::string_view text) {
  Other &other = others[from];
  switch (type) {
  case MessageSocket::MessageType::Heartbeat: {
    Heartbeat heartbeat;
    if (heartbeat.decode(text, static_cast<int>(others.size()))) {
      if (heartbeat.moves != other.heartbeat.moves)
        other.stuck = idle = 0;
      other.heartbeat = std::move(heartbeat);
      other.age = 0;
      if (from == 0)
        setMidLineOfOther(other.heartbeat.isMidLine);
    }
    return;
  }
  case MessageSocket::MessageType::Failed:
    // The failed rank has reported the reason.
    if (isHub())
      endAll("", -1, false);
    return;
  case MessageSocket::MessageType::Verdict: {
    VerdictText verdict;
    if (isHub() || text.size() != sizeof(verdict))
      return;
    std::memcpy(&verdict, text.data(), sizeof(verdict));
    if (terminated >= 0 && !other.wasTerminated)
      reportOwnTermination();
    if (verdict.reportsWaits)
      reportOwnWait();
    killStopped(verdict.culprit);
    leave();
  }
  case MessageSocket::MessageType::Terminated:
    other.wasTerminated = true;
    return;
  case MessageSocket::MessageType::Bye:
    other.sentBye = true;
    return;
  case MessageSocket::MessageType::Table: // before the watchdog starts
    return;
  }
}

void Watchdog::judge(double seconds) {
  if (LaunchMonitor::endsProcess())
    return; // and has reported the reason
  if (terminated >= 0) {
    terminated += seconds;
  } else if (Termination::isRequested()) {
    terminated = 0;
    for (Other &other : others)
      if (other.channel)
        other.channel->send(MessageSocket::MessageType::Terminated);
  }
  for (size_t i = 0; i < others.size(); ++i)
    if (others[i].channel && !others[i].sentBye)
      judgeConnection(static_cast<int>(i), seconds);
  judgeWaits(seconds);
  judgeTermination(seconds);
}

void Watchdog::judgeTermination(double seconds) {
  bool areAllSignaled = true;
  for (size_t i = 0; i < others.size(); ++i) {
    Other &other = others[i];
    if (!other.channel || other.sentBye)
      continue;
    areAllSignaled &= other.wasTerminated || !other.channel->isOpen();
    if (!other.wasTerminated)
      continue;
    other.terminated += seconds;
    if (other.terminated > graceForOtherSignals && terminated < 0)
      endAll(describe(static_cast<int>(i)) + " alone received SIGTERM" +
                 lastSeen(static_cast<int>(i)),
             -1, true);
  }
  if (terminated > graceForOtherSignals && !areAllSignaled)
    reportOwnTermination();
  if (terminated > (areAllSignaled ? graceForLauncher : graceForTerminatedAlone))
    endByLauncher();
}

void Watchdog::judgeConnection(int of, double seconds) {
  Other &other = others[of];
  if (!other.channel->isOpen()) {
    if (isTerminatedAlone)
      endByLauncher(); // the others have reported the signal, and end
    other.closed += std::min(seconds, 0.03);
    if (!other.wasTerminated && terminated < 0 && timeout > 0 && other.process.isAlive()) {
      if (other.closed > graceForEnd)
        endAll(describe(of) + " is cut off: its process runs, but the connection to it was closed" +
                   lastSeen(of),
               -1, true, /*isCut=*/true);
      return;
    }
    if (other.wasTerminated ? other.closed > graceForTerminated && terminated < 0
                            : other.closed > graceForConnection || terminated >= 0)
      endAll(describe(of) +
                 (other.wasTerminated ? " alone received SIGTERM"
                  : other.silence.wasStopped()
                      ? " is frozen: its process was stopped"
                      : " has ended without an error message: it was killed or has "
                        "crashed") +
                 lastSeen(of),
             other.wasTerminated ? -1 : of, true);
    return;
  }
  bool isNear = other.host == others[rank].host;
  std::string what =
      other.silence.judge(other.received, seconds, other.process, isNear ? "" : other.address);
  bool isCut = other.silence.isCutOff();
  if (isCut && !other.address.empty())
    what += " (link from " + other.address + " to rank " + std::to_string(rank) + ")";
  if (timeout > 0 && !what.empty())
    endAll(describe(of) + " " + what + lastSeen(of), isCut ? -1 : of, true, isCut);
}

void Watchdog::reportOwnTermination() {
  if (!std::exchange(isTerminatedAlone, true))
    printDiagnostic("note", describe(rank) + " received SIGTERM");
}

bool Watchdog::waitsForEnded(int waiting) const {
  const Heartbeat &heartbeat = others[waiting].heartbeat;
  // Members that a device waits for may already have called the operation; the heartbeat does not
  // distinguish that.
  return heartbeat.waits && !heartbeat.left && !heartbeat.onDevice &&
         std::any_of(heartbeat.awaited.begin(), heartbeat.awaited.end(),
                     [&](int of) { return others[of].heartbeat.left || others[of].sentBye; });
}

bool Watchdog::hasWaitedForEnded(int waiting, int awaited) const {
  double stuck = others[waiting].stuck, known = stuck - others[waiting].age;
  const Other &other = others[awaited];
  return known >= graceForLeft &&
         (other.sentBye || (other.heartbeat.left && stuck - other.age >= graceForLeft));
}

void Watchdog::judgeWaits(double seconds) {
  Heartbeat mine = heartbeat();
  if (mine.moves != others[rank].heartbeat.moves)
    others[rank].stuck = idle = 0;
  others[rank].heartbeat = std::move(mine);
  for (size_t i = 0; i < others.size(); ++i)
    if (static_cast<int>(i) != rank)
      others[i].age += seconds;
  bool allWait = true, anyOnDevice = false;
  for (size_t i = 0; i < others.size(); ++i) {
    Other &other = others[i];
    // Rank 0 has the state of all ranks. Other ranks have only their own.
    if (!isHub() && static_cast<int>(i) != rank)
      continue;
    if (other.sentBye)
      continue;
    allWait &= other.heartbeat.waits;
    anyOnDevice |= other.heartbeat.onDevice;
    other.stuck = waitsForEnded(static_cast<int>(i)) ? other.stuck + seconds : 0;
    std::string list;
    for (int awaited : other.heartbeat.awaited)
      if (other.stuck >= graceForLeft && hasWaitedForEnded(static_cast<int>(i), awaited))
        list += (list.empty() ? "rank " : ", rank ") + std::to_string(awaited);
    if (list.empty())
      continue;
    if (claimReport(/*isCut=*/false, /*culprit=*/-1))
      printDiagnostic("error",
                      "rank " + std::to_string(i) + ": waits for " + list + ", which has ended");
    endAll("", -1, false);
  }
  if (!isHub())
    return;
  // A CPU may compute for long. If a device waits, another device that it waits for also waits, or
  // hangs: computation between two operations does not take that long.
  idle = allWait || anyOnDevice ? idle + seconds : 0;
  if (timeout <= 0 || idle < timeout)
    return;
  HangDetector detector = hangDetector();
  int first = detector.rankToReport();
  char text[64];
  std::snprintf(text, sizeof(text), "has waited for %g s (--timeout=%g): ", timeout, timeout);
  printDiagnostic("error",
                  "rank " + std::to_string(first) + ": " + text + detector.describeWait(first));
  for (size_t i = 0; i < others.size(); ++i)
    if (static_cast<int>(i) != first && !others[i].sentBye)
      printDiagnostic("note", "waits: " + detector.describeWait(static_cast<int>(i)));
  endAll("", -1, false);
}

std::string Watchdog::lastSeen(int of) const {
  const std::string &at = others[of].heartbeat.at;
  if (at.empty())
    return "";
  return " (last seen " + at.substr(0, at.size() - at.ends_with(',')) + ")";
}

// Ranks other than 0 have only their own state.
HangDetector Watchdog::hangDetector() const {
  return {static_cast<int>(others.size()),
          [this](int of) -> const Heartbeat & { return others[of].heartbeat; },
          [this](int of) { return describe(of); }};
}

} // namespace tpc::rt
