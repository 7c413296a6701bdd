//===- MessageClaim.cpp - Deduplication of an error message on one host ---===//

#include "core/MessageClaim.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace tpc::rt {

MessageClaim::~MessageClaim() {
  if (descriptor >= 0)
    close(descriptor);
}

bool MessageClaim::claim(const std::string &name) {
  if (descriptor >= 0)
    return true;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (bind(descriptor, reinterpret_cast<sockaddr *>(&address), size) == 0 || errno != EADDRINUSE)
    return true;
  close(descriptor);
  descriptor = -1;
  return false;
}

bool claimMessage(const std::string &run, const std::string &subject) {
  // Never freed, so that processes that detect the same error later find the name in use.
  auto *messageClaim = new MessageClaim;
  return messageClaim->claim("tpc-start-" + std::to_string(getuid()) + "-" +
                             toHexDigits(fnv1a(run + "\n" + subject)));
}

} // namespace tpc::rt
