//===- Task.h - Multi-step tasks of a program -----------------------------===//

#ifndef TPC_RT_PROGRAM_TASK_H
#define TPC_RT_PROGRAM_TASK_H

#include "program/Execution.h"
#include <memory>

namespace tpc::rt {

/// Task of many steps. Created before the weights are loaded, so that errors in the task are
/// reported early.
class Task {
public:
  virtual ~Task();
  /// Returns inputs of the steps with the largest memory use on the selected devices.
  virtual std::vector<Inputs> largestSteps() const = 0;
  /// Describes the capacity.
  virtual std::string limitsText() const = 0;
  /// Digest that must be equal on all processes.
  virtual std::string digest() const = 0;
  /// Throws UserError.
  virtual void run(Execution &execution) = 0;
};

/// Makes the generation task (defined in generate/). Throws UserError.
std::unique_ptr<Task> makeGeneration(const Manifest &manifest, const Options &options);

/// Makes the training task (defined in train/). Throws UserError.
std::unique_ptr<Task> makeTraining(const Manifest &manifest, const Options &options);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TASK_H
