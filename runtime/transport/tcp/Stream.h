//===- Stream.h - Ordered byte stream between two ranks -------------------===//

#ifndef TPC_RT_TRANSPORT_TCP_STREAM_H
#define TPC_RT_TRANSPORT_TCP_STREAM_H

#include "transport/sockets/Socket.h"
#include <cstdint>
#include <span>
#include <string>
#include <sys/uio.h>

namespace tpc::rt {

/// Nonblocking byte stream. After its end, reads and writes transfer nothing.
class Stream {
public:
  virtual ~Stream() = default;
  /// Returns the number of transferred bytes; 0 if none.
  virtual int64_t write(std::span<const iovec> parts) = 0;
  virtual int64_t read(std::span<const iovec> parts) = 0;
  /// Whether the other side has closed the stream; detected by a read or a write.
  virtual bool hasEnded() const = 0;

  /// Returns the evidence that the network between the two hosts is cut; empty if there is none.
  /// Call while this rank waits for the other.
  virtual std::string findCut() { return ""; }

  /// Sets the socket and the events to poll in order to sleep until the stream is writable
  /// (`toWrite`) or readable (`toRead`). Returns false if it already is.
  virtual bool prepareSleep(bool toWrite, bool toRead, int &socket, short &events) = 0;
  /// Call after the sleep; `ready`: whether the socket is ready.
  virtual void wake(bool ready) = 0;
};

/// Stream over a socket.
class SocketStream final : public Stream {
public:
  /// `here`, `there`: names of the two hosts. `mustFindCuts`: enables keepalive probes if the ends
  /// have different addresses; without them, a rank waits until the network is back.
  explicit SocketStream(Socket socket, std::string here = "", std::string there = "",
                        bool mustFindCuts = false);
  std::string findCut() override;
  int64_t write(std::span<const iovec> parts) override;
  int64_t read(std::span<const iovec> parts) override;
  bool hasEnded() const override { return ended; }
  bool prepareSleep(bool toWrite, bool toRead, int &descriptor, short &events) override;
  void wake(bool) override {}

private:
  /// Checks the result of a system call, and returns the number of transferred bytes.
  int64_t judge(ssize_t result, bool reading);

  Socket socket;
  const bool findsCuts;
  const std::string here, there;
  bool ended = false;
  int reason = 0; ///< errno of the end
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_TCP_STREAM_H
