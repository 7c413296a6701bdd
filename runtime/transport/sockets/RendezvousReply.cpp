//===- RendezvousReply.cpp - Greetings of ranks, and rank 0's replies -----===//

#include "transport/sockets/RendezvousReply.h"
#include "core/LaunchMonitor.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tpc::rt {

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

Greeting makeGreeting(const Role &role, Greeting::Kind kind, const ProcessInfo &self,
                      const Nonce &nonce) {
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

GreetingReply replyOf(const ProcessInfo &self, const std::string &why) {
  GreetingReply reply(why);
  reply.host = self.host;
  reply.process = self.process;
  return reply;
}

void informRanks(const Role &role, RendezvousServer &server, std::vector<bool> informed,
                 const GreetingReply &reply, double seconds) {
  LaunchMonitor::delaysEnd(true);
  Timeout deadline(seconds);
  while (std::count(informed.begin(), informed.end(), false) && !deadline.isOver()) {
    Greeting greeting;
    Socket socket;
    if (!server.next(greeting, socket) || greeting.run != fnv1a(role.run))
      continue;
    GreetingReply answer = reply;
    if (greeting.kind != Greeting::Join && reply.answer == GreetingReply::IsAbsent)
      answer.answer = GreetingReply::Welcome;
    Timeout limit(1, &deadline);
    writeAll(socket.get(), &answer, sizeof(answer), limit);
    if (greeting.rank < informed.size())
      informed[greeting.rank] = true;
  }
  LaunchMonitor::delaysEnd(false);
}

namespace {

/// Returns the reply of a rank 0 that runs nothing.
GreetingReply absentReply(const ProcessInfo &self) {
  GreetingReply reply = replyOf(self, "it was started with " + std::string(flagsOfAbsent));
  reply.answer = GreetingReply::IsAbsent;
  return reply;
}

} // namespace

void refuseAll(const Role &role, Socket listener, EarlyEnd why, double seconds) {
  RendezvousServer server(std::move(listener));
  std::vector<bool> informed(role.size);
  informed[0] = true;
  ProcessInfo self = ProcessInfo::self();
  informRanks(role, server, std::move(informed),
              why == EarlyEnd::Absent
                  ? absentReply(self)
                  : replyOf(self, "the run has ended: rank 0 has printed an error"),
              seconds);
}

bool ask(const Address &address, const Greeting &greeting, Timeout &deadline, Socket &socket,
         GreetingReply &reply, std::string &reason) {
  socket = connectTo(address, deadline, reason);
  if (!socket)
    return false;
  Timeout limit(10, &deadline);
  auto *bytes = reinterpret_cast<char *>(&reply);
  constexpr size_t first = sizeof(reply.magic);
  bool isHeard = writeAll(socket.get(), &greeting, sizeof(greeting), limit) &&
                 readAll(socket.get(), bytes, first, limit);
  if (isHeard && !std::memcmp(reply.magic, GreetingReply::expectedMagic, first) &&
      readAll(socket.get(), bytes + first, sizeof(reply) - first, limit)) {
    reply.reason[sizeof(reply.reason) - 1] = 0;
    return true;
  }
  const std::string other =
      address.text() + ": the process that listens there is not rank 0 of a tpc program";
  if (!limit.isOver())
    reason = other;
  else if (reason != other) // an earlier attempt with more time has more detail
    reason = address.text() +
             ": a process listens there and does not respond: rank 0 is stopped, or "
             "that is another program";
  return false;
}

std::string findOtherRankZero(const Role &role, const ProcessInfo &self, const Address &address) {
  Timeout deadline(1);
  Socket socket;
  GreetingReply reply;
  std::string reason;
  if (!ask(address, makeGreeting(role, Greeting::Join, self, {}), deadline, socket, reply, reason))
    return "";
  return "another process" +
         (reply.host == self.host ? " (" + std::to_string(reply.process) + ")" : "") +
         " is rank 0 there already";
}

RankZero announceEnd(const Role &role, const std::vector<Address> &addresses, EarlyEnd why,
                     Timeout &deadline) {
  Greeting greeting = makeGreeting(
      role, why == EarlyEnd::Failed ? Greeting::Failed : Greeting::Absent, ProcessInfo::self(), {});
  Socket socket;
  GreetingReply reply;
  std::string reason;
  for (const Address &address : addresses)
    if (ask(address, greeting, deadline, socket, reply, reason)) {
      socket.release(); // closed by the system when the process ends
      return reply.answer == GreetingReply::Welcome ? RankZero::Waits : RankZero::Failed;
    }
  return RankZero::Unknown;
}

} // namespace tpc::rt
