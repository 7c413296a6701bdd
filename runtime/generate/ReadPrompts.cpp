//===- ReadPrompts.cpp - Prompts of the command line ----------------------===//

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

/// A file that a flag names.
struct FlagFile {
  std::string flag, path;
};

[[noreturn]] void refuse(const FlagFile &file, const std::string &what) {
  throw UserError(file.flag + " '" + file.path + "': " + what);
}

Prompts readNpyPrompts(const FlagFile &source) {
  Tensor tensor = readNpy(source.path);
  if ((tensor.dtype != TPC_I64 && tensor.dtype != TPC_I32) || tensor.shape.empty() ||
      tensor.shape.size() > 2)
    refuse(source, std::string("expected i64 or i32 of one or two dimensions, found ") +
                       dtypeName(tensor.dtype) + shapeText(tensor.shape));
  if (tensor.shape[0] == 0 && tensor.shape.size() == 2)
    refuse(source, "contains no prompt");
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

Prompts readJsonPrompts(const FlagFile &source) {
  constexpr int64_t maxBytes = int64_t(1) << 30;
  File file(source.path);
  if (file.size() > maxBytes)
    refuse(source, "has " + std::to_string(file.size()) + " bytes; at most " +
                       std::to_string(maxBytes) + " are read");
  std::string text(static_cast<size_t>(file.size()), 0);
  if (!file.readAt(text.data(), text.size(), 0))
    refuse(source, "cannot be read");
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array())
    refuse(source, "expected a list of ids, or a list of such lists");
  Prompts prompts;
  auto add = [&](const json &row) {
    prompts.emplace_back();
    for (const json &id : row) {
      if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX))
        refuse(source, "expected ids, found " + textOf(id));
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

Prompts readPrompts(const std::string &text, const std::string &flag) {
  if (std::optional<std::vector<int64_t>> ids = parseIds(text))
    return {*ids};
  if (endsWith(text, ".npy"))
    return readNpyPrompts({flag, text});
  if (endsWith(text, ".json"))
    return readJsonPrompts({flag, text});
  throw UserError(flag + " " + text +
                  ": expected ids, such as 12,7,99, or a file FILE.json or "
                  "FILE.npy");
}

std::string shapeOfSource(const Port &input) {
  std::string text;
  for (size_t i = 1; i < input.shape.size(); ++i)
    text += (text.empty() ? "[" : ", ") + input.shape[i];
  return text + "]";
}

std::string problemOfSource(const Shape &shape, const Manifest &manifest) {
  const Generation::Source &source = *manifest.generation->source;
  const Port &input = manifest.inputs[static_cast<size_t>(source.input)];
  bool fits = shape.size() + 1 == input.shape.size();
  for (size_t i = source.each ? 0 : 1; fits && i < shape.size(); ++i)
    fits = std::to_string(shape[i]) == input.shape[i + 1];
  return fits ? ""
              : "is of " + shapeText(shape) + ", but input '" + input.name + "' takes " +
                    shapeOfSource(input);
}

std::vector<GenerationSource> readSources(const std::string &text, const Manifest &manifest) {
  std::vector<GenerationSource> sources;
  const Generation::Source &source = *manifest.generation->source;
  const Port &input = manifest.inputs[static_cast<size_t>(source.input)];
  if (input.dtype == TPC_I64 || input.dtype == TPC_I32) {
    for (std::vector<int64_t> &ids : readPrompts(text, "--source")) {
      if (std::string problem = problemOfSource({std::ssize(ids)}, manifest); !problem.empty())
        throw UserError("--source " + text + ": " + problem);
      sources.push_back(
          {std::move(ids), nullptr, source.each.value_or(0), source.token.value_or(-1)});
    }
    return sources;
  }
  if (!endsWith(text, ".npy"))
    throw UserError("--source " + text + ": expected FILE.npy, because input '" + input.name +
                    "' takes " + dtypeName(input.dtype));
  Tensor tensor = readNpy(text);
  if (tensor.shape.size() + 1 == input.shape.size())
    tensor.shape.insert(tensor.shape.begin(), 1);
  if (tensor.dtype != input.dtype)
    refuse({"--source", text}, std::string("has ") + dtypeName(tensor.dtype) + ", but input '" +
                                   input.name + "' takes " + dtypeName(input.dtype));
  Shape one(tensor.shape.begin() + (tensor.shape.empty() ? 0 : 1), tensor.shape.end());
  if (std::string problem = problemOfSource(one, manifest); !problem.empty())
    refuse({"--source", text}, problem);
  int64_t each = tensor.shape[0] ? tensor.data.size() / tensor.shape[0] : 0;
  for (int64_t i = 0; i < tensor.shape[0]; ++i) {
    auto states = std::make_shared<Tensor>();
    states->dtype = tensor.dtype;
    states->shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
    states->data = Buffer(each);
    std::copy_n(tensor.data.data() + i * each, each, states->data.data());
    sources.push_back({{}, std::move(states), source.each.value_or(0), source.token.value_or(-1)});
  }
  return sources;
}

} // namespace tpc::rt
