//===- Json.cpp - JSON of untrusted files ---------------------------------===//

#include "Json.h"

#include "tpc/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ConvertUTF.h"

using namespace mlir::tpc::frontend;
using llvm::StringRef;

static constexpr int kMaxDepth = 16;
static constexpr int64_t kMaxValues = 2'000'000;

const Json *Json::find(StringRef name) const {
  auto it = llvm::find(names, name);
  return it == names.end() ? nullptr : &items[it - names.begin()];
}

std::optional<int64_t> Json::asSize() const {
  int64_t number = 0;
  if (kind != Number || StringRef(text).getAsInteger(10, number) || number < 0)
    return std::nullopt;
  return number;
}

namespace {
class Parser {
public:
  explicit Parser(StringRef text) : text(text) {}

  llvm::Expected<Json> run() {
    Json value;
    if (parse(value, 0)) {
      skipSpace();
      if (at == text.size())
        return value;
      fail("expected the end");
    }
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "byte " + llvm::Twine(at) + ": " + error);
  }

private:
  bool fail(const llvm::Twine &what) {
    if (error.empty())
      error = what.str();
    return false;
  }

  void skipSpace() {
    while (at < text.size() && StringRef(" \t\r\n").contains(text[at]))
      ++at;
  }

  bool consume(char c) {
    skipSpace();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }

  bool parse(Json &value, int depth) {
    if (depth > kMaxDepth)
      return fail("values are nested more than " + llvm::Twine(kMaxDepth) + " deep");
    if (++values > kMaxValues)
      return fail("more than " + llvm::Twine(kMaxValues) + " values");
    skipSpace();
    if (at == text.size())
      return fail("the text ends here");
    switch (text[at]) {
    case '{':
      return parseObject(value, depth);
    case '[':
      return parseArray(value, depth);
    case '"':
      value.kind = Json::String;
      return parseString(value.text);
    }
    value.text =
        text.substr(at)
            .take_while([](char c) { return llvm::isAlnum(c) || c == '-' || c == '+' || c == '.'; })
            .str();
    double number;
    if (value.text == "null")
      value.kind = Json::Null;
    else if (value.text == "true" || value.text == "false")
      value.kind = Json::Boolean;
    else if (!value.text.empty() && (llvm::isDigit(value.text[0]) || value.text[0] == '-') &&
             !StringRef(value.text).getAsDouble(number))
      value.kind = Json::Number;
    else
      return fail("expected a value");
    at += value.text.size();
    return true;
  }

  bool parseObject(Json &value, int depth) {
    value.kind = Json::Object;
    ++at;
    if (consume('}'))
      return true;
    llvm::StringSet<> names;
    do {
      std::string name;
      skipSpace();
      if (at == text.size() || text[at] != '"')
        return fail("expected a name in quotes");
      if (!parseString(name))
        return false;
      if (!names.insert(name).second)
        return fail("'" + ::tpc::printable(name) + "' occurs twice");
      if (!consume(':'))
        return fail("expected ':'");
      value.names.push_back(std::move(name));
      value.items.emplace_back();
      if (!parse(value.items.back(), depth + 1))
        return false;
    } while (consume(','));
    return consume('}') || fail("expected ',' or '}'");
  }

  bool parseArray(Json &value, int depth) {
    value.kind = Json::Array;
    ++at;
    if (consume(']'))
      return true;
    do {
      value.items.emplace_back();
      if (!parse(value.items.back(), depth + 1))
        return false;
    } while (consume(','));
    return consume(']') || fail("expected ',' or ']'");
  }

  bool parseUnit(unsigned &unit) {
    if (text.substr(at, 4).size() < 4 || text.substr(at, 4).getAsInteger(16, unit))
      return fail("expected four hexadecimal digits");
    at += 4;
    return true;
  }

  bool parseString(std::string &result) {
    for (++at; at < text.size(); ++at) {
      char c = text[at];
      if (c == '"') {
        ++at;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20)
        return fail("a string has a control character");
      if (c != '\\') {
        result += c;
        continue;
      }
      if (++at == text.size())
        break;
      constexpr StringRef codes = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
      if (size_t code = codes.find(text[at]); code != StringRef::npos) {
        result += characters[code];
        continue;
      }
      unsigned unit = 0, low = 0;
      if (text[at++] != 'u')
        return fail("a string has an unknown escape");
      if (!parseUnit(unit))
        return false;
      if (unit >= 0xd800 && unit < 0xdc00) {
        if (!text.substr(at).starts_with("\\u"))
          return fail("a string has half of a surrogate pair");
        at += 2;
        if (!parseUnit(low))
          return false;
        if (low < 0xdc00 || low > 0xdfff)
          return fail("a string has half of a surrogate pair");
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
      }
      char encoded[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *end = encoded;
      if (!llvm::ConvertCodePointToUTF8(unit, end))
        return fail("a string has half of a surrogate pair");
      result.append(encoded, end);
      --at; // the loop advances
    }
    return fail("a string does not end");
  }

  StringRef text;
  size_t at = 0;
  int64_t values = 0;
  std::string error;
};
} // namespace

llvm::Expected<Json> mlir::tpc::frontend::parseJson(StringRef text) { return Parser(text).run(); }
