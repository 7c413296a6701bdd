//===- GenerationTask.cpp - Command-line task of generating executables ---===//

#include "core/Diagnostic.h"
#include "generate/Generator.h"
#include "generate/ReadPrompts.h"
#include "generate/Schedule.h"
#include "generate/Service.h"
#include "program/Bench.h"
#include "program/Error.h"
#include "program/Npy.h"
#include "program/Task.h"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace tpc::rt {

Task::~Task() = default;

namespace {

/// Prints the tokens of prompts, one line per prompt. The first unfinished line is printed token by
/// token.
class PromptClient : public GenerationClient {
public:
  PromptClient(size_t count, bool keepsLogits) : lines(count), keepsLogits(keepsLogits) {}

  void onToken(uint64_t request, int64_t token, int64_t index) override {
    lines[request].text += (index ? " " : "") + std::to_string(token);
  }
  void onFinish(uint64_t request, Finish why, const std::string &message) override {
    lines[request].isDone = true;
    if (why == Finish::Error && problem.empty())
      problem = (lines.size() > 1 ? "prompt " + std::to_string(request) + ": " : "") + message;
  }
  void afterStep() override {
    for (; current < lines.size(); ++current) {
      Line &line = lines[current];
      std::fwrite(line.text.data(), 1, line.text.size(), stdout);
      isMidLine |= !line.text.empty();
      line.text.clear();
      if (!line.isDone)
        break;
      std::fputc('\n', stdout);
      isMidLine = false;
    }
    if (std::fflush(stdout) != 0)
      throw UserError("cannot write to standard output");
    setMidLine(isMidLine);
  }
  void onLogits(std::vector<float> row) override {
    if (keepsLogits)
      logits.push_back(std::move(row));
  }

  std::string problem; ///< message of a prompt that ended with an error; empty: none
  std::vector<std::vector<float>> logits;

private:
  struct Line {
    std::string text; ///< not yet printed
    bool isDone = false;
  };
  std::vector<Line> lines;
  size_t current = 0;
  bool isMidLine = false;
  bool keepsLogits;
};

class GenerationTask : public Task {
public:
  GenerationTask(const Manifest &manifest, const Options &options)
      : manifest(manifest), options(options.generation), isVerbose(options.verbose) {
    bool runs = options.mode == Options::Mode::Run;
    if (runs && !this->options.serves && this->options.prompts.empty())
      throw UserError("no prompt. Give --prompt-ids 12,7,99 or --serve-stdin; see " +
                      options.program + " --help");
    readDefaults();
    for (const std::string &text : this->options.prompts)
      for (std::vector<int64_t> &ids : readPrompts(text)) {
        requests.push_back(defaults);
        requests.back().ids = std::move(ids);
        requests.back().stream = requests.size() - 1;
      }
    addSources();
    setLimits();
    checkGeneration(manifest, limits);
    for (size_t i = 0; i < requests.size(); ++i)
      if (std::string problem =
              problemOf(requests[i], *manifest.generation, limits.capacity, limits.source);
          !problem.empty())
        throw UserError((requests.size() > 1 ? "prompt " + std::to_string(i) + ": " : "") +
                        problem);
    GenerationRequest probe = defaults;
    probe.ids = {0};
    if (limits.source > 0 && !manifest.generation->source->token)
      probe.source = {{0}, nullptr, manifest.generation->source->each.value_or(0)};
    if (std::string problem =
            problemOf(probe, *manifest.generation, limits.capacity, limits.source);
        !problem.empty())
      throw UserError(problem);
    if (this->options.logits.empty())
      return;
    if (requests.size() != 1)
      throw UserError("--logits needs exactly one prompt; there are " +
                      std::to_string(requests.size()));
    Request files;
    for (const std::string &text : this->options.prompts)
      if (!parseIds(text))
        files.inputs["--prompt-ids"] = text;
    for (const std::string &text : this->options.sources)
      if (!parseIds(text))
        files.inputs["--source"] = text;
    files.outputs["--logits"] = this->options.logits;
    checkOverwriting({files}, options, manifest);
  }

  std::vector<Inputs> largestSteps() const override {
    int64_t longest = limits.capacity;
    if (!requests.empty()) {
      longest = 1;
      for (const GenerationRequest &request : requests)
        longest = std::max(longest, std::ssize(request.ids));
    }
    return tpc::rt::largestSteps(manifest, limits, longest);
  }

  std::string limitsText() const override { return tpc::rt::limitsText(limits); }

  std::string digest() const override {
    std::string text = std::to_string(limits.slots) + " " + std::to_string(limits.capacity) + " " +
                       std::to_string(limits.chunk) + (options.serves ? " serves" : "") +
                       (options.logits.empty() ? "" : " logits") + " " +
                       std::to_string(limits.source) + ";" + textOf(defaults);
    for (const GenerationRequest &request : requests)
      text += ";" + textOf(request);
    return text;
  }

  void run(Execution &execution) override {
    TokenGenerator generator(execution, manifest, limits);
    // If the reader closes the pipe, a write fails, and the run ends with a message.
    std::signal(SIGPIPE, SIG_IGN);
    if (options.serves) {
      Service service(STDIN_FILENO, STDOUT_FILENO, manifest, limits, defaults);
      generator.generate({}, service, {true, false, defaults});
    } else {
      bool givesLogits = !options.logits.empty();
      PromptClient client(requests.size(), givesLogits);
      generator.generate(requests, client, {false, givesLogits, defaults});
      agreeOn(execution.session(), [&] {
        if (!execution.isRankZero())
          return;
        if (!client.problem.empty())
          throw UserError(client.problem);
        if (givesLogits)
          saveLogits(client.logits);
      });
    }
    auto sent = execution.counters();
    if (!isVerbose || !execution.isRankZero())
      return;
    printCounts(generator.counts());
    for (const auto &[stage, row] : largestByStage(manifest, sent))
      std::fprintf(stderr, "stage %d: %s over %s, %lld times, %lld bytes\n", stage, spell(row.kind),
                   row.axis.c_str(), static_cast<long long>(row.count),
                   static_cast<long long>(row.bytes));
  }

private:
  void readDefaults() {
    SamplingSettings &sampling = defaults.sampling;
    bool filters = options.topK.value_or(0) > 0 || options.topP.value_or(1) < 1;
    sampling.temperature =
        narrowSetting("--temperature", options.temperature.value_or(filters ? 1 : 0));
    sampling.topK = options.topK.value_or(0);
    sampling.topP = options.topP.value_or(1);
    sampling.seed = options.seed.value_or(0);
    sampling.repetitionPenalty =
        narrowSetting("--repetition-penalty", options.repetitionPenalty.value_or(1));
    defaults.maxNewTokens = options.maxNewTokens.value_or(defaults.maxNewTokens);
    defaults.stopIds = options.stopIds;
  }

  /// Gives each prompt its source.
  void addSources() {
    if (options.sources.empty())
      return;
    if (!manifest.generation->source)
      throw UserError("--source: the model has no cross-attention");
    std::vector<GenerationSource> sources;
    for (const std::string &text : options.sources)
      for (GenerationSource &source : readSources(text, manifest))
        sources.push_back(std::move(source));
    if (requests.size() == 1)
      while (requests.size() < sources.size()) {
        requests.push_back(requests.front());
        requests.back().stream = requests.size() - 1;
      }
    // An image is that of the next prompt with image tokens.
    std::vector<GenerationRequest *> users;
    const std::optional<int64_t> token = manifest.generation->source->token;
    for (GenerationRequest &request : requests)
      if (!token || std::count(request.ids.begin(), request.ids.end(), *token))
        users.push_back(&request);
    if (users.size() != sources.size())
      throw UserError("--source: " + std::to_string(sources.size()) + " sources for " +
                      std::to_string(users.size()) + " prompts" +
                      (token ? " with image tokens (id " + std::to_string(*token) + ")" : ""));
    for (size_t i = 0; i < sources.size(); ++i)
      users[i]->source = std::move(sources[i]);
  }

  /// Sets the maximum number of source tokens: that of the sources, or of the model.
  void setSourceLimit() {
    const Generation &generation = *manifest.generation;
    for (const GenerationRequest &request : requests)
      limits.source = std::max(limits.source, request.source.size());
    if (options.maxSource && !generation.source)
      throw UserError("--max-source: the model has no cross-attention");
    if (!generation.source)
      return;
    if (limits.source == 0 && !options.maxSource && !generation.source->maxTokens)
      throw UserError("--max-source N is needed: the model defines no maximum length of a source");
    if (limits.source == 0)
      limits.source = generation.source->maxTokens.value_or(0);
    limits.source = options.maxSource.value_or(limits.source);
  }

  void setLimits() {
    setSourceLimit();
    auto prompts = std::ssize(requests);
    limits.slots = options.maxBatch.value_or(std::max<int64_t>(prompts, 1));
    std::optional<int64_t> needed;
    for (const GenerationRequest &request : requests)
      needed = std::max(needed.value_or(1), lengthOf(request));
    limits.capacity = capacityOf(manifest, options.maxSequence, needed);
    limits.chunk = std::min(options.prefillChunk.value_or(limits.chunk), limits.capacity);
  }

  void saveLogits(const std::vector<std::vector<float>> &rows) const {
    Tensor tensor;
    tensor.shape = {std::ssize(rows), manifest.generation->vocabulary};
    tensor.data = Buffer(*byteCount(tensor.shape, TPC_F32));
    for (size_t i = 0; i < rows.size(); ++i)
      std::memcpy(tensor.as<float>() + i * rows[i].size(), rows[i].data(),
                  rows[i].size() * sizeof(float));
    writeNpy(options.logits, tensor);
  }

  static void printCounts(const TokenGenerator::Counts &counts) {
    std::fprintf(
        stderr,
        "%lld tokens in %lld steps; %lld sampling rounds, %lld of them beyond "
        "three in a step%s%s\n",
        static_cast<long long>(counts.tokens), static_cast<long long>(counts.steps),
        static_cast<long long>(counts.sampler.rounds), static_cast<long long>(counts.sampler.extra),
        counts.bytes ? ("; " + std::to_string(counts.bytes) +
                        " bytes of a rank's logits or sampling results were copied")
                           .c_str()
                     : "",
        counts.ahead ? ("; " + std::to_string(counts.ahead) + " steps were launched ahead, " +
                        std::to_string(counts.dropped) + " of them dropped")
                           .c_str()
                     : "");
  }

  const Manifest &manifest;
  const GenerationOptions options;
  const bool isVerbose;
  GenerationRequest defaults;
  GenerationLimits limits;
  std::vector<GenerationRequest> requests;
};

} // namespace

std::unique_ptr<Task> makeGeneration(const Manifest &manifest, const Options &options) {
  return std::make_unique<GenerationTask>(manifest, options);
}

} // namespace tpc::rt
