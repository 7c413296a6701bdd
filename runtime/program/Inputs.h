//===- Inputs.h - Reading, checking and completion of a step's inputs -----===//
//
// Every process does this before the first collective, so that invalid input causes an error, not a
// hang.
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

/// All inputs of one step, by index in manifest.inputs, and the values of all symbols. Additional
/// device inputs, which are not inputs of the program, may follow.
struct Inputs {
  std::vector<Tensor> tensors;
  SymbolValues symbols;
  /// For programs with caches: capacity in sequences (0: number of sequences in the step), number
  /// of sequences in the step, and the first of them.
  int64_t stateRows = 0, stepRows = 0, stateRow = 0;
  /// For memory estimates: sink whose device memory is counted. Null: outputs are dropped.
  std::shared_ptr<OutputSink> outputs;
  /// Notes for the user, such as a conversion of ids.
  std::vector<std::string> notes;

  /// Digest of sizes and values.
  std::string digest() const;
  /// Values of manifest.symbols, in order.
  std::vector<int64_t> symbolList(const Manifest &manifest) const;
};

/// A tensor that the user passes for an input, and its name in messages.
struct Given {
  std::string what;
  Tensor tensor;
};

/// Throws UserError if a size of --shape is not one of the program's symbols.
void checkSizeNames(const SymbolValues &sizes, const Manifest &manifest);

/// `take` returns the inputs with `names`, in program order. Binds symbols from their shapes and
/// from `given` (--shape), fills in defaults, and checks ids and constraints. Throws UserError.
/// `instruction`: how to pass a missing input NAME.
Inputs completeInputs(const Manifest &manifest, const std::vector<std::string> &names,
                      const std::function<Given(const Port &)> &take, const char *instruction,
                      const SymbolValues &given);

/// The same for files (path by input name).
Inputs readInputs(const Manifest &manifest, const std::map<std::string, std::string> &files,
                  const SymbolValues &given);

/// Inputs for benchmarks: all symbols come from `given`; ids are spread over their range, masks are
/// one, positions count up, other values are small.
Inputs makeInputs(const Manifest &manifest, const SymbolValues &given);

/// Returns the sizes of an input or output.
Shape shapeOf(const Port &port, const SymbolValues &symbols);

/// Returns the number of tokens of a step: batch times sequence, from the first input with at least
/// two dimensions; otherwise the size of the first dimension.
int64_t tokensOf(const Inputs &inputs);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_INPUTS_H
