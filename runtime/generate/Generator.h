//===- Generator.h - the loop that generates ------------------------------===//
//
// On an execution that has its weights. All ranks run the same steps, and choose the same tokens,
// without being told: each has the schedule, and takes part in the choice.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_GENERATOR_H
#define TPC_RT_GENERATE_GENERATOR_H

#include "generate/Client.h"
#include "generate/Sampler.h"
#include "program/Execution.h"
#include <optional>

namespace tpc::rt {

/// How it is to be done, beside what requests say. The same on all processes.
struct GenerationMode {
  bool asks = false;          ///< the client has news
  bool givesLogits = false;   ///< and wants the logits
  GenerationRequest defaults; ///< of requests that are news
};

class TokenGenerator {
public:
  /// Throws UserError where the program does not generate, or not so much at a time. The execution
  /// may run other steps between.
  TokenGenerator(Execution &execution, const Manifest &manifest, GenerationLimits limits);

  const GenerationLimits &limits() const { return theLimits; }
  const Manifest &manifest() const { return theManifest; }

  /// Collective. Runs until all is done that is asked for: these requests, which all processes
  /// give, and what is new. Throws UserError, before anything runs if a request is wrong.
  void generate(std::vector<GenerationRequest> requests, GenerationClient &client,
                const GenerationMode &mode = {});

  /// Of all so far, as the last rank of this process has counted.
  struct Counts {
    Sampler::Counts sampler;
    int64_t steps = 0, tokens = 0;
    int64_t bytes = 0; ///< of logits that a device copied to the host, where it has most of them
  };
  const Counts &counts() const { return theCounts; }

private:
  Execution &execution;
  const Manifest &theManifest;
  const GenerationLimits theLimits;
  Counts theCounts;
};

/// Throws UserError where the program, which has manifest.generation, cannot generate, or not so
/// much at a time.
void checkGeneration(const Manifest &manifest, const GenerationLimits &limits);

/// Inputs of a step of so many rows and tokens of each; their values are to be filled in.
Inputs stepInputs(const Manifest &manifest, const GenerationLimits &limits, int64_t rows,
                  int64_t sequence);
/// The same with a place for how tokens are chosen, for devices that do so.
void addChoices(Inputs &inputs, const Generation &generation);
/// Whether steps of new shapes cost more than what is computed: they are counted, measured and
/// recorded.
bool wantsFewShapes();
/// Replicas have their own rows, so that a step always has all of them; else a prompt goes in
/// alone.
bool hasReplicas(const Manifest &manifest);
int64_t rowsOfLargestStep(const Manifest &manifest, const GenerationLimits &limits);

/// The steps that hold most: a chunk of a prompt of `longest` tokens, and a token of each sequence.
std::vector<Inputs> largestSteps(const Manifest &manifest, const GenerationLimits &limits,
                                 int64_t longest);
/// "2 sequences of at most 64 tokens, prompts by 64"
std::string roomText(const GenerationLimits &limits);

/// What sequences have room for: what is asked for; else what is needed, as far as the model goes;
/// else all that the model is made for.
int64_t capacityOf(const Manifest &manifest, std::optional<int64_t> asked,
                   std::optional<int64_t> needed);

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_GENERATOR_H
