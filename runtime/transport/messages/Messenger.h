//===- Messenger.h - Point-to-point message layer -------------------------===//
//
// Interface of what differs between MPI and TCP. MessageTransport builds collectives from messages;
// `deliver` waits for them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H
#define TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H

#include "core/Watchdog.h"
#include "transport/messages/Message.h"
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace tpc::rt {

using Message = tpc_message;

/// Messages cannot be delivered; the text has the reason.
class MessengerError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Messenger {
public:
  virtual ~Messenger();
  virtual const char *name() const = 0;

  /// Starts all messages; only posts may be in flight. The buffers must stay valid until delivery.
  virtual void start(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// Copies a message and sends it concurrently with all others. It is in flight until the peer
  /// takes it. Throws std::bad_alloc.
  virtual void post(const Message &message) = 0;
  /// The next started messages count as delivered only when all posts are delivered as well.
  virtual void flushNext() = 0;
  enum class Progress { None, Some, Delivered };
  /// Makes progress without blocking.
  virtual Progress advance() = 0;
  /// Sleeps for a short time, or until progress is possible since `advance`. `waited`: seconds so
  /// far.
  virtual void sleep(double waited) = 0;
  /// Number of yields before sleeping, see core/SpinWait.h.
  virtual int yields() const { return 0; }
  /// Peers with undelivered messages, ascending.
  virtual void findAwaited(std::vector<int> &awaited) = 0;

  /// Ends this process, and maybe others, with status 1.
  [[noreturn]] virtual void abort() = 0;
};

/// Returns when all messages are delivered. Reports to `watch` which ranks this rank waits for; the
/// watchdog ends the process if they will never answer.
void deliver(Messenger &messenger, Watchdog &watch, bool spin, std::span<const Message> sends,
             std::span<const Message> receives);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H
