//===- Execution.h - Ranks of a program, ready to run steps ---------------===//

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

/// Prints an error that ends the program. Empty: another rank has printed it.
void printError(const std::string &message);

/// Runs `work`; rethrows its exceptions. With a session, which may be null, it is collective: if
/// `work` throws on any process, the lowest of those prints its message, and all processes throw a
/// UserError without text.
void agreeOn(Session *session, const std::function<void()> &work);

/// Collective with a session, which may be null: throws a UserError on all processes if the digest
/// of one differs from rank 0's. `what` completes "rank 1 …".
void compareDigests(Session *session, const std::string &digest, const char *what);

/// Runs one step of a rank. Does not assemble the outputs.
void runStep(tpc_context &ctx, const tpc_program &program, const Manifest &manifest,
             const Inputs &inputs);

class Execution {
public:
  /// Starts the world (of `session`'s processes if given) and loads the weights. Throws UserError.
  /// Errors on GPUs end the process, unless it is embedded (`options.embedded`): then the memory of
  /// failed devices stays allocated until the process ends.
  Execution(const tpc_program &program, const Manifest &manifest, const Options &options,
            std::shared_ptr<Session> session);
  ~Execution();

  bool isRankZero() { return world->local(0).rank == 0; }
  Session *session() { return world->session(); }
  /// Whether a rank has failed: no function below may then be called.
  bool hasFailed() const { return !world || world->failed(); }
  /// "threads", "mpi" or "tcp".
  const char *transportName() const { return transport; }
  int threadsPerRank() { return world->local(0).threadsPerRank; }
  double loadSeconds() const { return secondsToLoad; }
  /// Digests of the loaded weight files, or the seed.
  const std::string &weightIdentity() const { return loadedWeights; }

  /// Runs one step and assembles its outputs, which are complete in rank 0's process. Throws
  /// UserError.
  std::vector<Tensor> &step(const Inputs &inputs);

  /// Result of `measure`, in rank 0's process.
  struct Measurement {
    /// Seconds of each of the last `repeat` steps, from all ranks ready until all done, measured on
    /// rank 0.
    std::vector<double> seconds;
    /// communication of each rank in the last step
    std::vector<std::vector<Counters::Row>> counters;
    /// per rank, summed over the last `repeat` steps
    std::vector<std::vector<ProfileRow>> profiles;
    /// per rank, of the last step; begins are relative to the begin of the step
    std::vector<std::vector<TimedCall>> timelines;
  };
  /// Runs `warmup + repeat` steps.
  Measurement measure(const Inputs &inputs, int warmup, int repeat);
  /// Collective. Returns the communication of each rank since the program started, in rank 0's
  /// process.
  std::vector<std::vector<Counters::Row>> counters();

  /// For callers that run steps on ranks themselves, within `each`: whether memory for steps of
  /// these sizes has been prepared. Preparation is a collective call outside of `each`.
  bool isPrepared(const Inputs &inputs) const;
  void prepareSizes(const Inputs &inputs);
  /// Whether a rank can run such a step with no communication except the program's.
  bool isAgreed(const tpc_context &ctx, const Inputs &inputs) const;
  /// Runs a step on one rank. Outputs go to ctx.outputs and are not assembled.
  void runRank(tpc_context &ctx, const Inputs &inputs);
  /// Runs `fn` on all ranks of this process. Throws UserError.
  void each(const std::function<void(tpc_context &)> &fn) { run(fn); }
  int numLocal() const { return world->numLocal(); }
  tpc_context &local(int index) { return world->local(index); }
  /// Sink that assembles outputs.
  OutputSink &outputs() { return assembler; }

private:
  void prepare(const Inputs &inputs);
  /// Reserves one contiguous block for the step's frames.
  void reserveFrames(tpc_context &ctx, const SymbolValues &sizes);
  void runStage(tpc_context &ctx, const Inputs &inputs);
  void run(const std::function<void(tpc_context &)> &fn);

  const tpc_program &program;
  const Manifest &manifest;
  const bool embedded;
  const char *transport = "threads";
  std::string loadedWeights;
  double secondsToLoad = 0;
  bool countsMemory = false; ///< the device supports dry runs
  /// With dry runs: bytes of frames of each local rank, by step sizes.
  std::map<SymbolValues, std::vector<int64_t>> frameBytes;
  static constexpr size_t maxSizes = 64; ///< maximum number of entries
  Tuner tuner;
  OutputAssembler assembler; // outlives the world, whose contexts refer to it
  std::unique_ptr<World> world;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_EXECUTION_H
