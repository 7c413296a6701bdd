//===- Text.h - Formatting of messages ------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_TEXT_H
#define TPC_TEST_SIMULATOR_PTX_TEXT_H

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ptx {

template <class T> void appendText(std::string &to, const T &value) {
  if constexpr (std::is_integral_v<T>)
    to += std::to_string(value);
  else
    to += std::string_view(value);
}

/// Returns the pattern with each {} replaced by the next argument, an integer or a text.
template <class... T> std::string text(std::string_view pattern, const T &...arguments) {
  std::string result;
  auto next = [&](const auto &argument) {
    size_t at = pattern.find("{}");
    result += pattern.substr(0, at);
    pattern.remove_prefix(at + 2);
    appendText(result, argument);
  };
  (next(arguments), ...);
  return result.append(pattern);
}

inline std::string hex(uint64_t value, unsigned digits = 1) {
  char buffer[16];
  auto end = std::to_chars(buffer, buffer + 16, value, 16).ptr;
  auto count = size_t(end - buffer);
  return "0x" + std::string(count < digits ? digits - count : 0, '0') + std::string(buffer, count);
}

} // namespace ptx

#endif
