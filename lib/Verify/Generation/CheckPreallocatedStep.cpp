//===- CheckPreallocatedStep.cpp - Test of steps on preallocated caches ---===//
//
// Runs batches of sequences with different numbers of cached and new tokens. Checks that each
// sequence has the same outputs for its real tokens as in a step of one sequence. Its cache must
// have the old tokens unchanged, followed by the new tokens; later elements must not be written.
//
// The unused elements of caches are random and different from all other elements, so that reads of
// them are detected. Uses of another sequence's length, slot or positions are detected for the same
// reason.
//
//===----------------------------------------------------------------------===//

#include "CheckPreallocatedStep.h"
#include "TokenParts.h"

#include "../Equivalence/SizeReduction.h"
#include "../Equivalence/SmallSizes.h"
#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;
using mlir::tpc::generation::take;
using ::tpc::SymExpr;
using Data = Tensor<uint64_t>;

namespace {
/// A sequence: the number of tokens in its caches, and of real tokens in the step.
struct Row {
  int64_t length, count;
};
struct Batch {
  int64_t tokens;
  SmallVector<Row> rows;
};

/// Returns batches in which caches are empty or become full, padding exceeds the capacity, or a
/// sequence has no new tokens.
SmallVector<Batch> getBatches(int64_t capacity) {
  int64_t few = std::max<int64_t>(2, capacity * 3 / 8), many = capacity / 2 + 1;
  return {{few, {{capacity - few, few}, {0, few - 1}, {capacity - 1, 1}, {1, 0}}},
          {1, {{0, 1}, {capacity - 1, 1}, {capacity / 2, 1}, {1, 0}}},
          {many, {{0, many}, {1, many - 1}, {capacity - many, many}, {2, 1}}}};
}

class PreallocatedStepCheck {
public:
  PreallocatedStepCheck(ModuleOp step, const StepSymbols &symbols, ModuleOp preallocated,
                        const PreallocatedStep &form)
      : step(step), preallocated(preallocated), symbols(symbols), form(form),
        grid(MeshAttr::get(step.getContext(), {}, {}, 1)) {}

  LogicalResult run() {
    stepMain = step.lookupSymbol<func::FuncOp>("main");
    preallocatedMain = preallocated.lookupSymbol<func::FuncOp>("main");
    if (!stepMain || stepMain.isExternal() || !preallocatedMain || preallocatedMain.isExternal())
      return emitError(preallocated.getLoc(), "there is no @main to compare");
    if (symbols.tokens != form.tokens ||
        stepMain.getNumResults() != preallocatedMain.getNumResults() ||
        stepMain.getNumArguments() + 2 != preallocatedMain.getNumArguments())
      return preallocatedMain.emitError("must be the step with two more inputs");
    if (failed(chooseSizes()) || failed(pair()) || failed(fitTables()) || failed(checkBatches()))
      return failure();
    for (const Coverage *coverage : {&stepCoverage, &preallocatedCoverage})
      if (!coverage->isSufficient())
        return preallocatedMain.emitError() << "run at small sizes: " << coverage->explainMissing();
    return success();
  }
  void print(llvm::raw_ostream &os) const { preallocatedCoverage.print(os); }

private:
  /// Reduces the capacity until all lookups of the reference step are in bounds. Tables of
  /// positions may have offsets (2 in OPT), and then fewer tokens fit.
  LogicalResult fitTables() {
    for (; capacity >= 3; --capacity) {
      setSizes(1, capacity - 1, 1);
      World world(step, grid, *sizes);
      FailureOr<std::vector<Data>> inputs = makeInputs<Field>(stepMain, world);
      if (failed(inputs))
        return failure();
      Machine<Field> machine(world, *inputs);
      if (failed(machine.run()))
        return failure();
      if (!world.misses)
        return success();
    }
    return stepMain.emitError("cannot be checked at small sizes: an index is past the end of a "
                              "table");
  }

  LogicalResult checkBatches() {
    for (const Batch &batch : getBatches(capacity)) {
      if (batchSymbol) {
        if (failed(check(batch)))
          return failure();
        continue;
      }
      for (const Row &row : batch.rows)
        if (failed(check({batch.tokens, {row}})))
          return failure();
    }
    return success();
  }

  /// Chooses the largest capacity at which a step that fills the caches is cheap enough to run.
  LogicalResult chooseSizes() {
    constexpr double limit = 2e9;
    double work = 0;
    for (int64_t base : {8, 4, 3}) {
      sizes.emplace(step, preallocated, /*grid=*/nullptr, grid, base);
      capacity = base;
      if (Operation *op = sizes->getUnknown())
        return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                               << ") cannot be run at small sizes";
      findBatch();
      setSizes(capacity, 0, 4);
      work = estimateWork(preallocated, grid, *sizes);
      if (work <= limit)
        return success();
    }
    return preallocatedMain.emitError()
           << "cannot be checked: its sizes cannot be made small (" << work << " multiplications)";
  }

  void findBatch() {
    for (unsigned i = 0; i < preallocatedMain.getNumArguments() && !batchSymbol; ++i)
      if (getCache(preallocatedMain.getArgAttrDict(i)))
        batchSymbol = getSymbolName(getSizes(preallocatedMain.getArgumentTypes()[i])[0]);
  }

  void setSizes(int64_t tokens, int64_t past, int64_t batch) {
    sizes->setSample(SizeReduction::samples - 2);
    sizes->setSymbol(form.capacity, capacity);
    sizes->setSymbol(form.tokens, tokens);
    sizes->setSymbol(symbols.past, past);
    if (batchSymbol)
      sizes->setSymbol(*batchSymbol, batch);
  }

  std::optional<unsigned> findDim(Type type, const std::optional<std::string> &symbol) {
    for (auto [i, size] : llvm::enumerate(getSizes(type)))
      if (symbol && getSymbolName(size) == symbol)
        return i;
    return std::nullopt;
  }

  static StringRef getName(DictionaryAttr attributes) {
    auto name = attributes ? attributes.getAs<StringAttr>(kNameAttr) : StringAttr();
    return name ? name.getValue() : StringRef();
  }
  static DictionaryAttr getOutput(func::FuncOp main, unsigned i) {
    DictionaryAttr attributes = main.getResultAttrDict(i);
    return attributes ? attributes : DictionaryAttr::get(main.getContext());
  }

  /// Pairs inputs and outputs of the two programs by name and by cache.
  LogicalResult pair() {
    auto find = [&](StringRef name) -> FailureOr<unsigned> {
      for (unsigned i = 0; i < preallocatedMain.getNumArguments(); ++i)
        if (getName(preallocatedMain.getArgAttrDict(i)) == name)
          return i;
      return preallocatedMain.emitError() << "has no input '" << name << "'";
    };
    FailureOr<unsigned> length = find(form.lengths), count = find(form.counts);
    if (failed(length) || failed(count))
      return failure();
    lengthsAt = *length;
    countsAt = *count;
    for (unsigned i = 0; i < stepMain.getNumArguments(); ++i) {
      FailureOr<unsigned> same = find(getName(stepMain.getArgAttrDict(i)));
      if (failed(same))
        return failure();
      if (getCache(stepMain.getArgAttrDict(i)) != getCache(preallocatedMain.getArgAttrDict(*same)))
        return preallocatedMain.emitError()
               << "argument " << *same << " must have the same cache as the step's argument " << i;
      inputOf.push_back(*same);
    }
    for (unsigned i = 0; i < stepMain.getNumResults(); ++i)
      if (getCache(getOutput(stepMain, i)) != getCache(getOutput(preallocatedMain, i)) ||
          getName(getOutput(stepMain, i)) != getName(getOutput(preallocatedMain, i)))
        return preallocatedMain.emitError()
               << "result " << i << " must have the name and the cache of the step's result";
    return success();
  }

  FailureOr<std::vector<Data>> execute(ModuleOp module, func::FuncOp main, ArrayRef<Data> inputs) {
    World world(module, grid, *sizes);
    world.coverage = module == step ? &stepCoverage : &preallocatedCoverage;
    Machine<Field> machine(world, inputs);
    if (failed(machine.run()))
      return failure();
    if (world.misses)
      return main.emitError("looks up rows past the end of a table");
    std::vector<Data> outputs;
    for (auto &output : machine.outputs)
      outputs.push_back(output.tensor);
    return outputs;
  }

  InFlightDiagnostic fail(unsigned output) {
    Operation *op = preallocatedMain.front().getTerminator()->getOperand(output).getDefiningOp();
    if (!op)
      op = preallocatedMain;
    FlatSymbolRefAttr cache = getCache(getOutput(preallocatedMain, output));
    std::string what = cache
                           ? "cache @" + cache.getValue().str()
                           : "output '" + getName(getOutput(preallocatedMain, output)).str() + "'";
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << what;
  }

  LogicalResult check(const Batch &batch) {
    int64_t count = batch.rows.size();
    setSizes(batch.tokens, 0, count);
    World world(preallocated, grid, *sizes);
    FailureOr<std::vector<Data>> inputs = makeInputs<Field>(preallocatedMain, world);
    if (failed(inputs))
      return failure();
    for (auto [i, row] : llvm::enumerate(batch.rows)) {
      (*inputs)[lengthsAt].data[i] = Field::fromInteger(row.length);
      (*inputs)[countsAt].data[i] = Field::fromInteger(row.count);
    }
    FailureOr<std::vector<Data>> actual = execute(preallocated, preallocatedMain, *inputs);
    if (failed(actual))
      return failure();
    for (int64_t i = 0; i < count; ++i)
      if (failed(checkRow(batch, i, *inputs, *actual)))
        return failure();
    return success();
  }

  LogicalResult checkRow(const Batch &batch, int64_t at, ArrayRef<Data> inputs,
                         ArrayRef<Data> actual) {
    auto [length, count] = batch.rows[at];
    std::string text = " of a sequence with " + std::to_string(length) +
                       " tokens in its caches and " + std::to_string(count) + " new ones of " +
                       std::to_string(batch.tokens) + ", " + std::to_string(batch.rows.size()) +
                       " sequences together, ";
    std::vector<Data> expected;
    if (count > 0) {
      std::vector<Data> rowInputs;
      for (auto [i, type] : llvm::enumerate(stepMain.getArgumentTypes())) {
        Data data = take(inputs[inputOf[i]], findDim(type, batchSymbol), at, 1);
        bool cache = bool(getCache(stepMain.getArgAttrDict(i)));
        rowInputs.push_back(cache ? take(data, CacheOp::tokenDim, 0, length)
                                  : take(data, findDim(type, symbols.tokens), 0, count));
      }
      setSizes(count, length, 1);
      FailureOr<std::vector<Data>> outputs = execute(step, stepMain, rowInputs);
      if (failed(outputs))
        return failure();
      expected = std::move(*outputs);
    }
    for (auto [i, type] : llvm::enumerate(preallocatedMain.getResultTypes())) {
      Data output = take(actual[i], findDim(type, batchSymbol), at, 1);
      if (getCache(getOutput(preallocatedMain, i))) {
        const Data *after = count > 0 ? &expected[i] : nullptr;
        // Contents of the cache before the step.
        const Data *before = nullptr;
        for (unsigned k = 0; k < preallocatedMain.getNumArguments(); ++k)
          if (getCache(preallocatedMain.getArgAttrDict(k)) ==
              getCache(getOutput(preallocatedMain, i)))
            before = &inputs[k];
        Data old = take(*before, findDim(type, batchSymbol), at, 1);
        if (failed(checkCache(i, output, old, after, batch.rows[at], batch.tokens, text)))
          return failure();
        continue;
      }
      if (count == 0)
        continue;
      std::optional<unsigned> tokens = findDim(stepMain.getResultTypes()[i], symbols.tokens);
      bool last = form.last && !findDim(type, form.tokens);
      Data wanted = last ? take(expected[i], tokens, count - 1, 1) : expected[i];
      Data given = last ? output : take(output, tokens, 0, count);
      if (given.data != wanted.data)
        return fail(i) << text << "differs from the step's for that sequence alone";
    }
    return success();
  }

  LogicalResult checkCache(unsigned output, const Data &cache, const Data &old, const Data *after,
                           Row row, int64_t tokens, StringRef text) {
    constexpr unsigned dim = CacheOp::tokenDim;
    auto same = [&](const Data &other, int64_t from, int64_t count) {
      return count <= 0 || take(cache, dim, from, count).data == take(other, dim, from, count).data;
    };
    if (cache.shape != old.shape)
      return fail(output) << " has another shape than before the step";
    if (!same(old, 0, row.length))
      return fail(output) << text << "has lost old tokens";
    if (after && !same(*after, row.length, row.count))
      return fail(output) << text << "does not have the new tokens after the old ones";
    if (int64_t end = row.length + tokens; !same(old, end, capacity - end))
      return fail(output) << text << "was written past its tokens";
    return success();
  }

  ModuleOp step, preallocated;
  StepSymbols symbols;
  PreallocatedStep form;
  MeshAttr grid;
  func::FuncOp stepMain, preallocatedMain;
  std::optional<SizeReduction> sizes;
  std::optional<std::string> batchSymbol;
  Coverage stepCoverage, preallocatedCoverage;
  int64_t capacity = 0;
  unsigned lengthsAt = 0, countsAt = 0;
  SmallVector<unsigned> inputOf;
};
} // namespace

LogicalResult mlir::tpc::checkPreallocatedStep(ModuleOp step, const StepSymbols &symbols,
                                               ModuleOp preallocated, const PreallocatedStep &form,
                                               bool report) {
  PreallocatedStepCheck check(step, symbols, preallocated, form);
  if (failed(check.run()))
    return failure();
  if (report)
    check.print(llvm::outs());
  return success();
}
