//===- Socket.h - Sockets, addresses, and waits for them ------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_SOCKET_H
#define TPC_RT_TRANSPORT_SOCKETS_SOCKET_H

#include "core/Timeout.h"
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace tpc::rt {

/// Owns a socket.
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

/// IPv4 or IPv6 address, in the form that ranks send to each other.
struct Address {
  uint16_t family = 0, port = 0; ///< port in host byte order
  uint32_t scope = 0;
  uint8_t bytes[16] = {};

  static Address of(const sockaddr *address);
  /// Writes the address to `storage`. Returns the number of bytes written; 0 if the address is
  /// invalid.
  socklen_t fill(sockaddr_storage &storage) const;
  bool isLoopback() const;
  /// "10.0.0.1:29501", "[fe80::1]:29501"
  std::string text() const;
};

/// Resolves a host name or number. Returns an empty list, with the reason, if there is no address
/// or the name service does not respond within the timeout.
std::vector<Address> resolve(const std::string &host, int port, Timeout &deadline,
                             std::string &error);
/// Returns the addresses at which other hosts may reach this one, loopback last. If `interface` is
/// the name or an address of an interface, returns only its addresses. Returns an empty list, with
/// the reason, if there is none.
std::vector<Address> localAddresses(const std::string &interface, std::string &error);

/// Listens on `address`, and sets it to the listening address. With port 0 the system chooses a
/// port.
Socket listenOn(Address &address, int backlog, std::string &error);
/// Returns the wildcard address of all interfaces, for IPv6 and IPv4 if the system supports IPv6.
Address anyAddress(int port);
/// Connects to `address`. Waits for at most 3 seconds.
Socket connectTo(const Address &address, Timeout &deadline, std::string &error);

/// Reads all bytes. Returns false if the other side is gone, or after the timeout, even if single
/// bytes arrive.
bool readAll(int socket, void *data, size_t bytes, Timeout &deadline);
bool writeAll(int socket, const void *data, size_t bytes, Timeout &deadline);
/// Whether the other side has closed the socket. Reads nothing.
bool isClosed(int socket);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_SOCKET_H
