//===- fnv1a.h - The hash of texts and bytes ------------------------------===//
//
// FNV-1a of 64 bits, for digests, keys and seeds: the same on every machine, and simple enough to
// be written again in a test's Python. Against people who mean harm it does nothing. Plain C++,
// shared by the compiler and the runtime. tools/tpc-check-certificate has its own: it is to agree
// with the compiler without sharing code with it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_FNV1A_H
#define TPC_FNV1A_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tpc {

/// The hash of no bytes.
inline constexpr uint64_t kFnv1aBasis = 0xcbf29ce484222325u;

/// The hash of what `hash` is the hash of, and `byte` after it.
constexpr uint64_t fnv1a(uint64_t hash, unsigned char byte) {
  return (hash ^ byte) * 0x100000001b3u;
}

constexpr uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = kFnv1aBasis;
  for (char c : bytes)
    hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}

/// A change of one byte changes all bits of the result, not just those above it.
constexpr uint64_t spreadBits(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ hash >> 33;
}

/// 16 digits, as manifests and certificates have them.
inline std::string toHexDigits(uint64_t hash) {
  std::string text(16, '0');
  for (int i = 0; i < 16; ++i)
    text[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  return text;
}

} // namespace tpc

#endif // TPC_FNV1A_H
