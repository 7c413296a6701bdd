//===- MessageSocket.h - short messages over a socket, without waiting -------------===//

#ifndef TPC_RT_CORE_MESSAGESOCKET_H
#define TPC_RT_CORE_MESSAGESOCKET_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tpc::rt {

/// Owns a connected socket. What the other side sends is not trusted: a message that is too long
/// closes the line. Neither function waits.
class MessageSocket {
public:
  /// Everything that one process says to another about life and death; and at the start a piece of
  /// the table of all ranks.
  enum class Word : uint32_t { Heartbeat, Failed, Verdict, Terminated, Bye, Table };
  static constexpr size_t longest = 1024;

  explicit MessageSocket(int descriptor);
  ~MessageSocket() { close(); }
  MessageSocket(const MessageSocket &) = delete;
  MessageSocket &operator=(const MessageSocket &) = delete;

  bool isOpen() const { return descriptor >= 0; }
  int socket() const { return descriptor; }
  bool hasUnsent() const { return !unsent.empty(); }
  void close();

  /// Words other than beats are kept until they can be sent; a beat is dropped if the one before it
  /// still waits.
  void say(Word word, std::string_view text = {});
  /// Calls `fn` for whatever has come. Whether anything has.
  bool hear(const std::function<void(Word, std::string_view)> &fn);

private:
  void flush();

  int descriptor;
  std::string unsent, received;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_MESSAGESOCKET_H
