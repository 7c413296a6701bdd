//===- MessageSocket.cpp - Nonblocking socket for short messages ----------===//

#include "core/MessageSocket.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tpc::rt {

namespace {

struct Head {
  uint32_t type, bytes;
};

} // namespace

MessageSocket::MessageSocket(int descriptor) : descriptor(descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void MessageSocket::close() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
  unsent.clear();
}

void MessageSocket::flush() {
  while (isOpen() && !unsent.empty()) {
    ssize_t sent = ::send(descriptor, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent > 0)
      unsent.erase(0, static_cast<size_t>(sent));
    else if (sent < 0 && errno == EINTR)
      continue;
    else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return;
    else
      // Messages that the other side sent before it ended are still readable: `receive` closes the
      // socket.
      return unsent.clear();
  }
}

void MessageSocket::send(MessageType type, std::string_view text) {
  flush();
  if (!isOpen() || (type == MessageType::Heartbeat && hasUnsent()))
    return;
  Head head{static_cast<uint32_t>(type), static_cast<uint32_t>(text.size())};
  unsent.append(reinterpret_cast<const char *>(&head), sizeof(head));
  unsent.append(text);
  flush();
}

bool MessageSocket::receive(const std::function<void(MessageType, std::string_view)> &fn) {
  flush();
  bool any = false, ended = false;
  while (isOpen() && !ended && received.size() < 64 * longest) {
    char buffer[4096];
    ssize_t bytes = ::recv(descriptor, buffer, sizeof(buffer), 0);
    if (bytes > 0)
      received.append(buffer, static_cast<size_t>(bytes));
    else if (bytes < 0 && errno == EINTR)
      continue;
    else if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    else
      ended = true;
  }
  for (size_t at = 0;;) {
    Head head;
    if (received.size() - at >= sizeof(head)) {
      std::memcpy(&head, received.data() + at, sizeof(head));
      if (head.bytes > longest) {
        ended = true;
      } else if (received.size() - at >= sizeof(head) + head.bytes) {
        any = true;
        std::string text = received.substr(at + sizeof(head), head.bytes);
        at += sizeof(head) + head.bytes;
        fn(MessageType(head.type), text);
        continue;
      }
    }
    received.erase(0, at);
    break;
  }
  if (ended)
    close();
  return any;
}

} // namespace tpc::rt
