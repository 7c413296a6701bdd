//===- RendezvousServer.cpp - Acceptance of ranks at rank 0's listener ----===//

#include "transport/sockets/RendezvousServer.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <type_traits>
#include <unistd.h>

namespace tpc::rt {

static_assert(std::is_trivially_copyable_v<Greeting> &&
              std::is_trivially_copyable_v<GreetingReply>);
static_assert(sizeof(Greeting) == 8 + 4 * 4 + 8 + 64 + 16 + sizeof(ProcessInfo) &&
                  sizeof(GreetingReply) == 256,
              "must have no padding, whose bytes would be undefined");

namespace {

/// Maximum number of connections without a complete greeting.
constexpr size_t maxPending = 256;

std::string firstLine(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

} // namespace

ProcessInfo ProcessInfo::self() {
  ProcessInfo self;
  // Processes in different containers of one machine cannot see each other's process numbers.
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  std::string identity = name + firstLine("/proc/sys/kernel/random/boot_id");
  ssize_t length = readlink("/proc/self/ns/pid", name, sizeof(name));
  identity.append(name, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  self.host = spreadBits(fnv1a(identity));
  self.process = getpid();
  gethostname(self.hostName, sizeof(self.hostName) - 1);
  cpu_set_t cores;
  static_assert(sizeof(cores) == sizeof(self.cores));
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  std::memcpy(self.cores, &cores, sizeof(cores));
  return self;
}

GreetingReply::GreetingReply(const std::string &why) {
  std::memcpy(magic, expectedMagic, sizeof(magic));
  answer = why.empty() ? Welcome : Rejected;
  std::memcpy(reason, why.data(), std::min(why.size(), sizeof(reason) - 1));
}

void RendezvousServer::accept() {
  for (;;) {
    sockaddr_storage storage;
    socklen_t size = sizeof(storage);
    Socket socket(accept4(listener.get(), reinterpret_cast<sockaddr *>(&storage), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket)
      return;
    int yes = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (pending.size() == maxPending) {
      ignore(pending.front());
      pending.pop_front();
    }
    PendingConnection &connection = pending.emplace_back();
    connection.socket = std::move(socket);
    connection.from = Address::of(reinterpret_cast<sockaddr *>(&storage)).text();
  }
}

void RendezvousServer::ignore(const PendingConnection &connection) {
  ++strangers;
  lastStranger = connection.from;
}

bool RendezvousServer::next(Greeting &greeting, Socket &socket) {
  for (bool hasWaited = false;; hasWaited = true) {
    for (auto connection = pending.begin(); connection != pending.end();) {
      auto *bytes = reinterpret_cast<char *>(&connection->greeting);
      ssize_t numBytes = recv(connection->socket.get(), bytes + connection->received,
                              sizeof(Greeting) - connection->received, MSG_DONTWAIT);
      bool later = numBytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
      if (numBytes > 0)
        connection->received += static_cast<size_t>(numBytes);
      size_t magic = std::min(connection->received, sizeof(Greeting::expectedMagic));
      bool known = std::memcmp(bytes, Greeting::expectedMagic, magic) == 0;
      if (known && connection->received == sizeof(Greeting) &&
          connection->greeting.bytes == sizeof(Greeting)) {
        greeting = connection->greeting;
        greeting.runName[sizeof(greeting.runName) - 1] = 0;
        greeting.sender.hostName[sizeof(greeting.sender.hostName) - 1] = 0;
        greeting.sender.numAddresses =
            std::min<uint32_t>(greeting.sender.numAddresses, std::size(greeting.sender.addresses));
        socket = std::move(connection->socket);
        pending.erase(connection);
        return true;
      }
      if (!known || connection->received == sizeof(Greeting) || (numBytes <= 0 && !later) ||
          connection->deadline.isOver()) {
        ignore(*connection);
        connection = pending.erase(connection);
      } else {
        ++connection;
      }
    }
    if (hasWaited)
      return false;
    std::vector<pollfd> polled = {{listener.get(), POLLIN, 0}};
    for (const PendingConnection &connection : pending)
      polled.push_back({connection.socket.get(), POLLIN, 0});
    poll(polled.data(), polled.size(), 100);
    accept();
  }
}

std::string RendezvousServer::describeStrangers() const {
  if (!strangers)
    return "";
  return std::to_string(strangers) +
         (strangers == 1 ? " unknown connection was ignored, from "
                         : " unknown connections were ignored, the last from ") +
         lastStranger;
}

} // namespace tpc::rt
