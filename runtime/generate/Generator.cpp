//===- Generator.cpp - Generation loop of a process -----------------------===//

#include "generate/Generator.h"
#include "generate/RankLoop.h"
#include "generate/Windows.h"
#include "program/Error.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tpc::rt {

GenerationClient::~GenerationClient() = default;
GenerationClient::ClientInput GenerationClient::pollInput(bool) { return {{}, {}, true}; }

TokenGenerator::TokenGenerator(Execution &execution, const Manifest &manifest,
                               GenerationLimits limits)
    : execution(execution), theManifest(manifest), theLimits(limits) {
  checkGeneration(manifest, limits);
  stepsAhead();
}

void TokenGenerator::generate(std::vector<GenerationRequest> requests, GenerationClient &client,
                              const GenerationMode &mode) {
  for (size_t i = 0; i < requests.size(); ++i)
    if (std::string problem =
            problemOf(requests[i], *theManifest.generation, theLimits.capacity, theLimits.source);
        !problem.empty())
      throw UserError((requests.size() > 1 ? "prompt " + std::to_string(i) + ": " : "") + problem);
  std::vector<std::unique_ptr<RankLoop>> loops;
  for (int i = 0; i < execution.numLocal(); ++i) {
    loops.push_back(std::make_unique<RankLoop>(theManifest, theLimits, mode));
    for (const GenerationRequest &request : requests)
      loops.back()->add(request);
  }
  int first = execution.local(0).rank;
  // All ranks detect at the same point that a step has new sizes; only then does the loop stop.
  for (bool isDone = false; !isDone;) {
    execution.each([&](tpc_context &ctx) {
      RankLoop &loop = *loops[static_cast<size_t>(ctx.rank - first)];
      bool done = loop.run(ctx, execution, ctx.rank == 0 ? &client : nullptr);
      ctx.outputs = &execution.outputs();
      if (ctx.rank == first)
        isDone = done;
    });
    if (!isDone)
      execution.prepareSizes(loops[0]->next());
  }
  // The last rank of this process is on its last stage, which samples if it is the program's last.
  const Counts &made = loops.back()->counts();
  theCounts.steps += made.steps;
  theCounts.tokens += made.tokens;
  theCounts.ahead += made.ahead;
  theCounts.dropped += made.dropped;
  int64_t maximum = 0;
  for (const std::unique_ptr<RankLoop> &loop : loops)
    maximum = std::max(maximum, loop->counts().bytes);
  theCounts.bytes += maximum;
  theCounts.sampler.steps += made.sampler.steps;
  theCounts.sampler.rounds += made.sampler.rounds;
  theCounts.sampler.extra += made.sampler.extra;
}

int64_t stepsAhead() {
  static const char *const text = std::getenv("TPC_STEPS_AHEAD");
  if (!text || !*text)
    return 8;
  int64_t steps = -1;
  const char *end = text + std::strlen(text);
  if (std::from_chars(text, end, steps).ptr != end || steps < 0 || steps >= Device::maxStepsAhead)
    throw UserError("TPC_STEPS_AHEAD=" + std::string(text) + ": expected a number from 0 to " +
                    std::to_string(Device::maxStepsAhead - 1));
  return steps;
}

void checkGeneration(const Manifest &manifest, const GenerationLimits &limits) {
  const Generation &generation = *manifest.generation;
  // Far above practical use, and small enough that per-slot state stays small compared with its
  // caches.
  constexpr int64_t maxSlots = 1 << 16;
  if (limits.slots > maxSlots)
    throw UserError(std::to_string(limits.slots) +
                    " sequences at a time (--max-batch): the maximum is " +
                    std::to_string(maxSlots));
  // Keeps the byte counts of any model's caches within 63 bits.
  constexpr int64_t maxTokens = int64_t(1) << 40;
  if (limits.capacity > maxTokens / limits.slots)
    throw UserError(std::to_string(limits.slots) + " sequences of " +
                    std::to_string(limits.capacity) +
                    " tokens: too many in all. Give a smaller --max-sequence or "
                    "max_new_tokens");
  if (generation.source && generation.source->maxTokens &&
      limits.source > *generation.source->maxTokens)
    throw UserError("a source of " + std::to_string(limits.source) +
                    " tokens (--max-source): the model is made for sources of " +
                    std::to_string(*generation.source->maxTokens) + " tokens at most");
  if (limits.source > maxTokens / limits.slots)
    throw UserError(std::to_string(limits.slots) + " sources of " + std::to_string(limits.source) +
                    " tokens: too many in all. Give a smaller --max-source");
  if (generation.maxSequence && limits.capacity > *generation.maxSequence)
    throw UserError("--max-sequence " + std::to_string(limits.capacity) +
                    ": the model is made for sequences of " +
                    std::to_string(*generation.maxSequence) + " tokens at most");
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Port &port = manifest.inputs[i];
    auto index = static_cast<int>(i);
    bool isGiven = index == generation.tokens || index == generation.lengths ||
                   index == generation.counts ||
                   (generation.windowed && index == generation.windowed->lengths) ||
                   (generation.source &&
                    (index == generation.source->lengths || index == generation.source->input));
    if (!isGiven && port.fallback == Port::Default::None)
      throw UserError("input '" + port.name + "' has no default: this program cannot generate");
  }
  for (const std::string &symbol : manifest.symbols)
    if (symbol != generation.batch && symbol != generation.sequence &&
        symbol != generation.capacity &&
        !(generation.windowed && symbol == generation.windowed->capacity) &&
        !(generation.source &&
          (symbol == generation.source->tokens || symbol == generation.source->capacity)))
      throw UserError("no size is known for '" + symbol + "': this program cannot generate");
}

Inputs stepInputs(const Manifest &manifest, const GenerationLimits &limits, int64_t rows,
                  int64_t sequence, int64_t source) {
  const Generation &generation = *manifest.generation;
  SymbolValues symbols = {{generation.batch, rows},
                          {generation.sequence, sequence},
                          {generation.capacity, limits.capacity}};
  if (generation.windowed)
    symbols[generation.windowed->capacity] = windowCapacityOf(*generation.windowed, limits);
  if (generation.source) {
    symbols[generation.source->tokens] = source / generation.source->each.value_or(1);
    symbols[generation.source->capacity] = limits.source;
  }
  Inputs inputs = makeInputs(manifest, symbols);
  inputs.stateRows = limits.slots;
  inputs.stepRows = rows;
  return inputs;
}

void addSamplingInput(Inputs &inputs, const Generation &generation) {
  Tensor tensor;
  tensor.dtype = TPC_I64;
  tensor.shape = {inputs.stepRows, RowSampling::bytes(generation.vocabulary) /
                                       static_cast<int64_t>(sizeof(int64_t))};
  tensor.data = Buffer(*byteCount(tensor.shape, TPC_I64));
  std::memset(tensor.data.data(), 0, tensor.data.size());
  inputs.tensors.push_back(std::move(tensor));
}

bool prefersFewShapes() { return deviceKind().dryRun() != nullptr; }

bool hasReplicas(const Manifest &manifest) {
  const std::vector<Grid::Axis> &axes = manifest.grid.axes();
  return std::any_of(manifest.caches.begin(), manifest.caches.end(), [&](const Cache &cache) {
    return !cache.axes.empty() &&
           std::any_of(cache.axes[0].begin(), cache.axes[0].end(),
                       [&](int axis) { return axes[static_cast<size_t>(axis)].size > 1; });
  });
}

int64_t rowsOfLargestStep(const Manifest &manifest, const GenerationLimits &limits) {
  return hasReplicas(manifest) ? limits.slots : 1;
}

std::vector<Inputs> largestSteps(const Manifest &manifest, const GenerationLimits &limits,
                                 int64_t longest) {
  int64_t chunk = std::min(limits.chunk, longest);
  if (prefersFewShapes())
    chunk = roundedLength(chunk, limits.chunk);
  std::vector<Inputs> steps;
  steps.push_back(
      stepInputs(manifest, limits, rowsOfLargestStep(manifest, limits), chunk, limits.source));
  steps.push_back(stepInputs(manifest, limits, limits.slots, 1, /*source=*/0));
  if (!prefersFewShapes() || !manifest.generation->lastOnly)
    return steps;
  for (Inputs &step : steps) {
    addSamplingInput(step, *manifest.generation);
    auto sink = std::make_shared<LogitsSink>(manifest);
    sink->expect(step.stepRows, {}, &step.tensors.back());
    step.outputs = std::move(sink);
  }
  return steps;
}

std::string limitsText(const GenerationLimits &limits) {
  return std::to_string(limits.slots) + (limits.slots == 1 ? " sequence" : " sequences") +
         " of at most " + std::to_string(limits.capacity) + " tokens, prompts by " +
         std::to_string(limits.chunk);
}

int64_t capacityOf(const Manifest &manifest, std::optional<int64_t> requested,
                   std::optional<int64_t> needed) {
  const std::optional<int64_t> &maximum = manifest.generation->maxSequence;
  if (requested)
    return *requested;
  if (needed)
    return maximum ? std::min(*needed, *maximum) : *needed;
  if (!maximum)
    throw UserError("--max-sequence N is needed: the model defines no maximum sequence "
                    "length");
  return *maximum;
}

} // namespace tpc::rt
