//===- SizeExpr.cpp - Symbolic sizes of the manifest ----------------------===//
//
// Recursive descent that computes as it parses:
//
//   sum     = product {("+" | "-") product}
//   product = primary {("*" | "floordiv" | "mod") primary}
//   primary = integer | symbol | function "(" sum "," sum ")" | "(" sum ")" | "-" primary
//
//===----------------------------------------------------------------------===//

#include "program/SizeExpr.h"
#include "program/Error.h"
#include <algorithm>

namespace tpc::rt {
namespace {

bool isWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWord(char c) { return isWordStart(c) || isDigit(c) || c == '.'; }

class Evaluator {
public:
  /// With `mentioned`, symbols are collected and evaluate to 1, and divisors are not checked.
  Evaluator(std::string_view text, const SymbolValues *symbols, std::set<std::string> *mentioned)
      : text(text), symbols(symbols), mentioned(mentioned) {}

  int64_t run() {
    int64_t value = sum();
    skipSpace();
    if (at != text.size())
      refuse("unexpected '" + std::string(1, text[at]) + "'");
    return value;
  }

private:
  static constexpr int maxDepth = 200;

  [[noreturn]] void refuse(const std::string &why) {
    throw UserError("size expression '" + std::string(text) + "': " + why + " (column " +
                    std::to_string(at + 1) + ")");
  }
  void skipSpace() {
    while (at < text.size() && text[at] == ' ')
      ++at;
  }
  bool take(char c) {
    skipSpace();
    if (at == text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      refuse(std::string("expected '") + c + "'");
  }
  /// Word at the cursor; does not advance.
  std::string_view peekWord() {
    skipSpace();
    size_t end = at;
    if (end < text.size() && isWordStart(text[end]))
      while (end < text.size() && isWord(text[end]))
        ++end;
    return text.substr(at, end - at);
  }

  int64_t combine(std::string_view op, int64_t a, int64_t b) {
    int64_t result = 0;
    if (op == "floordiv" || op == "mod") {
      if (mentioned)
        return 1;
      if (b <= 0)
        refuse("divides by " + std::to_string(b));
      int64_t remainder = a % b;
      if (remainder < 0)
        remainder += b;
      return op == "mod" ? remainder : a / b - (a % b < 0);
    }
    if (op == "min" || op == "max")
      return op == "min" ? std::min(a, b) : std::max(a, b);
    bool overflow = op == "+"   ? __builtin_add_overflow(a, b, &result)
                    : op == "-" ? __builtin_sub_overflow(a, b, &result)
                                : __builtin_mul_overflow(a, b, &result);
    if (overflow)
      refuse("the value does not fit in 64 bits");
    return result;
  }

  int64_t sum() {
    if (++depth > maxDepth)
      refuse("nested too deeply");
    int64_t value = product();
    while (true) {
      if (take('+'))
        value = combine("+", value, product());
      else if (take('-'))
        value = combine("-", value, product());
      else
        break;
    }
    --depth;
    return value;
  }

  int64_t product() {
    int64_t value = primary();
    while (true) {
      std::string_view word = peekWord();
      if (take('*')) {
        value = combine("*", value, primary());
      } else if (word == "floordiv" || word == "mod") {
        at += word.size();
        value = combine(word, value, primary());
      } else {
        return value;
      }
    }
  }

  int64_t primary() {
    if (++depth > maxDepth)
      refuse("nested too deeply");
    int64_t value = primaryUnguarded();
    --depth;
    return value;
  }

  int64_t primaryUnguarded() {
    if (take('-'))
      return combine("-", 0, primary());
    if (take('(')) {
      int64_t value = sum();
      expect(')');
      return value;
    }
    if (at < text.size() && isDigit(text[at])) {
      int64_t value = 0;
      for (; at < text.size() && isDigit(text[at]); ++at)
        value = combine("+", combine("*", value, 10), text[at] - '0');
      return value;
    }
    std::string_view word = peekWord();
    if (word.empty())
      refuse(at == text.size() ? "it ends too early"
                               : "unexpected '" + std::string(1, text[at]) + "'");
    at += word.size();
    if (take('(')) {
      if (word != "floordiv" && word != "mod" && word != "min" && word != "max")
        refuse("unknown function '" + std::string(word) + "'");
      int64_t a = sum();
      expect(',');
      int64_t b = sum();
      expect(')');
      return combine(word, a, b);
    }
    if (mentioned) {
      mentioned->insert(std::string(word));
      return 1;
    }
    auto it = symbols->find(word);
    if (it == symbols->end())
      refuse("no value for '" + std::string(word) + "'");
    return it->second;
  }

  std::string_view text;
  const SymbolValues *symbols;
  std::set<std::string> *mentioned;
  size_t at = 0;
  int depth = 0;
};

} // namespace

int64_t evaluateSize(std::string_view text, const SymbolValues &symbols) {
  return Evaluator(text, &symbols, nullptr).run();
}

std::set<std::string> symbolsOf(std::string_view text) {
  std::set<std::string> mentioned;
  Evaluator(text, nullptr, &mentioned).run();
  return mentioned;
}

std::string soleSymbol(std::string_view text) {
  bool word =
      !text.empty() && isWordStart(text[0]) && std::all_of(text.begin(), text.end(), isWord);
  return word ? std::string(text) : std::string();
}

} // namespace tpc::rt
