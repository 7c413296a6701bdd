//===- SocketStream.cpp - Ordered byte stream over a socket ---------------===//

#include "transport/tcp/Stream.h"
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

namespace tpc::rt {

namespace {

/// Seconds before the first keepalive probe of an idle link, seconds between probes, and number of
/// probes.
constexpr int secondsIdle = 1, secondsBetween = 1, probes = 3;
constexpr unsigned cutAfter = 4000; ///< milliseconds without an acknowledgment of sent data

/// "10.0.0.1:4711"
std::string nameOf(int socket, decltype(getpeername) *get) {
  sockaddr_storage storage;
  socklen_t size = sizeof(storage);
  return get(socket, reinterpret_cast<sockaddr *>(&storage), &size) == 0
             ? Address::of(reinterpret_cast<sockaddr *>(&storage)).text()
             : "?";
}

/// Whether both ends have the same address, and so are on one host. Host names are not unique:
/// containers and network namespaces may share one.
bool isWithinHost(int socket) {
  std::string here = nameOf(socket, getsockname), there = nameOf(socket, getpeername);
  return here.substr(0, here.rfind(':')) == there.substr(0, there.rfind(':'));
}

} // namespace

SocketStream::SocketStream(Socket theSocket, std::string hereName, std::string thereName,
                           bool mustFindCuts)
    : socket(std::move(theSocket)), findsCuts(mustFindCuts && !isWithinHost(socket.get())),
      here(findsCuts ? hereName + " (" + nameOf(socket.get(), getsockname) + ")" : ""),
      there(findsCuts ? thereName + " (" + nameOf(socket.get(), getpeername) + ")" : "") {
  if (!findsCuts)
    return;
  int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &secondsIdle, sizeof(secondsIdle));
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &secondsBetween, sizeof(secondsBetween));
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

std::string SocketStream::findCut() {
  if (!findsCuts)
    return "";
  bool isCut = ended && (reason == ETIMEDOUT || reason == EHOSTUNREACH || reason == ENETUNREACH);
  // Probes are sent on idle links only. TCP_USER_TIMEOUT would also end a link to a rank that
  // computes and therefore reads nothing.
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (!ended && getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
    isCut = info.tcpi_last_ack_recv >= cutAfter &&
            ((info.tcpi_unacked > 0 && info.tcpi_retransmits >= 2) || info.tcpi_probes >= 2);
  return isCut ? "nothing was received from " + there + " to " + here + " for 4 s" : "";
}

int64_t SocketStream::judge(ssize_t result, bool reading) {
  if (result > 0)
    return result;
  if ((result == 0 && reading) ||
      (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    ended = true;
    reason = result < 0 ? errno : 0;
  }
  return 0;
}

static msghdr headerOf(std::span<const iovec> parts) {
  msghdr header{};
  header.msg_iov = const_cast<iovec *>(parts.data());
  header.msg_iovlen = parts.size();
  return header;
}

int64_t SocketStream::write(std::span<const iovec> parts) {
  msghdr header = headerOf(parts);
  return ended ? 0 : judge(sendmsg(socket.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL), false);
}

int64_t SocketStream::read(std::span<const iovec> parts) {
  msghdr header = headerOf(parts);
  return ended ? 0 : judge(recvmsg(socket.get(), &header, MSG_DONTWAIT), true);
}

bool SocketStream::prepareSleep(bool toWrite, bool toRead, int &descriptor, short &events) {
  descriptor = socket.get();
  events = static_cast<short>((toWrite ? POLLOUT : 0) | (toRead ? POLLIN : 0));
  return true;
}

} // namespace tpc::rt
