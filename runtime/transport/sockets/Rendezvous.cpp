//===- Rendezvous.cpp - Start-up connection of all processes --------------===//

#include "transport/sockets/Rendezvous.h"
#include "core/LaunchMonitor.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/random.h>

namespace tpc::rt {

namespace {

Greeting greet(const Role &role, Greeting::Kind kind, const ProcessInfo &self, const Nonce &nonce) {
  Greeting greeting;
  std::memcpy(greeting.magic, Greeting::expectedMagic, sizeof(greeting.magic));
  greeting.kind = kind;
  greeting.rank = static_cast<uint32_t>(role.rank);
  greeting.size = static_cast<uint32_t>(role.size);
  greeting.run = fnv1a(role.run);
  std::memcpy(greeting.runName, role.run.data(),
              std::min(role.run.size(), sizeof(greeting.runName) - 1));
  greeting.nonce = nonce;
  greeting.sender = self;
  return greeting;
}

std::string nameOf(const std::string &run) {
  return run.empty() ? "no id" : "the id '" + run + "'";
}

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 16; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text + (ranks.size() > 16 ? ", …" : "");
}

std::string secondsOf(const Timeout &deadline) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", deadline.seconds());
  return text;
}

/// Reason to reject a greeting, as text for both sides.
struct Objection {
  std::string why; ///< empty: accepted
  /// The greeting is of the same run, which therefore cannot start.
  bool isFatal = false;
};

Objection objection(const Role &role, const Greeting &greeting,
                    const ConnectedRanks &connectedRanks) {
  std::string rank = "rank " + std::to_string(greeting.rank);
  if (greeting.kind != Greeting::Join)
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

GreetingReply replyOf(const ProcessInfo &self, const std::string &why) {
  GreetingReply reply(why);
  reply.host = self.host;
  reply.process = self.process;
  return reply;
}

/// Checks all connected ranks. Returns false after one of them has failed and was reported.
bool checkAll(const Role &role, ConnectedRanks &connectedRanks) {
  for (int rank = 1; rank < role.size; ++rank)
    if (PeerConnection &connection = connectedRanks.connections[rank]; connection.isConnected())
      if (std::string what = connection.check(graceForOthers, role.judgesSilence); !what.empty()) {
        reportAtStart(role.key, rank, what, connection.process);
        return false;
      }
  return true;
}

/// Tells the connected ranks to end, because the run cannot start. Rank 0 reports the reason.
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
  for (;;) {
    if (LaunchMonitor::endsProcess() || !checkAll(role, connectedRanks))
      return giveUp(connectedRanks);
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
    Greeting greeting;
    Socket socket;
    if (!server->next(greeting, socket))
      continue;
    auto [why, isFatal] = objection(role, greeting, connectedRanks);
    GreetingReply reply = replyOf(self, why);
    Timeout some(5, &deadline);
    bool answered = writeAll(socket.get(), &reply, sizeof(reply), some);
    if (isFatal) {
      error = "a process that connected to " + where + " as rank " + std::to_string(greeting.rank) +
              " was refused: " + why;
      connectedRanks.server = std::move(server);
      return giveUp(connectedRanks);
    }
    if (!why.empty()) {
      refused = "rank " + std::to_string(greeting.rank) + " of " + std::to_string(greeting.size) +
                " (" + why + ")";
      continue;
    }
    if (!answered)
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
    informed[rank] = connectedRanks.connections[rank].isConnected();
  GreetingReply reply = replyOf(connectedRanks.processes[0], "the run has ended: " + error);
  Timeout deadline(4);
  while (std::count(informed.begin(), informed.end(), false) && !deadline.isOver()) {
    Greeting greeting;
    Socket socket;
    if (!connectedRanks.server->next(greeting, socket) || greeting.run != fnv1a(role.run))
      continue;
    Timeout some(1, &deadline);
    writeAll(socket.get(), &reply, sizeof(reply), some);
    if (greeting.rank < informed.size())
      informed[greeting.rank] = true;
  }
}

namespace {

/// Sends a greeting to the listener at `address`. Returns false, with the reason, if no rank 0
/// replies there. A rejection counts as a reply.
bool ask(const Address &address, const Greeting &greeting, Timeout &deadline, Socket &socket,
         GreetingReply &reply, std::string &reason) {
  socket = connectTo(address, deadline, reason);
  if (!socket)
    return false;
  Timeout some(10, &deadline);
  auto *bytes = reinterpret_cast<char *>(&reply);
  constexpr size_t first = sizeof(reply.magic);
  bool isHeard = writeAll(socket.get(), &greeting, sizeof(greeting), some) &&
                 readAll(socket.get(), bytes, first, some);
  if (isHeard && !std::memcmp(reply.magic, GreetingReply::expectedMagic, first) &&
      readAll(socket.get(), bytes + first, sizeof(reply) - first, some)) {
    reply.reason[sizeof(reply.reason) - 1] = 0;
    return true;
  }
  const std::string other =
      address.text() + ": the process that listens there is not rank 0 of a tpc program";
  if (!some.isOver())
    reason = other;
  else if (reason != other) // an earlier attempt with more time has more detail
    reason = address.text() +
             ": a process listens there and does not respond: rank 0 is stopped, or "
             "that is another program";
  return false;
}

} // namespace

std::string findOtherRankZero(const Role &role, const ProcessInfo &self, const Address &address) {
  Timeout deadline(1);
  Socket socket;
  GreetingReply reply;
  std::string reason;
  if (!ask(address, greet(role, Greeting::Join, self, {}), deadline, socket, reply, reason))
    return "";
  return "another process" +
         (reply.host == self.host ? " (" + std::to_string(reply.process) + ")" : "") +
         " is rank 0 there already";
}

bool joinRendezvous(const Role &role, const ProcessInfo &self, const std::string &where,
                    const std::function<std::vector<Address>(std::string &)> &find,
                    Timeout &deadline, ConnectedRanks &connectedRanks, std::string &error) {
  Greeting greeting = greet(role, Greeting::Join, self, {});
  Socket socket;
  GreetingReply reply;
  std::string reason = "no reply";
  for (int pause = 20;; pause = std::min(2 * pause, 500)) {
    bool isAnswered = false;
    for (const Address &address : find(reason))
      if ((isAnswered = ask(address, greeting, deadline, socket, reply, reason)))
        break;
    if (isAnswered)
      break;
    if (deadline.isOver()) {
      error = "cannot reach rank 0 at " + where + " within " + secondsOf(deadline) + " (" + reason +
              ")";
      return false;
    }
    poll(nullptr, 0, pause);
  }
  if (!reply.welcome) {
    error = "rank 0 at " + where + " refuses this rank: " + reply.reason;
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

Socket listenForOthers(bool onlyHere, ProcessInfo &self, std::string &error) {
  const char *interface = std::getenv("TPC_INTERFACE");
  std::vector<Address> addresses = localAddresses(interface ? interface : "", error);
  if (addresses.empty())
    return Socket();
  bool chosen = interface && *interface;
  if (onlyHere && !chosen)
    std::erase_if(addresses, [](const Address &address) { return !address.isLoopback(); });
  Address address = (chosen || onlyHere) && !addresses.empty() ? addresses[0] : anyAddress(0);
  if (chosen || onlyHere)
    addresses.resize(std::min<size_t>(addresses.size(), 1));
  Socket listener = listenOn(address, 128, error);
  if (!listener)
    error = "cannot listen on " + address.text() + ": " + error;
  // Keeps the last address, which is for processes of this host.
  constexpr size_t most = std::size(ProcessInfo().addresses);
  if (addresses.size() > most)
    addresses.erase(addresses.begin() + most - 1, addresses.end() - 1);
  self.numAddresses = static_cast<uint32_t>(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    self.addresses[i] = addresses[i];
    self.addresses[i].port = address.port;
  }
  return listener;
}

bool connectAll(const Role &role, const ConnectedRanks &connectedRanks, Socket listener,
                Timeout &deadline, std::vector<Socket> &sockets, std::string &error) {
  sockets.resize(role.size);
  const ProcessInfo &self = connectedRanks.processes[role.rank];
  Greeting mine = greet(role, Greeting::Data, self, connectedRanks.nonce);
  // Rank 0 accepts without waiting, rank 1 waits only for rank 0, and so on.
  for (int peer = 0; peer < role.rank; ++peer) {
    const ProcessInfo &other = connectedRanks.processes[peer];
    bool near = other.host == self.host;
    std::vector<Address> addresses(other.addresses, other.addresses + other.numAddresses);
    if (near)
      std::reverse(addresses.begin(), addresses.end());
    std::string reason = "it has no address";
    for (const Address &address : addresses) {
      if (address.isLoopback() && !near)
        continue;
      Socket socket = connectTo(address, deadline, reason);
      if (!socket)
        continue;
      GreetingReply reply;
      if (writeAll(socket.get(), &mine, sizeof(mine), deadline) &&
          readAll(socket.get(), &reply, sizeof(reply), deadline) && reply.welcome &&
          !std::memcmp(reply.magic, GreetingReply::expectedMagic, sizeof(reply.magic))) {
        sockets[peer] = std::move(socket);
        break;
      }
      reason = address.text() + ": that is not rank " + std::to_string(peer) + ", or it has ended";
    }
    if (!sockets[peer]) {
      error = "cannot connect to rank " + std::to_string(peer) + " (" + reason +
              "); TPC_INTERFACE chooses the network interface that ranks listen on";
      return false;
    }
  }
  RendezvousServer server(std::move(listener));
  for (int absent = role.size - 1 - role.rank; absent > 0;) {
    Greeting greeting;
    Socket socket;
    if (deadline.isOver()) {
      std::vector<int> ranks;
      for (int peer = role.rank + 1; peer < role.size; ++peer)
        if (!sockets[peer])
          ranks.push_back(peer);
      error = listOf(ranks) + (ranks.size() == 1 ? " has" : " have") + " not connected to rank " +
              std::to_string(role.rank) + " within " + secondsOf(deadline) +
              "; TPC_INTERFACE chooses the network interface that ranks listen on";
      return false;
    }
    if (!server.next(greeting, socket))
      continue;
    int peer = static_cast<int>(std::min<uint32_t>(greeting.rank, INT32_MAX));
    bool expected = greeting.kind == Greeting::Data && greeting.nonce == connectedRanks.nonce &&
                    peer > role.rank && peer < role.size && !sockets[peer];
    GreetingReply reply(expected ? "" : "no connection of this rank is expected");
    Timeout some(5, &deadline);
    if (!writeAll(socket.get(), &reply, sizeof(reply), some) || !expected)
      continue;
    sockets[peer] = std::move(socket);
    --absent;
  }
  return true;
}

} // namespace tpc::rt
