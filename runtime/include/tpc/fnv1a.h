//===- fnv1a.h - FNV-1a hash of text and bytes ----------------------------===//
//
// 64-bit FNV-1a, for digests, keys and seeds: the same on every machine, and simple enough to
// reimplement in a test's Python. It offers no protection against deliberate collisions. Plain C++,
// shared by the compiler and the runtime. tools/tpc-check-certificate has its own implementation,
// because it must agree with the compiler without sharing its code.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_FNV1A_H
#define TPC_FNV1A_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tpc {

/// Hash of the empty string.
inline constexpr uint64_t kFnv1aBasis = 0xcbf29ce484222325u;

/// Extends the hash of a byte string by `byte`.
constexpr uint64_t fnv1a(uint64_t hash, unsigned char byte) {
  return (hash ^ byte) * 0x100000001b3u;
}

constexpr uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = kFnv1aBasis;
  for (char c : bytes)
    hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}

/// Mixes the bits: a change of one byte affects all bits of the result, not only those above it.
constexpr uint64_t spreadBits(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ hash >> 33;
}

/// Returns 16 hexadecimal digits, the format of manifests and certificates.
inline std::string toHexDigits(uint64_t hash) {
  std::string text(16, '0');
  for (int i = 0; i < 16; ++i)
    text[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  return text;
}

} // namespace tpc

#endif // TPC_FNV1A_H
