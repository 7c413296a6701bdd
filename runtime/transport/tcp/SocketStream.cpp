//===- SocketStream.cpp - bytes in order, over a socket -------------------===//

#include "transport/tcp/Stream.h"
#include <cerrno>
#include <poll.h>

namespace tpc::rt {

int64_t SocketStream::judge(ssize_t result, bool reading) {
  if (result > 0)
    return result;
  if ((result == 0 && reading) ||
      (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
    ended = true;
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
