//===- Heartbeat.cpp - Periodic state message of a rank -------------------===//

#include "core/Heartbeat.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt {

namespace {

constexpr size_t mostMissing = 64, longestText = 600;

struct Head {
  uint64_t moves, number;
  uint32_t flags, numMissing, axes, unused;
};
constexpr uint32_t waitsFlag = 1, leftFlag = 2, onDeviceFlag = 4, midLineFlag = 8;

} // namespace

std::string Heartbeat::encode() const {
  Head head{moves,
            number,
            (waits ? waitsFlag : 0) | (left ? leftFlag : 0) | (onDevice ? onDeviceFlag : 0) |
                (isMidLine ? midLineFlag : 0),
            static_cast<uint32_t>(std::min(missing.size(), mostMissing)),
            axes,
            0};
  std::string bytes(reinterpret_cast<const char *>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char *>(missing.data()), head.numMissing * sizeof(int));
  bytes.append(at, 0, longestText);
  return bytes;
}

bool Heartbeat::decode(std::string_view bytes, int size) {
  Head head;
  if (bytes.size() < sizeof(head))
    return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  bytes.remove_prefix(sizeof(head));
  if (head.numMissing > mostMissing || bytes.size() < head.numMissing * sizeof(int) ||
      bytes.size() > head.numMissing * sizeof(int) + longestText)
    return false;
  waits = head.flags & waitsFlag;
  left = head.flags & leftFlag;
  onDevice = head.flags & onDeviceFlag;
  isMidLine = head.flags & midLineFlag;
  moves = head.moves;
  axes = head.axes;
  number = head.number;
  missing.resize(head.numMissing);
  if (!missing.empty()) // no rank at all
    std::memcpy(missing.data(), bytes.data(), head.numMissing * sizeof(int));
  at = bytes.substr(head.numMissing * sizeof(int));
  return std::all_of(missing.begin(), missing.end(),
                     [&](int rank) { return rank >= 0 && rank < size; });
}

} // namespace tpc::rt
