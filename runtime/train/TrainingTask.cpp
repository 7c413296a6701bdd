//===- TrainingTask.cpp - Command-line task of training executables -------===//

#include "core/Counters.h"
#include "core/Device.h"
#include "program/Error.h"
#include "program/File.h"
#include "program/Task.h"
#include "train/Checkpoint.h"
#include "train/NumberSearch.h"
#include "train/TokenFile.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numbers>
#include <optional>

namespace tpc::rt {
namespace {

std::atomic<bool> isTerminated = false;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the learning rate of a step, which counts from 1.
double rateOf(const TrainingOptions &options, int64_t step) {
  if (step <= options.warmup)
    return options.rate * static_cast<double>(step) / static_cast<double>(options.warmup);
  if (options.schedule == "constant")
    return options.rate;
  double progress = static_cast<double>(step - options.warmup) /
                    static_cast<double>(std::max<int64_t>(options.steps - options.warmup, 1));
  double left =
      options.schedule == "cosine" ? (1 + std::cos(std::numbers::pi * progress)) / 2 : 1 - progress;
  return options.lastRate + (options.rate - options.lastRate) * left;
}

/// Formats a number as JSON.
std::string numberText(double value, const char *format = "%.9g") {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

class TrainingTask : public Task {
public:
  TrainingTask(const Manifest &manifest, const Options &options)
      : manifest(manifest), training(*manifest.training), options(options.training),
        isVerbose(options.verbose) {
    const TrainingOptions &flags = this->options;
    auto require = [&](bool given, const char *what) {
      if (!given)
        throw UserError(std::string("training needs ") + what + "; see " + options.program +
                        " --help");
    };
    require(!flags.data.empty(), "--data FILE");
    require(flags.sequence > 0, "--sequence N");
    require(flags.steps > 0, "--steps N");
    require(flags.rate > 0, "--lr X");
    if (flags.saveEvery > 0 && flags.save.empty())
      throw UserError("--save-every needs --save DIR");
    if (!flags.save.empty())
      OutputFile::check(flags.save + "/step-0", /*makesFolders=*/true);
    if (flags.warmup > flags.steps)
      throw UserError("--warmup " + std::to_string(flags.warmup) + ": there are only " +
                      std::to_string(flags.steps) + " steps");
    data = std::make_unique<TokenFile>(flags.data);
    // The last sample also needs the token after it.
    samples = (data->size() - 1) / flags.sequence;
    if (data->size() < 1 || samples < 1)
      throw UserError("--data " + flags.data + ": the file has " + std::to_string(data->size()) +
                      " tokens of " + data->typeName() + ", but a sample of --sequence " +
                      std::to_string(flags.sequence) + " needs " +
                      std::to_string(flags.sequence + 1));
    if (samples < flags.batch)
      throw UserError("--data " + flags.data + ": the file has " + std::to_string(samples) +
                      " samples of --sequence " + std::to_string(flags.sequence) +
                      ", fewer than --batch " + std::to_string(flags.batch));
    order.emplace(samples, flags.seed);
    sizes = {{training.batch, flags.batch}, {training.sequence, flags.sequence}};
    for (size_t i = 0; i < manifest.inputs.size(); ++i)
      if (manifest.inputs[i].name == "loss_scale")
        scaleInput = static_cast<int>(i);
    if (scaleInput < 0 && (flags.scale != LossScale::initial || flags.scaleInterval != 2000))
      throw UserError("--loss-scale is for programs of tpcc --train --precision=f16");
    scale.value = flags.scale;
    scale.interval = flags.scaleInterval;
  }

  std::vector<Inputs> largestSteps() const override {
    std::vector<Inputs> steps;
    steps.push_back(makeInputs(manifest, sizes));
    return steps;
  }

  std::string limitsText() const override {
    return "a batch of " + std::to_string(options.batch) + " samples of " +
           std::to_string(options.sequence) + " tokens";
  }

  std::string digest() const override {
    return options.data + " " + std::to_string(data->size()) + " " + std::to_string(options.batch) +
           " " + std::to_string(options.sequence) + " " + std::to_string(options.steps) + " " +
           numberText(options.rate, "%.17g") + " " + numberText(options.lastRate, "%.17g") + " " +
           options.schedule + " " + std::to_string(options.warmup) + " " +
           std::to_string(options.seed) + " " + std::to_string(options.saveEvery) + " " +
           options.save + " " + options.resume + " " + numberText(options.scale, "%.17g") + " " +
           std::to_string(options.scaleInterval);
  }

  void run(Execution &execution) override {
    Session *session = execution.session();
    std::signal(SIGTERM, [](int) { isTerminated = true; });
    TrainingState state{0, options.batch, options.sequence, options.seed, data->size(), scale};
    if (!options.resume.empty())
      resume(execution, state);
    openLog(execution);
    bool isSaved = true;
    const int64_t firstStep = state.step;
    while (state.step < options.steps) {
      int64_t step = state.step + 1;
      double begin = now();
      Inputs inputs;
      agreeOn(session, [&] { inputs = inputsOf(step); });
      compareDigests(
          session, inputs.digest(),
          "read other tokens than rank 0: the same --data file, and the same checkpoint, "
          "must be on all hosts");
      Outcome outcome = outcomeOf(execution, execution.step(inputs));
      if (isVerbose && state.step == firstStep)
        reportMemory(execution);
      bool isApplied = outcome.isFinite();
      double usedScale = scale.value;
      // A loss is not scaled, so a smaller scale does not make it finite.
      bool isOverflow = !isApplied && scaleInput >= 0 && std::isfinite(outcome.loss);
      if ((!isApplied && !isOverflow) || !scale.advance(isOverflow))
        stop(execution, inputs, step, outcome);
      agreeOn(session, [&] {
        if (execution.isRankZero())
          report(step, outcome, usedScale, now() - begin);
      });
      state.step = step;
      state.scale = scale;
      bool stops = isTerminated;
      if (session)
        stops = session->agree(stops).failed;
      isSaved = false;
      bool isDue = options.saveEvery > 0 && step % options.saveEvery == 0;
      if (!options.save.empty() && (isDue || stops || step == options.steps)) {
        saveCheckpoint(execution, manifest, options.save, state);
        isSaved = true;
      }
      if (stops) {
        if (execution.isRankZero())
          std::fprintf(stderr, "stopped by SIGTERM after step %lld%s\n",
                       static_cast<long long>(step), isSaved ? ", which is saved" : "");
        return;
      }
    }
  }

private:
  void resume(Execution &execution, TrainingState &state) {
    TrainingState saved = loadCheckpoint(execution, manifest, options.resume);
    state.step = saved.step;
    saved.scale.interval = options.scaleInterval;
    state.scale = scale = saved.scale;
    if (saved.batch == 0) // saved by a session, whose caller chose the samples
      return;
    agreeOn(execution.session(), [&] {
      auto compare = [&](const char *what, uint64_t was, uint64_t is) {
        if (was != is)
          throw UserError("--resume " + options.resume + ": the run had " + what + " " +
                          std::to_string(was) + ", not " + std::to_string(is) +
                          ": the order of its samples would change");
      };
      compare("--batch", static_cast<uint64_t>(saved.batch), static_cast<uint64_t>(state.batch));
      compare("--sequence", static_cast<uint64_t>(saved.sequence),
              static_cast<uint64_t>(state.sequence));
      compare("--seed", saved.seed, state.seed);
      compare("a data file with tokens:", static_cast<uint64_t>(saved.tokens),
              static_cast<uint64_t>(state.tokens));
    });
  }

  void openLog(Execution &execution) {
    agreeOn(execution.session(), [&] {
      if (!execution.isRankZero() || options.log.empty())
        return;
      log.reset(std::fopen(options.log.c_str(), "a"));
      if (!log)
        throw UserError("--log " + options.log + ": " + std::strerror(errno));
    });
  }

  /// Prints the memory that the first step has used on the ranks of this process.
  static void reportMemory(Execution &execution) {
    for (int i = 0; i < execution.numLocal(); ++i)
      std::fprintf(stderr,
                   "after the first step: rank %d used %zu bytes for gradients and activations\n",
                   execution.local(i).rank, execution.local(i).arena.peak());
  }

  static Tensor scalar(double value) {
    Tensor tensor;
    tensor.data = Buffer(sizeof(float));
    *tensor.as<float>() = static_cast<float>(value);
    return tensor;
  }

  /// Returns the id of a token of the file.
  int64_t tokenAt(int64_t position) {
    int64_t token = data->at(position);
    if (token != TokenFile::ignored && (token < 0 || token > training.lastToken))
      throw UserError("--data " + options.data + ": token " + std::to_string(position) + " is " +
                      std::to_string(token) + ", but the model has ids from 0 to " +
                      std::to_string(training.lastToken));
    return token;
  }

  Inputs inputsOf(int64_t step) {
    Shape shape{options.batch, options.sequence};
    Tensor tokens{TPC_I64, shape, Buffer(*byteCount(shape, TPC_I64))},
        labels{TPC_I64, shape, Buffer(*byteCount(shape, TPC_I64))};
    bool hasLabel = false;
    for (int64_t row = 0; row < options.batch; ++row) {
      int64_t first = order->at((step - 1) * options.batch + row) * options.sequence;
      for (int64_t i = 0; i < options.sequence; ++i) {
        int64_t token = tokenAt(first + i), label = tokenAt(first + i + 1);
        tokens.as<int64_t>()[row * options.sequence + i] = std::max<int64_t>(token, 0);
        labels.as<int64_t>()[row * options.sequence + i] = label;
        hasLabel |= label != TokenFile::ignored;
      }
    }
    if (!hasLabel)
      throw UserError("step " + std::to_string(step) +
                      ": all labels of the batch are ignored, so it has no loss; use other data, "
                      "or a larger --batch");
    double rate = rateOf(options, step);
    // Steps that are skipped do not change the moments.
    auto exponent = static_cast<double>(step - scale.skipped);
    std::vector<std::string> names;
    for (int index : {training.tokens, training.labels, training.rate, training.correction1,
                      training.correction2, scaleInput})
      if (index >= 0)
        names.push_back(manifest.inputs[static_cast<size_t>(index)].name);
    auto take = [&](const Port &port) -> Given {
      int index = static_cast<int>(&port - manifest.inputs.data());
      if (index == training.tokens)
        return {"the data file", std::move(tokens)};
      if (index == training.labels)
        return {"the data file", std::move(labels)};
      if (index == training.rate)
        return {"--lr", scalar(rate)};
      if (index == scaleInput)
        return {"--loss-scale", scalar(scale.value)};
      return {"the step",
              scalar(1 - std::pow(index == training.correction1 ? training.beta1 : training.beta2,
                                  exponent))};
    };
    lastRate = rate;
    return completeInputs(manifest, names, take, ", which a training run does not supply", {});
  }

  struct Outcome {
    double loss, norm;
    /// Whether the step has updated the parameters.
    bool isFinite() const { return std::isfinite(loss) && std::isfinite(norm); }
  };

  /// Collective. Returns rank 0's loss and norm on all ranks.
  Outcome outcomeOf(Execution &execution, const std::vector<Tensor> &outputs) {
    Outcome outcome{};
    if (execution.isRankZero())
      outcome = {numberAt(outputs.at(static_cast<size_t>(training.loss)), 0),
                 numberAt(outputs.at(static_cast<size_t>(training.norm)), 0)};
    if (Session *session = execution.session()) {
      std::string text = session
                             ->textsOfAll(numberText(outcome.loss, "%.17g") + " " +
                                          numberText(outcome.norm, "%.17g"))
                             .front();
      char *end = nullptr;
      outcome.loss = std::strtod(text.c_str(), &end);
      outcome.norm = std::strtod(end, nullptr);
    }
    return outcome;
  }

  /// Collective. Ends a run whose loss or gradients are not finite.
  [[noreturn]] void stop(Execution &execution, const Inputs &inputs, int64_t step,
                         const Outcome &outcome) {
    bool isLoss = !std::isfinite(outcome.loss);
    std::string first = findFirstNonFinite(execution, inputs);
    agreeOn(execution.session(), [&] {
      if (execution.isRankZero())
        throw UserError("step " + std::to_string(step) + ": the " +
                        (isLoss ? "loss" : "norm of the gradients") + " is " +
                        numberText(isLoss ? outcome.loss : outcome.norm) +
                        (scaleInput >= 0 && !isLoss ? " also with the smallest loss scale" : "") +
                        (first.empty() ? "" : "; " + first) +
                        "; the run stops, and this step is neither applied nor saved. A smaller "
                        "--lr, a longer --warmup or clipping (tpcc --optimizer=…:clip=1) may help");
    });
    throw UserError("stopped"); // not reached: rank 0 has thrown
  }

  /// Reports a step on rank 0.
  void report(int64_t step, const Outcome &outcome, double usedScale, double seconds) {
    bool isApplied = outcome.isFinite();
    double tokens = static_cast<double>(options.batch * options.sequence);
    std::string line = "{\"step\": " + std::to_string(step) +
                       ", \"loss\": " + numberText(outcome.loss) +
                       ", \"lr\": " + numberText(lastRate) +
                       ", \"grad_norm\": " + (isApplied ? numberText(outcome.norm) : "null") +
                       (scaleInput < 0 ? ""
                                       : ", \"loss_scale\": " + numberText(usedScale) +
                                             (isApplied ? "" : ", \"skipped\": true")) +
                       ", \"tokens_per_second\": " + numberText(tokens / seconds, "%.4g") + "}\n";
    for (FILE *file : {stdout, log.get()})
      if (file && (std::fputs(line.c_str(), file) < 0 || std::fflush(file) != 0))
        throw UserError(std::string("cannot write to ") +
                        (file == stdout ? "standard output" : "'" + options.log + "'"));
  }

  struct Close {
    void operator()(FILE *file) const { std::fclose(file); }
  };

  const Manifest &manifest;
  const Training &training;
  const TrainingOptions options;
  const bool isVerbose;
  std::unique_ptr<TokenFile> data;
  int64_t samples = 0;
  std::optional<SampleOrder> order;
  SymbolValues sizes;
  std::unique_ptr<FILE, Close> log;
  LossScale scale;
  int scaleInput = -1; ///< index of the input of the loss scale; -1: none
  double lastRate = 0;
};

} // namespace

std::unique_ptr<Task> makeTraining(const Manifest &manifest, const Options &options) {
  return std::make_unique<TrainingTask>(manifest, options);
}

} // namespace tpc::rt
