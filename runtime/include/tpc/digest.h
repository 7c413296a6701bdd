//===- digest.h - Sampled digest of a weight file -------------------------===//
//
// Plain C++, shared by the compiler and the runtime. A digest identifies the weight file that a
// program was compiled against. It covers the file's size and, for each range (a tensor's bytes),
// the offset, the length, and the first and last 64 bytes. It needs a few hundred small reads,
// whatever the file's size. It detects a file that was replaced, truncated, re-exported with other
// weights, or laid out differently.
//
// The ranges are those of all entries of manifest.parameters that refer to the file: (offset,
// bytes). Order and duplicates have no effect. The result is 16 hexadecimal digits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIGEST_H
#define TPC_DIGEST_H

#include "tpc/fnv1a.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpc {

/// `readAt(void *to, uint64_t bytes, uint64_t offset) -> bool` reads exactly `bytes` bytes. Returns
/// nullopt if a read fails or a range exceeds the file.
template <class ReadAt>
std::optional<std::string> sampleDigest(uint64_t fileBytes,
                                        std::vector<std::pair<uint64_t, uint64_t>> ranges,
                                        ReadAt &&readAt) {
  constexpr uint64_t sample = 64;
  uint64_t hash = kFnv1aBasis;
  auto addByte = [&](unsigned char byte) { hash = fnv1a(hash, byte); };
  auto addNumber = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i)
      addByte(static_cast<unsigned char>(value >> (8 * i)));
  };

  std::sort(ranges.begin(), ranges.end());
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  addNumber(fileBytes);
  for (auto [offset, bytes] : ranges) {
    if (offset > fileBytes || bytes > fileBytes - offset)
      return std::nullopt;
    addNumber(offset);
    addNumber(bytes);
    unsigned char buffer[sample];
    uint64_t length = std::min(bytes, sample);
    for (uint64_t at : {offset, offset + bytes - length}) {
      if (length && !readAt(buffer, length, at))
        return std::nullopt;
      for (uint64_t i = 0; i < length; ++i)
        addByte(buffer[i]);
    }
  }
  return toHexDigits(spreadBits(hash));
}

/// Digest of all bytes in [offset, offset + bytes), eight at a time. Returns nullopt if a read
/// fails.
template <class ReadAt>
std::optional<std::string> wholeDigest(uint64_t offset, uint64_t bytes, ReadAt &&readAt) {
  uint64_t hash = kFnv1aBasis ^ bytes;
  std::vector<uint64_t> block(size_t(1) << 17);
  uint64_t blockBytes = block.size() * sizeof(uint64_t);
  for (uint64_t at = 0; at < bytes; at += blockBytes) {
    uint64_t count = std::min(blockBytes, bytes - at);
    block[(count - 1) / sizeof(uint64_t)] = 0; // zero padding of the last word
    if (!readAt(block.data(), count, offset + at))
      return std::nullopt;
    for (uint64_t i = 0; i * sizeof(uint64_t) < count; ++i) {
      hash = (hash ^ block[i]) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
  }
  return toHexDigits(hash);
}

} // namespace tpc

#endif // TPC_DIGEST_H
