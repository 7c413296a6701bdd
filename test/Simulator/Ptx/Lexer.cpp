//===- Lexer.cpp - PTX lexer ----------------------------------------------===//

#include "Lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>

using namespace ptx;

static bool beginsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
static bool isDigit(char c) { return c >= '0' && c <= '9'; }

std::vector<Token> ptx::tokenize(std::string_view text) {
  std::vector<Token> tokens;
  uint32_t line = 1;
  size_t at = 0;
  auto peek = [&](size_t ahead) { return at + ahead < text.size() ? text[at + ahead] : '\0'; };
  while (at < text.size()) {
    char c = text[at];
    if (c == '\n')
      ++line;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0') {
      ++at;
      continue;
    }
    if (c == '/' && peek(1) == '/') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '/' && peek(1) == '*') {
      uint32_t begin = line;
      size_t end = text.find("*/", at + 2);
      if (end == text.npos)
        throw TextError(begin, "the comment does not end");
      for (; at < end + 2; ++at)
        line += text[at] == '\n';
      continue;
    }
    size_t from = at;
    auto add = [&](Token::Kind kind) {
      tokens.push_back({kind, text.substr(from, at - from), line});
    };
    if (c == '"') {
      at = text.find('"', at + 1);
      if (at == text.npos)
        throw TextError(line, "the string does not end");
      ++at;
      add(Token::String);
    } else if (beginsWord(c)) {
      for (++at; beginsWord(peek(0)) || isDigit(peek(0)) || (peek(0) == ':' && peek(1) == ':');)
        at += peek(0) == ':' ? 2 : 1;
      add(Token::Word);
    } else if (isDigit(c)) {
      bool hex = c == '0' && (peek(1) == 'x' || peek(1) == 'X');
      bool raw = c == '0' && (peek(1) == 'f' || peek(1) == 'F' || peek(1) == 'd' || peek(1) == 'D');
      for (++at; beginsWord(peek(0)) || isDigit(peek(0)) ||
                 (!hex && !raw && (peek(0) == '+' || peek(0) == '-') &&
                  (text[at - 1] == 'e' || text[at - 1] == 'E'));)
        ++at;
      add(Token::Number);
    } else {
      ++at;
      add(Token::Punctuation);
    }
  }
  tokens.push_back({Token::End, {}, line});
  return tokens;
}

template <class T> static bool readAll(std::string_view digits, T &value, int base) {
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return error == std::errc() && end == digits.data() + digits.size();
}

Number ptx::parseNumber(const Token &token) {
  std::string_view text = token.text;
  Number number;
  bool good = false;
  char second = text.size() > 1 && text[0] == '0' ? char(text[1] | 0x20) : '\0';
  if (second == 'f' && text.size() == 10) {
    number.kind = Number::Single;
    good = readAll(text.substr(2), number.bits, 16);
  } else if (second == 'd' && text.size() == 18) {
    number.kind = Number::Double;
    good = readAll(text.substr(2), number.bits, 16);
  } else if (second != 'x' && text.find_first_of(".eE") != text.npos) {
    std::string copy(text);
    char *end = nullptr;
    number.kind = Number::Double;
    number.bits = std::bit_cast<uint64_t>(std::strtod(copy.c_str(), &end));
    good = *end == '\0';
  } else {
    if (text.back() == 'U' || text.back() == 'u')
      text.remove_suffix(1);
    if (second == 'x')
      good = readAll(text.substr(2), number.bits, 16);
    else if (second == 'b')
      good = readAll(text.substr(2), number.bits, 2);
    else
      good = readAll(text, number.bits, text.size() > 1 && text[0] == '0' ? 8 : 10);
  }
  if (!good)
    throw TextError(token.line, "invalid number: " + std::string(token.text));
  return number;
}
