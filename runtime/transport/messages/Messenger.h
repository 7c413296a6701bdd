//===- Messenger.h - how messages get from process to process -------------===//
//
// What differs between MPI and TCP. What collectives are made of them is MessageTransport's, how
// one waits for them is `deliver`'s.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H
#define TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H

#include "core/Watch.h"
#include "transport/messages/Message.h"
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace tpc::rt {

using Message = tpc_message;

/// Messages cannot be delivered; the text says why.
class MessengerError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Messenger {
public:
  virtual ~Messenger();
  virtual const char *name() const = 0;

  /// Begins with all of them; nothing else is under way but posts. They are the caller's until they
  /// are delivered.
  virtual void start(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// A copy of it gets on beside all others, whatever is started: it is under way until it is
  /// taken. Throws std::bad_alloc.
  virtual void post(const Message &message) = 0;
  /// What is started next is delivered when all that was posted is as well.
  virtual void flushNext() = 0;
  enum class Progress { None, Some, Delivered };
  /// Lets them get on, without waiting.
  virtual Progress advance() = 0;
  /// Until something may have moved since `advance`, and not for long. `waited`: seconds so far.
  virtual void sleep(double waited) = 0;
  /// How often to give the core away before one sleeps, see core/Spin.h.
  virtual int yields() const { return 0; }
  /// The peers that messages are not yet delivered to or from, ascending.
  virtual void findMissing(std::vector<int> &missing) = 0;

  /// Ends this process, and maybe others, with status 1.
  [[noreturn]] virtual void abort() = 0;
};

/// Returns when all are delivered. `watch` is told whom this rank waits for, and ends the process
/// if that is in vain.
void deliver(Messenger &messenger, Watch &watch, bool spin, std::span<const Message> sends,
             std::span<const Message> receives);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MESSAGES_MESSENGER_H
