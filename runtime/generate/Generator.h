//===- Generator.h - Generation loop of a process -------------------------===//
//
// Runs on an execution with loaded weights. All ranks run the same steps and sample the same tokens
// without a coordinator: each has a copy of the schedule and takes part in the sampling.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_GENERATOR_H
#define TPC_RT_GENERATE_GENERATOR_H

#include "generate/Client.h"
#include "generate/Sampler.h"
#include "program/Execution.h"
#include <optional>

namespace tpc::rt {

/// Settings of a call of generate(), besides the requests. All processes pass the same.
struct GenerationMode {
  bool pollsClient = false;   ///< calls GenerationClient::pollInput
  bool givesLogits = false;   ///< passes logits to the client
  GenerationRequest defaults; ///< settings that new requests omit
};

class TokenGenerator {
public:
  /// Throws UserError if the program cannot generate, or not with these limits. The execution may
  /// run other steps between calls.
  TokenGenerator(Execution &execution, const Manifest &manifest, GenerationLimits limits);

  const GenerationLimits &limits() const { return theLimits; }
  const Manifest &manifest() const { return theManifest; }

  /// Collective. Runs until all requests are done: `requests`, which all processes pass, and those
  /// from pollInput(). Throws UserError before anything runs if a request is invalid.
  void generate(std::vector<GenerationRequest> requests, GenerationClient &client,
                const GenerationMode &mode = {});

  /// Totals since construction. Except for `bytes`, the last rank of this process counts them.
  struct Counts {
    Sampler::Counts sampler;
    int64_t steps = 0, tokens = 0;
    /// Steps that were launched before the tokens of earlier steps were read, and how many of them
    /// were dropped.
    int64_t ahead = 0, dropped = 0;
    /// Bytes of logits and sampling results that a rank copied from its device to the host: the
    /// maximum over the ranks of this process.
    int64_t bytes = 0;
  };
  const Counts &counts() const { return theCounts; }

private:
  Execution &execution;
  const Manifest &theManifest;
  const GenerationLimits theLimits;
  Counts theCounts;
};

/// Returns the number of steps that a device may be ahead of the host: TPC_STEPS_AHEAD, or 8.
/// Throws UserError if the value is invalid.
int64_t stepsAhead();

/// Throws UserError if the program, which must have manifest.generation, cannot generate, or not
/// with these limits.
void checkGeneration(const Manifest &manifest, const GenerationLimits &limits);

/// Returns the inputs of a step of `rows` rows with `sequence` tokens and `source` source tokens
/// each, to be filled in.
Inputs stepInputs(const Manifest &manifest, const GenerationLimits &limits, int64_t rows,
                  int64_t sequence, int64_t source);
/// Adds an input with the sampling settings, for devices that sample.
void addSamplingInput(Inputs &inputs, const Generation &generation);
/// Whether a new step shape costs more than the padding that avoids it, because devices estimate
/// memory, tune, and record per shape.
bool prefersFewShapes();
/// Whether the rows of a step, which are sequences, are split over data-parallel replicas. If so,
/// each step covers all rows. If not, a step of a prompt has only the prompt's row.
bool hasReplicas(const Manifest &manifest);
int64_t rowsOfLargestStep(const Manifest &manifest, const GenerationLimits &limits);

/// Returns the steps that need the most memory: a prompt chunk of `longest` tokens, and one token
/// of each sequence.
std::vector<Inputs> largestSteps(const Manifest &manifest, const GenerationLimits &limits,
                                 int64_t longest);
/// "2 sequences of at most 64 tokens, prompts by 64"
std::string limitsText(const GenerationLimits &limits);

/// Returns the capacity of a sequence: `requested` if given, else `needed` up to the model's
/// maximum, else the model's maximum.
int64_t capacityOf(const Manifest &manifest, std::optional<int64_t> requested,
                   std::optional<int64_t> needed);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_GENERATOR_H
