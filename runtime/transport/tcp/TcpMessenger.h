//===- TcpMessenger.h - Messages over byte streams ------------------------===//

#ifndef TPC_RT_TRANSPORT_TCP_TCPMESSENGER_H
#define TPC_RT_TRANSPORT_TCP_TCPMESSENGER_H

#include "transport/messages/Messenger.h"
#include "transport/sockets/Socket.h"
#include "transport/tcp/Stream.h"
#include <cstddef>
#include <deque>
#include <memory>
#include <poll.h>

namespace tpc::rt {

/// Each pair of ranks has its own stream. A message is a header and its bytes. Messages of one pair
/// arrive in the order of sending, whatever their tags.
class TcpMessenger final : public Messenger {
public:
  /// `streams` by rank; null for the rank itself.
  explicit TcpMessenger(std::vector<std::unique_ptr<Stream>> streams);
  ~TcpMessenger() override;

  const char *name() const override { return "tcp"; }
  void start(std::span<const Message> sends, std::span<const Message> receives) override;
  void post(const Message &message) override;
  void flushNext() override { flushesNext = true; }
  Progress advance() override;
  void sleep(double waited) override;
  void findAwaited(std::vector<int> &awaited) override;
  [[noreturn]] void abort() override;

private:
  struct Header {
    int64_t bytes;
    int32_t tag;
    uint32_t magic;
  };
  struct Post {
    std::vector<std::byte> bytes;
    int32_t tag;
    int64_t done = 0; ///< bytes transferred, with the header
    Header header{};
  };
  /// Messages of one direction between this rank and a peer.
  struct Queue {
    std::vector<Message> messages; ///< only grows
    size_t next = 0;               ///< message in flight
    int64_t done = 0;              ///< number of its bytes transferred, with its header
    Header header{};
    bool isDone() const { return next == messages.size(); }
  };
  struct Peer {
    std::unique_ptr<Stream> stream;
    Queue sends, receives;
    std::deque<Post> posts;    ///< precede `sends`
    bool isOpen = false;       ///< in `active`
    bool isMismatched = false; ///< the peer sends messages of a different operation
    double lost = 0;           ///< seconds since the stream ended
    double cut = 0;            ///< seconds since the link was detected to be cut
    bool hasUnsent() const { return !posts.empty() || !sends.isDone(); }
  };
  /// Whether all messages with the peer are delivered.
  bool isDone(const Peer &peer) const;
  bool send(Peer &peer);
  /// Returns whether the whole message is in the stream.
  static bool write(Peer &peer, const Message &message, int64_t &done, Header &header);
  bool receive(int rank, Peer &peer);
  /// Throws on a mismatch. Returns false if the message can no longer arrive.
  bool check(int rank, const Message &expected, const Header &header);
  void open(int rank, const Message &message, bool sending);
  void activate(int rank);

  /// Throws if the link to the peer is cut.
  void checkLink(int rank, Peer &peer);

  std::vector<Peer> peers;
  std::vector<int> active; ///< peers with undelivered messages
  std::vector<int> previous;
  bool flushesNext = false, isFlushing = false; ///< posts count as in flight
  std::vector<pollfd> polled;
  std::vector<Stream *> sleepers; ///< parallel to `polled`
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_TCP_TCPMESSENGER_H
