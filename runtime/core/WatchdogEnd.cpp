//===- WatchdogEnd.cpp - End of a run that cannot continue ----------------===//

#include "core/Context.h"
#include "core/Diagnostic.h"
#include "core/LaunchMonitor.h"
#include "core/WatchdogPeer.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include <csignal>
#include <poll.h>
#include <unistd.h>

namespace tpc::rt {

void Watchdog::reportOwnWait() {
  others[rank].heartbeat = heartbeat();
  if (others[rank].heartbeat.waits)
    printDiagnostic("note", "waits: " + hangDetector().describeWait(rank));
}

void Watchdog::killStopped(int culprit) const {
  for (size_t i = 0; i < others.size(); ++i) {
    int of = static_cast<int>(i);
    if (of != rank && (of == culprit || others[i].process.isStopped()))
      others[i].process.kill();
  }
}

bool Watchdog::claimReport(bool isCut, int culprit) {
  bool isFirst = messageClaim.claim("tpc-" + toHexDigits(others[0].host) + "-" +
                                    std::to_string(others[0].process.number()));
  // Ranks that have not received the table of all ranks yet detect the same error at start-up.
  return (isFirst || (isHub() && !isCut)) && (culprit < 0 || LaunchMonitor::claimReport(culprit));
}

bool Watchdog::hasLivePeerOnHost() const {
  for (size_t i = 0; i < others.size(); ++i)
    switch (others[i].process.state()) {
    case PeerProcess::State::Asleep:
    case PeerProcess::State::Runs:
      if (static_cast<int>(i) != rank)
        return true;
      break;
    default:
      break;
    }
  return false;
}

void Watchdog::informOthers(int culprit, bool reportsWaits) {
  VerdictText verdict{culprit, reportsWaits};
  std::string_view text(reinterpret_cast<const char *>(&verdict), sizeof(verdict));
  for (size_t i = 0; i < others.size(); ++i)
    if (others[i].channel)
      others[i].channel->send(isHub() ? MessageSocket::MessageType::Verdict
                                      : MessageSocket::MessageType::Failed,
                              isHub() ? text : std::string_view());
  // Waits until the other ranks have ended: if this rank ended first, a launcher could end them
  // before they print their messages.
  bool answered = false; // rank 0 has received the failure, and reports it
  for (int i = 0; i < 100 && !answered; ++i) {
    bool anyOpen = false;
    for (size_t j = 0; j < others.size(); ++j)
      if (MessageSocket *channel = others[j].channel.get();
          channel && static_cast<int>(j) != culprit) {
        channel->receive([&](MessageSocket::MessageType type, std::string_view) {
          answered |= type == MessageSocket::MessageType::Verdict;
        });
        anyOpen |= channel->isOpen();
      }
    if (!anyOpen)
      break;
    poll(nullptr, 0, 10);
  }
}

void Watchdog::endAll(const std::string &error, int culprit, bool reportsWaits, bool isCut) {
  // The launch monitor reports an error.
  if (LaunchMonitor::endsProcess()) {
    constexpr int graceForMonitor = 5000; // its output may block
    poll(nullptr, 0, graceForMonitor);
    leave();
  }
  bool reports = !error.empty() && claimReport(isCut, culprit);
  if (!error.empty())
    printDiagnostic(reports ? "error" : "note", error);
  if (reportsWaits)
    reportOwnWait();
  // If the connection is cut in one direction only, rank 0 still receives the message.
  if (isHub() || isCut)
    informOthers(culprit, reportsWaits);
  if (!isHub() || isCut)
    // Rank 0 cannot inform the others. The reporting rank waits until they have ended, so that none
    // of them reports the same error. The others wait briefly, because the reporting rank may be
    // killed before it has reported.
    for (int i = 0; reports ? i < 100 && hasLivePeerOnHost() : i < 30; ++i) {
      poll(nullptr, 0, 10);
      if (!reports && !isCut && !error.empty() && (reports = claimReport(isCut, culprit)))
        printDiagnostic("error", error);
    }
  killStopped(culprit);
  leave();
}

void Watchdog::leave() {
  std::lock_guard<std::mutex> lock(mutex);
  // A rank that waits for a device must not continue with data that was not computed: the run has
  // already failed and reported its reason.
  if (world && world->monitorsDevices()) {
    world->recordError(rank, "");
    world->abortDevices();
  }
  if (isTerminatedAlone)
    endByLauncher();
  _exit(1);
}

void Watchdog::endByLauncher() {
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(128 + SIGTERM);
}

} // namespace tpc::rt
