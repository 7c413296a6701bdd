//===- Task.h - what programs do besides single steps ---------------------===//

#ifndef TPC_RT_PROGRAM_TASK_H
#define TPC_RT_PROGRAM_TASK_H

#include "program/Execution.h"
#include <memory>

namespace tpc::rt {

/// Something that takes many steps. Made before the weights are loaded, so that what is wrong with
/// it is said then.
class Task {
public:
  virtual ~Task();
  /// Of the steps that take most memory, on the devices that have been chosen.
  virtual std::vector<Inputs> largestSteps() const = 0;
  /// What there is room for, in words.
  virtual std::string roomText() const = 0;
  /// What all processes must have in common of it.
  virtual std::string digest() const = 0;
  /// Throws UserError.
  virtual void run(Execution &execution) = 0;
};

/// Of a program that generates; generate/ has it. Throws UserError.
std::unique_ptr<Task> makeGeneration(const Manifest &manifest, const Options &options);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TASK_H
