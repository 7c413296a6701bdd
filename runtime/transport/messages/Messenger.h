//===- Messenger.h - Point-to-point message layer -------------------------===//
//
// Interface of the operations that differ between MPI and TCP. MessageTransport builds collectives
// from messages; `deliver` waits for them.
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

/// Error of messages that cannot be delivered. The text is the reason.
class MessengerError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Messenger {
public:
  virtual ~Messenger();
  virtual const char *name() const = 0;

  /// Starts all messages. No other messages except posts may be in flight. The buffers must stay
  /// valid until delivery.
  virtual void start(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// Copies a message and sends it concurrently with all others. It is in flight until the peer
  /// receives it. Throws std::bad_alloc.
  virtual void post(const Message &message) = 0;
  /// The next started messages count as delivered only when all posts are also delivered.
  virtual void flushNext() = 0;
  enum class Progress { None, Some, Delivered };
  /// Makes progress without blocking.
  virtual Progress advance() = 0;
  /// Sleeps briefly. Ends early if progress has become possible since the last `advance`. `waited`:
  /// seconds so far.
  virtual void sleep(double waited) = 0;
  /// Number of yields before sleeping, see core/SpinWait.h.
  virtual int yields() const { return 0; }
  /// Appends the peers with undelivered messages, ascending.
  virtual void findAwaited(std::vector<int> &awaited) = 0;

  /// Ends this process with status 1, and possibly others.
  [[noreturn]] virtual void abort() = 0;
};

/// Returns when all messages are delivered. Meanwhile reports the awaited ranks to `watch`. The
/// watchdog ends the process if these ranks can never respond.
void deliver(Messenger &messenger, Watchdog &watch, bool spin, std::span<const Message> sends,
             std::span<const Message> receives);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H
