//===- Socket.cpp - Sockets, addresses, and waits for them ----------------===//

#include "transport/sockets/Socket.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace tpc::rt {

Socket::~Socket() {
  if (descriptor >= 0)
    close(descriptor);
}

Address Address::of(const sockaddr *address) {
  Address result;
  if (address && address->sa_family == AF_INET) {
    auto *v4 = reinterpret_cast<const sockaddr_in *>(address);
    result.family = AF_INET;
    result.port = ntohs(v4->sin_port);
    std::memcpy(result.bytes, &v4->sin_addr, 4);
  } else if (address && address->sa_family == AF_INET6) {
    auto *v6 = reinterpret_cast<const sockaddr_in6 *>(address);
    result.family = AF_INET6;
    result.port = ntohs(v6->sin6_port);
    result.scope = v6->sin6_scope_id;
    std::memcpy(result.bytes, &v6->sin6_addr, 16);
  }
  return result;
}

socklen_t Address::fill(sockaddr_storage &storage) const {
  std::memset(&storage, 0, sizeof(storage));
  if (family == AF_INET) {
    auto &v4 = reinterpret_cast<sockaddr_in &>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes, 4);
    return sizeof(v4);
  }
  if (family == AF_INET6) {
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = scope;
    std::memcpy(&v6.sin6_addr, bytes, 16);
    return sizeof(v6);
  }
  return 0;
}

bool Address::isLoopback() const {
  static const uint8_t six[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == AF_INET ? bytes[0] == 127 : std::memcmp(bytes, six, 16) == 0;
}

std::string Address::text() const {
  // Dual-stack sockets show IPv4 addresses as mapped IPv6 addresses.
  static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (family == AF_INET6 && !std::memcmp(bytes, mapped, sizeof(mapped))) {
    Address four = *this;
    four.family = AF_INET;
    std::memcpy(four.bytes, bytes + sizeof(mapped), 4);
    return four.text();
  }
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(family, bytes, text, sizeof(text));
  return (family == AF_INET6 ? "[" + std::string(text) + "]" : std::string(text)) + ":" +
         std::to_string(port);
}

namespace {

struct Lookup {
  std::vector<Address> addresses;
  std::string error;
};

/// Resolves with these `flags` of getaddrinfo.
Lookup lookUp(const std::string &host, int flags) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  Lookup result;
  if (int status = getaddrinfo(host.c_str(), nullptr, &hints, &list)) {
    result.error = "the host '" + host + "' is not known: " + gai_strerror(status);
    return result;
  }
  for (addrinfo *info = list; info; info = info->ai_next)
    if (Address address = Address::of(info->ai_addr); address.family)
      result.addresses.push_back(address);
  freeaddrinfo(list);
  if (result.addresses.empty())
    result.error = "the host '" + host + "' has no IPv4 or IPv6 address";
  return result;
}

} // namespace

std::vector<Address> resolve(const std::string &host, int port, Timeout &deadline,
                             std::string &error) {
  Lookup result = lookUp(host, AI_NUMERICHOST);
  if (result.addresses.empty()) {
    // An unresponsive name service may block its caller for longer than the deadline.
    auto task = std::make_shared<std::packaged_task<Lookup()>>([host] { return lookUp(host, 0); });
    std::future<Lookup> answer = task->get_future();
    std::thread([task] { (*task)(); }).detach();
    while (answer.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
      if (deadline.isOver()) {
        error = "the name service does not answer for the host '" + host + "'";
        return {};
      }
    result = answer.get();
  }
  for (Address &address : result.addresses)
    address.port = static_cast<uint16_t>(port);
  if (result.addresses.empty())
    error = result.error;
  return result.addresses;
}

std::vector<Address> localAddresses(const std::string &interface, std::string &error) {
  ifaddrs *list = nullptr;
  std::vector<Address> addresses;
  std::string names;
  if (getifaddrs(&list) != 0) {
    error = std::string("the network interfaces cannot be listed: ") + std::strerror(errno);
    return addresses;
  }
  for (ifaddrs *item = list; item; item = item->ifa_next) {
    Address address = Address::of(item->ifa_addr);
    if (!address.family || !(item->ifa_flags & IFF_UP))
      continue;
    std::string number = address.text();
    number = number.substr(0, number.rfind(':'));
    if (names.find(item->ifa_name) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(item->ifa_name);
    if (interface.empty() || interface == item->ifa_name || interface == number)
      addresses.push_back(address);
  }
  freeifaddrs(list);
  std::vector<Address> ordered;
  for (bool loopback : {false, true})
    for (int family : {AF_INET, AF_INET6})
      for (const Address &address : addresses)
        if (address.family == family && address.isLoopback() == loopback)
          ordered.push_back(address);
  addresses = ordered;
  if (addresses.empty())
    error = interface.empty() ? "this host has no network interface that is up"
                              : "TPC_INTERFACE=" + interface +
                                    ": this host has no such interface that is up; it has " + names;
  return addresses;
}

Address anyAddress(int port) {
  Address any;
  any.port = static_cast<uint16_t>(port);
  Socket probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  any.family = probe ? AF_INET6 : AF_INET;
  return any;
}

Socket listenOn(Address &address, int backlog, std::string &error) {
  sockaddr_storage storage;
  socklen_t size = address.fill(storage);
  Socket listener(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int yes = 1, no = 0;
  if (listener) {
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (address.family == AF_INET6)
      setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr *>(&storage), size) != 0 ||
      listen(listener.get(), backlog) != 0) {
    error = std::strerror(errno);
    return Socket();
  }
  size = sizeof(storage);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr *>(&storage), &size) == 0)
    address = Address::of(reinterpret_cast<sockaddr *>(&storage));
  return listener;
}

Socket connectTo(const Address &address, Timeout &deadline, std::string &error) {
  sockaddr_storage storage;
  socklen_t size = address.fill(storage);
  Socket result(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int problem = result ? 0 : errno;
  if (!problem && connect(result.get(), reinterpret_cast<sockaddr *>(&storage), size) != 0)
    problem = errno;
  if (problem == EINPROGRESS) {
    Timeout limit(3, &deadline);
    pollfd polled{result.get(), POLLOUT, 0};
    while (poll(&polled, 1, 100) <= 0 && !limit.isOver())
      ;
    socklen_t length = sizeof(problem);
    if (!polled.revents)
      problem = ETIMEDOUT;
    else if (getsockopt(result.get(), SOL_SOCKET, SO_ERROR, &problem, &length) != 0)
      problem = errno;
  }
  if (problem) {
    error = address.text() + ": " + std::strerror(problem);
    return Socket();
  }
  // A connection attempt to an ephemeral port may connect to itself.
  sockaddr_storage local;
  size = sizeof(local);
  if (getsockname(result.get(), reinterpret_cast<sockaddr *>(&local), &size) == 0 &&
      Address::of(reinterpret_cast<sockaddr *>(&local)).text() == address.text()) {
    error = address.text() + ": " + std::strerror(ECONNREFUSED);
    return Socket();
  }
  int yes = 1;
  setsockopt(result.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return result;
}

static void waitFor(int socket, short events) {
  pollfd polled{socket, events, 0};
  poll(&polled, 1, 100);
}

static bool isTemporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

bool readAll(int socket, void *data, size_t bytes, Timeout &deadline) {
  for (auto *at = static_cast<char *>(data); bytes;) {
    ssize_t received = recv(socket, at, bytes, MSG_DONTWAIT);
    if (received > 0) {
      at += received;
      bytes -= static_cast<size_t>(received);
    } else if (received == 0 || !isTemporary(errno)) {
      return false;
    } else {
      waitFor(socket, POLLIN);
    }
    if (bytes && deadline.isOver())
      return false;
  }
  return true;
}

bool writeAll(int socket, const void *data, size_t bytes, Timeout &deadline) {
  for (auto *at = static_cast<const char *>(data); bytes;) {
    ssize_t some = send(socket, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (some > 0) {
      at += some;
      bytes -= static_cast<size_t>(some);
    } else if (!isTemporary(errno)) {
      return false;
    } else {
      waitFor(socket, POLLOUT);
    }
    if (bytes && deadline.isOver())
      return false;
  }
  return true;
}

bool isClosed(int socket) {
  char byte;
  ssize_t some = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return some == 0 || (some < 0 && !isTemporary(errno));
}

} // namespace tpc::rt
