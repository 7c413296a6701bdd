//===- CompareRuns.cpp - Randomized comparison over a prime field ---------===//

#include "CompareRuns.h"

#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"
#include "SmallSizes.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;

namespace {
/// Compares the elements of all outputs.
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
                << (a.known[at] ? " is not what the model computes"
                                : " is not delivered by any rank");
  }
  return success();
}
} // namespace

namespace {
/// A run of the model at the current sizes.
struct ModelRun {
  ModelRun(ModuleOp model, MeshAttr grid, const SizeReduction &sizes) : world(model, grid, sizes) {
    world.coverage = &coverage;
  }
  Coverage coverage;
  World world;
  std::vector<Tensor<uint64_t>> inputs;
  std::optional<Machine<Field>> machine;
};
} // namespace

/// Runs the model. If it cannot be run, returns null and sets `skipped` to the reason: for example,
/// an index may exceed a table, or a size must be the sum of other sizes.
static std::unique_ptr<ModelRun> runModel(ModuleOp model, func::FuncOp main, SmallSizes &small,
                                          int draw, std::string &skipped) {
  ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
    skipped = "the model cannot be run: " + diagnostic.str();
    return success();
  });
  auto run = std::make_unique<ModelRun>(model, small.grid, *small.sizes);
  FailureOr<std::vector<Tensor<uint64_t>>> drawn = makeInputs<Field>(main, run->world, draw);
  if (failed(drawn))
    return nullptr;
  run->inputs = std::move(*drawn);
  run->machine.emplace(run->world, run->inputs);
  return succeeded(run->machine->run()) ? std::move(run) : nullptr;
}

LogicalResult equivalence::comparePrograms(ModuleOp model, ModuleOp program, bool proved,
                                           RunReport &report) {
  std::string &skipped = report.skipped;
  constexpr double budget = 2e8; // about a second
  auto main = model.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(model.getLoc()) << "there is no @main to compare with";
  SmallSizes small;
  if (failed(small.choose(model, program, budget, budget, /*eachRank=*/false, skipped)))
    return failure();
  if (!skipped.empty())
    return success();
  bool unexercised = false;
  do {
    // Use the random inputs with the highest coverage.
    std::unique_ptr<ModelRun> run = runModel(model, main, small, 0, skipped);
    int best = 0;
    for (int draw = 1; run && run->coverage.countMissing() && draw < SizeReduction::draws; ++draw)
      if (auto other = runModel(model, main, small, draw, skipped);
          other && other->coverage.countMissing() < run->coverage.countMissing()) {
        run = std::move(other);
        best = draw;
      }
    if (!run)
      continue;
    unexercised = !run->coverage.isSufficient();
    if (unexercised) {
      skipped = run->coverage.explainMissing();
      continue;
    }
    if (small.reachConstants(run->coverage, budget)) {
      std::unique_ptr<ModelRun> wide = runModel(model, main, small, best, skipped);
      if (wide && !wide->world.misses && wide->coverage.isSufficient())
        run = std::move(wide);
      else
        small.sizes->restoreSample();
    }
    if (small.fitTables(run->coverage)) {
      std::unique_ptr<ModelRun> fit = runModel(model, main, small, best, skipped);
      if (fit && !fit->world.misses && fit->coverage.isSufficient())
        run = std::move(fit);
      else
        small.restoreTables();
    }
    skipped.clear();
    report.unexercised = run->coverage.listUnexercised();
    llvm::raw_string_ostream os(report.facts);
    run->coverage.print(os);
    World programWorld(program, small.grid, *small.sizes);
    Machine<Field> actual(programWorld, run->inputs);
    return failure(failed(actual.run()) || failed(compareOutputs(program, actual, *run->machine)));
  } while (small.sizes->setNextSample());
  if (unexercised && !proved)
    return emitError(program.getLoc()) << "run at small sizes, and not proved: " << skipped;
  return success();
}
