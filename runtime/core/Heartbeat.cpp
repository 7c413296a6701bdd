//===- Heartbeat.cpp - Periodic state message of a rank -------------------===//

#include "core/Heartbeat.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt {

namespace {

constexpr size_t maxAwaited = 64, maxText = 600;

struct Head {
  uint64_t moves, number;
  uint32_t flags, numAwaited, axes, unused;
};
constexpr uint32_t waitsFlag = 1, leftFlag = 2, onDeviceFlag = 4, midLineFlag = 8;

} // namespace

std::string Heartbeat::encode() const {
  Head head{moves,
            number,
            (waits ? waitsFlag : 0) | (left ? leftFlag : 0) | (onDevice ? onDeviceFlag : 0) |
                (isMidLine ? midLineFlag : 0),
            static_cast<uint32_t>(std::min(awaited.size(), maxAwaited)),
            axes,
            0};
  std::string bytes(reinterpret_cast<const char *>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char *>(awaited.data()), head.numAwaited * sizeof(int));
  bytes.append(at, 0, maxText);
  return bytes;
}

bool Heartbeat::decode(std::string_view bytes, int size) {
  Head head;
  if (bytes.size() < sizeof(head))
    return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  bytes.remove_prefix(sizeof(head));
  if (head.numAwaited > maxAwaited || bytes.size() < head.numAwaited * sizeof(int) ||
      bytes.size() > head.numAwaited * sizeof(int) + maxText)
    return false;
  waits = head.flags & waitsFlag;
  left = head.flags & leftFlag;
  onDevice = head.flags & onDeviceFlag;
  isMidLine = head.flags & midLineFlag;
  moves = head.moves;
  axes = head.axes;
  number = head.number;
  awaited.resize(head.numAwaited);
  if (!awaited.empty()) // otherwise data() may be null
    std::memcpy(awaited.data(), bytes.data(), head.numAwaited * sizeof(int));
  at = bytes.substr(head.numAwaited * sizeof(int));
  return std::all_of(awaited.begin(), awaited.end(),
                     [&](int rank) { return rank >= 0 && rank < size; });
}

} // namespace tpc::rt
