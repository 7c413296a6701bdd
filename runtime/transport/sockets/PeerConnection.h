//===- PeerConnection.h - Connections to ranks during start-up ------------===//
//
// Until all ranks have connected, rank 0 and the connected ranks exchange heartbeats, so that a
// rank that ends or freezes is named at once. After that Watchdog.h takes over the sockets.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_PEERCONNECTION_H
#define TPC_RT_TRANSPORT_SOCKETS_PEERCONNECTION_H

#include "core/MessageSocket.h"
#include "core/PeerState.h"
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tpc::rt {

/// A socket and the process at its other end.
class PeerConnection {
public:
  PeerConnection() = default;
  /// `address`: address of the other end, for error messages; empty if that end is on this host.
  PeerConnection(std::unique_ptr<MessageSocket> channel, const PeerProcess &process,
                 std::string address)
      : channel(std::move(channel)), process(process), address(std::move(address)) {}

  bool isConnected() const { return channel != nullptr; }
  bool isOpen() const { return channel && channel->isOpen(); }

  /// Reads received messages, sends a heartbeat when due, and checks the peer. Returns an empty
  /// string, or the error of the peer: "is frozen: …". A peer that ended is no error for `grace`
  /// seconds, in which it may be restarted. `judgesSilence`: false disables the check for frozen
  /// ranks.
  std::string
  check(double grace, bool judgesSilence,
        const std::function<void(MessageSocket::MessageType, std::string_view)> &receive = {});

  std::unique_ptr<MessageSocket> channel;
  PeerProcess process;

private:
  using Clock = std::chrono::steady_clock;
  std::string address;
  Silence silence;
  double gone = 0;
  Clock::time_point last = Clock::now(), lastHeartbeat{};
};

/// Prints the start-up error `what` of `rank`, unless another process of this host does. Kills the
/// process of `rank` if that process is stopped. `key`: Launcher::key.
void reportAtStart(const std::string &key, int rank, const std::string &what,
                   const PeerProcess &process);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_PEERCONNECTION_H
