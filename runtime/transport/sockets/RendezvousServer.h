//===- RendezvousServer.h - Acceptance of ranks at rank 0's listener ------===//
//
// Any process may connect to a listening socket: port scanners, programs with a wrong port, ranks
// of another run. A connection that does not send a greeting of fixed size within some seconds is
// ignored. The contents of the greeting do not influence memory use.
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSSERVER_H
#define TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSSERVER_H

#include "transport/sockets/Socket.h"
#include <array>
#include <deque>

namespace tpc::rt {

using Nonce = std::array<uint8_t, 16>;

/// Self-description of a process.
struct ProcessInfo {
  uint64_t host = 0;   ///< of the machine and PID namespace, so that `process` is unique in it
  int64_t process = 0; ///< process number on its host
  uint32_t numAddresses = 0;
  Address addresses[4];    ///< listening addresses; those for other hosts first
  uint8_t cores[128] = {}; ///< set of cores that the process may use
  char hostName[60] = {};  ///< name of the host, for messages

  /// Description of this process, without its addresses.
  static ProcessInfo self();
};

struct Greeting {
  /// Failed, and Absent (--help): the process ends before it joins (core/EarlyEnd.h).
  enum Kind : uint32_t { Join = 1, Data = 2, Failed = 3, Absent = 4 };
  static constexpr char expectedMagic[8] = {'t', 'p', 'c', '-', 'r', 'u', 'n', '2'};

  char magic[8] = {};
  uint32_t kind = 0, bytes = sizeof(Greeting);
  uint32_t rank = 0, size = 0;
  uint64_t run = 0;      ///< hash of the run id
  char runName[64] = {}; ///< id of the run, for messages
  Nonce nonce = {};      ///< for Data: the run's random number, which rank 0 has drawn
  ProcessInfo sender;
};

/// Immediate reply to a greeting. Its magic differs from a greeting's: a process that echoes its
/// input must not count as a rank.
struct GreetingReply {
  static constexpr char expectedMagic[8] = {'t', 'p', 'c', '-', 'a', 'n', 's', '2'};

  /// Rejected: see reason. Welcome: accepted, or, to Failed and Absent: rank 0 has not failed.
  /// IsAbsent: rank 0 itself runs nothing (--help); another rank 0 may follow.
  enum Answer : uint32_t { Rejected = 0, Welcome = 1, IsAbsent = 2 };

  char magic[8] = {};
  uint32_t answer = Rejected;
  char reason[228] = {}; ///< reason of a rejection
  // The replying process:
  uint64_t host = 0;
  int64_t process = 0;

  explicit GreetingReply(const std::string &why = "");
};

class RendezvousServer {
public:
  explicit RendezvousServer(Socket listener) : listener(std::move(listener)) {}

  /// Returns the next greeting, or false if none arrives within a tenth of a second.
  bool next(Greeting &greeting, Socket &socket);

  /// "2 unknown connections were ignored, the last from 10.0.0.7:4711", or an empty string.
  std::string describeStrangers() const;

private:
  struct PendingConnection {
    Socket socket;
    std::string from;
    size_t received = 0;
    Greeting greeting;
    Timeout deadline{5};
  };
  void accept();
  void ignore(const PendingConnection &connection);

  Socket listener;
  std::deque<PendingConnection> pending; ///< connections with incomplete greetings
  int strangers = 0;
  std::string lastStranger;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSSERVER_H
