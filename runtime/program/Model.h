//===- Model.h - a program in a process that does other things ------------===//
//
// What is behind tpc/session.h: a world of threads with its weights, which serves one call after
// the other. Nothing is printed, and no error ends the process. See docs/serving-and-python.md.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_MODEL_H
#define TPC_RT_PROGRAM_MODEL_H

#include "program/Execution.h"
#include "program/Worker.h"
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tpc::rt {

/// A step has begun and failed.
class BrokenStep : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Model {
public:
  /// Starts the ranks and loads the weights. `program` and `manifest` stay. Throws UserError.
  Model(const tpc_program &program, const Manifest &manifest,
        const std::vector<std::string> &flags);
  ~Model();

  /// Whether this process is another than the one that opened it: its threads are not here.
  bool hasForked() const;

  /// Runs a step with inputs as of `completeInputs`. Throws UserError, or BrokenStep.
  std::vector<Tensor> run(const std::vector<std::string> &names,
                          const std::function<Given(const Port &)> &take);

  /// Does `work` with the ranks, behind what was asked for before. Where a rank has failed, the
  /// future throws BrokenStep; else what `work` throws.
  std::future<void> post(std::function<void(Execution &)> work);

  const Options &flags() const { return options; }

  /// In work that is posted: throws UserError where these steps, of a task that is for `room`, take
  /// more memory than there can be.
  void checkMemory(std::span<const Inputs> steps, const std::string &room) const;

  /// What there was room for so far, of a program that generates: memory is made anew where it is
  /// for more or longer sequences.
  struct Room {
    std::mutex mutex; ///< of the rest
    int64_t slots = 0, capacity = 0;
    int64_t checkedSlots = 0, checkedCapacity = 0; ///< that memory is known to suffice for
  };
  Room &room() { return made; }

  /// What an executable would have printed, a line each.
  std::vector<std::string> notes();

private:
  /// Starts the ranks, unless they are there.
  void start();

  const tpc_program &program;
  const Manifest &manifest;
  Options options;
  const pid_t process;
  std::vector<std::string> told;
  Room made;
  std::unique_ptr<Execution> execution;
  std::string weights; // those that the first one has loaded
  std::string failure; // for which there will be none any more
  Worker worker;       // who uses all of the above
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MODEL_H
