//===- printable.h - Text that is safe for a terminal and for JSON --------===//
//
// Plain C++, shared by the compiler and the runtime. Names come from files and may contain any
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_PRINTABLE_H
#define TPC_PRINTABLE_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tpc {

/// Returns the length of the UTF-8 character at the beginning of `text`, which must not be empty,
/// and sets `character`. Returns 0 for an invalid encoding (truncated, overlong, a surrogate, or
/// beyond Unicode).
inline size_t decodeUtf8(std::string_view text, uint32_t &character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned first = byte(0);
  size_t length = first < 0x80         ? 1
                  : first >> 5 == 0x06 ? 2
                  : first >> 4 == 0x0e ? 3
                  : first >> 3 == 0x1e ? 4
                                       : 0;
  if (length == 0 || length > text.size())
    return 0;
  character = length == 1 ? first : first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2)
      return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool valid = character >= smallest[length] && character <= 0x10ffff && character >> 11 != 0x1b;
  return valid ? length : 0;
}

/// Whether the character is safe to print: false for terminal controls, line breaks, and characters
/// that change the writing direction.
inline bool isPrintable(uint32_t character) {
  return character >= 0x20 && (character < 0x7f || character > 0x9f) && character != 0x2028 &&
         character != 0x2029 && !(character >= 0x202a && character <= 0x202e) &&
         !(character >= 0x2066 && character <= 0x2069) && character != 0xfeff;
}

/// Returns valid UTF-8 in which each byte of an unprintable character is written as \xHH. Printable
/// text is unchanged. With `lines`, line breaks are also unchanged.
inline std::string printable(std::string_view text, bool lines = false) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    uint32_t character = 0;
    size_t length = decodeUtf8(text, character);
    if (length && (isPrintable(character) || (lines && (character == '\n' || character == '\t')))) {
      result += text.substr(0, length);
    } else {
      length += length == 0;
      for (size_t i = 0; i < length; ++i) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[i]));
        result += escape;
      }
    }
    text.remove_prefix(length);
  }
  return result;
}

} // namespace tpc

#endif // TPC_PRINTABLE_H
