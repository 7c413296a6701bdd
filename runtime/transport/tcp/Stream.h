//===- Stream.h - bytes in order, between two ranks -----------------------===//

#ifndef TPC_RT_TRANSPORT_TCP_STREAM_H
#define TPC_RT_TRANSPORT_TCP_STREAM_H

#include "transport/sockets/Socket.h"
#include <cstdint>
#include <span>
#include <string>
#include <sys/uio.h>

namespace tpc::rt {

/// Nothing here waits. A stream that has ended takes and gives nothing any more.
class Stream {
public:
  virtual ~Stream() = default;
  /// How many of the bytes were taken, or came; 0 if none.
  virtual int64_t write(std::span<const iovec> parts) = 0;
  virtual int64_t read(std::span<const iovec> parts) = 0;
  /// Whether the other side has closed it; known after a read or a write.
  virtual bool hasEnded() const = 0;

  /// What shows that the network between the two hosts is cut; empty: nothing does. To be asked
  /// while this rank waits for the other.
  virtual std::string findCut() { return ""; }

  /// The socket that is to be polled, and for what, before one sleeps: until it can be written to,
  /// or read from, or both. False if that is so already.
  virtual bool prepareSleep(bool toWrite, bool toRead, int &socket, short &events) = 0;
  /// After sleep; `ready`: the socket is.
  virtual void wake(bool ready) = 0;
};

/// Over a socket.
class SocketStream final : public Stream {
public:
  /// `here`, `there`: names of the two hosts. `findsCuts`: the system probes the link while nothing
  /// is sent; without it, an interruption lasts until the network is back.
  explicit SocketStream(Socket socket, std::string here = "", std::string there = "",
                        bool findsCuts = false);
  std::string findCut() override;
  int64_t write(std::span<const iovec> parts) override;
  int64_t read(std::span<const iovec> parts) override;
  bool hasEnded() const override { return ended; }
  bool prepareSleep(bool toWrite, bool toRead, int &descriptor, short &events) override;
  void wake(bool) override {}

private:
  /// The bytes of a system call's result.
  int64_t judge(ssize_t result, bool reading);

  Socket socket;
  const std::string here, there;
  const bool findsCuts;
  bool ended = false;
  int reason = 0; ///< errno of the end
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_TCP_STREAM_H
