//===- Rendezvous.cpp - Start-up connection of all processes --------------===//

#include "transport/sockets/Rendezvous.h"
#include "core/Diagnostic.h"
#include "core/LaunchMonitor.h"
#include "core/MessageClaim.h"
#include "tpc/fnv1a.h"
#include "transport/sockets/RendezvousReply.h"
#include <algorithm>
#include <bitset>
#include <cstring>
#include <map>
#include <optional>
#include <poll.h>
#include <sys/random.h>
#include <utility>

namespace tpc::rt {

namespace {

std::string nameOf(const std::string &run) {
  return run.empty() ? "no id" : "the id '" + run + "'";
}

/// Seconds in which a rank that was started with --help or --describe may be started again to run.
constexpr double graceForAbsent = 2;
/// Seconds after which a rank 0 that no longer listens has ended and was not started again.
constexpr double graceForRestart = 2;
/// Seconds after which a rank that does not reach rank 0, and rank 0 if ranks are absent, prints a
/// note.
constexpr double secondsUntilNote = 5;
/// Seconds for which a rank 0 whose start has failed waits for late ranks.
constexpr double graceForLate = 2;

/// Reason to reject a greeting, as text for both sides.
struct Objection {
  std::string why; ///< empty: accepted
  /// The greeting is of the same run, which therefore cannot start.
  bool isFatal = false;
};

Objection objection(const Role &role, const Greeting &greeting,
                    const ConnectedRanks &connectedRanks) {
  std::string rank = "rank " + std::to_string(greeting.rank);
  if (greeting.kind == Greeting::Data)
    return {"rank 0 is still waiting for others"};
  if (greeting.run != fnv1a(role.run))
    return {"it belongs to another run: rank 0 has " + nameOf(role.run) + ", " + rank + " " +
            nameOf(greeting.runName)};
  if (greeting.size != static_cast<uint32_t>(role.size))
    return {"rank 0 was started as the first of " + std::to_string(role.size) + " ranks, " + rank +
                " as one of " + std::to_string(greeting.size) +
                ": the number of ranks (WORLD_SIZE) must be the same everywhere",
            true};
  if (greeting.rank == 0)
    return {"there is already a rank 0: each process must have a different RANK"};
  if (greeting.rank >= greeting.size)
    return {"a rank must be less than the number of ranks", true};
  // A rank that ended may have been restarted.
  if (greeting.kind != Greeting::Join)
    return {};
  if (const PeerConnection &connection = connectedRanks.connections[greeting.rank];
      connection.isOpen() && !isClosed(connection.channel->socket()))
    return {"there is already a " + rank + ": each process must have a different RANK", true};
  return {};
}

/// Address of the other end, without the port.
std::string peerAddress(int socket) {
  sockaddr_storage storage;
  socklen_t size = sizeof(storage);
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&storage), &size) != 0)
    return "an unknown address";
  std::string text = Address::of(reinterpret_cast<sockaddr *>(&storage)).text();
  return text.substr(0, text.rfind(':'));
}

PeerConnection connectionOf(Socket socket, const ProcessInfo &self, uint64_t host,
                            int64_t process) {
  bool isNear = host == self.host;
  std::string address = isNear ? "" : peerAddress(socket.get());
  return {std::make_unique<MessageSocket>(socket.release()), PeerProcess(process, isNear),
          std::move(address)};
}

/// Checks all connected ranks. Returns false after one of them has failed and was reported.
bool checkAll(const Role &role, ConnectedRanks &connectedRanks) {
  for (int rank = 1; rank < role.size; ++rank) {
    PeerConnection &connection = connectedRanks.connections[rank];
    if (!connection.isConnected())
      continue;
    bool hasReported = false;
    std::string what = connection.check(graceForOthers, role.judgesSilence,
                                        [&](MessageSocket::MessageType type, std::string_view) {
                                          hasReported |= type == MessageSocket::MessageType::Failed;
                                        });
    if (hasReported)
      LaunchMonitor::noteFailure();
    else if (!what.empty())
      reportAtStart(role.key, rank, what, connection.process);
    if (hasReported || !what.empty()) {
      connectedRanks.reason =
          "rank " + std::to_string(rank) + (hasReported ? " has printed an error" : " " + what);
      return false;
    }
  }
  return true;
}

/// Ends the connected ranks, because the run cannot start. Rank 0 reports the reason.
bool giveUp(ConnectedRanks &connectedRanks) {
  for (PeerConnection &connection : connectedRanks.connections)
    if (connection.isOpen())
      connection.channel->send(MessageSocket::MessageType::Failed);
  return false;
}

/// Message to each rank when all have connected.
std::string tableOf(const ConnectedRanks &connectedRanks) {
  std::string table(reinterpret_cast<const char *>(connectedRanks.nonce.data()),
                    connectedRanks.nonce.size());
  return table.append(reinterpret_cast<const char *>(connectedRanks.processes.data()),
                      connectedRanks.processes.size() * sizeof(ProcessInfo));
}

bool sendTable(const Role &role, ConnectedRanks &connectedRanks, Timeout &deadline) {
  std::string table = tableOf(connectedRanks);
  for (int rank = 1; rank < role.size; ++rank) {
    MessageSocket &channel = *connectedRanks.connections[rank].channel;
    for (size_t at = 0; at < table.size(); at += MessageSocket::longest)
      channel.send(MessageSocket::MessageType::Table,
                   std::string_view(table).substr(at, MessageSocket::longest));
    while (channel.hasUnsent() && !deadline.isOver()) {
      if (!checkAll(role, connectedRanks))
        return false;
      pollfd polled{channel.socket(), POLLOUT, 0};
      poll(&polled, 1, 100);
    }
  }
  return true;
}

} // namespace

double startTimeout(double timeout) {
  constexpr double longest = 300;
  return timeout > 0 ? std::min(timeout, longest) : longest;
}

std::vector<Watchdog::Member> ConnectedRanks::members() {
  std::vector<Watchdog::Member> members(processes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    members[i].process = processes[i].process;
    members[i].host = processes[i].host;
    if (i >= connections.size() || !connections[i].isConnected())
      continue;
    members[i].address = peerAddress(connections[i].channel->socket());
    members[i].channel = std::move(connections[i].channel);
  }
  return members;
}

int ConnectedRanks::ranksOnHost(int rank) const {
  return static_cast<int>(
      std::count_if(processes.begin(), processes.end(), [&](const ProcessInfo &sender) {
        return sender.host == processes[rank].host;
      }));
}

int ConnectedRanks::coresOnHost(int rank) const {
  uint8_t cores[sizeof(ProcessInfo::cores)] = {};
  for (const ProcessInfo &sender : processes)
    for (size_t i = 0; sender.host == processes[rank].host && i < sizeof(cores); ++i)
      cores[i] |= sender.cores[i];
  int count = 0;
  for (uint8_t byte : cores)
    count += static_cast<int>(std::bitset<8>(byte).count());
  return std::max(count, 1);
}

bool acceptRanks(const Role &role, const ProcessInfo &self, Socket listener,
                 const std::string &where, Timeout &deadline, ConnectedRanks &connectedRanks,
                 std::string &error) {
  error.clear();
  connectedRanks.connections.resize(role.size);
  connectedRanks.processes.resize(role.size);
  connectedRanks.processes[0] = self;
  if (getrandom(connectedRanks.nonce.data(), connectedRanks.nonce.size(), 0) !=
      static_cast<ssize_t>(connectedRanks.nonce.size())) {
    error = "the system provides no random numbers";
    return false;
  }
  auto server = std::make_unique<RendezvousServer>(std::move(listener));
  std::string refused;
  std::map<int, Timeout> notTakingPart;
  Timeout quiet(secondsUntilNote);
  bool hasNoted = false;
  auto failStart = [&] {
    connectedRanks.server = std::move(server);
    return giveUp(connectedRanks);
  };
  for (;;) {
    if (LaunchMonitor::endsProcess()) {
      connectedRanks.reason = LaunchMonitor::hasReported() ? "rank 0 has printed an error"
                                                           : "rank 0 has received SIGTERM";
      return failStart();
    }
    if (!checkAll(role, connectedRanks))
      return failStart();
    for (auto &[rank, grace] : notTakingPart)
      if (!connectedRanks.connections[rank].isOpen() && grace.isOver()) {
        error = "rank " + std::to_string(rank) + " was started with " + flagsOfAbsent +
                " and takes no part in the run; start all ranks with the same flags";
        connectedRanks.ended = rank;
        return failStart();
      }
    std::vector<int> absent;
    for (int rank = 1; rank < role.size; ++rank)
      if (!connectedRanks.connections[rank].isOpen())
        absent.push_back(rank);
    if (absent.empty())
      break;
    if (deadline.isOver()) {
      error = listOf(absent) + (absent.size() == 1 ? " has" : " have") + " not connected to " +
              where + " within " + secondsOf(deadline);
      if (!refused.empty())
        error += "; rank 0 refused " + refused;
      if (std::string strangers = server->describeStrangers(); !strangers.empty())
        error += "; " + strangers;
      return giveUp(connectedRanks);
    }
    if (quiet.isOver() && !std::exchange(hasNoted, true))
      printDiagnostic("note", "rank 0 waits for " + listOf(absent) + " at " + where +
                                  " for up to " + secondsOf(deadline) +
                                  (absent.size() == 1
                                       ? ": it has not started yet, or has ended; see its output"
                                       : ": they have not started yet, or have ended; see their "
                                         "output"));
    Greeting greeting;
    Socket socket;
    if (!server->next(greeting, socket))
      continue;
    auto [why, isFatal] = objection(role, greeting, connectedRanks);
    GreetingReply reply = replyOf(self, why);
    Timeout limit(5, &deadline);
    bool answered = writeAll(socket.get(), &reply, sizeof(reply), limit);
    if (isFatal) {
      error = "a process that connected to " + where + " as rank " + std::to_string(greeting.rank) +
              " was refused: " + why;
      return failStart();
    }
    if (!why.empty()) {
      refused = "rank " + std::to_string(greeting.rank) + " of " + std::to_string(greeting.size) +
                " (" + why + ")";
      continue;
    }
    if (greeting.kind == Greeting::Absent)
      notTakingPart.insert_or_assign(greeting.rank, Timeout(graceForAbsent));
    if (greeting.kind == Greeting::Failed) {
      // A launcher ends all processes as soon as this one has ended; the rank prints first.
      for (Timeout grace(1); answered && !isClosed(socket.get()) && !grace.isOver();)
        poll(nullptr, 0, 20);
      LaunchMonitor::noteFailure();
      connectedRanks.ended = static_cast<int>(greeting.rank);
      connectedRanks.reason = "rank " + std::to_string(greeting.rank) + " has printed an error";
      return failStart();
    }
    if (!answered || greeting.kind != Greeting::Join)
      continue;
    connectedRanks.processes[greeting.rank] = greeting.sender;
    connectedRanks.connections[greeting.rank] =
        connectionOf(std::move(socket), self, greeting.sender.host, greeting.sender.process);
  }
  return sendTable(role, connectedRanks, deadline) || giveUp(connectedRanks);
}

void refuseLate(const Role &role, ConnectedRanks &connectedRanks, const std::string &error) {
  if (!connectedRanks.server)
    return;
  std::vector<bool> informed(role.size);
  informed[0] = true;
  for (int rank = 1; rank < role.size; ++rank)
    informed[rank] = rank == connectedRanks.ended || connectedRanks.connections[rank].isConnected();
  GreetingReply reply = replyOf(
      connectedRanks.processes[0],
      "the run has ended: " + (connectedRanks.reason.empty() ? error : connectedRanks.reason));
  informRanks(role, *connectedRanks.server, std::move(informed), reply, graceForLate);
}

bool joinRendezvous(const Role &role, const ProcessInfo &self, const std::string &where,
                    const std::function<std::vector<Address>(std::string &)> &find,
                    Timeout &deadline, ConnectedRanks &connectedRanks, std::string &error) {
  Greeting greeting = makeGreeting(role, Greeting::Join, self, {});
  Socket socket;
  GreetingReply reply;
  std::string reason = "no reply";
  std::optional<Timeout> closed, absence;
  Timeout quiet(secondsUntilNote);
  bool wasOpen = false, hasNoted = false;
  for (int pause = 20;; pause = std::min(2 * pause, 500)) {
    bool isAnswered = false, isOpen = false;
    std::vector<Address> addresses = find(reason);
    for (const Address &address : addresses) {
      isAnswered = ask(address, greeting, deadline, socket, reply, reason);
      isOpen |= static_cast<bool>(socket);
      if (isAnswered)
        break;
    }
    if (isAnswered && reply.answer != GreetingReply::IsAbsent)
      break;
    if (LaunchMonitor::endsProcess()) {
      if (Timeout limit(1); LaunchMonitor::hasReported())
        announceEnd(role, addresses, EarlyEnd::Failed, limit);
      return false;
    }
    if (isAnswered && !absence)
      absence.emplace(graceForAbsent);
    if (absence && absence->isOver()) {
      error = "rank 0 at " + where + " was started with " + flagsOfAbsent +
              " and takes no part in the run; start all ranks with the same flags";
      return false;
    }
    // A rank 0 that listened and no longer listens has ended.
    wasOpen |= isOpen;
    if (isOpen || !wasOpen || absence)
      closed.reset();
    else if (!closed)
      closed.emplace(graceForRestart);
    else if (closed->isOver()) {
      reportAtStart(role.key, 0,
                    "has ended before all ranks were connected: nothing listens at " + where +
                        " any more; see the output of rank 0",
                    PeerProcess());
      error.clear();
      return false;
    }
    if (quiet.isOver() && !deadline.isOver() && !std::exchange(hasNoted, true) &&
        claimMessage(role.key, "rank 0 is awaited"))
      printDiagnostic("note", "rank " + std::to_string(role.rank) + " waits for rank 0 at " +
                                  where + " for up to " + secondsOf(deadline) + " (" + reason +
                                  "): rank 0 has not started yet, or has ended; see its output");
    if (deadline.isOver()) {
      error = "cannot reach rank 0 at " + where + " within " + secondsOf(deadline) + " (" + reason +
              ")";
      return false;
    }
    poll(nullptr, 0, pause);
  }
  if (reply.answer != GreetingReply::Welcome) {
    // One rank of each host reports it.
    error = claimMessage(role.key, reply.reason)
                ? "rank 0 at " + where + " refuses this rank: " + reply.reason
                : "";
    return false;
  }

  error.clear();
  PeerConnection first = connectionOf(std::move(socket), self, reply.host, reply.process);
  connectedRanks.processes.resize(role.size);
  const size_t expected =
      connectedRanks.nonce.size() + connectedRanks.processes.size() * sizeof(ProcessInfo);
  std::string table;
  bool hasFailed = false;
  // Rank 0 reports missing ranks, if it can.
  constexpr double graceForRankZero = 0.7;
  Timeout grace(graceForRankZero);
  while (table.size() < expected) {
    std::string what = first.check(/*grace=*/0, role.judgesSilence,
                                   [&](MessageSocket::MessageType type, std::string_view text) {
                                     if (type == MessageSocket::MessageType::Table)
                                       table += text;
                                     hasFailed |= type == MessageSocket::MessageType::Failed;
                                   });
    if (hasFailed)
      LaunchMonitor::noteFailure();
    if (!hasFailed && LaunchMonitor::endsProcess() && LaunchMonitor::hasReported())
      first.channel->send(MessageSocket::MessageType::Failed);
    if (hasFailed || LaunchMonitor::endsProcess())
      return false;
    if (table.size() >= expected)
      break;
    if (!what.empty()) {
      reportAtStart(role.key, 0, what, first.process);
      return false;
    }
    if (bool isOver = deadline.isOver(); grace.isOver(/*counts=*/isOver)) {
      error =
          "not all ranks have connected to rank 0 at " + where + " within " + secondsOf(deadline);
      return false;
    }
    pollfd polled{first.channel->socket(), POLLIN, 0};
    poll(&polled, 1, 100);
  }
  std::memcpy(connectedRanks.nonce.data(), table.data(), connectedRanks.nonce.size());
  std::memcpy(connectedRanks.processes.data(), table.data() + connectedRanks.nonce.size(),
              connectedRanks.processes.size() * sizeof(ProcessInfo));
  for (ProcessInfo &sender : connectedRanks.processes) {
    sender.numAddresses = std::min<uint32_t>(sender.numAddresses, std::size(sender.addresses));
    sender.hostName[sizeof(sender.hostName) - 1] = 0;
  }
  connectedRanks.connections.push_back(std::move(first));
  return true;
}

} // namespace tpc::rt
