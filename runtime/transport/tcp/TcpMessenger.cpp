//===- TcpMessenger.cpp - messages over streams of bytes ------------------===//

#include "transport/tcp/TcpMessenger.h"
#include "core/Spin.h"
#include "transport/messages/MessageTransport.h"
#include <algorithm>
#include <unistd.h>

namespace tpc::rt {

namespace {

constexpr uint32_t messageMagic = 0x746d7367;
/// No system call moves more at once, so that the others get their turn.
constexpr int64_t mostAtOnce = 4 << 20;
/// The watch knows soon that a process has ended, and says more.
constexpr double graceForWatch = 3;

} // namespace

TcpMessenger::TcpMessenger(std::vector<std::unique_ptr<Stream>> streams) : peers(streams.size()) {
  for (size_t i = 0; i < streams.size(); ++i)
    peers[i].stream = std::move(streams[i]);
}

TcpMessenger::~TcpMessenger() = default;

void TcpMessenger::open(int peer, const Message &message, bool sending) {
  Queue &queue = sending ? peers[peer].sends : peers[peer].receives;
  queue.messages.push_back(message);
  if (!peers[peer].isOpen) {
    peers[peer].isOpen = true;
    active.push_back(peer);
  }
}

void TcpMessenger::start(std::span<const Message> sends, std::span<const Message> receives) {
  for (int peer : active) {
    peers[peer].isOpen = false;
    for (Queue *queue : {&peers[peer].sends, &peers[peer].receives}) {
      queue->messages.clear();
      queue->next = 0;
      queue->done = 0;
    }
  }
  active.clear();
  for (const Message &message : sends)
    open(message.peer, message, true);
  for (const Message &message : receives)
    open(message.peer, message, false);
}

bool TcpMessenger::send(Peer &peer) {
  Queue &queue = peer.sends;
  bool moved = false;
  while (!queue.isDone()) {
    const Message &message = queue.messages[queue.next];
    queue.header = {message.bytes, message.tag, messageMagic};
    constexpr int64_t head = sizeof(Header);
    int64_t first = std::min(queue.done, head), rest = queue.done - first;
    iovec parts[2] = {{reinterpret_cast<char *>(&queue.header) + first, size_t(head - first)},
                      {static_cast<char *>(message.data) + rest,
                       size_t(std::min(message.bytes - rest, mostAtOnce))}};
    int64_t some = peer.stream->write(parts);
    if (some == 0)
      break;
    moved = true;
    queue.done += some;
    if (queue.done == head + message.bytes) {
      ++queue.next;
      queue.done = 0;
    }
  }
  return moved;
}

bool TcpMessenger::check(int from, const Message &expected, const Header &header) {
  std::string who = "rank " + std::to_string(from);
  if (header.magic != messageMagic)
    throw MessengerError(who + " sends what is no message of a tpc program");
  if (header.tag == MessageTransport::sessionTag && expected.tag != header.tag)
    throw MessengerError("waits for " + who + ", which has ended");
  // A peer that is not at the end of the run, as this rank is: it waits in vain, and will say so.
  if (expected.tag == MessageTransport::sessionTag && expected.tag != header.tag)
    return false;
  if (header.bytes != expected.bytes)
    throw MessengerError(who + " sends " + std::to_string(header.bytes) + " bytes where " +
                         std::to_string(expected.bytes) + " are expected");
  if (header.tag != expected.tag)
    throw MessengerError(who + " takes part in other communication than this rank does");
  return true;
}

bool TcpMessenger::receive(int from, Peer &peer) {
  Queue &queue = peer.receives;
  bool moved = false;
  while (!queue.isDone()) {
    const Message &message = queue.messages[queue.next];
    constexpr int64_t head = sizeof(Header);
    int64_t first = std::min(queue.done, head), rest = queue.done - first;
    // Header and bytes at once: if they are not of the expected number, that is the end anyway.
    iovec parts[2] = {{reinterpret_cast<char *>(&queue.header) + first, size_t(head - first)},
                      {static_cast<char *>(message.data) + rest,
                       size_t(std::min(message.bytes - rest, mostAtOnce))}};
    int64_t some = peer.stream->read(parts);
    if (some == 0)
      break;
    moved = true;
    queue.done += some;
    if (first < head && queue.done >= head && !check(from, message, queue.header)) {
      peer.isAstray = true;
      break;
    }
    if (queue.done == head + message.bytes) {
      ++queue.next;
      queue.done = 0;
    }
  }
  return moved;
}

Messenger::Progress TcpMessenger::advance() {
  bool moved = false, isDone = true;
  for (int rank : active) {
    Peer &peer = peers[rank];
    if (!peer.receives.isDone() && !peer.isAstray)
      moved |= receive(rank, peer);
    if (!peer.sends.isDone())
      moved |= send(peer);
    isDone &= peer.receives.isDone() && peer.sends.isDone();
  }
  return isDone ? Progress::Delivered : moved ? Progress::Some : Progress::None;
}

void TcpMessenger::sleep(double) {
  constexpr int longest = 50; // milliseconds
  polled.clear();
  sleepers.clear();
  bool isReady = false;
  for (int rank : active) {
    Peer &peer = peers[rank];
    if (peer.sends.isDone() && peer.receives.isDone())
      continue;
    if (peer.isAstray && peer.sends.isDone())
      continue;
    if (peer.stream->hasEnded()) {
      peer.lost += longest * 1e-3;
      if (peer.lost > graceForWatch)
        throw MessengerError("the connection to rank " + std::to_string(rank) + " is lost");
      continue; // it would be ready at once
    }
    pollfd &item = polled.emplace_back();
    sleepers.push_back(peer.stream.get());
    isReady |= !peer.stream->prepareSleep(
        !peer.sends.isDone(), !peer.receives.isDone() && !peer.isAstray, item.fd, item.events);
  }
  poll(polled.data(), polled.size(), isReady ? 0 : longest);
  for (size_t i = 0; i < sleepers.size(); ++i)
    sleepers[i]->wake(polled[i].revents != 0);
}

void TcpMessenger::findMissing(std::vector<int> &missing) {
  for (int rank : active)
    if (!peers[rank].sends.isDone() || !peers[rank].receives.isDone())
      missing.push_back(rank);
  std::sort(missing.begin(), missing.end());
}

void TcpMessenger::abort() { _exit(1); }

} // namespace tpc::rt
