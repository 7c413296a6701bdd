//===- Rendezvous.cpp - Start-up connection of all processes --------------===//

#include "transport/sockets/Rendezvous.h"
#include "core/LaunchWatch.h"
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

std::string secondsOf(const Timeout &patience) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", patience.seconds());
  return text;
}

/// Reason to reject a greeting, as text for both sides.
struct Objection {
  std::string why; ///< empty: accepted
  /// It is of the same run, which therefore cannot start.
  bool isFatal = false;
};

Objection objection(const Role &role, const Greeting &greeting, const Meeting &meeting) {
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
  if (greeting.rank == 0)
    return {"there is a rank 0 already: each process needs a RANK of its own"};
  if (greeting.rank >= greeting.size)
    return {"there is no such rank to wait for", true};
  // An ended rank may have been restarted.
  if (const Arrival &arrival = meeting.arrivals[greeting.rank];
      arrival.isOpen() && !isClosed(arrival.line->socket()))
    return {"there is a " + rank + " already: each process needs a RANK of its own", true};
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

Arrival arrivalOf(Socket socket, const Attendee &self, uint64_t host, int64_t process) {
  bool isNear = host == self.host;
  std::string address = isNear ? "" : peerAddress(socket.get());
  return {std::make_unique<MessageSocket>(socket.release()), PeerProcess(process, isNear),
          std::move(address)};
}

Answer answerOf(const Attendee &self, const std::string &why) {
  Answer answer(why);
  answer.host = self.host;
  answer.process = self.process;
  return answer;
}

/// Checks all connected ranks. False after one of them failed and was reported.
bool lookAtAll(const Role &role, Meeting &meeting) {
  for (int rank = 1; rank < role.size; ++rank)
    if (Arrival &arrival = meeting.arrivals[rank]; arrival.hasCome())
      if (std::string what = arrival.look(graceForOthers, role.judgesSilence); !what.empty()) {
        reportAtStart(role.key, rank, what, arrival.process);
        return false;
      }
  return true;
}

/// The run cannot start: rank 0 reports why, and the connected ranks end.
bool giveUp(Meeting &meeting) {
  for (Arrival &arrival : meeting.arrivals)
    if (arrival.isOpen())
      arrival.line->say(MessageSocket::Word::Failed);
  return false;
}

/// Message to each rank when all have connected.
std::string tableOf(const Meeting &meeting) {
  std::string table(reinterpret_cast<const char *>(meeting.nonce.data()), meeting.nonce.size());
  return table.append(reinterpret_cast<const char *>(meeting.attendees.data()),
                      meeting.attendees.size() * sizeof(Attendee));
}

bool sendTable(const Role &role, Meeting &meeting, Timeout &patience) {
  std::string table = tableOf(meeting);
  for (int rank = 1; rank < role.size; ++rank) {
    MessageSocket &line = *meeting.arrivals[rank].line;
    for (size_t at = 0; at < table.size(); at += MessageSocket::longest)
      line.say(MessageSocket::Word::Table,
               std::string_view(table).substr(at, MessageSocket::longest));
    while (line.hasUnsent() && !patience.isOver()) {
      if (!lookAtAll(role, meeting))
        return false;
      pollfd polled{line.socket(), POLLOUT, 0};
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

std::vector<Watch::Member> Meeting::members() {
  std::vector<Watch::Member> members(attendees.size());
  for (size_t i = 0; i < attendees.size(); ++i) {
    members[i].process = attendees[i].process;
    members[i].host = attendees[i].host;
    if (i >= arrivals.size() || !arrivals[i].hasCome())
      continue;
    members[i].address = peerAddress(arrivals[i].line->socket());
    members[i].line = std::move(arrivals[i].line);
  }
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
                Timeout &patience, Meeting &meeting, std::string &error) {
  error.clear();
  meeting.arrivals.resize(role.size);
  meeting.attendees.resize(role.size);
  meeting.attendees[0] = self;
  if (getrandom(meeting.nonce.data(), meeting.nonce.size(), 0) !=
      static_cast<ssize_t>(meeting.nonce.size())) {
    error = "the system gives no random numbers";
    return false;
  }
  auto reception = std::make_unique<Reception>(std::move(listener));
  std::string refused;
  for (;;) {
    if (LaunchWatch::endsProcess() || !lookAtAll(role, meeting))
      return giveUp(meeting);
    std::vector<int> absent;
    for (int rank = 1; rank < role.size; ++rank)
      if (!meeting.arrivals[rank].isOpen())
        absent.push_back(rank);
    if (absent.empty())
      break;
    if (patience.isOver()) {
      error = listOf(absent) + (absent.size() == 1 ? " has" : " have") + " not come to " + where +
              " within " + secondsOf(patience);
      if (!refused.empty())
        error += "; refused was " + refused;
      if (std::string strangers = reception->describeStrangers(); !strangers.empty())
        error += "; " + strangers;
      return giveUp(meeting);
    }
    Greeting greeting;
    Socket socket;
    if (!reception->next(greeting, socket))
      continue;
    auto [why, isFatal] = objection(role, greeting, meeting);
    Answer answer = answerOf(self, why);
    Timeout some(5, &patience);
    bool answered = writeAll(socket.get(), &answer, sizeof(answer), some);
    if (isFatal) {
      error = "a process that came to " + where + " as rank " + std::to_string(greeting.rank) +
              " was refused: " + why;
      meeting.reception = std::move(reception);
      return giveUp(meeting);
    }
    if (!why.empty()) {
      refused = "rank " + std::to_string(greeting.rank) + " of " + std::to_string(greeting.size) +
                " (" + why + ")";
      continue;
    }
    if (!answered)
      continue;
    meeting.attendees[greeting.rank] = greeting.attendee;
    meeting.arrivals[greeting.rank] =
        arrivalOf(std::move(socket), self, greeting.attendee.host, greeting.attendee.process);
  }
  return sendTable(role, meeting, patience) || giveUp(meeting);
}

void refuseLate(const Role &role, Meeting &meeting, const std::string &error) {
  if (!meeting.reception)
    return;
  std::vector<bool> told(role.size);
  told[0] = true;
  for (int rank = 1; rank < role.size; ++rank)
    told[rank] = meeting.arrivals[rank].hasCome();
  Answer answer = answerOf(meeting.attendees[0], "the run has ended: " + error);
  Timeout patience(4);
  while (std::count(told.begin(), told.end(), false) && !patience.isOver()) {
    Greeting greeting;
    Socket socket;
    if (!meeting.reception->next(greeting, socket) || greeting.run != fnv1a(role.run))
      continue;
    Timeout some(1, &patience);
    writeAll(socket.get(), &answer, sizeof(answer), some);
    if (greeting.rank < told.size())
      told[greeting.rank] = true;
  }
}

namespace {

/// Sends a greeting to the listener at `address`. False, with the reason, if it is not rank 0; a
/// rejection counts as an answer.
bool ask(const Address &address, const Greeting &greeting, Timeout &patience, Socket &socket,
         Answer &answer, std::string &reason) {
  socket = connectTo(address, patience, reason);
  if (!socket)
    return false;
  Timeout some(10, &patience);
  auto *bytes = reinterpret_cast<char *>(&answer);
  constexpr size_t first = sizeof(answer.magic);
  bool isHeard = writeAll(socket.get(), &greeting, sizeof(greeting), some) &&
                 readAll(socket.get(), bytes, first, some);
  if (isHeard && !std::memcmp(answer.magic, Answer::expectedMagic, first) &&
      readAll(socket.get(), bytes + first, sizeof(answer) - first, some)) {
    answer.reason[sizeof(answer.reason) - 1] = 0;
    return true;
  }
  const std::string other = address.text() + ": what listens there is not rank 0 of a tpc program";
  if (!some.isOver())
    reason = other;
  else if (reason != other) // an earlier attempt, with more time, gives more detail
    reason = address.text() + ": a process listens there and says nothing: rank 0 is stopped, or "
                              "that is another program";
  return false;
}

} // namespace

std::string findOtherRankZero(const Role &role, const Attendee &self, const Address &address) {
  Timeout patience(1);
  Socket socket;
  Answer answer;
  std::string reason;
  if (!ask(address, greet(role, Greeting::Attend, self, {}), patience, socket, answer, reason))
    return "";
  return "another process" +
         (answer.host == self.host ? " (" + std::to_string(answer.process) + ")" : "") +
         " is rank 0 there already";
}

bool attend(const Role &role, const Attendee &self, const std::string &where,
            const std::function<std::vector<Address>(std::string &)> &find, Timeout &patience,
            Meeting &meeting, std::string &error) {
  Greeting greeting = greet(role, Greeting::Attend, self, {});
  Socket socket;
  Answer answer;
  std::string reason = "nobody has answered";
  for (int pause = 20;; pause = std::min(2 * pause, 500)) {
    bool isAnswered = false;
    for (const Address &address : find(reason))
      if ((isAnswered = ask(address, greeting, patience, socket, answer, reason)))
        break;
    if (isAnswered)
      break;
    if (patience.isOver()) {
      error = "cannot reach rank 0 at " + where + " within " + secondsOf(patience) + " (" + reason +
              ")";
      return false;
    }
    poll(nullptr, 0, pause);
  }
  if (!answer.welcome) {
    error = "rank 0 at " + where + " refuses this rank: " + answer.reason;
    return false;
  }

  error.clear();
  Arrival first = arrivalOf(std::move(socket), self, answer.host, answer.process);
  meeting.attendees.resize(role.size);
  const size_t expected = meeting.nonce.size() + meeting.attendees.size() * sizeof(Attendee);
  std::string table;
  bool hasFailed = false;
  // Rank 0 reports missing ranks, if it can.
  constexpr double graceForRankZero = 0.7;
  Timeout grace(graceForRankZero);
  while (table.size() < expected) {
    std::string what = first.look(/*grace=*/0, role.judgesSilence,
                                  [&](MessageSocket::Word word, std::string_view text) {
                                    if (word == MessageSocket::Word::Table)
                                      table += text;
                                    hasFailed |= word == MessageSocket::Word::Failed;
                                  });
    if (hasFailed)
      LaunchWatch::noteFailure();
    if (hasFailed || LaunchWatch::endsProcess())
      return false;
    if (table.size() >= expected)
      break;
    if (!what.empty()) {
      reportAtStart(role.key, 0, what, first.process);
      return false;
    }
    if (bool isOver = patience.isOver(); grace.isOver(/*counts=*/isOver)) {
      error = "not all ranks have come to rank 0 at " + where + " within " + secondsOf(patience);
      return false;
    }
    pollfd polled{first.line->socket(), POLLIN, 0};
    poll(&polled, 1, 100);
  }
  std::memcpy(meeting.nonce.data(), table.data(), meeting.nonce.size());
  std::memcpy(meeting.attendees.data(), table.data() + meeting.nonce.size(),
              meeting.attendees.size() * sizeof(Attendee));
  for (Attendee &attendee : meeting.attendees) {
    attendee.numAddresses =
        std::min<uint32_t>(attendee.numAddresses, std::size(attendee.addresses));
    attendee.hostName[sizeof(attendee.hostName) - 1] = 0;
  }
  meeting.arrivals.push_back(std::move(first));
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
  // The last address, for processes of this host, is always kept.
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

bool connectAll(const Role &role, const Meeting &meeting, Socket listener, Timeout &patience,
                std::vector<Socket> &sockets, std::string &error) {
  sockets.resize(role.size);
  const Attendee &self = meeting.attendees[role.rank];
  Greeting mine = greet(role, Greeting::Data, self, meeting.nonce);
  // Rank 0 accepts without waiting, rank 1 waits only for rank 0, and so on.
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
          !std::memcmp(answer.magic, Answer::expectedMagic, sizeof(answer.magic))) {
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
    if (patience.isOver()) {
      std::vector<int> ranks;
      for (int peer = role.rank + 1; peer < role.size; ++peer)
        if (!sockets[peer])
          ranks.push_back(peer);
      error = listOf(ranks) + (ranks.size() == 1 ? " has" : " have") + " not connected to rank " +
              std::to_string(role.rank) + " within " + secondsOf(patience) +
              "; TPC_INTERFACE chooses the network interface that ranks listen on";
      return false;
    }
    if (!reception.next(greeting, socket))
      continue;
    int peer = static_cast<int>(std::min<uint32_t>(greeting.rank, INT32_MAX));
    bool expected = greeting.kind == Greeting::Data && greeting.nonce == meeting.nonce &&
                    peer > role.rank && peer < role.size && !sockets[peer];
    Answer answer(expected ? "" : "it is not expected here");
    Timeout some(5, &patience);
    if (!writeAll(socket.get(), &answer, sizeof(answer), some) || !expected)
      continue;
    sockets[peer] = std::move(socket);
    --absent;
  }
  return true;
}

} // namespace tpc::rt
