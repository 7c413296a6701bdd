//===- Request.cpp - Generation request -----------------------------------===//

#include "generate/Request.h"
#include "generate/Score.h"
#include "program/Error.h"
#include "tpc/digest.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

namespace tpc::rt {

int64_t lengthOf(const GenerationRequest &request) {
  int64_t length = 0;
  bool isMore = __builtin_add_overflow(std::ssize(request.ids), request.maxNewTokens, &length);
  return isMore ? std::numeric_limits<int64_t>::max() : length;
}

std::string textOf(const GenerationRequest &request) {
  std::ostringstream text;
  text << std::hexfloat;
  for (int64_t id : request.ids)
    text << id << " ";
  for (int64_t id : request.source.ids)
    text << id << "< ";
  if (const auto &states = request.source.states) {
    uint64_t hash = kFnv1aBasis;
    for (int64_t i = 0; i < states->data.size(); ++i)
      hash = fnv1a(hash, static_cast<unsigned char>(states->data.data()[i]));
    text << hash << "< ";
  }
  const SamplingSettings &sampling = request.sampling;
  text << "then " << request.maxNewTokens << " " << sampling.repetitionPenalty << " "
       << sampling.temperature << " " << sampling.topK << " " << sampling.topP << " "
       << sampling.seed << " until";
  for (int64_t id : request.stopIds)
    text << " " << id;
  return text.str();
}

const char *spell(Finish why) {
  switch (why) {
  case Finish::Stop:
    return "stop";
  case Finish::Length:
    return "length";
  case Finish::Cancelled:
    return "cancelled";
  case Finish::Error:
    return "error";
  }
  return "error";
}

/// Shortest text that distinguishes the number: 0.7, 1e+39, inf.
template <class Number> static std::string text(Number value) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

float narrowSetting(const std::string &name, double value) {
  constexpr double largest = std::numeric_limits<float>::max(),
                   smallest = std::numeric_limits<float>::min();
  if (std::isfinite(value) && std::abs(value) > largest)
    throw UserError(name + " " + text(value) + ": expected a number of at most " + text(largest));
  // A smaller number would round to 0, which has another meaning.
  return static_cast<float>(value > 0 && value < smallest ? smallest : value);
}

static std::string problemOf(const SamplingSettings &sampling) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature))
    return "temperature " + text(sampling.temperature) +
           ": expected 0 (the most probable token) or a positive number";
  if (sampling.topK < 0)
    return "top_k " + std::to_string(sampling.topK) +
           ": expected 0 (all tokens) or a positive number";
  if (!(sampling.topP > 0 && sampling.topP <= 1))
    return "top_p " + text(sampling.topP) + ": expected a number above 0, at most 1";
  if (!(sampling.repetitionPenalty > 0) || std::isinf(sampling.repetitionPenalty))
    return "repetition_penalty " + text(sampling.repetitionPenalty) +
           ": expected a positive number";
  return "";
}

static std::string problemOfSource(const GenerationRequest &request, const Generation &generation,
                                   int64_t capacity) {
  const GenerationSource &source = request.source;
  if (!generation.source)
    return source.size() ? "it has a source, but the model has no cross-attention" : "";
  if (std::optional<int64_t> token = generation.source->token) {
    auto count = std::count(request.ids.begin(), request.ids.end(), *token);
    if (count != source.size())
      return "the prompt has " + std::to_string(count) + " image tokens (id " +
             std::to_string(*token) + "), but its source has " + std::to_string(source.size()) +
             ": each stands for one row of the image's features";
    if (count == 0)
      return "";
  }
  if (source.size() == 0)
    return "it has no source, which tokens of this model attend to: give one with --source, or as "
           "'source'";
  if (int64_t each = generation.source->each.value_or(0); source.each != each)
    return "the source has " + std::to_string(source.size()) + " tokens, but each source of this " +
           "model has " + std::to_string(each);
  if (source.size() > capacity)
    return "the source has " + std::to_string(source.size()) + " tokens; the maximum is " +
           std::to_string(capacity) + " (--max-source)";
  for (int64_t id : source.ids)
    if (id < 0 || id > generation.source->lastToken)
      return "source token " + std::to_string(id) + ": valid are 0 to " +
             std::to_string(generation.source->lastToken);
  return "";
}

std::string problemOf(const GenerationRequest &request, const Generation &generation,
                      int64_t capacity, int64_t sourceCapacity) {
  if (request.ids.empty())
    return "the prompt is empty: give one token at least";
  for (size_t i = 0; i < request.ids.size(); ++i)
    if (request.ids[i] < 0 || request.ids[i] > generation.lastToken)
      return "token " + std::to_string(request.ids[i]) + " at " + std::to_string(i) +
             " of the prompt: valid are 0 to " + std::to_string(generation.lastToken);
  if (std::ssize(request.ids) > capacity)
    return "the prompt has " + std::to_string(request.ids.size()) + " tokens; the maximum is " +
           std::to_string(capacity) + " (--max-sequence)";
  if (request.maxNewTokens < 0)
    return "max_new_tokens " + std::to_string(request.maxNewTokens) +
           ": expected a positive number";
  for (int64_t id : request.stopIds)
    if (id < 0 || id >= generation.vocabulary)
      return "stop id " + std::to_string(id) + ": valid are 0 to " +
             std::to_string(generation.vocabulary - 1);
  if (std::string problem = problemOfSource(request, generation, sourceCapacity); !problem.empty())
    return problem;
  return problemOf(request.sampling);
}

} // namespace tpc::rt
