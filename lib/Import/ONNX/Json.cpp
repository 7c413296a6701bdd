//===- Json.cpp - JSON of untrusted files ---------------------------------===//

#include "Json.h"

#include "tpc/printable.h"

#include "llvm/ADT/StringSet.h"

#include <nlohmann/json.hpp>

using namespace mlir::tpc::frontend;
using llvm::StringRef;

static constexpr size_t kMaxJsonDepth = 16;
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
/// Receives the values of a text in their order, and stores them. Names are those that
/// nlohmann::json requires.
class Reader {
public:
  bool null() { return add(Json::Null, "null"); }
  bool boolean(bool value) { return add(Json::Boolean, value ? "true" : "false"); }
  bool number_integer(int64_t value) { return add(Json::Number, std::to_string(value)); }
  bool number_unsigned(uint64_t value) { return add(Json::Number, std::to_string(value)); }
  bool number_float(double, const std::string &text) { return add(Json::Number, text); }
  bool string(std::string &text) { return add(Json::String, text); }
  bool binary(nlohmann::json::binary_t &) { return fail("has binary data"); }
  bool start_object(size_t) { return open(Json::Object); }
  bool start_array(size_t) { return open(Json::Array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string &name) {
    if (!parents.back().second.insert(name).second)
      return fail("'" + ::tpc::printable(name) + "' occurs twice");
    parents.back().first->names.push_back(name);
    return true;
  }
  bool parse_error(size_t byte, const std::string &, const nlohmann::json::exception &problem) {
    // `byte` counts from 1. The text of the exception begins with its number, line and column.
    StringRef what = StringRef(problem.what()).rsplit("parse error").second;
    return fail("byte " + llvm::Twine(byte ? byte - 1 : 0) + ": " +
                ::tpc::printable(what.split(": ").second.str()));
  }

  Json root;
  std::string error;

private:
  bool fail(const llvm::Twine &what) {
    error = what.str();
    return false;
  }
  /// Returns the location of the next value; null if there are too many.
  Json *next() {
    if (++values > kMaxValues) {
      fail("has more than " + llvm::Twine(kMaxValues) + " values");
      return nullptr;
    }
    return parents.empty() ? &root : &parents.back().first->items.emplace_back();
  }
  bool add(Json::Kind kind, std::string text) {
    Json *value = next();
    if (!value)
      return false;
    value->kind = kind;
    value->text = std::move(text);
    return true;
  }
  bool open(Json::Kind kind) {
    if (parents.size() > kMaxJsonDepth)
      return fail("has values that are nested more than " + llvm::Twine(kMaxJsonDepth) + " deep");
    Json *value = next();
    if (!value)
      return false;
    value->kind = kind;
    parents.emplace_back(value, llvm::StringSet<>());
    return true;
  }
  bool close() {
    parents.pop_back();
    return true;
  }

  /// Arrays and objects around the next value, with the names that an object has so far. Pointers
  /// stay valid: an element is added only after the array or object before it has ended.
  std::vector<std::pair<Json *, llvm::StringSet<>>> parents;
  int64_t values = 0;
};
} // namespace

llvm::Expected<Json> mlir::tpc::frontend::parseJson(StringRef text) {
  Reader reader;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
    return std::move(reader.root);
  return llvm::createStringError(llvm::inconvertibleErrorCode(), reader.error);
}
