//===- CompareTasks.cpp - Comparison of flags between ranks ---------------===//

#include "program/CompareTasks.h"
#include <sstream>

namespace tpc::rt {
namespace {

template <typename Value>
void add(std::vector<Trait> &traits, const char *flag, const std::optional<Value> &value) {
  std::ostringstream text;
  text.precision(17);
  if (value)
    text << *value;
  traits.push_back({flag, value ? text.str() : "none"});
}

std::string taskOf(const Options &options) {
  if (options.mode == Options::Mode::Bench)
    return "to measure (--bench)";
  if (options.generation.serves)
    return "to serve (--serve-stdin)";
  return options.generation.prompts.empty() ? "to run" : "to generate (--prompt-ids)";
}

std::string inputsOf(const Options &options) {
  std::string text;
  for (const auto &[name, file] : options.inputs)
    text += (text.empty() ? "" : ", ") + name;
  if (!options.positional.empty())
    text +=
        (text.empty() ? "" : ", ") + std::to_string(options.positional.size()) + " without a name";
  return (text.empty() ? "none" : text) + (options.isBatch ? " (--batch-of)" : "");
}

} // namespace

std::vector<Trait> traitsOfTask(const Options &options) {
  std::string sizes;
  for (const auto &[symbol, value] : options.shape)
    sizes += (sizes.empty() ? "" : ",") + symbol + "=" + std::to_string(value);
  std::vector<Trait> traits = {
      {"task", taskOf(options)},
      {"--shape", sizes.empty() ? "none" : sizes},
      {"set of inputs with files", inputsOf(options)},
      {"number of steps", std::to_string(options.warmup) + " with --warmup, " +
                              std::to_string(options.repeat) + " with --repeat"},
      {"--verify-weights", options.verifyWeights ? "yes" : "no"}};
  const GenerationOptions &generation = options.generation;
  add(traits, "--max-batch", generation.maxBatch);
  add(traits, "--max-sequence", generation.maxSequence);
  add(traits, "--prefill-chunk", generation.prefillChunk);
  add(traits, "--max-new-tokens", generation.maxNewTokens);
  add(traits, "--temperature", generation.temperature);
  add(traits, "--top-k", generation.topK);
  add(traits, "--top-p", generation.topP);
  add(traits, "--repetition-penalty", generation.repetitionPenalty);
  add(traits, "--seed", generation.seed);
  traits.push_back({"--logits", generation.logits.empty() ? "no" : "yes"});
  return traits;
}

std::vector<Trait> traitsOfInputs(const Manifest &manifest, const Inputs &first, size_t requests) {
  std::string text;
  for (size_t i = 0; i < first.tensors.size() && i < manifest.inputs.size(); ++i) {
    text += (text.empty() ? "" : ", ") + manifest.inputs[i].name + " [";
    const Shape &shape = first.tensors[i].shape;
    for (size_t j = 0; j < shape.size(); ++j)
      text += (j ? "," : "") + std::to_string(shape[j]);
    text += "]";
  }
  return {{"number of runs, one for each set of input files", std::to_string(requests)},
          {"set of input sizes", text}};
}

} // namespace tpc::rt
