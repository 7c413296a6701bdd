//===- Model.cpp - Program loaded into another process --------------------===//

#include "program/Model.h"
#include "core/Device.h"
#include "core/ExecutableFile.h"
#include "program/Error.h"
#include "program/EstimateMemory.h"
#include "program/Notes.h"
#include "program/Setup.h"
#include <atomic>
#include <mutex>
#include <unistd.h>

namespace tpc::rt {
namespace {

/// State shared by all open models of this library: devices are selected for the whole library.
struct Devices {
  const pid_t process = getpid();
  std::mutex mutex;
  int models = 0;
  std::string choice; ///< flags that determined the selection, as text
};

/// State of this process. A fork may inherit a locked mutex, so it gets a new state.
Devices &devices() {
  static std::atomic<Devices *> known{nullptr};
  Devices *current = known.load();
  while (!current || current->process != getpid()) {
    auto *fresh = new Devices; // the previous state belongs to another process
    if (known.compare_exchange_strong(current, fresh))
      return *fresh;
    delete fresh;
  }
  return *current;
}

std::string choiceOf(const Options &options) {
  return "--products=" + options.products + (options.deterministic ? " --deterministic" : "") +
         (options.shareGpus ? " --share-gpus" : "");
}

Options parseFlags(const tpc_program &program, const Manifest &manifest,
                   const std::vector<std::string> &flags) {
  std::string name = ownFile();
  std::vector<char *> argv{name.data()};
  std::vector<std::string> copies = flags;
  for (std::string &flag : copies)
    argv.push_back(flag.data());
  argv.push_back(nullptr);
  Options options = parseCommandLine(static_cast<int>(argv.size()) - 1, argv.data(), manifest);
  if (options.mode != Options::Mode::Run)
    throw UserError("--help, --describe, --describe-device and --bench are flags of executables; a "
                    "library only runs steps");
  if (!options.positional.empty() || !options.inputs.empty() || !options.outputs.empty() ||
      !options.outputAnywhere.empty() || options.isBatch)
    throw UserError("inputs and outputs of a library are tensors in memory: leave out --input, "
                    "--output, --batch-of and file names");
  options.embedded = true;
  const GenerationOptions &generation = options.generation;
  if (!generation.prompts.empty() || generation.serves || !generation.logits.empty() ||
      generation.maxNewTokens || generation.temperature || generation.topK || generation.topP ||
      generation.seed || generation.repetitionPenalty || !generation.stopIds.empty())
    throw UserError(
        "only --max-batch, --max-sequence and --prefill-chunk apply to the program; other "
        "settings of generation belong to each request");
  if (!options.training.firstFlag.empty())
    throw UserError(options.training.firstFlag +
                    " is a flag of executables; a library trains by steps of its host process");
  if (std::string problem = deviceKind().environmentProblem(); !problem.empty())
    throw UserError(problem);
  options.timeout =
      options.timeoutGiven.value_or(program.gpu_code ? Options::gpuTimeout : Options::cpuTimeout);
  return options;
}

} // namespace

Model::Model(const tpc_program &program, const Manifest &manifest,
             const std::vector<std::string> &flags)
    : program(program), manifest(manifest), options(parseFlags(program, manifest, flags)),
      process(getpid()) {
  worker.call([&] {
    collectNotes(&collectedNotes);
    checkThreads(manifest, options);
    {
      Devices &shared = devices();
      std::lock_guard<std::mutex> lock(shared.mutex);
      if (shared.models == 0) {
        static const DeviceKind &first = deviceKind();
        selectDevices(first); // drops the selection of closed models
        selectDevice(program, nullptr, {}, manifest, options);
        chooseProducts(nullptr, options);
        shared.choice = choiceOf(options);
      } else if (shared.choice != choiceOf(options)) {
        throw UserError("this library is already open with " + shared.choice +
                        "; close that model first, or open a copy of the file with " +
                        choiceOf(options));
      }
      ++shared.models;
    }
    try {
      // Rejects a model that does not fit before its weights are read. Steps are not known yet.
      if (program.gpu_code)
        if (std::string found = tpc::rt::checkMemory(program, manifest, {}, nullptr);
            !found.empty())
          note(found);
      start();
    } catch (...) {
      deviceKind().releaseUnused();
      std::lock_guard<std::mutex> lock(devices().mutex);
      --devices().models;
      throw;
    }
  });
}

Model::~Model() {
  worker.call([&] { execution.reset(); });
  std::lock_guard<std::mutex> lock(devices().mutex);
  --devices().models;
}

bool Model::hasForked() const { return process != getpid(); }

void Model::start() {
  if (!failure.empty())
    throw UserError("nothing can be run any more, because a device has failed: " + failure);
  if (execution)
    return;
  auto started = std::make_unique<Execution>(program, manifest, options, nullptr);
  // If a failed step ended the ranks, they are restarted with the same weights.
  if (!weights.empty() && weights != started->weightIdentity())
    throw UserError("the weight files are not those that were loaded when the program was opened, "
                    "and its ranks must be restarted: close the program and open it again to use "
                    "the new files");
  weights = started->weightIdentity();
  execution = std::move(started);
}

std::future<void> Model::post(std::function<void(Execution &)> work) {
  return worker.post([this, work = std::move(work)] {
    start();
    try {
      work(*execution);
    } catch (const std::exception &error) {
      if (!execution->hasFailed())
        throw;
      std::string message = error.what();
      if (program.gpu_code)
        failure = message;
      // Ending the ranks frees the memory of the failed step.
      execution.reset();
      throw BrokenStep(message);
    }
  });
}

void Model::checkMemory(std::span<const Inputs> steps, const std::string &limits) const {
  if (!program.gpu_code)
    checkHostMemory(program, manifest, steps, 0, manifest.grid.numRanks(), limits);
}

std::vector<Tensor> Model::run(const std::vector<std::string> &names,
                               const std::function<Given(const Port &)> &take) {
  std::vector<Tensor> outputs;
  post([&](Execution &ranks) {
    outputs = std::move(ranks.step(completeInputs(manifest, names, take, "", options.shape)));
  }).get();
  return outputs;
}

std::vector<std::string> Model::notes() {
  std::vector<std::string> result;
  worker.call([&] { result = collectedNotes; });
  return result;
}

} // namespace tpc::rt
