//===- MessageSocket.h - Nonblocking socket for short messages ------------===//

#ifndef TPC_RT_CORE_MESSAGESOCKET_H
#define TPC_RT_CORE_MESSAGESOCKET_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tpc::rt {

/// Owns a connected socket. Input from the other side is untrusted: a message that is too long
/// closes the socket. Neither `send` nor `receive` blocks.
class MessageSocket {
public:
  /// Messages between watchdogs. Table: part of the table of all ranks, sent at start-up.
  enum class MessageType : uint32_t { Heartbeat, Failed, Verdict, Terminated, Bye, Table };
  static constexpr size_t longest = 1024;

  explicit MessageSocket(int descriptor);
  ~MessageSocket() { close(); }
  MessageSocket(const MessageSocket &) = delete;
  MessageSocket &operator=(const MessageSocket &) = delete;

  bool isOpen() const { return descriptor >= 0; }
  int socket() const { return descriptor; }
  bool hasUnsent() const { return !unsent.empty(); }
  void close();

  /// Sends a message. Messages other than heartbeats are queued until they can be sent; a heartbeat
  /// is dropped if the last one is still queued.
  void send(MessageType type, std::string_view text = {});
  /// Calls `fn` for each received message. Returns whether there was any.
  bool receive(const std::function<void(MessageType, std::string_view)> &fn);

private:
  void flush();

  int descriptor;
  std::string unsent, received;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_MESSAGESOCKET_H
