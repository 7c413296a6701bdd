//===- Inputs.h - reads, checks and completes a step's inputs -------------===//
//
// All of this happens before the first collective, on every process, so that bad input is an error
// and not a hang.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_INPUTS_H
#define TPC_RT_PROGRAM_INPUTS_H

#include "program/Manifest.h"
#include "program/SizeExpr.h"
#include <functional>
#include <map>
#include <memory>

namespace tpc::rt {

class OutputSink;

/// All inputs of one step, by index in manifest.inputs, and the values of all symbols. Behind them
/// there may be others, which are the device's, but not the program's.
struct Inputs {
  std::vector<Tensor> tensors;
  SymbolValues symbols;
  /// Of programs that keep state: sequences that there is state for (0: as many as the step has),
  /// how many the step has, and which is its first.
  int64_t stateRows = 0, stepRows = 0, stateRow = 0;
  /// Where memory of a step is counted: what takes its outputs, for what devices hold of them.
  /// Null: they are left where they are.
  std::shared_ptr<OutputSink> outputs;
  /// For the user, such as that ids were converted.
  std::vector<std::string> notes;

  /// Differs where sizes or values differ.
  std::string digest() const;
  /// The values of manifest.symbols, in order.
  std::vector<int64_t> symbolList(const Manifest &manifest) const;
};

/// A tensor for an input, and what it is called in messages.
struct Given {
  std::string what;
  Tensor tensor;
};

/// Throws UserError where a size of --shape is none of the program's.
void checkSizeNames(const SymbolValues &sizes, const Manifest &manifest);

/// `take` gives the inputs called `names`, one after the other in the program's order. Binds
/// symbols from their shapes and from `given` (--shape), fills in what has a default, and checks
/// ids and constraints. Throws UserError. `giveIt`: how to give an input NAME that is missing.
Inputs completeInputs(const Manifest &manifest, const std::vector<std::string> &names,
                      const std::function<Given(const Port &)> &take, const char *giveIt,
                      const SymbolValues &given);

/// The same of files (path by input name).
Inputs readInputs(const Manifest &manifest, const std::map<std::string, std::string> &files,
                  const SymbolValues &given);

/// Inputs for measuring: all symbols come from `given`; ids are spread over their range, masks are
/// one, positions count up, numbers are small.
Inputs makeInputs(const Manifest &manifest, const SymbolValues &given);

/// The sizes of an input or output.
Shape shapeOf(const Port &port, const SymbolValues &symbols);

/// Tokens of a step: batch times sequence, read off the first input with two dimensions or more;
/// else the size of the first dimension.
int64_t tokensOf(const Inputs &inputs);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_INPUTS_H
