//===- Execution.h - a program's ranks, ready to run steps ----------------===//

#ifndef TPC_RT_PROGRAM_EXECUTION_H
#define TPC_RT_PROGRAM_EXECUTION_H

#include "core/Profile.h"
#include "core/World.h"
#include "program/CommandLine.h"
#include "program/Inputs.h"
#include "program/Outputs.h"
#include "program/Tuner.h"
#include <functional>
#include <memory>

namespace tpc::rt {

/// What is said of an error that ends the program. Empty: somebody else has said it.
void printError(const std::string &message);

/// Runs `work`. If it throws, so does this. With a session, which may be null, it is collective: if
/// `work` throws on any process then the lowest of those prints its message, and all processes
/// throw a UserError without one.
void agreeOn(Session *session, const std::function<void()> &work);

/// One step of a rank, but for its outputs.
void runStep(tpc_context &ctx, const tpc_program &program, const Manifest &manifest,
             const Inputs &inputs);

class Execution {
public:
  /// Starts the world (of `session`'s processes if it is given) and loads the weights. Throws
  /// UserError. Errors on GPUs end the process, unless it does other things as well
  /// (`options.embedded`): then what they hold is left to its end.
  Execution(const tpc_program &program, const Manifest &manifest, const Options &options,
            std::shared_ptr<Session> session);

  bool isRankZero() { return world->local(0).rank == 0; }
  Session *session() { return world->session(); }
  /// A rank has failed: nothing may be asked for any more.
  bool hasFailed() const { return !world || world->failed(); }
  /// "threads", "mpi" or "tcp".
  const char *transportName() const { return transport; }
  int threadsPerRank() { return world->local(0).threadsPerRank; }
  double loadSeconds() const { return secondsToLoad; }
  /// The digests of the weight files that were loaded, or the seed.
  const std::string &weightIdentity() const { return loadedWeights; }

  /// Runs one step and assembles its outputs, which are complete on the process of rank 0. Throws
  /// UserError.
  std::vector<Tensor> &step(const Inputs &inputs);

  /// What `measure` finds, on the process of rank 0.
  struct Measurement {
    /// Of each of the last `repeat` steps, from when all ranks were ready until all were done, as
    /// rank 0 saw it.
    std::vector<double> seconds;
    std::vector<std::vector<Counters::Row>> counters; ///< of each rank: what the last step sent
    std::vector<std::vector<ProfileRow>> profiles;    ///< of each rank: all of the last `repeat`
  };
  /// Runs `warmup + repeat` steps.
  Measurement measure(const Inputs &inputs, int warmup, int repeat);
  /// Collective. What each rank has sent since the program began, on the process of rank 0.
  std::vector<std::vector<Counters::Row>> counters();

  /// For who runs steps on ranks himself, within `each`: what a step of these sizes needs is made
  /// outside of it, once, collectively.
  bool isPrepared(const Inputs &inputs) const;
  void prepareSizes(const Inputs &inputs);
  /// Whether a rank can take such a step without a word to others but what the program says.
  bool isAgreed(const tpc_context &ctx, const Inputs &inputs) const;
  /// On each rank. Outputs go where ctx.outputs says; nothing is assembled.
  void runRank(tpc_context &ctx, const Inputs &inputs);
  /// Runs `fn` on all ranks of this process. Throws UserError.
  void each(const std::function<void(tpc_context &)> &fn) { run(fn); }
  int numLocal() const { return world->numLocal(); }
  tpc_context &local(int index) { return world->local(index); }
  /// Where outputs are assembled.
  OutputSink &outputs() { return assembler; }

private:
  void prepare(const Inputs &inputs);
  /// What frames of the step take, in one piece.
  void reserveFrames(tpc_context &ctx, const SymbolValues &sizes);
  void runStage(tpc_context &ctx, const Inputs &inputs);
  void run(const std::function<void(tpc_context &)> &fn);

  const tpc_program &program;
  const Manifest &manifest;
  const bool embedded;
  const char *transport = "threads";
  std::string loadedWeights;
  double secondsToLoad = 0;
  bool countsMemory = false; ///< the device can
  /// Where memory is counted: what frames of each local rank take, by sizes of steps.
  std::map<SymbolValues, std::vector<int64_t>> frameBytes;
  static constexpr size_t mostSizes = 64; ///< that are kept
  Tuner choices;
  OutputAssembler assembler; // outlives the world, whose contexts refer to it
  std::unique_ptr<World> world;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_EXECUTION_H
