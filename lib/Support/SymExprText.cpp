//===- SymExprText.cpp - Symbolic sizes as text ---------------------------===//

#include "tpc/Support/SymExpr.h"

using namespace tpc;

std::string SymExpr::str() const {
  if (isOverflow())
    return "overflow";
  if (getTerms().empty())
    return "0";
  std::string text;
  for (const Term &t : getTerms()) {
    bool negative = t.coefficient < 0;
    std::string magnitude = std::to_string(t.coefficient);
    if (negative)
      magnitude.erase(0, 1);
    if (text.empty())
      text += negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    std::string key = t.key();
    if (key.empty())
      text += magnitude;
    else
      text += (magnitude == "1" ? "" : magnitude + "*") + key;
  }
  return text;
}

namespace {
/// Recursive-descent parser. The depth is bounded because files are untrusted.
class Parser {
public:
  Parser(std::string_view text) : text(text) {}

  std::optional<SymExpr> run(std::string *error) {
    std::optional<SymExpr> e = sum(0);
    skip();
    if (e && pos != text.size())
      e = fail("unexpected '" + std::string(1, text[pos]) + "'");
    if (e && e->isOverflow())
      e = fail("a coefficient does not fit in 64 bits");
    if (!e && error)
      *error = message;
    return e;
  }

private:
  static constexpr int maxDepth = 64;

  std::optional<SymExpr> fail(const std::string &what) {
    if (message.empty())
      message = what + " at column " + std::to_string(pos + 1) + " of '" + std::string(text) + "'";
    return std::nullopt;
  }
  void skip() {
    while (pos < text.size() && (text[pos] == ' ' || text[pos] == '\t'))
      ++pos;
  }
  bool take(std::string_view token) {
    skip();
    if (text.substr(pos, token.size()) != token)
      return false;
    // '*' must not match half of '**'; words must match whole identifiers.
    char next = pos + token.size() < text.size() ? text[pos + token.size()] : 0;
    if (token == "*" && next == '*')
      return false;
    if (isalpha((unsigned char)token[0]) && (isalnum((unsigned char)next) || next == '_'))
      return false;
    pos += token.size();
    return true;
  }

  std::optional<SymExpr> sum(int depth) {
    if (depth > maxDepth)
      return fail("nested too deeply");
    auto left = product(depth);
    while (left) {
      bool plus = take("+");
      if (!plus && !take("-"))
        break;
      auto right = product(depth);
      if (!right)
        return right;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }

  std::optional<SymExpr> product(int depth) {
    auto left = power(depth);
    while (left) {
      int op = take("*")                          ? 1
               : (take("//") || take("floordiv")) ? 2
               : (take("%") || take("mod"))       ? 3
                                                  : 0;
      if (!op)
        break;
      auto right = power(depth);
      if (!right)
        return right;
      if (op == 1)
        left = *left * *right;
      else if (right->isConstant(0))
        return fail("division by zero");
      else
        left = op == 2 ? SymExpr::floorDiv(*left, *right) : SymExpr::mod(*left, *right);
      if (left->getTerms().size() > 1000)
        return fail("expression too large");
    }
    return left;
  }

  std::optional<SymExpr> power(int depth) {
    auto base = primary(depth);
    if (!base || !take("**"))
      return base;
    auto exponent = primary(depth);
    if (!exponent)
      return exponent;
    auto n = exponent->asConstant();
    if (!n || *n < 0 || *n > 8)
      return fail("an exponent must be an integer from 0 to 8");
    SymExpr result(1);
    for (int64_t i = 0; i < *n; ++i) {
      result = result * *base;
      if (result.getTerms().size() > 1000)
        return fail("expression too large");
    }
    return result;
  }

  std::optional<SymExpr> primary(int depth) {
    if (depth > maxDepth)
      return fail("nested too deeply");
    skip();
    if (pos == text.size())
      return fail("unexpected end");
    if (take("-")) {
      auto e = primary(depth + 1);
      return e ? std::optional<SymExpr>(-*e) : e;
    }
    if (take("(")) {
      auto e = sum(depth + 1);
      if (e && !take(")"))
        return fail("expected ')'");
      return e;
    }
    char c = text[pos];
    if (isdigit((unsigned char)c)) {
      int64_t value = 0;
      for (; pos < text.size() && isdigit((unsigned char)text[pos]); ++pos)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[pos] - '0', &value))
          return fail("an integer does not fit in 64 bits");
      return SymExpr(value);
    }
    if (!isalpha((unsigned char)c) && c != '_')
      return fail("unexpected '" + std::string(1, c) + "'");
    size_t begin = pos;
    while (pos < text.size() &&
           (isalnum((unsigned char)text[pos]) || text[pos] == '_' || text[pos] == '.'))
      ++pos;
    std::string_view word = text.substr(begin, pos - begin);
    skip();
    if (pos < text.size() && text[pos] == '(')
      return call(word, depth);
    return SymExpr::symbol(word);
  }

  std::optional<SymExpr> call(std::string_view name, int depth) {
    take("(");
    auto a = sum(depth + 1);
    if (!a || !take(","))
      return fail("expected ','");
    auto b = sum(depth + 1);
    if (!b || !take(")"))
      return fail("expected ')'");
    if ((name == "floordiv" || name == "mod") && b->isConstant(0))
      return fail("division by zero");
    if (name == "floordiv")
      return SymExpr::floorDiv(*a, *b);
    if (name == "mod")
      return SymExpr::mod(*a, *b);
    if (name == "min" || name == "Min")
      return SymExpr::min(*a, *b);
    if (name == "max" || name == "Max")
      return SymExpr::max(*a, *b);
    return fail("unknown function '" + std::string(name) + "'");
  }

  std::string_view text;
  size_t pos = 0;
  std::string message;
};
} // namespace

std::optional<SymExpr> SymExpr::parse(std::string_view text, std::string *error) {
  return Parser(text).run(error);
}
