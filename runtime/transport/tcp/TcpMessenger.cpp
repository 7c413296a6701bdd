//===- TcpMessenger.cpp - Messages over byte streams ----------------------===//

#include "transport/tcp/TcpMessenger.h"
#include "core/SpinWait.h"
#include "transport/messages/MessageTransport.h"
#include <algorithm>
#include <unistd.h>
#include <utility>

namespace tpc::rt {

namespace {

constexpr uint32_t messageMagic = 0x746d7367;
/// Maximum bytes per system call, so that other peers get their turn.
constexpr int64_t maxBytesPerCall = 4 << 20;
/// Seconds in which the watchdog may detect an ended process and report more detail.
constexpr double graceForWatch = 3;
/// Maximum sleep in milliseconds.
constexpr int longest = 50;
/// Seconds in which the other end of a cut link may report it.
constexpr double graceForFirst = 0.6;

} // namespace

TcpMessenger::TcpMessenger(std::vector<std::unique_ptr<Stream>> streams) : peers(streams.size()) {
  for (size_t i = 0; i < streams.size(); ++i)
    peers[i].stream = std::move(streams[i]);
}

TcpMessenger::~TcpMessenger() = default;

void TcpMessenger::activate(int peer) {
  if (!peers[peer].isOpen) {
    peers[peer].isOpen = true;
    active.push_back(peer);
  }
}

void TcpMessenger::open(int peer, const Message &message, bool sending) {
  Queue &queue = sending ? peers[peer].sends : peers[peer].receives;
  queue.messages.push_back(message);
  activate(peer);
}

void TcpMessenger::start(std::span<const Message> sends, std::span<const Message> receives) {
  previous.swap(active);
  active.clear();
  for (int peer : previous) {
    peers[peer].isOpen = false;
    for (Queue *queue : {&peers[peer].sends, &peers[peer].receives}) {
      queue->messages.clear();
      queue->next = 0;
      queue->done = 0;
    }
    if (!peers[peer].posts.empty())
      activate(peer);
  }
  isFlushing = std::exchange(flushesNext, false);
  for (const Message &message : sends)
    open(message.peer, message, true);
  for (const Message &message : receives)
    open(message.peer, message, false);
}

void TcpMessenger::post(const Message &message) {
  auto *data = static_cast<const std::byte *>(message.data);
  peers[message.peer].posts.push_back({{data, data + message.bytes}, message.tag});
  activate(message.peer);
  send(peers[message.peer]);
}

bool TcpMessenger::write(Peer &peer, const Message &message, int64_t &done, Header &header) {
  header = {message.bytes, message.tag, messageMagic};
  constexpr int64_t head = sizeof(Header);
  while (done < head + message.bytes) {
    int64_t first = std::min(done, head), rest = done - first;
    iovec parts[2] = {{reinterpret_cast<char *>(&header) + first, size_t(head - first)},
                      {static_cast<char *>(message.data) + rest,
                       size_t(std::min(message.bytes - rest, maxBytesPerCall))}};
    int64_t written = peer.stream->write(parts);
    if (written == 0)
      return false;
    done += written;
  }
  return true;
}

bool TcpMessenger::send(Peer &peer) {
  bool moved = false;
  // Posts precede started messages, because a post is made while no other message is in flight.
  while (!peer.posts.empty()) {
    Post &post = peer.posts.front();
    int64_t before = post.done;
    bool isWritten = write(peer, {post.bytes.data(), std::ssize(post.bytes), 0, post.tag},
                           post.done, post.header);
    moved |= post.done != before;
    if (!isWritten)
      return moved;
    peer.posts.pop_front();
  }
  for (Queue &queue = peer.sends; !queue.isDone();) {
    int64_t before = queue.done;
    bool isWritten = write(peer, queue.messages[queue.next], queue.done, queue.header);
    moved |= queue.done != before;
    if (!isWritten)
      break;
    ++queue.next;
    queue.done = 0;
  }
  return moved;
}

bool TcpMessenger::check(int from, const Message &expected, const Header &header) {
  std::string peerName = "rank " + std::to_string(from);
  if (header.magic != messageMagic)
    throw MessengerError(peerName + " sends data that is not a message of a tpc program");
  if (header.tag == MessageTransport::sessionTag && expected.tag != header.tag)
    throw MessengerError("waits for " + peerName + ", which has ended");
  // This rank has reached the end of the run, but the peer has not: the peer's wait will fail and
  // be reported there.
  if (expected.tag == MessageTransport::sessionTag && expected.tag != header.tag)
    return false;
  if (header.bytes != expected.bytes)
    throw MessengerError(peerName + " sends " + std::to_string(header.bytes) + " bytes where " +
                         std::to_string(expected.bytes) + " are expected");
  if (header.tag != expected.tag)
    throw MessengerError(peerName + " sends a message of another operation than this rank expects");
  return true;
}

bool TcpMessenger::receive(int from, Peer &peer) {
  Queue &queue = peer.receives;
  bool moved = false;
  while (!queue.isDone()) {
    const Message &message = queue.messages[queue.next];
    constexpr int64_t head = sizeof(Header);
    int64_t first = std::min(queue.done, head), rest = queue.done - first;
    // Reads header and bytes at once, because a wrong size is an error anyway.
    iovec parts[2] = {{reinterpret_cast<char *>(&queue.header) + first, size_t(head - first)},
                      {static_cast<char *>(message.data) + rest,
                       size_t(std::min(message.bytes - rest, maxBytesPerCall))}};
    int64_t numRead = peer.stream->read(parts);
    if (numRead == 0)
      break;
    moved = true;
    queue.done += numRead;
    if (first < head && queue.done >= head && !check(from, message, queue.header)) {
      peer.isMismatched = true;
      break;
    }
    if (queue.done == head + message.bytes) {
      ++queue.next;
      queue.done = 0;
    }
  }
  return moved;
}

bool TcpMessenger::isDone(const Peer &peer) const {
  return peer.receives.isDone() && peer.sends.isDone() && (!isFlushing || peer.posts.empty());
}

Messenger::Progress TcpMessenger::advance() {
  bool moved = false, isAll = true;
  for (int rank : active) {
    Peer &peer = peers[rank];
    if (!peer.receives.isDone() && !peer.isMismatched)
      moved |= receive(rank, peer);
    if (peer.hasUnsent())
      moved |= send(peer);
    isAll &= isDone(peer);
  }
  return isAll ? Progress::Delivered : moved ? Progress::Some : Progress::None;
}

void TcpMessenger::checkLink(int rank, Peer &peer) {
  std::string why = peer.stream->findCut();
  if (why.empty())
    return;
  // Both ends detect a cut at about the same time; the lower rank reports it.
  bool isFirst = std::any_of(peers.begin(), peers.begin() + rank,
                             [](const Peer &other) { return !other.stream; });
  peer.cut += longest * 1e-3;
  if (isFirst || peer.cut > graceForFirst)
    throw MessengerError("the link to rank " + std::to_string(rank) + " is cut: " + why);
}

void TcpMessenger::sleep(double) {
  polled.clear();
  sleepers.clear();
  bool isReady = false;
  for (int rank : active) {
    Peer &peer = peers[rank];
    if (!peer.hasUnsent() && (peer.receives.isDone() || peer.isMismatched))
      continue;
    checkLink(rank, peer);
    if (peer.stream->hasEnded()) {
      peer.lost += longest * 1e-3;
      if (peer.lost > graceForWatch)
        throw MessengerError("the connection to rank " + std::to_string(rank) + " is lost");
      continue; // polling it would return at once
    }
    pollfd &item = polled.emplace_back();
    sleepers.push_back(peer.stream.get());
    isReady |= !peer.stream->prepareSleep(
        peer.hasUnsent(), !peer.receives.isDone() && !peer.isMismatched, item.fd, item.events);
  }
  poll(polled.data(), polled.size(), isReady ? 0 : longest);
  for (size_t i = 0; i < sleepers.size(); ++i)
    sleepers[i]->wake(polled[i].revents != 0);
}

void TcpMessenger::findAwaited(std::vector<int> &awaited) {
  for (int rank : active)
    if (!isDone(peers[rank]))
      awaited.push_back(rank);
  std::sort(awaited.begin(), awaited.end());
}

void TcpMessenger::abort() { _exit(1); }

} // namespace tpc::rt
