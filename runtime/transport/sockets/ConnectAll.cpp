//===- ConnectAll.cpp - Connections between all pairs of processes --------===//

#include "transport/sockets/Rendezvous.h"
#include "transport/sockets/RendezvousReply.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tpc::rt {

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
  constexpr size_t maxAddresses = std::size(ProcessInfo().addresses);
  if (addresses.size() > maxAddresses)
    addresses.erase(addresses.begin() + maxAddresses - 1, addresses.end() - 1);
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
  Greeting mine = makeGreeting(role, Greeting::Data, self, connectedRanks.nonce);
  // Rank 0 accepts without waiting, rank 1 waits only for rank 0, and so on.
  for (int peer = 0; peer < role.rank; ++peer) {
    const ProcessInfo &other = connectedRanks.processes[peer];
    bool sameHost = other.host == self.host;
    std::vector<Address> addresses(other.addresses, other.addresses + other.numAddresses);
    if (sameHost)
      std::reverse(addresses.begin(), addresses.end());
    std::string reason = "it has no address";
    for (const Address &address : addresses) {
      if (address.isLoopback() && !sameHost)
        continue;
      Socket socket = connectTo(address, deadline, reason);
      if (!socket)
        continue;
      GreetingReply reply;
      if (writeAll(socket.get(), &mine, sizeof(mine), deadline) &&
          readAll(socket.get(), &reply, sizeof(reply), deadline) &&
          reply.answer == GreetingReply::Welcome &&
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
    Timeout replyTimeout(5, &deadline);
    if (!writeAll(socket.get(), &reply, sizeof(reply), replyTimeout) || !expected)
      continue;
    sockets[peer] = std::move(socket);
    --absent;
  }
  return true;
}

} // namespace tpc::rt
