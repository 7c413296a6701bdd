//===- Evaluate.cpp - Reference interpreter pass --------------------------===//

#include "tpc/Analysis/ParseSymbols.h"
#include "tpc/Verify/Passes.h"

#include "Inputs.h"
#include "Machine.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_EVALUATE
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {

/// Sizes of a run with symbol values from the command line.
class GivenSizes : public Sizes {
public:
  int64_t evaluate(const ::tpc::SymExpr &size) const override {
    return size.evaluate(symbols).value_or(0);
  }
  using Sizes::evaluate;
  std::map<std::string, int64_t> symbols;
};

using Numbers = std::vector<Tensor<double>>;

Attribute toAttribute(const Numbers &tensors, MLIRContext *context) {
  SmallVector<Attribute> list;
  for (const Tensor<double> &tensor : tensors)
    list.push_back(DenseElementsAttr::get(
        RankedTensorType::get(tensor.shape, Float64Type::get(context)), ArrayRef(tensor.data)));
  return ArrayAttr::get(context, list);
}

Numbers fromAttribute(ArrayAttr list) {
  Numbers tensors;
  for (auto dense : list.getAsRange<DenseElementsAttr>()) {
    Tensor<double> &tensor = tensors.emplace_back(dense.getType().getShape());
    if (!tensor.data.empty())
      llvm::copy(dense.getValues<double>(), tensor.data.begin());
  }
  return tensors;
}

struct Evaluate : public mlir::tpc::impl::EvaluateBase<Evaluate> {
  using EvaluateBase::EvaluateBase;

  /// Compares outputs. NaN represents an element that no rank delivered.
  LogicalResult compare(const Numbers &expected, const Numbers &actual) {
    Location loc = getOperation().getLoc();
    if (expected.size() != actual.size())
      return emitError(loc) << "there were " << expected.size() << " outputs, now there are "
                            << actual.size();
    for (auto [i, a, b] : llvm::enumerate(expected, actual)) {
      double largest = 0, difference = 0;
      bool complete = a.shape == b.shape;
      for (auto [x, y] : llvm::zip(a.data, b.data)) {
        complete &= std::isnan(x) == std::isnan(y);
        if (std::isnan(x) || x == y)
          continue;
        largest = std::max(largest, std::fabs(x));
        difference = std::max(difference, std::fabs(x - y));
      }
      if (!complete)
        return emitError(loc) << "output " << i << " is not the same: parts are missing";
      if (!(difference <= tolerance * std::max(largest, 1e-30)))
        return emitError(loc) << "output " << i << " is not the same: of values up to " << largest
                              << " some differ by " << difference;
      llvm::outs() << "output " << i << " is the same\n";
    }
    return success();
  }

  LogicalResult readShape(GivenSizes &sizes) {
    FailureOr<Symbols> symbols =
        parseSymbols(ArrayRef<std::string>(shape), getOperation().getLoc());
    if (succeeded(symbols))
      sizes.symbols = std::move(*symbols);
    return LogicalResult(symbols);
  }

  /// Checks the number of inputs, because programs may be handwritten.
  LogicalResult checkInputs(const Numbers &inputs, bool areRecorded) {
    ModuleOp module = getOperation();
    size_t needed = 0;
    if (auto pipelines = module.getOps<PipelineOp>(); !pipelines.empty())
      needed = (*pipelines.begin()).getBody().front().getNumArguments();
    else if (auto main = module.lookupSymbol<func::FuncOp>("main"); main && !main.isExternal())
      needed = main.getNumArguments();
    if (inputs.size() == needed)
      return success();
    if (areRecorded)
      return module.emitError() << "there were " << inputs.size() << " inputs, now there are "
                                << needed;
    return module.emitError("a staged program is compared with its earlier form: evaluate it "
                            "before tpc-schedule-pipeline too");
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    GivenSizes sizes;
    if (failed(readShape(sizes)))
      return signalPassFailure();
    MeshAttr grid = MeshAttr::lookup(module);
    World world(module, grid ? grid : MeshAttr::get(context, {}, {}, 1), sizes);
    auto expected = module->getAttrOfType<ArrayAttr>(kExpectedAttr);
    Numbers inputs;
    if (auto recorded = module->getAttrOfType<ArrayAttr>(kInputsAttr); recorded && expected)
      inputs = fromAttribute(recorded);
    else if (auto main = module.lookupSymbol<func::FuncOp>("main"); main && !main.isExternal()) {
      FailureOr<Numbers> drawn = makeInputs<Doubles>(main, world);
      if (failed(drawn))
        return signalPassFailure();
      inputs = std::move(*drawn);
    }
    if (failed(checkInputs(inputs, bool(expected))))
      return signalPassFailure();
    Machine<Doubles> machine(world, inputs);
    if (failed(machine.run()))
      return signalPassFailure();
    Numbers outputs;
    for (auto &output : machine.outputs) {
      Tensor<double> &tensor = outputs.emplace_back(output.tensor);
      for (size_t i = 0; i < tensor.data.size(); ++i)
        tensor.data[i] = output.known[i] ? tensor.data[i] : NAN;
    }
    if (!expected) {
      module->setAttr(kInputsAttr, toAttribute(inputs, context));
      module->setAttr(kExpectedAttr, toAttribute(outputs, context));
    } else if (failed(compare(fromAttribute(expected), outputs))) {
      return signalPassFailure();
    }
  }
};

} // namespace
