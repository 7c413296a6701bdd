//===- VerifyGeneration.cpp - Verification of steps with caches -----------===//
//
// Verifies two claims. Together they imply that a prompt may be processed in chunks of any lengths,
// each on the caches of the previous chunks, with the results of the model:
//
//   empty   a step of n tokens on empty caches has the results of the model on n tokens;
//   chunks  on any caches of p tokens, a step of a + c tokens has the same results and caches as a
//           step of a tokens and a step of c tokens.
//
// Both claims are proved for all sizes (EmptyCaches.h, Chunks.h). Independently, both are checked
// at small sizes with random elements of a prime field, as partitioned programs are
// (CompareRuns.h). Proof and check share no code with the passes that create steps.
//
//===----------------------------------------------------------------------===//

#include "../Equivalence/SizeReduction.h"
#include "../Equivalence/SmallSizes.h"
#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"
#include "CheckPreallocatedStep.h"
#include "Chunks.h"
#include "EmptyCaches.h"
#include "FlatProgram.h"
#include "PreallocatedCaches.h"
#include "Sources.h"
#include "TokenParts.h"
#include "Windows.h"
#include "tpc/Dialect/State.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYGENERATION
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;
using mlir::tpc::generation::take;
using ::tpc::SymExpr;
using Data = Tensor<uint64_t>;

namespace {
/// Numbers of tokens: in the caches before the first chunk, and in the two chunks.
struct Chunks {
  int64_t past, first, second;
};
/// Sizes of a test run: the value of free static sizes, the number of tokens, and chunks. Tables of
/// positions have enough rows for the tokens, except at the last scale, which is for models without
/// such tables. A window of 2 (SizeReduction) hides keys within each chunk and between chunks.
struct Scale {
  int64_t base, tokens;
  Chunks cuts[3];
};
/// The first scale at which a run is fast enough and has no index out of bounds is used. The second
/// scale has fewer tokens, because OPT adds 2 to positions.
constexpr Scale scales[] = {{8, 7, {{3, 2, 3}, {0, 1, 4}, {2, 4, 1}}},
                            {8, 5, {{2, 2, 1}, {0, 1, 4}, {1, 1, 3}}},
                            {4, 3, {{1, 1, 2}, {0, 1, 3}, {1, 2, 1}}},
                            {3, 2, {{1, 1, 1}, {0, 1, 2}, {0, 2, 1}}},
                            {2, 1, {{1, 1, 1}, {0, 1, 2}, {0, 2, 1}}}};

/// Returns the token dimension of an argument or result other than caches; nothing if no size
/// depends on tokens.
FailureOr<std::optional<unsigned>> findTokens(Type type, const std::string &tokens) {
  std::optional<unsigned> found;
  for (auto [i, size] : llvm::enumerate(getSizes(type))) {
    std::set<std::string> symbols;
    size.collectSymbols(symbols);
    if (!symbols.count(tokens))
      continue;
    if (found || getSymbolName(size) != tokens)
      return failure();
    found = i;
  }
  return found;
}

/// One of the two programs and its runs.
struct Program {
  ModuleOp module;
  func::FuncOp main;
  MeshAttr grid;
  const SizeReduction &sizes;
  bool misses = false; // a lookup was out of bounds
  Coverage coverage = {};

  DictionaryAttr getInput(unsigned i) { return main.getArgAttrDict(i); }
  DictionaryAttr getOutput(unsigned i) {
    DictionaryAttr attributes = main.getResultAttrDict(i);
    return attributes ? attributes : DictionaryAttr::get(main.getContext());
  }
  static StringRef getName(DictionaryAttr attributes) {
    auto name = attributes.getAs<StringAttr>(kNameAttr);
    return name ? name.getValue() : StringRef();
  }
  FailureOr<std::vector<Data>> run(ArrayRef<Data> inputs) {
    World world(module, grid, sizes);
    world.coverage = &coverage;
    Machine<Field> machine(world, inputs);
    if (failed(machine.run()))
      return failure();
    misses |= world.misses;
    if (misses)
      return failure();
    std::vector<Data> outputs;
    for (auto &output : machine.outputs)
      outputs.push_back(output.tensor);
    return outputs;
  }
  FailureOr<std::vector<Data>> draw() {
    World world(module, grid, sizes);
    return makeInputs<Field>(main, world);
  }
};

class Check {
public:
  Check(ModuleOp model, ModuleOp step, StepSymbols symbols, const Scale &scale)
      : grid(MeshAttr::get(step.getContext(), {}, {}, 1)), scale(scale),
        sizes(model, step, /*grid=*/nullptr, grid, scale.base), symbols(std::move(symbols)),
        model{model, model.lookupSymbol<func::FuncOp>("main"), grid, sizes},
        step{step, step.lookupSymbol<func::FuncOp>("main"), grid, sizes} {}

  /// `skipped`: set to the reason if the check cannot be run or is too expensive.
  LogicalResult run(std::string &skipped) {
    skipped.clear();
    if (!model.main || model.main.isExternal() || !step.main || step.main.isExternal())
      return emitError(step.module.getLoc(), "there is no @main to compare");
    if (Operation *op = sizes.getUnknown())
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") cannot be run at small sizes";
    setTokens(0, scale.base);
    constexpr double limit = 3e7; // multiplications of one run of eleven
    if (double work = estimateWork(step.module, grid, sizes); work > limit) {
      std::string why = sizes.explain();
      llvm::raw_string_ostream(skipped)
          << llvm::formatv("its sizes cannot be made small: {0:e0} multiplications, more than "
                           "{1:e0}{2}{3}",
                           work, limit, why.empty() ? "" : "; ", why);
      return success();
    }
    if (failed(findDims()))
      return failure();
    bool same = succeeded(checkEmpty()) && llvm::all_of(scale.cuts, [&](const Chunks &chunks) {
                  return succeeded(checkChunks(chunks));
                });
    if (!same && (model.misses || step.misses)) {
      skipped = "an index is past the end of a table";
      return success();
    }
    if (same)
      for (const Program *program : {&step, &model})
        if (!program->coverage.isSufficient())
          skipped = program->coverage.explainMissing();
    return success(same);
  }
  void print(llvm::raw_ostream &os) const { step.coverage.print(os); }

private:
  void setTokens(int64_t past, int64_t tokens) {
    sizes.setSample(SizeReduction::samples - 2); // batches of 2
    sizes.setSymbol(symbols.past, past);
    sizes.setSymbol(symbols.tokens, tokens);
  }

  LogicalResult findDims() {
    auto find = [&](Type type, DictionaryAttr attributes, const char *what, unsigned i,
                    SmallVectorImpl<std::optional<unsigned>> &dims) -> LogicalResult {
      if (getCache(attributes)) {
        dims.push_back(std::nullopt);
        return success();
      }
      auto dim = ::findTokens(type, symbols.tokens);
      if (failed(dim))
        return step.main.emitError()
               << what << " " << i << ", " << type << ", has no dimension of its own for tokens";
      dims.push_back(*dim);
      return success();
    };
    for (auto [i, type] : llvm::enumerate(step.main.getArgumentTypes()))
      if (failed(find(type, step.getInput(i), "argument", i, inputDims)))
        return failure();
    for (auto [i, type] : llvm::enumerate(step.main.getResultTypes()))
      if (failed(find(type, step.getOutput(i), "result", i, outputDims)))
        return failure();
    for (unsigned i = 0; i < outputDims.size(); ++i)
      if (FlatSymbolRefAttr cache = getCache(step.getOutput(i)))
        resultOf[cache] = i;
    for (unsigned i = 0; i < inputDims.size(); ++i)
      if (FlatSymbolRefAttr cache = getCache(step.getInput(i)); cache && !resultOf.count(cache))
        return step.main.emitError() << "cache " << cache << " has an argument and no result";
    return success();
  }

  LogicalResult compare(const Data &actual, const Data &expected, unsigned output, int64_t before,
                        std::optional<unsigned> dim, const Twine &what) {
    bool same = actual.shape == expected.shape;
    size_t at = 0;
    while (same && at < actual.data.size() && actual.data[at] == expected.data[at])
      ++at;
    if (same && at == actual.data.size())
      return success();
    Operation *op = step.main.front().getTerminator()->getOperand(output).getDefiningOp();
    if (!op)
      op = step.main;
    InFlightDiagnostic diag = op->emitError() << "'" << getSourceName(op->getLoc()) << "' ("
                                              << op->getName() << "): ";
    if (FlatSymbolRefAttr cache = getCache(step.getOutput(output)))
      diag << "cache " << cache;
    else
      diag << "output '" << Program::getName(step.getOutput(output)) << "'";
    if (!same)
      return diag << " has another shape " << what;
    if (dim) {
      int64_t inner = 1;
      for (size_t d = *dim + 1; d < actual.shape.size(); ++d)
        inner *= actual.shape[d];
      diag << " of token " << before + int64_t(at) / inner % actual.shape[*dim];
    }
    return diag << " is not the same " << what;
  }

  /// Returns the model's inputs that correspond to the step's `inputs`: inputs of the same name, an
  /// empty past, and defaults.
  FailureOr<std::vector<Data>> makeModelInputs(ArrayRef<Data> inputs) {
    World world(model.module, grid, sizes);
    std::vector<Data> result;
    for (BlockArgument argument : model.main.getArguments()) {
      unsigned i = argument.getArgNumber();
      StringRef name = Program::getName(model.getInput(i));
      Shape shape = world.getWholeShape(argument.getType());
      std::optional<unsigned> same;
      for (unsigned k = 0; k < inputs.size(); ++k)
        if (Program::getName(step.getInput(k)) == name && !getCache(step.getInput(k)))
          same = k;
      if (same && inputs[*same].shape == shape) {
        result.push_back(inputs[*same]);
        continue;
      }
      Data data(shape);
      InputDefaultAttr left = InputDefaultAttr::lookup(model.getInput(i));
      if (!left && !data.data.empty())
        return model.main.emitError() << "input '" << name << "' is not an input of the step";
      int64_t last = shape.empty() ? 1 : std::max<int64_t>(1, shape.back());
      for (size_t k = 0; k < data.data.size(); ++k)
        data.data[k] = Field::fromInteger(left.getKind() == InputDefaultKind::Ones ? 1 : k % last);
      result.push_back(std::move(data));
    }
    return result;
  }

  LogicalResult checkEmpty() {
    setTokens(0, scale.tokens);
    auto inputs = step.draw();
    if (failed(inputs))
      return failure();
    auto actual = step.run(*inputs);
    auto given = makeModelInputs(*inputs);
    if (failed(actual) || failed(given))
      return failure();
    auto expected = model.run(*given);
    if (failed(expected))
      return failure();
    bool any = false;
    for (unsigned i = 0; i < actual->size(); ++i) {
      if (getCache(step.getOutput(i)))
        continue;
      StringRef name = Program::getName(step.getOutput(i));
      std::optional<unsigned> same;
      for (unsigned k = 0; k < expected->size(); ++k)
        if (Program::getName(model.getOutput(k)) == name)
          same = k;
      if (!same)
        return step.main.emitError() << "output '" << name << "' is not an output of the model";
      any = true;
      if (failed(compare((*actual)[i], (*expected)[*same], i, 0, outputDims[i],
                         "as in the model, with empty caches")))
        return failure();
    }
    return any ? success() : LogicalResult(step.main.emitError("has no outputs other than caches"));
  }

  /// Returns the inputs of a chunk: its tokens, and the caches after the previous chunk.
  std::vector<Data> makeChunk(ArrayRef<Data> inputs, const std::vector<Data> *before, int64_t from,
                              int64_t count) {
    std::vector<Data> result;
    for (unsigned i = 0; i < inputs.size(); ++i) {
      FlatSymbolRefAttr cache = getCache(step.getInput(i));
      result.push_back(cache && before ? (*before)[resultOf[cache]]
                                       : take(inputs[i], inputDims[i], from, count));
    }
    return result;
  }

  LogicalResult checkChunks(const Chunks &chunks) {
    auto [past, first, second] = chunks;
    setTokens(past, first + second);
    auto inputs = step.draw();
    if (failed(inputs))
      return failure();
    auto whole = step.run(*inputs);
    if (failed(whole))
      return failure();
    setTokens(past, first);
    auto begin = step.run(makeChunk(*inputs, nullptr, 0, first));
    if (failed(begin))
      return failure();
    setTokens(past + first, second);
    auto end = step.run(makeChunk(*inputs, &*begin, first, second));
    if (failed(end))
      return failure();
    std::string text = "in a step of " + std::to_string(first + second) + " tokens after " +
                       std::to_string(past) + " and in one of " + std::to_string(first) +
                       " and then one of " + std::to_string(second);
    for (unsigned i = 0; i < whole->size(); ++i) {
      std::optional<unsigned> dim = outputDims[i];
      if (getCache(step.getOutput(i))) {
        if (failed(compare((*end)[i], (*whole)[i], i, 0, CacheOp::tokenDim, text)))
          return failure();
        continue;
      }
      if (failed(compare((*begin)[i], take((*whole)[i], dim, 0, first), i, 0, dim, text)) ||
          failed(compare((*end)[i], take((*whole)[i], dim, first, second), i, first, dim, text)))
        return failure();
    }
    return success();
  }

  MeshAttr grid;
  const Scale &scale;
  SizeReduction sizes;
  StepSymbols symbols;
  Program model, step;
  SmallVector<std::optional<unsigned>> inputDims, outputDims;
  DenseMap<Attribute, unsigned> resultOf;
};

/// Proves the claims for all sizes.
LogicalResult prove(ModuleOp model, ModuleOp step, const StepSymbols &symbols) {
  auto flatStep = generation::inlineCalls(step), flatModel = generation::inlineCalls(model);
  if (failed(flatStep) || failed(flatModel))
    return failure();
  generation::ChunkProver chunks(generation::getMain(**flatStep), symbols);
  return failure(failed(chunks.run()) ||
                 failed(generation::proveEmpty(**flatModel, **flatStep, symbols.past)));
}

LogicalResult provePreallocated(ModuleOp before, ModuleOp step, const PreallocatedStep &symbols) {
  auto flatStep = generation::inlineCalls(step), flatBefore = generation::inlineCalls(before);
  return failure(failed(flatStep) || failed(flatBefore) ||
                 failed(generation::provePreallocated(**flatBefore, **flatStep, symbols)));
}

/// Checks the claims at small sizes. If no small sizes are possible, emits an error, or a warning
/// if the step is `proved`.
LogicalResult check(ModuleOp model, ModuleOp step, const StepSymbols &symbols,
                    EquivalenceMethods methods) {
  std::string skipped;
  for (const Scale &scale : scales) {
    Check check(model, step, symbols, scale);
    if (failed(check.run(skipped)))
      return failure();
    if (!skipped.empty())
      continue;
    if (methods.report)
      check.print(llvm::outs());
    return success();
  }
  if (!methods.symbolic)
    return emitError(step.getLoc(), "cannot be checked: " + skipped);
  emitWarning(step.getLoc()) << "tpc-verify-generation: proved, but not run at small sizes as "
                                "well: "
                             << skipped;
  return success();
}

struct VerifyGeneration : public mlir::tpc::impl::VerifyGenerationBase<VerifyGeneration> {
  using VerifyGenerationBase::VerifyGenerationBase;

  void runOnOperation() override {
    ModuleOp step = getOperation();
    OwningOpRef<ModuleOp> model = parseSourceFile<ModuleOp>(reference, ParserConfig(&getContext()));
    if (!model) {
      emitError(step.getLoc()) << "reference: cannot read '" << reference << "'";
      return signalPassFailure();
    }
    if (failed(verifyGeneration(*model, step, {symbolic, interpret, report})))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

/// Verifies the computation of a step.
static LogicalResult verifyOps(ModuleOp reference, ModuleOp step, EquivalenceMethods methods) {
  if (auto preallocated = PreallocatedStep::lookup(step)) {
    auto before = StepSymbols::lookup(reference);
    if (!before)
      return emitError(step.getLoc())
             << "reference: the program must be a generation step, because a step on preallocated "
                "caches is compared with the step that it was made from";
    if (auto source = SourceCaches::lookup(step)) {
      auto flat = generation::inlineCalls(step);
      if (failed(flat) || failed(dropSourceCaches(**flat, *source)))
        return failure();
      return verifyOps(reference, **flat, methods);
    }
    if (preallocated->windowed) {
      auto flat = generation::inlineCalls(step);
      if (failed(flat) || failed(widenWindows(**flat, *preallocated)))
        return failure();
      return verifyOps(reference, **flat, methods);
    }
    // The proof for all sizes rejects some correct programs, such as all programs that return only
    // the last token. It therefore runs only if the check is disabled.
    bool proves = methods.symbolic && !methods.interpret;
    return failure(
        (proves && failed(provePreallocated(reference, step, *preallocated))) ||
        (methods.interpret &&
         failed(checkPreallocatedStep(reference, *before, step, *preallocated, methods.report))));
  }
  auto symbols = StepSymbols::lookup(step);
  if (!symbols)
    return emitError(step.getLoc(), "the program is not a generation step: it has no 'tpc.step'; "
                                    "tpc-recognize-caches or tpc-derive-caches make one");
  return failure((methods.symbolic && failed(prove(reference, step, *symbols))) ||
                 (methods.interpret && failed(check(reference, step, *symbols, methods))));
}

LogicalResult mlir::tpc::verifyGeneration(ModuleOp reference, ModuleOp step,
                                          EquivalenceMethods methods) {
  if (failed(verifyOps(reference, step, methods)))
    return failure();
  auto flat = generation::inlineCalls(step);
  return failure(failed(flat) || failed(verifyStepFacts(reference, **flat)));
}
