//===- Attendance.h - ranks that have come, before all have ---------------===//
//
// Until all ranks have come, rank 0 and those that have come exchange beats over their lines, so
// that one that ends or is frozen meanwhile is named at once. After that Watch.h takes the lines.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_ATTENDANCE_H
#define TPC_RT_TRANSPORT_SOCKETS_ATTENDANCE_H

#include "core/MessageSocket.h"
#include "core/PeerState.h"
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tpc::rt {

/// One line and the process at its other end.
class Arrival {
public:
  Arrival() = default;
  /// `address`: of the other end, for messages; empty if it is on this host.
  Arrival(std::unique_ptr<MessageSocket> line, const PeerProcess &process, std::string address)
      : line(std::move(line)), process(process), address(std::move(address)) {}

  bool hasCome() const { return line != nullptr; }
  bool isOpen() const { return line && line->isOpen(); }

  /// Takes what has come, sends a beat when it is time, and judges. Empty, or what has happened to
  /// the rank: "is frozen: …". One that has ended may be started again for a moment, `grace`
  /// seconds. `judgesSilence`: false exempts the frozen.
  std::string look(double grace, bool judgesSilence,
                   const std::function<void(MessageSocket::Word, std::string_view)> &hear = {});

  std::unique_ptr<MessageSocket> line;
  PeerProcess process;

private:
  using Clock = std::chrono::steady_clock;
  std::string address;
  Silence silence;
  double gone = 0;
  Clock::time_point last = Clock::now(), lastHeartbeat{};
};

/// Prints what has happened to `rank` at the start, unless another process of this host does, and
/// kills its process if that is stopped. `key`: Launcher::key.
void reportAtStart(const std::string &key, int rank, const std::string &what,
                   const PeerProcess &process);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_ATTENDANCE_H
