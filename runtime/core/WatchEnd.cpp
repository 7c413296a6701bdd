//===- WatchEnd.cpp - End of a run that cannot continue -------------------===//

#include "core/Context.h"
#include "core/Diagnostic.h"
#include "core/LaunchWatch.h"
#include "core/WatchPeer.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include <csignal>
#include <poll.h>
#include <unistd.h>

namespace tpc::rt {

void Watch::sayOwnWait() {
  others[rank].beat = beat();
  if (others[rank].beat.waits)
    printDiagnostic("note", "waits: " + standstill().describeWait(rank));
}

void Watch::killStopped(int culprit) const {
  for (size_t i = 0; i < others.size(); ++i) {
    int of = static_cast<int>(i);
    if (of != rank && (of == culprit || others[i].process.isStopped()))
      others[i].process.kill();
  }
}

bool Watch::becomeSpeaker(bool isCut) {
  bool isFirst = speaker.claim("tpc-" + toHexDigits(others[0].host) + "-" +
                               std::to_string(others[0].process.number()));
  return isFirst || (isHub() && !isCut);
}

bool Watch::anyoneNear() const {
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

void Watch::tell(int culprit, bool sayWaits) {
  VerdictText verdict{culprit, sayWaits};
  std::string_view text(reinterpret_cast<const char *>(&verdict), sizeof(verdict));
  for (size_t i = 0; i < others.size(); ++i)
    if (others[i].line)
      others[i].line->say(isHub() ? MessageSocket::Word::Verdict : MessageSocket::Word::Failed,
                          isHub() ? text : std::string_view());
  // Until they have ended, so that no launcher ends them before they have said what they have to.
  bool answered = false; // rank 0 does
  for (int i = 0; i < 100 && !answered; ++i) {
    bool anyOpen = false;
    for (size_t j = 0; j < others.size(); ++j)
      if (MessageSocket *line = others[j].line.get(); line && static_cast<int>(j) != culprit) {
        line->hear([&](MessageSocket::Word word, std::string_view) {
          answered |= word == MessageSocket::Word::Verdict;
        });
        anyOpen |= line->isOpen();
      }
    if (!anyOpen)
      break;
    poll(nullptr, 0, 10);
  }
}

void Watch::endAll(const std::string &error, int culprit, bool sayWaits, bool isCut) {
  // The launch monitor has found an error, and reports it.
  if (LaunchWatch::endsProcess())
    for (;;)
      poll(nullptr, 0, 1000);
  bool speaks = !error.empty() && becomeSpeaker(isCut);
  if (!error.empty())
    printDiagnostic(speaks ? "error" : "note", error);
  if (sayWaits)
    sayOwnWait();
  // Over a connection that is cut in one direction, rank 0 is still informed.
  if (isHub() || isCut)
    tell(culprit, sayWaits);
  if (!isHub() || isCut)
    // Rank 0 cannot inform the others. The reporting rank stays until they have ended, so that none
    // of them reports as well; they wait a moment, because it may be killed before it has reported.
    for (int i = 0; speaks ? i < 100 && anyoneNear() : i < 30; ++i) {
      poll(nullptr, 0, 10);
      if (!speaks && !isCut && !error.empty() && (speaks = becomeSpeaker(isCut)))
        printDiagnostic("error", error);
    }
  killStopped(culprit);
  leave();
}

void Watch::leave() {
  std::lock_guard<std::mutex> lock(mutex);
  // A rank that waits for a device must not continue with data that was not computed: the run has
  // failed, and the reason is reported.
  if (world && world->watchesDevices()) {
    world->recordError(rank, "");
    world->abortDevices();
  }
  if (isTerminatedAlone)
    endByLauncher();
  _exit(1);
}

void Watch::endByLauncher() {
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(128 + SIGTERM);
}

} // namespace tpc::rt
