//===- Lexer.h - PTX lexer ------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_LEXER_H
#define TPC_TEST_SIMULATOR_PTX_LEXER_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// Syntax error. It is used only inside the library: parse() returns it as its error.
struct TextError : std::runtime_error {
  TextError(uint32_t line, const std::string &what)
      : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

struct Token {
  enum Kind : uint8_t { Word, Number, String, Punctuation, End } kind = End;
  std::string_view text;
  uint32_t line = 0;
  bool is(std::string_view other) const { return kind != String && text == other; }
};

/// Returns all tokens, followed by one of kind End. Words include their dots: "ld.global.f32",
/// ".reg", "%tid.x".
std::vector<Token> tokenize(std::string_view text);

/// The bits of a number. Floats have the bits of their own width.
struct Number {
  enum Kind : uint8_t { Integer, Single, Double } kind = Integer;
  uint64_t bits = 0;
};
/// Returns the value of "12", "0x1F", "0f3F800000", "0d…" or "1.5".
Number parseNumber(const Token &token);

} // namespace ptx

#endif
