//===- CompareLowered.cpp - Randomized check of lowered programs ----------===//

#include "CompareLowered.h"
#include "RunBuffers.h"
#include "TensorRun.h"
#include "WeightGains.h"

#include "../Equivalence/SmallSizes.h"
#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"

#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/State.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <deque>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using namespace mlir::tpc::interpret;
using equivalence::SizeReduction;
using equivalence::SmallSizes;

/// Returns whether a program has 16-bit floats.
static bool hasHalves(ModuleOp module) {
  auto isHalf = [](Type type) {
    return isa<RankedTensorType>(type) && isa<FloatType>(getElementTypeOrSelf(type)) &&
           getElementTypeOrSelf(type).getIntOrFloatBitWidth() == 16;
  };
  return module
      .walk([&](Operation *op) {
        return llvm::any_of(op->getResultTypes(), isHalf) ? WalkResult::interrupt()
                                                          : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {
/// Tolerances of outputs. With rounding: the effect of rounding all values of the model to their
/// types, times a margin, because the lowered program rounds other values. Without rounding: nearly
/// 0, because only constants are rounded. If constants have 32 bits, the effect of rounding all
/// values bounds the effect of rounding constants.
struct Tolerances {
  SmallVector<double> exact, rounded;
};
} // namespace

static FailureOr<Tolerances> getTolerances(World &reference, const Machine<Doubles> &exact,
                                           ArrayRef<Tensor<double>> inputs, bool halves) {
  Machine<Doubles> rounded(reference, inputs);
  rounded.rounds = true;
  if (failed(rounded.run()))
    return failure();
  // Operands of a zero sum (the gradient of a key's bias) leave rounding errors of doubles.
  double noise = 0;
  for (const auto &output : exact.outputs)
    for (double x : output.tensor.data)
      noise = std::isfinite(x) ? std::max(noise, 1e-15 * std::fabs(x)) : noise;
  Tolerances tolerances;
  for (auto [e, r] : llvm::zip_equal(exact.outputs, rounded.outputs)) {
    double difference = 0, largest = 0;
    for (auto [x, y] : llvm::zip_equal(e.tensor.data, r.tensor.data)) {
      if (!std::isfinite(x))
        continue;
      largest = std::max(largest, std::fabs(x));
      // If rounding overflows, any result is accepted.
      difference = std::isfinite(y) ? std::max(difference, std::fabs(x - y)) : INFINITY;
    }
    double upper = 2e-5 * largest, lower = 5e-7 * largest;
    tolerances.rounded.push_back(std::max(upper, 16 * difference));
    double cancelled = std::isfinite(difference) ? std::max(1e-6 * difference, noise) : noise;
    double limit = halves ? upper : std::clamp(16 * difference, lower, upper);
    tolerances.exact.push_back(std::max(limit, cancelled));
  }
  return tolerances;
}

static LogicalResult compareOutputs(ModuleOp lowered, const BufferMachine &actual,
                                    const Machine<Doubles> &expected, ArrayRef<double> tolerances) {
  if (actual.outputs.size() != expected.outputs.size())
    return emitError(lowered.getLoc()) << "the lowered program has " << actual.outputs.size()
                                       << " outputs, the model " << expected.outputs.size();
  for (auto [i, a, e] : llvm::enumerate(actual.outputs, expected.outputs)) {
    auto fail = [&, op = a.delivered]() {
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << "): lowered and run at small sizes, ";
    };
    if (a.shape != e.tensor.shape)
      return fail() << "output " << i << " has another shape than the model's";
    for (size_t at = 0; at < a.data.size(); ++at) {
      double want = e.tensor.data[at], have = a.isFloat ? a.data[at].f : double(a.data[at].i);
      bool same = want == have || (std::isnan(want) && std::isnan(have)) ||
                  std::isinf(tolerances[i]) || std::fabs(want - have) <= tolerances[i];
      if (a.known[at] && same)
        continue;
      Shape index;
      size_t rest = at;
      for (int64_t size : llvm::reverse(a.shape)) {
        index.push_back(rest % size);
        rest /= size;
      }
      InFlightDiagnostic diag = fail() << "element [";
      llvm::interleaveComma(llvm::reverse(index), diag);
      if (!a.known[at])
        return diag << "] of output " << i << " is not delivered by any rank";
      return diag << "] of output " << i << " is "
                  << llvm::formatv("{0:e8}, not {1:e8} as the model computes (tolerance {2:e2})",
                                   have, want, tolerances[i])
                         .str();
    }
  }
  return success();
}

/// Returns whether the model's outputs depend on an element of `input`, an id of a table with
/// `rows` rows. If a later slice drops the row, a kernel may omit the lookup.
static FailureOr<bool> isNeeded(World &model, std::vector<Tensor<double>> inputs, size_t input,
                                bool isFirst, int64_t rows) {
  // Instead of another row, a table of one row has the zeros of an id that does not exist.
  std::deque<Machine<Doubles>> runs;
  for (int64_t row : {int64_t(0), std::max<int64_t>(rows - 1, 1)}) {
    (isFirst ? inputs[input].data.front() : inputs[input].data.back()) = double(row);
    if (failed(runs.emplace_back(model, inputs).run()))
      return failure();
  }
  auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (auto [a, b] : llvm::zip_equal(runs[0].outputs, runs[1].outputs))
    if (!llvm::equal(a.tensor.data, b.tensor.data, same))
      return true;
  return false;
}

/// Checks that the program reports an out-of-bounds id and does not access memory with it.
static LogicalResult expectReports(ModuleOp lowered, World &model, World &staged,
                                   ArrayRef<Tensor<double>> inputs, ArrayRef<int64_t> tables) {
  for (auto [i, rows] : llvm::enumerate(tables))
    for (int64_t missing : {rows, -rows - 1}) {
      if (rows == 0 || inputs[i].data.empty())
        continue;
      std::vector<Tensor<double>> changed(inputs.begin(), inputs.end());
      (missing < 0 ? changed[i].data.front() : changed[i].data.back()) = double(missing);
      model.misses = false;
      if (failed(Machine<Doubles>(model, changed).run()))
        return failure();
      if (!model.misses) // the id is not used
        continue;
      BufferMachine machine(lowered, staged, changed, /*seed=*/1, /*rounds=*/false);
      if (failed(machine.run()))
        return failure();
      if (!machine.reported.empty())
        continue;
      FailureOr<bool> needed = isNeeded(model, changed, i, /*isFirst=*/missing < 0, rows);
      if (failed(needed))
        return failure();
      if (*needed)
        return emitError(lowered.getLoc())
               << "lowered and run at small sizes: index " << missing << " of input " << i
               << " is not reported as out of bounds of the " << rows << " rows that are looked up";
    }
  return success();
}

namespace {
/// Expected results at the current sizes.
struct Reference {
  Reference(ModuleOp model, ModuleOp staged, const SmallSizes &small)
      : modelWorld(model, small.grid, *small.sizes), stagedWorld(staged, small.grid, *small.sizes),
        isStaged(staged->hasAttr(kNormsDecomposedAttr)) {
    modelWorld.gains = stagedWorld.gains = &gains;
    setQuantizedGains(getWorld().getModule(), gains);
  }
  /// Decomposed norms divide by numbers, not by sizes. If there are any, the expected results are
  /// those of the staged program, which is equivalent to the model.
  World &getWorld() { return isStaged ? stagedWorld : modelWorld; }

  llvm::StringMap<double> gains;
  World modelWorld, stagedWorld;
  bool isStaged;
  std::vector<Tensor<double>> inputs;
  std::vector<Tensor<double>> rounded; // inputs, rounded to their types
  std::vector<int64_t> tables;
  Coverage coverage;
  std::optional<Machine<Doubles>> machine;
};
} // namespace

/// Runs the reference, repeatedly with larger weights until caps have an effect. If it cannot be
/// run, returns false and sets `skipped` to the reason.
static bool runOnce(Reference &reference, std::string &skipped) {
  World &world = reference.getWorld();
  ScopedDiagnosticHandler quiet(world.getModule().getContext(), [&](Diagnostic &diagnostic) {
    skipped = "the model cannot be run: " + diagnostic.str();
    return success();
  });
  constexpr int runs = 4;
  world.coverage = &reference.coverage;
  for (int run = 0; run == 0 || (run < runs && raiseGains(world.getModule(), reference.coverage,
                                                          reference.gains));
       ++run) {
    reference.coverage = Coverage();
    reference.machine.emplace(world, reference.inputs);
    if (failed(reference.machine->run()))
      return false;
  }
  world.coverage = nullptr;
  if (world.misses)
    skipped = "at small sizes the model looks up rows past the end of a table";
  return !world.misses;
}

/// Runs the reference. Returns null if it cannot be run at these sizes: a table may be too short,
/// or one size must be the sum of others.
static FailureOr<std::unique_ptr<Reference>> runReference(ModuleOp model, ModuleOp staged,
                                                          func::FuncOp main,
                                                          const SmallSizes &small, int draw,
                                                          std::string &skipped) {
  auto reference = std::make_unique<Reference>(model, staged, small);
  FailureOr<std::vector<Tensor<double>>> inputs =
      makeInputs<Doubles>(main, reference->modelWorld, draw);
  FailureOr<std::vector<int64_t>> tables = findTables(main, reference->modelWorld);
  if (failed(inputs) || failed(tables))
    return failure();
  // The last row of a table, and the first one as a negative index.
  for (auto [input, rows] : llvm::zip_equal(*inputs, *tables))
    if (rows > 0 && !input.data.empty()) {
      input.data.front() = double(rows - 1);
      input.data.back() = double(-rows);
    }
  // Inputs with numbers of tokens must not be negative.
  std::optional<SourceCaches> source = SourceCaches::lookup(staged);
  if (std::optional<PreallocatedStep> step = PreallocatedStep::lookup(staged))
    for (auto [i, input] : llvm::enumerate(*inputs)) {
      auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr);
      bool isCount = name && (name == step->lengths || name == step->counts ||
                              (step->windowed && name == step->windowed->lengths) ||
                              (source && name == source->lengths));
      for (double &x : input.data)
        x = isCount ? std::fabs(x) : x;
    }
  reference->inputs = std::move(*inputs);
  reference->rounded = reference->inputs;
  for (auto [input, type] : llvm::zip_equal(reference->rounded, main.getArgumentTypes()))
    roundNumbers(input, type);
  reference->tables = std::move(*tables);
  if (!runOnce(*reference, skipped))
    reference.reset();
  return std::move(reference);
}

/// Returns the axes that split a dimension of symbolic size.
static llvm::SmallSetVector<StringAttr, 4> getAxesOfSymbols(ModuleOp staged) {
  llvm::SmallSetVector<StringAttr, 4> axes;
  auto visit = [&](Type type) {
    if (!isa<RankedTensorType>(type))
      return;
    for (DimAttr dim : getDist(type).getDims())
      if (!dim.getExpr().asConstant())
        axes.insert_range(dim.getAllAxes());
  };
  staged.walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), visit);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), visit);
  });
  return axes;
}

/// Returns a symbol value at which local dimensions that depend on the symbol are larger than all
/// other sizes in the kernels, so that a comparison of an index with a wrong size is detected.
static int64_t getLongSize(ModuleOp staged, ModuleOp lowered, MeshAttr grid,
                           const SizeReduction &sizes) {
  int64_t longest = 12;
  lowered.walk([&](kernel::SizeOp op) {
    std::set<std::string> names;
    op.getExpr().collectSymbols(names);
    std::map<std::string, int64_t> values;
    for (const std::string &name : names) {
      std::optional<NamedSize> named = getNamedSize(name);
      values[name] = named ? std::max<int64_t>(sizes.get(named->size), 1) : 1;
    }
    longest = std::max(longest, op.getExpr().evaluate(values).value_or(0));
  });
  int64_t parts = grid ? grid.getMicroBatches() : 1;
  for (StringAttr axis : getAxesOfSymbols(staged))
    parts *= grid && axis != kMicroBatchAxis ? grid.getAxisSize(axis) : 1;
  constexpr int64_t limit = 1000; // bounds the time of a run
  return std::min((longest + 1) * parts, limit);
}

static LogicalResult compareWith(Reference &reference, ModuleOp staged, ModuleOp lowered,
                                 ChoiceCoverage &choices, std::string &skipped) {
  ArrayRef<Tensor<double>> inputs = reference.inputs;
  bool halves = hasHalves(staged);
  // Results may be inputs, which a program stores in their types.
  FailureOr<Tolerances> tolerances =
      getTolerances(reference.getWorld(), *reference.machine,
                    halves ? ArrayRef(reference.rounded) : inputs, halves);
  if (failed(tolerances))
    return failure();
  // Separate runs of kernels use sizes that preserve the difference of any two sizes. The order of
  // two sizes may change, so there are runs with each order.
  MeshAttr grid = reference.stagedWorld.getGrid();
  constexpr int64_t base = 3;
  SizeReduction different(reference.modelWorld.getModule(), staged, MeshAttr::lookup(staged), grid,
                          base,
                          /*rows=*/0, SizeReduction::Distinct::Ascending);
  SizeReduction descending = different;
  descending.reorder(base, SizeReduction::Distinct::Descending);
  World alone(staged, grid, different), reversed(staged, grid, descending);
  // They also use sizes at which one symbol is much larger than all other sizes, like the past of a
  // step or a long prompt. Neither a static size nor a product of small sizes bounds this symbol.
  // The other sizes are the smallest distinct ones, because operands have the product of all sizes.
  SizeReduction shortest = different;
  shortest.reorder(/*base=*/2, SizeReduction::Distinct::Ascending);
  int64_t longSize = getLongSize(staged, lowered, grid, shortest);
  std::deque<SizeReduction> longSizes;
  std::deque<World> longWorlds;
  auto addLong = [&](ArrayRef<std::string> names) {
    SizeReduction &sizes = longSizes.emplace_back(shortest);
    for (const std::string &symbol : different.getSymbols())
      sizes.setSymbol(symbol, llvm::is_contained(names, symbol) ? longSize : 1);
    longWorlds.emplace_back(staged, grid, sizes);
  };
  for (const std::string &name : different.getSymbols())
    addLong(name);
  // If all symbols are 1, products of symbols are less than static sizes.
  addLong({});
  // Conditions on several symbols, and sums and differences of static sizes.
  SizeReduction spread = different;
  spread.reorder(/*base=*/3, SizeReduction::Distinct::Spread);
  int64_t several = 1; // their product is limited
  for (; several < 13 && std::pow(several + 1, different.getSymbols().size()) <= 200; ++several) {
  }
  for (const std::string &symbol : different.getSymbols())
    spread.setSymbol(symbol, several);
  World spreadWorld(staged, grid, spread);
  // Small kernels also run at their real sizes, at which an offset modulo a size is not 0.
  SizeReduction real = different;
  real.restoreSizes();
  World realWorld(staged, grid, real);
  // Caches must have room for the tokens that are appended.
  if (std::optional<PreallocatedStep> step = PreallocatedStep::lookup(staged)) {
    addLong({step->tokens, step->capacity});
    if (step->windowed)
      addLong({step->tokens, step->windowed->capacity});
    if (auto source = SourceCaches::lookup(staged))
      addLong({source->tokens, source->capacity});
  }
  auto compare = [&](bool rounds) -> LogicalResult {
    BufferMachine actual(lowered, reference.stagedWorld, inputs, /*seed=*/1, rounds);
    actual.comparesKernels = !rounds;
    actual.alone = {&alone, &reversed};
    actual.choices = &choices;
    for (World &world : longWorlds)
      actual.alone.push_back(&world);
    actual.alone.push_back(&spreadWorld);
    actual.real = &realWorld;
    if (failed(actual.run()))
      return failure();
    if (!actual.reported.empty())
      return emitError(lowered.getLoc()) << "lowered and run at small sizes: " << actual.reported
                                         << ", but all indices are valid";
    ArrayRef<double> limits = rounds ? tolerances->rounded : tolerances->exact;
    if (!reference.isStaged)
      return compareOutputs(lowered, actual, *reference.machine, limits);
    // With decomposed norms at reduced sizes, a difference may be correct.
    ScopedDiagnosticHandler quiet(lowered.getContext(), [](Diagnostic &) { return success(); });
    if (failed(compareOutputs(lowered, actual, *reference.machine, limits)))
      skipped = "its norms are decomposed with numbers, which small sizes do not change";
    return success();
  };
  // In 16-bit programs, two runs are needed: rounding hides faults in small numbers, but a missing
  // cast is detected only with rounding.
  if (failed(compare(/*rounds=*/false)) || (halves && failed(compare(true))))
    return failure();
  return expectReports(lowered, reference.modelWorld, reference.stagedWorld, inputs,
                       reference.tables);
}

/// Compares a step of one token after a long past, which is the common case of a generation. Other
/// runs have small caches and do not detect a confusion of past and new tokens.
static LogicalResult compareLateStep(ModuleOp model, ModuleOp staged, ModuleOp lowered,
                                     SmallSizes &small, ChoiceCoverage &choices,
                                     std::string &skipped) {
  constexpr int64_t capacity = 11;
  std::optional<PreallocatedStep> step = PreallocatedStep::lookup(staged);
  if (!step)
    return success();
  small.sizes->setSymbol(step->tokens, 1);
  small.sizes->setSymbol(step->capacity, capacity);
  std::string why; // tables may be too short for so many tokens
  auto main = model.lookupSymbol<func::FuncOp>("main");
  auto reference = runReference(model, staged, main, small, /*draw=*/0, why);
  if (failed(reference))
    return failure();
  return *reference ? compareWith(**reference, staged, lowered, choices, skipped) : success();
}

/// Runs the lowered program at the first sizes and inputs at which the model can be run and, if
/// `needsAll`, all windows of attention are exercised. If there are none because of a window,
/// `unexercised` names it.
static LogicalResult runLowered(ModuleOp model, ModuleOp staged, ModuleOp lowered, bool needsAll,
                                std::string &unexercised, RunReport &report) {
  std::string &skipped = report.skipped;
  constexpr double budget = 1e7, limit = 1e9; // a tenth of a second, some seconds
  auto main = model.lookupSymbol<func::FuncOp>("main");
  SmallSizes small;
  if (failed(small.choose(model, staged, budget, limit, /*eachRank=*/true, skipped)))
    return failure();
  if (!skipped.empty())
    return success();
  auto suffices = [&](const Reference &reference) {
    return !needsAll || reference.coverage.isSufficient();
  };
  do {
    // Use the random inputs with the highest coverage.
    auto reference = runReference(model, staged, main, small, 0, skipped);
    if (failed(reference))
      return failure();
    if (!*reference)
      continue;
    int best = 0;
    for (int draw = 1; (*reference)->coverage.countMissing() && draw < SizeReduction::draws; ++draw)
      if (auto other = runReference(model, staged, main, small, draw, skipped);
          succeeded(other) && *other &&
          (*other)->coverage.countMissing() < (*reference)->coverage.countMissing()) {
        reference = std::move(other);
        best = draw;
      }
    if (!suffices(**reference)) {
      unexercised = (*reference)->coverage.explainMissing();
      continue;
    }
    if (small.reachConstants((*reference)->coverage, budget)) {
      auto wide = runReference(model, staged, main, small, best, skipped);
      if (succeeded(wide) && *wide && suffices(**wide))
        reference = std::move(wide);
      else
        small.sizes->restoreSample();
    }
    if (small.fitTables((*reference)->coverage)) {
      auto fit = runReference(model, staged, main, small, best, skipped);
      if (succeeded(fit) && *fit && suffices(**fit))
        reference = std::move(fit);
      else
        small.restoreTables();
    }
    skipped.clear();
    unexercised.clear();
    report.unexercised = (*reference)->coverage.listUnexercised();
    llvm::raw_string_ostream os(report.facts);
    (*reference)->coverage.print(os);
    ChoiceCoverage choices;
    if (failed(compareWith(**reference, staged, lowered, choices, skipped)))
      return failure();
    if (skipped.empty() && failed(compareLateStep(model, staged, lowered, small, choices, skipped)))
      return failure();
    return choices.check(lowered);
  } while (small.sizes->setNextSample());
  return success();
}

LogicalResult lowered::compareLowered(ModuleOp model, ModuleOp staged, ModuleOp lowered,
                                      bool proved, RunReport &report) {
  auto main = model.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(model.getLoc()) << "there is no @main to compare with";
  std::string unexercised;
  if (failed(runLowered(model, staged, lowered, /*needsAll=*/true, unexercised, report)))
    return failure();
  if (unexercised.empty())
    return success();
  if (!proved)
    return emitError(lowered.getLoc()) << "run at small sizes, and not proved: " << unexercised;
  // Windows that no run can exercise are only compared as attributes.
  report.skipped.clear();
  std::string none;
  if (failed(runLowered(model, staged, lowered, /*needsAll=*/false, none, report)))
    return failure();
  report.unexercised = unexercised;
  return success();
}
