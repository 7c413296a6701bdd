//===- Reception.h - telling ranks from strangers -------------------------===//
//
// Anybody may connect to a socket that listens: port scanners, programs that have the port wrong,
// ranks of another run. Who connects says a greeting of fixed size within some seconds, or is a
// stranger and ignored. Nothing that it says decides how much memory is used.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_RECEPTION_H
#define TPC_RT_TRANSPORT_SOCKETS_RECEPTION_H

#include "transport/sockets/Socket.h"
#include <array>
#include <deque>

namespace tpc::rt {

using Nonce = std::array<uint8_t, 16>;

/// What a process says of itself.
struct Attendee {
  uint64_t host = 0;   ///< the same for processes that can see each other
  int64_t process = 0; ///< its number there
  uint32_t numAddresses = 0;
  Address addresses[4];    ///< at which it listens, those for other hosts first
  uint8_t cores[128] = {}; ///< the set of those that it may use
  char hostName[60] = {};  ///< for messages

  /// This process; its addresses are still to be said.
  static Attendee self();
};

struct Greeting {
  enum Kind : uint32_t { Attend = 1, Data = 2 };
  static constexpr char expectedMagic[8] = {'t', 'p', 'c', '-', 'r', 'u', 'n', '2'};

  char magic[8] = {};
  uint32_t kind = 0, bytes = sizeof(Greeting);
  uint32_t rank = 0, size = 0;
  uint64_t run = 0;      ///< a hash of the run's name
  char runName[64] = {}; ///< for messages
  Nonce nonce = {};      ///< of Data: what the run has agreed on
  Attendee attendee;
};

/// What is answered at once. Its magic is another than a greeting's: a process that sends back what
/// it receives is no rank.
struct Answer {
  static constexpr char expectedMagic[8] = {'t', 'p', 'c', '-', 'a', 'n', 's', '2'};

  char magic[8] = {};
  uint32_t welcome = 0;
  char reason[228] = {}; ///< why not
  // Of the process that answers:
  uint64_t host = 0;
  int64_t process = 0;

  explicit Answer(const std::string &why = "");
};

class Reception {
public:
  explicit Reception(Socket listener) : listener(std::move(listener)) {}

  /// The next who greets, or false if nobody has for a moment, a tenth of a second.
  bool next(Greeting &greeting, Socket &socket);

  /// "2 strangers were ignored, the last from 10.0.0.7:4711", or nothing.
  std::string describeStrangers() const;

private:
  struct Guest {
    Socket socket;
    std::string from;
    size_t heard = 0;
    Greeting greeting;
    Timeout patience{5};
  };
  void accept();
  void ignore(const Guest &guest);

  Socket listener;
  std::deque<Guest> guests; ///< those who have not said it all
  int strangers = 0;
  std::string lastStranger;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RECEPTION_H
