//===- Model.h - Program loaded into another process ----------------------===//
//
// Implements tpc/session.h: a world of threads with its weights, which serves one call at a time.
// It prints nothing, and no error ends the process. See docs/serving-and-python.md.
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

/// An error of a step that had started.
class BrokenStep : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class Model {
public:
  /// Starts the ranks and loads the weights. `program` and `manifest` must outlive the model.
  /// Throws UserError.
  Model(const tpc_program &program, const Manifest &manifest,
        const std::vector<std::string> &flags);
  ~Model();

  /// Whether this process is a fork of the one that opened the model; the model's threads then do
  /// not exist.
  bool hasForked() const;

  /// Runs a step. The arguments are those of `completeInputs`. Throws UserError, or BrokenStep.
  std::vector<Tensor> run(const std::vector<std::string> &names,
                          const std::function<Given(const Port &)> &take);

  /// Runs `work` on the ranks after all earlier work. If a rank fails, the future throws
  /// BrokenStep; otherwise it throws the exceptions of `work`.
  std::future<void> post(std::function<void(Execution &)> work);

  const Options &flags() const { return options; }

  /// Within posted work: throws UserError if these steps, of a task sized for `limits`, exceed the
  /// available memory.
  void checkMemory(std::span<const Inputs> steps, const std::string &limits) const;

  /// Current capacity of a generating program; caches are reallocated for more or longer sequences.
  struct GenerationCapacity {
    std::mutex mutex; ///< guards the members below
    int64_t slots = 0, capacity = 0;
    int64_t checkedSlots = 0, checkedCapacity = 0; ///< sizes whose memory has been checked
  };
  GenerationCapacity &generationCapacity() { return capacity; }

  /// Notes that an executable would have printed, one line each.
  std::vector<std::string> notes();

private:
  /// Starts the ranks if they are not running.
  void start();

  const tpc_program &program;
  const Manifest &manifest;
  Options options;
  const pid_t process;
  std::vector<std::string> collectedNotes;
  GenerationCapacity capacity;
  std::unique_ptr<Execution> execution;
  std::string weights; // identity of the first weights loaded
  std::string failure; // reason why the ranks cannot be restarted
  Worker worker;       // last member: its tasks use all of the above
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MODEL_H
