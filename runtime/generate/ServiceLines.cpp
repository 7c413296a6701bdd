//===- ServiceLines.cpp - JSON lines of the generation service ------------===//

#include "generate/ServiceLines.h"
#include "core/Half.h"
#include "generate/ReadPrompts.h"
#include "program/Error.h"
#include "tpc/printable.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tpc::rt {
namespace {

using json = nlohmann::ordered_json;

constexpr const char *fieldNames = "id, ids, source, max_new_tokens, temperature, top_k, top_p, "
                                   "seed, repetition_penalty, stop_ids";

[[noreturn]] void refuse(const std::string &field, const std::string &what) {
  throw UserError("'" + field + "': " + what);
}

int64_t integerOf(const std::string &field, const json &value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    refuse(field, "expected an integer");
  return value.get<int64_t>();
}

double numberOf(const std::string &field, const json &value) {
  if (!value.is_number())
    refuse(field, "expected a number");
  return value.get<double>();
}

std::string textOf(const std::string &field, const json &value) {
  if (!value.is_string() || value.get_ref<const std::string &>().empty())
    refuse(field, "expected text that is not empty");
  return value.get<std::string>();
}

std::vector<int64_t> listOf(const std::string &field, const json &value) {
  if (!value.is_array())
    refuse(field, "expected a list of integers");
  std::vector<int64_t> list;
  list.reserve(value.size());
  for (const json &each : value)
    list.push_back(integerOf(field, each));
  return list;
}

/// Appends the numbers of nested lists, `depth` lists deep.
void addNumbers(const json &value, size_t depth, SourceNumbers &to) {
  constexpr size_t maxDepth = 4;
  if (!value.is_array()) {
    float number = static_cast<float>(numberOf("source", value));
    if (depth != to.shape.size() || !std::isfinite(number))
      refuse("source", "expected lists of equal depth of numbers in f32");
    to.numbers.push_back(number);
    return;
  }
  if (depth == to.shape.size() && to.numbers.empty() && depth < maxDepth)
    to.shape.push_back(std::ssize(value));
  if (depth >= to.shape.size() || std::ssize(value) != to.shape[depth])
    refuse("source", "expected lists of equal lengths, at most 4 lists deep");
  for (const json &each : value)
    addNumbers(each, depth + 1, to);
}

void setSource(ClientLine &line, GenerationRequest &request, const json &value) {
  if (value.is_string()) {
    line.source = SourceNumbers{textOf("source", value), {}, {}};
  } else if (value.is_array() && !value.empty() && value[0].is_array()) {
    line.source.emplace();
    addNumbers(value, 0, *line.source);
  } else {
    request.source.ids = listOf("source", value);
  }
}

void setField(GenerationRequest &request, bool &hasSeed, const std::string &field,
              const json &value) {
  SamplingSettings &sampling = request.sampling;
  if (field == "id") {
    request.id = textOf(field, value);
  } else if (field == "ids") {
    request.ids = listOf(field, value);
  } else if (field == "max_new_tokens") {
    request.maxNewTokens = integerOf(field, value);
    if (request.maxNewTokens < 1)
      refuse(field, "expected a positive number");
  } else if (field == "temperature") {
    sampling.temperature = narrowSetting(field, numberOf(field, value));
  } else if (field == "top_k") {
    sampling.topK = integerOf(field, value);
  } else if (field == "top_p") {
    sampling.topP = numberOf(field, value);
  } else if (field == "seed") {
    sampling.seed = value.is_number_unsigned() ? value.get<uint64_t>()
                                               : static_cast<uint64_t>(integerOf(field, value));
    hasSeed = true;
  } else if (field == "repetition_penalty") {
    sampling.repetitionPenalty = narrowSetting(field, numberOf(field, value));
  } else if (field == "stop_ids") {
    request.stopIds = listOf(field, value);
  } else {
    constexpr size_t shown = 40;
    throw UserError("there is no field '" + printable(field.substr(0, shown)) +
                    (field.size() > shown ? "…" : "") + "'; a request has " + fieldNames);
  }
}

void readLine(std::string_view line, const GenerationRequest &defaults, ClientLine &result) {
  std::set<std::string> fields;
  std::string twice;
  auto find = [&](int depth, json::parse_event_t event, json &value) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !fields.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(line, find);
  } catch (const json::out_of_range &) {
    throw UserError("the line has a number that is too large");
  } catch (const json::parse_error &) {
    throw UserError("the line is not JSON; each request must be one line");
  }
  if (!parsed.is_object())
    throw UserError("the line is not a JSON object");
  if (auto id = parsed.find("id"); id != parsed.end() && id->is_string())
    result.id = id->get<std::string>();
  if (!twice.empty())
    throw UserError("'" + printable(twice.substr(0, 40)) + "' is given twice");
  if (parsed.contains("cancel")) {
    if (parsed.size() != 1)
      throw UserError("'cancel' must be the only field: {\"cancel\": \"ID\"}");
    result.cancel = textOf("cancel", parsed["cancel"]);
    return;
  }
  GenerationRequest request = defaults;
  for (const auto &[field, value] : parsed.items())
    if (field == "source")
      setSource(result, request, value);
    else
      setField(request, result.hasSeed, field, value);
  for (const char *field : {"id", "ids"})
    if (!parsed.contains(field))
      throw UserError(std::string("the request has no '") + field + "'");
  // top_k or top_p without a temperature imply sampling at temperature 1.
  if (!parsed.contains("temperature") && request.sampling.temperature == 0 &&
      (parsed.contains("top_k") || parsed.contains("top_p")))
    request.sampling.temperature = 1;
  result.request = std::move(request);
}

std::string dump(const json &line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

ClientLine parseClientLine(std::string_view line, const GenerationRequest &defaults) {
  ClientLine result;
  try {
    readLine(line, defaults, result);
  } catch (const UserError &error) {
    result.problem = error.what();
  }
  return result;
}

/// Returns nested lists of the elements from `next` on.
static json toLists(const Tensor &tensor, size_t depth, int64_t &next) {
  if (depth == tensor.shape.size())
    return numberAt(tensor, next++);
  json list = json::array();
  for (int64_t i = 0; i < tensor.shape[depth]; ++i)
    list.push_back(toLists(tensor, depth + 1, next));
  return list;
}

std::string readSourceFile(std::string_view line, const std::string &file,
                           const Manifest &manifest) {
  std::vector<GenerationSource> sources = readSources(file, manifest);
  if (sources.size() != 1)
    refuse("source",
           file + " has " + std::to_string(sources.size()) + " sources, but a request has one");
  json parsed = json::parse(line);
  int64_t next = 0;
  if (sources[0].states)
    parsed["source"] = toLists(*sources[0].states, 0, next);
  else
    parsed["source"] = sources[0].ids;
  return dump(parsed);
}

void bindSource(ClientLine &line, const Manifest &manifest) {
  if (!line.request || !manifest.generation)
    return;
  const auto &source = manifest.generation->source;
  GenerationSource &given = line.request->source;
  auto fail = [&](const std::string &problem) {
    line.problem = problem;
    line.request.reset();
  };
  if (!source) {
    if (line.source)
      fail("it has a source, but the model has no cross-attention");
    return;
  }
  if (!line.source && given.ids.empty())
    return;
  const Port &input = manifest.inputs[static_cast<size_t>(source->input)];
  bool takesIds = input.dtype == TPC_I64 || input.dtype == TPC_I32;
  Shape shape = line.source ? line.source->shape : Shape{std::ssize(given.ids)};
  if (takesIds == line.source.has_value())
    return fail("'source': expected what input '" + input.name + "' takes, " +
                std::string(dtypeName(input.dtype)) + shapeOfSource(input));
  if (std::string problem = problemOfSource(shape, manifest); !problem.empty())
    return fail("'source': " + problem);
  given.each = source->each.value_or(0);
  given.token = source->token.value_or(-1);
  if (takesIds)
    return;
  auto states = std::make_shared<Tensor>();
  states->dtype = input.dtype;
  states->shape = shape;
  states->data = Buffer(std::ssize(line.source->numbers) * dtypeBytes(input.dtype));
  for (size_t i = 0; i < line.source->numbers.size(); ++i) {
    float number = line.source->numbers[i];
    if (input.dtype == TPC_F32)
      states->as<float>()[i] = number;
    else
      states->as<uint16_t>()[i] =
          input.dtype == TPC_F16 ? floatToHalf(number) : floatToBfloat(number);
  }
  given.states = std::move(states);
}

std::string tokenLine(const std::string &id, int64_t token, int64_t index) {
  return dump({{"id", id}, {"token", token}, {"index", index}});
}

std::string finishLine(const std::optional<std::string> &id, Finish why,
                       const std::string &message) {
  json line = {{"id", nullptr}, {"finish", spell(why)}};
  if (id)
    line["id"] = *id;
  if (!message.empty())
    line["message"] = message;
  return dump(line);
}

void LineCutter::add(std::string_view text) {
  rest.erase(0, begin);
  begin = 0;
  rest += text;
}

void LineCutter::close() { isClosed = true; }

std::optional<LineCutter::Line> LineCutter::take() {
  while (true) {
    size_t end = rest.find('\n', begin);
    if (end == std::string::npos && rest.size() - begin > maxBytes) {
      bool isFirst = !std::exchange(isSkipping, true);
      Line line{rest.substr(begin, 80), true};
      rest.clear();
      begin = 0;
      if (isFirst)
        return line;
      return std::nullopt;
    }
    if (end == std::string::npos && (!isClosed || begin == rest.size()))
      return std::nullopt;
    end = std::min(end, rest.size());
    Line line{rest.substr(begin, end - begin), end - begin > maxBytes};
    begin = std::min(end + 1, rest.size());
    if (std::exchange(isSkipping, false))
      continue;
    if (line.text.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    return line;
  }
}

} // namespace tpc::rt
