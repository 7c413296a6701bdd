//===- PeerConnection.cpp - Connections to ranks during start-up ----------===//

#include "transport/sockets/PeerConnection.h"
#include "core/Diagnostic.h"
#include "core/LaunchMonitor.h"
#include "core/MessageClaim.h"
#include "core/Termination.h"
#include <algorithm>
#include <poll.h>

namespace tpc::rt {

std::string PeerConnection::check(
    double grace, bool judgesSilence,
    const std::function<void(MessageSocket::MessageType, std::string_view)> &receive) {
  constexpr auto period = std::chrono::milliseconds(100);
  constexpr double longestStep = 0.5; // this process itself may have been stopped
  auto now = Clock::now();
  double passed = std::min(std::chrono::duration<double>(now - last).count(), longestStep);
  last = now;
  bool received = channel->receive([&](MessageSocket::MessageType type, std::string_view text) {
    if (receive)
      receive(type, text);
  });
  if (!channel->isOpen()) {
    gone += passed;
    if (gone >= grace && silence.wasStopped()) // and another rank has killed it
      return "is frozen: its process was stopped (before all ranks were connected)";
    return gone < grace
               ? ""
               : "has ended before all ranks were connected: it was killed, has crashed, or has "
                 "printed an error";
  }
  if (now - lastHeartbeat >= period) {
    channel->send(MessageSocket::MessageType::Heartbeat);
    lastHeartbeat = now;
  }
  std::string what = silence.judge(received, passed, process, address);
  return what.empty() || !judgesSilence ? "" : what + " (before all ranks were connected)";
}

void reportAtStart(const std::string &key, int rank, const std::string &what,
                   const PeerProcess &process) {
  // The launcher ends all ranks. This rank did not fail; the launch monitor names the rank that
  // did.
  if (Termination::isRequested())
    return;
  LaunchMonitor::noteFailure();
  std::string name = "rank " + std::to_string(rank);
  bool reports = claimMessage(key, name), isStopped = process.isStopped();
  // Before the message, whose output may block.
  if (isStopped)
    process.kill();
  if (reports)
    printDiagnostic("error", name + " " + what);
  // The other processes detect the same error at their next check. The claim on the message ends
  // with this process, so the process must still exist then.
  constexpr int graceForChecks = 700;
  if (isStopped)
    poll(nullptr, 0, graceForChecks);
}

} // namespace tpc::rt
