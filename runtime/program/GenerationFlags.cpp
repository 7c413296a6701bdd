//===- GenerationFlags.cpp - Generation flags of a program ----------------===//

#include "program/GenerationFlags.h"
#include "program/Error.h"
#include <charconv>
#include <cmath>
#include <limits>

namespace tpc::rt {
namespace {

/// Maximum of settings that the sampler stores as f32.
constexpr double largest = std::numeric_limits<float>::max();

[[noreturn]] void refuse(const std::string &flag, const std::string &text, const char *expected) {
  throw UserError(flag + " " + text + ": expected " + expected);
}

int64_t integerOf(const std::string &flag, const std::string &text, int64_t minimum,
                  const char *expected) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum)
    refuse(flag, text, expected);
  return value;
}

double numberOf(const std::string &flag, const std::string &text, bool (*isValid)(double),
                const char *expected) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      !isValid(value))
    refuse(flag, text, expected);
  return value;
}

} // namespace

std::optional<std::vector<int64_t>> parseIds(const std::string &text) {
  std::vector<int64_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    int64_t id = 0;
    auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ',') || next + 1 == end)
      return std::nullopt;
    ids.push_back(id);
    at = next == end ? next : next + 1;
  }
  return ids;
}

bool setGenerationFlag(GenerationOptions &options, const std::string &flag,
                       const std::function<std::string()> &value) {
  constexpr const char *positive = "a positive integer";
  if (flag == "--prompt-ids") {
    options.prompts.push_back(value());
  } else if (flag == "--source") {
    options.sources.push_back(value());
  } else if (flag == "--max-source") {
    options.maxSource = integerOf(flag, value(), 1, positive);
  } else if (flag == "--max-new-tokens") {
    options.maxNewTokens = integerOf(flag, value(), 0, "an integer that is not negative");
  } else if (flag == "--temperature") {
    options.temperature = numberOf(
        flag, value(), [](double x) { return x >= 0 && x <= largest; },
        "0 (the most probable token) or a positive number, at most 3.4e38");
  } else if (flag == "--top-k") {
    options.topK = integerOf(flag, value(), 0, "0 (all tokens) or a positive integer");
  } else if (flag == "--top-p") {
    options.topP = numberOf(
        flag, value(), [](double x) { return x > 0 && x <= 1; }, "a number above 0, at most 1");
  } else if (flag == "--repetition-penalty") {
    options.repetitionPenalty = numberOf(
        flag, value(), [](double x) { return x > 0 && x <= largest; },
        "a positive number, at most 3.4e38");
  } else if (flag == "--seed") {
    std::string text = value();
    uint64_t seed = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    bool isWhole = error == std::errc() && end == text.data() + text.size();
    options.seed =
        isWhole ? seed
                : static_cast<uint64_t>(integerOf(flag, text, std::numeric_limits<int64_t>::min(),
                                                  "an integer of 64 bits"));
  } else if (flag == "--stop-ids") {
    std::string text = value();
    std::optional<std::vector<int64_t>> ids = parseIds(text);
    if (!ids)
      refuse(flag, text, "ids, such as 2 or 2,50256");
    options.stopIds = *ids;
  } else if (flag == "--max-sequence") {
    options.maxSequence = integerOf(flag, value(), 1, positive);
  } else if (flag == "--prefill-chunk") {
    options.prefillChunk = integerOf(flag, value(), 1, positive);
  } else if (flag == "--max-batch") {
    options.maxBatch = integerOf(flag, value(), 1, positive);
  } else if (flag == "--logits") {
    options.logits = value();
    if (options.logits.empty())
      refuse(flag, "", "a file, such as logits.npy");
  } else {
    return false;
  }
  options.note(flag);
  return true;
}

std::string generationHelp(const std::string &program) {
  return "Generate tokens:\n  " + program +
         " --prompt-ids 12,7,99 --max-new-tokens 64\n"
         "Serve requests, one line of JSON each, and print tokens as they are generated:\n  " +
         program + R"( --serve-stdin --max-batch 4
  {"id":"a","ids":[12,7,99],"max_new_tokens":64,"temperature":0.8,"top_k":40,"top_p":0.95,"seed":1,
   "repetition_penalty":1.1,"stop_ids":[2]}     in, on one line; or {"cancel":"a"}
  {"id":"a","token":5,"index":0}                out, and at the end {"id":"a","finish":"stop|length|cancelled|error"}

Flags of generation (with --serve-stdin: defaults of requests):
  --prompt-ids IDS         a prompt such as 12,7,99, or a file of prompts: .json (a list, or a list of lists) or .npy.
                           Repeatable. The new tokens of each prompt are one line of standard output
  --source IDS             for encoder-decoders: what the tokens of a prompt attend to: ids such as 5,7,2, or a file as for
                           --prompt-ids; with states of an encoder, .npy of [tokens, …] or [sources, tokens, …]. One for
                           each prompt, in order; a single prompt is used with each source
  --max-source N           with --serve-stdin: maximum number of tokens of a source (default: the model's maximum)
  --max-new-tokens N       new tokens per sequence (64)
  --temperature X          divisor of the scores; 0: always the most probable token (default: 0; with --top-k or --top-p: 1)
  --top-k K, --top-p P     sample from the K most probable tokens; of these, from the fewest whose probabilities sum to P
  --repetition-penalty X   make tokens that the sequence already contains less probable (1: no penalty)
  --seed N                 seed of random numbers (0). The same seed gives the same tokens, whatever other sequences run
  --stop-ids ID,…          ids that end a sequence
  --max-sequence N         maximum number of tokens of a sequence (default: those of prompt and new tokens; with
                           --serve-stdin: the model's maximum)
  --prefill-chunk N        prompt tokens per step (512)
  --max-batch N            concurrent sequences; others wait (default: the number of prompts; with --serve-stdin: 1)
  --logits FILE.npy        save the logits of one prompt's tokens
)";
}

} // namespace tpc::rt
