//===- CompareRuns.cpp - Two programs over a prime field, compared --------===//

#include "CompareRuns.h"

#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"
#include "SizeReduction.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;

/// The program's grid with few replicas and micro-batches, as ranks along those axes do the same,
/// and at most `largest` ranks along the others; stages are as many as there are.
static GridAttr makeSampleGrid(ModuleOp program, int64_t largest) {
  MLIRContext *context = program.getContext();
  GridAttr grid = GridAttr::lookup(program);
  // Before there are stages, ranks do the same along pp as well.
  bool staged = !program.getOps<PipelineOp>().empty();
  if (!grid)
    return GridAttr::get(context, {}, {}, 1);
  SmallVector<int64_t> sizes;
  for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes()))
    sizes.push_back(axis.getValue() == "pp"   ? (staged ? size : 1)
                    : axis.getValue() == "dp" ? std::min<int64_t>(size, 2)
                                              : std::min(size, largest));
  return GridAttr::get(context, grid.getOrder(), sizes,
                       std::min<int64_t>(grid.getMicroBatches(), 2));
}

namespace {
/// Multiplications that a program takes on all ranks, about; ranks that have the same parts of an
/// op's values compute it once. Sizes may still be too large for lists of indices.
class Estimate {
public:
  Estimate(ModuleOp module, GridAttr grid, const Sizes &sizes)
      : module(module), grid(grid), sizes(sizes), local(isLocalProgram(module)) {}
  double count() {
    for (auto pipeline : module.getOps<PipelineOp>())
      return count(pipeline);
    auto main = module.lookupSymbol<func::FuncOp>("main");
    return main ? count(main) : 0;
  }

private:
  double countDim(DimAttr dim) const {
    double elements = 1;
    auto split = [&](ArrayRef<StringAttr> axes) {
      for (StringAttr axis : axes)
        elements =
            local ? std::ceil(elements / double(grid.getAxisSize(axis.getValue()))) : elements;
    };
    for (FactorAttr factor : dim.getFactors()) {
      elements *= double(sizes.evaluate(factor.getExpr()));
      split(factor.getAxes());
    }
    split(dim.getAxes());
    return elements;
  }
  /// Of the fullest rank.
  double countElements(Type type) {
    auto [it, first] = known.try_emplace(type, 1);
    if (first)
      for (DimAttr dim : getDist(type).getDims())
        it->second *= countDim(dim);
    return it->second;
  }
  /// Ranks that have parts of their own of some of an op's values.
  double countRanks(Operation *op) {
    std::set<StringRef> axes;
    auto visit = [&](Type type) {
      if (!local || !isa<RankedTensorType>(type))
        return;
      DistAttr dist = getDist(type);
      for (DimAttr dim : dist.getDims())
        for (StringAttr axis : dim.getAllAxes())
          axes.insert(axis.getValue());
      for (StringAttr axis : dist.getPartialAxes())
        axes.insert(axis.getValue());
    };
    llvm::for_each(op->getOperandTypes(), visit);
    llvm::for_each(op->getResultTypes(), visit);
    double ranks = 1;
    for (StringRef axis : axes)
      ranks *= double(grid.getAxisSize(axis)); // "mb": as many rounds
    return ranks;
  }
  double count(Operation *function) {
    auto [it, first] = functions.try_emplace(function, 0);
    if (!first)
      return it->second;
    double sum = 0;
    function->walk([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
        sum += callee ? count(callee) : 0;
        return;
      }
      auto computes = dyn_cast<interpret::EvaluatedOpInterface>(op);
      double each = computes ? computes.countWork([&](DimAttr dim) { return countDim(dim); }) : 4;
      for (Type type : op->getResultTypes())
        if (isa<RankedTensorType>(type))
          sum += countRanks(op) * each * countElements(type);
    });
    return functions[function] = sum;
  }

  ModuleOp module;
  GridAttr grid;
  const Sizes &sizes;
  bool local;
  DenseMap<Type, double> known;
  DenseMap<Operation *, double> functions;
};

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
  // About a second. A grid of fewer ranks allows for smaller sizes.
  constexpr double budget = 2e8;
  auto main = model.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(model.getLoc()) << "there is no @main to compare with";
  GridAttr grid;
  std::optional<SizeReduction> sizes;
  constexpr std::pair<int64_t, int64_t> attempts[] = {{64, 3}, {64, 2}, {3, 2}, {2, 2}, {2, 1}};
  for (auto [largest, base] : attempts) {
    grid = makeSampleGrid(program, largest);
    sizes.emplace(model, program, GridAttr::lookup(program), grid, base);
    if (Operation *op = sizes->getUnknown())
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") cannot be run at small sizes: the verifier does not know what "
                                "sizes it needs";
    double cost = Estimate(model, grid, *sizes).count() + Estimate(program, grid, *sizes).count();
    if (cost <= budget)
      break;
    if (base == 1) {
      std::string why = sizes->explain();
      llvm::raw_string_ostream(skipped) << llvm::formatv(
          "its sizes cannot be made small: {0:e0} multiplications, more than {1:e0}{2}{3}", cost,
          budget, why.empty() ? "" : "; ", why);
      return success();
    }
  }
  // Not all sizes are possible: a table may be shorter, one size the sum of others. The model says.
  for (int sample = 0; sample < SizeReduction::samples; ++sample) {
    sizes->setSample(sample);
    World whole(model, grid, *sizes);
    std::vector<Tensor<uint64_t>> inputs = makeInputs<Field>(main, whole);
    Machine<Field> expected(whole, inputs);
    {
      ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
        skipped = "the model cannot be run: " + diagnostic.str();
        return success();
      });
      if (failed(expected.run()))
        continue;
    }
    skipped.clear();
    World parts(program, grid, *sizes);
    Machine<Field> actual(parts, inputs);
    return failure(failed(actual.run()) || failed(compareOutputs(program, actual, expected)));
  }
  return success();
}
