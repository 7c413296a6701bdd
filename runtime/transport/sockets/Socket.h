//===- Socket.h - sockets, addresses, and waiting for them ----------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_SOCKET_H
#define TPC_RT_TRANSPORT_SOCKETS_SOCKET_H

#include "core/Timeout.h"
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace tpc::rt {

/// Closes what it owns.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(other.release()) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }
  int release() { return std::exchange(descriptor, -1); }

private:
  int descriptor = -1;
};

/// Of IPv4 or IPv6, as it is sent.
struct Address {
  uint16_t family = 0, port = 0; ///< the port in the host's order
  uint32_t scope = 0;
  uint8_t bytes[16] = {};

  static Address of(const sockaddr *address);
  /// The bytes of `storage` that are used; 0 if this is no address.
  socklen_t fill(sockaddr_storage &storage) const;
  bool isLoopback() const;
  /// "10.0.0.1:29501", "[fe80::1]:29501"
  std::string text() const;
};

/// The addresses of a host name or number; empty, with a reason, if there are none, or if the name
/// service has not answered when patience is over.
std::vector<Address> resolve(const std::string &host, int port, Timeout &patience,
                             std::string &error);
/// The addresses of this host at which others may reach it, loopback last; with the name or number
/// of an interface only its own. Empty, with a reason, if there is none.
std::vector<Address> localAddresses(const std::string &interface, std::string &error);

/// With port 0 the system chooses one. `address` becomes what it listens on.
Socket listenOn(Address &address, int backlog, std::string &error);
/// Of all interfaces, over both families where the system can.
Address anyAddress(int port);
/// Does not wait longer than some seconds for an answer.
Socket connectTo(const Address &address, Timeout &patience, std::string &error);

/// All bytes, or false: the other side has gone, or patience is over, however often a byte comes.
bool readAll(int socket, void *data, size_t bytes, Timeout &patience);
bool writeAll(int socket, const void *data, size_t bytes, Timeout &patience);
/// Whether the other side has closed it. Nothing is read.
bool isClosed(int socket);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_SOCKET_H
