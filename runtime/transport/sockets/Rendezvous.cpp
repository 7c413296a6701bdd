//===- Rendezvous.cpp - how processes find each other ---------------------===//

#include "transport/sockets/Rendezvous.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/random.h>

namespace tpc::rt {

namespace {

Greeting greet(const Role &role, Greeting::Kind kind, const Attendee &self, const Nonce &nonce) {
  Greeting greeting;
  std::memcpy(greeting.magic, Greeting::expectedMagic, sizeof(greeting.magic));
  greeting.kind = kind;
  greeting.rank = static_cast<uint32_t>(role.rank);
  greeting.size = static_cast<uint32_t>(role.size);
  greeting.run = fnv1a(role.run);
  std::memcpy(greeting.runName, role.run.data(),
              std::min(role.run.size(), sizeof(greeting.runName) - 1));
  greeting.nonce = nonce;
  greeting.attendee = self;
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

std::string secondsOf(const Patience &patience) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", patience.seconds());
  return text;
}

/// Why a greeting is not one that rank 0 waits for, in words for both of them.
struct Objection {
  std::string why; ///< empty: it is
  /// It is of the same run, which therefore cannot come together.
  bool isFatal = false;
};

Objection objection(const Role &role, const Greeting &greeting, Meeting &meeting) {
  std::string rank = "rank " + std::to_string(greeting.rank);
  if (greeting.kind != Greeting::Attend)
    return {"rank 0 is still waiting for others"};
  if (greeting.run != fnv1a(role.run))
    return {"it belongs to another run: rank 0 has " + nameOf(role.run) + ", " + rank + " " +
            nameOf(greeting.runName)};
  if (greeting.size != static_cast<uint32_t>(role.size))
    return {"rank 0 was started as the first of " + std::to_string(role.size) + " ranks, " + rank +
                " as one of " + std::to_string(greeting.size) +
                ": the number of ranks (WORLD_SIZE) must be the same everywhere",
            true};
  if (greeting.rank == 0 || greeting.rank >= greeting.size)
    return {"there is no such rank to wait for", true};
  Socket &line = meeting.lines[greeting.rank];
  // Who has ended meanwhile may be started again.
  if (line && isClosed(line.get()))
    line = Socket();
  if (line)
    return {"there is a " + rank + " already: each process needs a RANK of its own", true};
  return {};
}

} // namespace

double startTimeout(double timeout) {
  constexpr double longest = 300;
  return timeout > 0 ? std::min(timeout, longest) : longest;
}

std::vector<Watch::Member> Meeting::members() {
  std::vector<Watch::Member> members;
  for (size_t i = 0; i < attendees.size(); ++i)
    members.push_back(
        {i < lines.size() ? lines[i].release() : -1, attendees[i].process, attendees[i].host});
  return members;
}

int Meeting::ranksOnHost(int rank) const {
  return static_cast<int>(
      std::count_if(attendees.begin(), attendees.end(), [&](const Attendee &attendee) {
        return attendee.host == attendees[rank].host;
      }));
}

int Meeting::coresOnHost(int rank) const {
  uint8_t cores[sizeof(Attendee::cores)] = {};
  for (const Attendee &attendee : attendees)
    for (size_t i = 0; attendee.host == attendees[rank].host && i < sizeof(cores); ++i)
      cores[i] |= attendee.cores[i];
  int count = 0;
  for (uint8_t byte : cores)
    count += static_cast<int>(std::bitset<8>(byte).count());
  return std::max(count, 1);
}

bool receiveAll(const Role &role, const Attendee &self, Socket listener, const std::string &where,
                Patience &patience, Meeting &meeting, std::string &error) {
  meeting.lines.resize(role.size);
  meeting.attendees.resize(role.size);
  meeting.attendees[0] = self;
  if (getrandom(meeting.nonce.data(), meeting.nonce.size(), 0) !=
      static_cast<ssize_t>(meeting.nonce.size())) {
    error = "the system gives no random numbers";
    return false;
  }
  Reception reception(std::move(listener));
  std::string refused;
  for (;;) {
    std::vector<int> absent;
    for (int rank = 1; rank < role.size; ++rank) {
      if (meeting.lines[rank] && isClosed(meeting.lines[rank].get()))
        meeting.lines[rank] = Socket();
      if (!meeting.lines[rank])
        absent.push_back(rank);
    }
    if (absent.empty())
      break;
    Greeting greeting;
    Socket socket;
    if (!reception.next(greeting, socket, patience)) {
      error = listOf(absent) + (absent.size() == 1 ? " has" : " have") + " not come to " + where +
              " within " + secondsOf(patience);
      if (!refused.empty())
        error += "; refused was " + refused;
      if (std::string strangers = reception.describeStrangers(); !strangers.empty())
        error += "; " + strangers;
      return false;
    }
    auto [why, isFatal] = objection(role, greeting, meeting);
    Answer answer(why);
    Patience some(5);
    bool answered = writeAll(socket.get(), &answer, sizeof(answer), some);
    if (isFatal) {
      error = "a process that came to " + where + " as rank " + std::to_string(greeting.rank) +
              " was refused: " + why;
      return false;
    }
    if (!why.empty()) {
      refused = "rank " + std::to_string(greeting.rank) + " of " + std::to_string(greeting.size) +
                " (" + why + ")";
      continue;
    }
    if (!answered)
      continue;
    meeting.attendees[greeting.rank] = greeting.attendee;
    meeting.lines[greeting.rank] = std::move(socket);
  }
  for (int rank = 1; rank < role.size; ++rank)
    if (!writeAll(meeting.lines[rank].get(), meeting.nonce.data(), meeting.nonce.size(),
                  patience) ||
        !writeAll(meeting.lines[rank].get(), meeting.attendees.data(),
                  meeting.attendees.size() * sizeof(Attendee), patience)) {
      error = "rank " + std::to_string(rank) + " has ended at the start";
      return false;
    }
  return true;
}

bool attend(const Role &role, const Attendee &self, const std::string &where,
            const std::function<std::vector<Address>(std::string &)> &find, Patience &patience,
            Meeting &meeting, std::string &error) {
  Greeting greeting = greet(role, Greeting::Attend, self, {});
  Socket line;
  std::string reason = "nobody has answered";
  for (int pause = 20; !line; pause = std::min(2 * pause, 500)) {
    for (const Address &address : find(reason)) {
      line = connectTo(address, patience, reason);
      if (!line)
        continue;
      Answer answer;
      Patience some(10);
      if (writeAll(line.get(), &greeting, sizeof(greeting), some) &&
          readAll(line.get(), &answer, sizeof(answer), some) &&
          !std::memcmp(answer.magic, Greeting::expectedMagic, sizeof(answer.magic))) {
        if (answer.welcome)
          break;
        answer.reason[sizeof(answer.reason) - 1] = 0;
        error = "rank 0 at " + where + " refuses this rank: " + answer.reason;
        return false;
      }
      line = Socket();
      reason = address.text() + ": who listens there is no rank of a tpc program";
    }
    if (line)
      break;
    if (patience.isOver()) {
      error = "cannot reach rank 0 at " + where + " within " + secondsOf(patience) + " (" + reason +
              ")";
      return false;
    }
    poll(nullptr, 0, pause);
  }
  meeting.attendees.resize(role.size);
  bool told = readAll(line.get(), meeting.nonce.data(), meeting.nonce.size(), patience) &&
              readAll(line.get(), meeting.attendees.data(), role.size * sizeof(Attendee), patience);
  if (!told) {
    error = isClosed(line.get())
                ? ""
                : "rank 0 at " + where + " says nothing for " + secondsOf(patience);
    return false;
  }
  for (Attendee &attendee : meeting.attendees)
    attendee.numAddresses =
        std::min<uint32_t>(attendee.numAddresses, std::size(attendee.addresses));
  meeting.lines.push_back(std::move(line));
  return true;
}

Socket listenForOthers(bool onlyHere, Attendee &self, std::string &error) {
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
  // The last, for processes of this host, is not left out.
  constexpr size_t most = std::size(Attendee().addresses);
  if (addresses.size() > most)
    addresses.erase(addresses.begin() + most - 1, addresses.end() - 1);
  self.numAddresses = static_cast<uint32_t>(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    self.addresses[i] = addresses[i];
    self.addresses[i].port = address.port;
  }
  return listener;
}

bool connectAll(const Role &role, const Meeting &meeting, Socket listener, Patience &patience,
                std::vector<Socket> &sockets, std::string &error) {
  sockets.resize(role.size);
  const Attendee &self = meeting.attendees[role.rank];
  Greeting mine = greet(role, Greeting::Data, self, meeting.nonce);
  // Rank 0 waits for nobody before it accepts, rank 1 for rank 0 only, and so on.
  for (int peer = 0; peer < role.rank; ++peer) {
    const Attendee &other = meeting.attendees[peer];
    bool near = other.host == self.host;
    std::vector<Address> addresses(other.addresses, other.addresses + other.numAddresses);
    if (near)
      std::reverse(addresses.begin(), addresses.end());
    std::string reason = "it has no address";
    for (const Address &address : addresses) {
      if (address.isLoopback() && !near)
        continue;
      Socket socket = connectTo(address, patience, reason);
      if (!socket)
        continue;
      Answer answer;
      if (writeAll(socket.get(), &mine, sizeof(mine), patience) &&
          readAll(socket.get(), &answer, sizeof(answer), patience) && answer.welcome &&
          !std::memcmp(answer.magic, Greeting::expectedMagic, sizeof(answer.magic))) {
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
  Reception reception(std::move(listener));
  for (int absent = role.size - 1 - role.rank; absent > 0;) {
    Greeting greeting;
    Socket socket;
    if (!reception.next(greeting, socket, patience)) {
      std::vector<int> ranks;
      for (int peer = role.rank + 1; peer < role.size; ++peer)
        if (!sockets[peer])
          ranks.push_back(peer);
      error = listOf(ranks) + (ranks.size() == 1 ? " has" : " have") + " not connected to rank " +
              std::to_string(role.rank) + " within " + secondsOf(patience) +
              "; TPC_INTERFACE chooses the network interface that ranks listen on";
      return false;
    }
    int peer = static_cast<int>(std::min<uint32_t>(greeting.rank, INT32_MAX));
    bool expected = greeting.kind == Greeting::Data && greeting.nonce == meeting.nonce &&
                    peer > role.rank && peer < role.size && !sockets[peer];
    Answer answer(expected ? "" : "it is not expected here");
    Patience some(5);
    if (!writeAll(socket.get(), &answer, sizeof(answer), some) || !expected)
      continue;
    sockets[peer] = std::move(socket);
    --absent;
  }
  return true;
}

} // namespace tpc::rt
