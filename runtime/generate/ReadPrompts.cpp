//===- ReadPrompts.cpp - prompts of the command line ----------------------===//

#include "generate/ReadPrompts.h"
#include "program/Error.h"
#include "program/File.h"
#include "program/GenerationFlags.h"
#include "program/Npy.h"
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tpc::rt {
namespace {

using nlohmann::json;
using Prompts = std::vector<std::vector<int64_t>>;

[[noreturn]] void refuse(const std::string &path, const std::string &what) {
  throw UserError("--prompt-ids '" + path + "': " + what);
}

Prompts readNpyPrompts(const std::string &path) {
  Tensor tensor = readNpy(path);
  if ((tensor.dtype != TPC_I64 && tensor.dtype != TPC_I32) || tensor.shape.empty() ||
      tensor.shape.size() > 2)
    refuse(path, std::string("expected i64 or i32 of one or two dimensions, found ") +
                     dtypeName(tensor.dtype) + shapeText(tensor.shape));
  if (tensor.shape[0] == 0 && tensor.shape.size() == 2)
    refuse(path, "contains no prompt");
  int64_t length = tensor.shape.back();
  Prompts prompts(static_cast<size_t>(tensor.shape.size() == 2 ? tensor.shape[0] : 1));
  for (size_t row = 0; row < prompts.size(); ++row)
    for (int64_t i = 0; i < length; ++i) {
      int64_t at = static_cast<int64_t>(row) * length + i;
      prompts[row].push_back(tensor.dtype == TPC_I64 ? tensor.as<int64_t>()[at]
                                                     : tensor.as<int32_t>()[at]);
    }
  return prompts;
}

/// Returns the text of an invalid id for messages: its first characters, or the type of a nested
/// value.
std::string textOf(const json &value) {
  constexpr size_t maximum = 40;
  std::string text = value.is_primitive() ? value.dump() : value.type_name();
  return text.size() > maximum ? text.substr(0, maximum) + "…" : text;
}

Prompts readJsonPrompts(const std::string &path) {
  constexpr int64_t maxBytes = int64_t(1) << 30;
  File file(path);
  if (file.size() > maxBytes)
    refuse(path, "has " + std::to_string(file.size()) + " bytes; at most " +
                     std::to_string(maxBytes) + " are read");
  std::string text(static_cast<size_t>(file.size()), 0);
  if (!file.readAt(text.data(), text.size(), 0))
    refuse(path, "cannot be read");
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array())
    refuse(path, "expected a list of ids, or a list of such lists");
  Prompts prompts;
  auto add = [&](const json &row) {
    prompts.emplace_back();
    for (const json &id : row) {
      if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX))
        refuse(path, "expected ids, found " + textOf(id));
      prompts.back().push_back(id.get<int64_t>());
    }
  };
  auto isList = [](const json &each) { return each.is_array(); };
  if (parsed.empty() || !std::all_of(parsed.begin(), parsed.end(), isList))
    add(parsed);
  else
    std::for_each(parsed.begin(), parsed.end(), add);
  return prompts;
}

bool endsWith(const std::string &text, const char *end) { return text.ends_with(end); }

} // namespace

Prompts readPrompts(const std::string &text) {
  if (std::optional<std::vector<int64_t>> ids = parseIds(text))
    return {*ids};
  if (endsWith(text, ".npy"))
    return readNpyPrompts(text);
  if (endsWith(text, ".json"))
    return readJsonPrompts(text);
  throw UserError("--prompt-ids " + text +
                  ": expected ids, such as 12,7,99, or a file FILE.json or "
                  "FILE.npy");
}

} // namespace tpc::rt
