//===- CompareRuns.cpp - Two programs over a prime field, compared --------===//

#include "CompareRuns.h"

#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"
#include "SmallSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;

namespace {
/// Elements of all outputs, one after the other.
LogicalResult compareOutputs(ModuleOp program, Machine<Field> &actual, Machine<Field> &expected) {
  if (expected.outputs.size() != actual.outputs.size())
    return emitError(program.getLoc()) << "the program has " << actual.outputs.size()
                                       << " outputs, the model " << expected.outputs.size();
  for (auto [i, a, b] : llvm::enumerate(actual.outputs, expected.outputs)) {
    auto fail = [&, op = a.delivered]() {
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << "): " << Field::what;
    };
    if (a.tensor.shape != b.tensor.shape)
      return fail() << "output " << i << " has another shape than the model's";
    size_t at = 0;
    while (at < a.known.size() && a.known[at] && a.tensor.data[at] == b.tensor.data[at])
      ++at;
    if (at == a.known.size())
      continue;
    Shape index;
    size_t rest = at;
    for (int64_t size : llvm::reverse(a.tensor.shape)) {
      index.push_back(rest % size);
      rest /= size;
    }
    InFlightDiagnostic diag = fail() << "element [";
    llvm::interleaveComma(llvm::reverse(index), diag);
    return diag << "] of output " << i
                << (a.known[at] ? " is not what the model computes" : " is delivered by nobody");
  }
  return success();
}
} // namespace

LogicalResult equivalence::comparePrograms(ModuleOp model, ModuleOp program, std::string &skipped) {
  constexpr double budget = 2e8; // about a second
  auto main = model.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(model.getLoc()) << "there is no @main to compare with";
  SmallSizes small;
  if (failed(small.choose(model, program, budget, budget, /*eachRank=*/false, skipped)))
    return failure();
  if (!skipped.empty())
    return success();
  GridAttr grid = small.grid;
  SizeReduction &sizes = *small.sizes;
  // Not all sizes are possible: a table may be shorter, one size the sum of others. The model says.
  for (int sample = 0; sample < SizeReduction::samples; ++sample) {
    sizes.setSample(sample);
    World whole(model, grid, sizes);
    std::optional<Machine<Field>> expected;
    std::vector<Tensor<uint64_t>> inputs;
    {
      ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
        skipped = "the model cannot be run: " + diagnostic.str();
        return success();
      });
      FailureOr<std::vector<Tensor<uint64_t>>> drawn = makeInputs<Field>(main, whole);
      if (failed(drawn))
        continue;
      inputs = std::move(*drawn);
      expected.emplace(whole, inputs);
      if (failed(expected->run()))
        continue;
    }
    skipped.clear();
    World parts(program, grid, sizes);
    Machine<Field> actual(parts, inputs);
    return failure(failed(actual.run()) || failed(compareOutputs(program, actual, *expected)));
  }
  return success();
}
