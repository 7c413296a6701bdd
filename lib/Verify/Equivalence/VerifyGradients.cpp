//===- VerifyGradients.cpp - Check of gradients by differences of the loss ---===//
//
// Runs a program with loss and gradients at small sizes, in doubles, with random weights and
// inputs. If each element of a weight w is multiplied by 1 + h c(w) r, with a random factor c of
// the weight and a random r of the element, the derivative of the loss at h = 0 is the sum of c(w)
// <r w, grad w>. The check compares this sum with central differences of sixth order. It uses no
// gradient rules of ops, only the loss and the gradients that the program returns. Without r, the
// check would not see the scale of the gradient of a weight before a norm: <w, grad w> is 0.
//
//===----------------------------------------------------------------------===//

#include "../Interpret/Inputs.h"
#include "../Interpret/Machine.h"
#include "SmallSizes.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

#include "llvm/Support/FormatVariadic.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYGRADIENTS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;

namespace {
/// Reduced sizes with the windows of the program, which backward ops contain as constants.
class SizesWithWindows : public interpret::Sizes {
public:
  SizesWithWindows(const SizeReduction &sizes) : sizes(sizes) {}
  int64_t evaluate(const ::tpc::SymExpr &size) const override { return sizes.evaluate(size); }
  using Sizes::evaluate;
  int64_t evaluateWindow(const ::tpc::SymExpr &window) const override {
    return window.asConstant() ? *window.asConstant() : sizes.evaluateWindow(window);
  }
  int64_t spread(int64_t i, int64_t n) const override { return sizes.spread(i, n); }
  int64_t scale(int64_t offset, int64_t n) const override { return sizes.scale(offset, n); }

private:
  const SizeReduction &sizes;
};

/// A gradient among the results of @main.
struct Gradient {
  unsigned result;
  ParameterOp parameter; // the weight, or the view of one, to which the gradient belongs
  double product = 0;    // <r w, grad w>
};

class GradientCheck {
public:
  GradientCheck(ModuleOp module, func::FuncOp main) : module(module), main(main) {}

  LogicalResult run();

private:
  LogicalResult findGradients();
  /// Runs the program with changed weights (World::changes). Returns its outputs.
  FailureOr<std::vector<Tensor<double>>> runAt(const llvm::StringMap<double> &changes);
  /// Returns the derivative of the loss along the random directions of weights, times `factors`.
  FailureOr<double> differentiate(const llvm::StringMap<double> &factors);
  LogicalResult compare(const llvm::StringMap<double> &factors, bool &equal);
  double expected = 0, found = 0; // derivatives of the last comparison

  ModuleOp module;
  func::FuncOp main;
  SmallSizes small;
  std::vector<Tensor<double>> inputs;
  SmallVector<Gradient> gradients;
};
} // namespace

/// Finds the parameter op of each result grad.<weight> or grad.<weight>.at<offset>.
LogicalResult GradientCheck::findGradients() {
  for (unsigned i = 1; i < main.getNumResults(); ++i) {
    auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
    StringRef text = name ? name.getValue() : StringRef();
    if (!text.consume_front("grad."))
      continue;
    Gradient gradient{i, {}};
    for (auto parameter : main.getOps<ParameterOp>()) {
      std::string at =
          (parameter.getWeight() + ".at" + Twine(parameter.getViewOrDense().getOffset())).str();
      if (!gradient.parameter && (parameter.getWeight() == text || at == text))
        gradient.parameter = parameter;
    }
    if (!gradient.parameter)
      return main.emitError() << "has result '" << name.getValue()
                              << "', but reads no weight of that name";
    if (gradient.parameter.getType() != main.getResultTypes()[i])
      return main.emitError() << "has result '" << name.getValue() << "' of type "
                              << main.getResultTypes()[i] << ", but the weight has type "
                              << gradient.parameter.getType();
    gradients.push_back(gradient);
  }
  return success();
}

FailureOr<std::vector<Tensor<double>>>
GradientCheck::runAt(const llvm::StringMap<double> &changes) {
  SizesWithWindows sizes(*small.sizes);
  World world(module, small.grid, sizes);
  world.changes = &changes;
  Machine<Doubles> machine(world, inputs);
  if (failed(machine.run()))
    return failure();
  std::vector<Tensor<double>> outputs;
  for (auto &output : machine.outputs)
    outputs.push_back(output.tensor);
  return outputs;
}

FailureOr<double> GradientCheck::differentiate(const llvm::StringMap<double> &factors) {
  constexpr double h = 2e-4; // small, because few differences must cross the kink of a ReLU
  constexpr double coefficients[] = {45, -9, 1};
  double sum = 0;
  for (int step : {1, 2, 3})
    for (int sign : {1, -1}) {
      llvm::StringMap<double> changes;
      for (auto &[name, factor] : factors)
        changes[name] = sign * step * h * factor;
      FailureOr<std::vector<Tensor<double>>> outputs = runAt(changes);
      if (failed(outputs))
        return failure();
      sum += sign * coefficients[step - 1] * outputs->front().data.front();
    }
  return sum / (60 * h);
}

LogicalResult GradientCheck::compare(const llvm::StringMap<double> &factors, bool &equal) {
  constexpr double tolerance = 1e-7;
  expected = 0;
  double magnitude = 0;
  for (Gradient &gradient : gradients) {
    double term = factors.lookup(gradient.parameter.getWeight()) * gradient.product;
    expected += term;
    magnitude += std::fabs(term);
  }
  FailureOr<double> derivative = differentiate(factors);
  if (failed(derivative))
    return failure();
  found = *derivative;
  // The absolute term covers the rounding error of the loss if all gradients are 0.
  equal = std::fabs(found - expected) <= tolerance * magnitude + 1e-11;
  return success();
}

LogicalResult GradientCheck::run() {
  if (failed(findGradients()))
    return failure();
  std::string skipped;
  constexpr double budget = 5e7;
  if (failed(small.choose(module, module, budget, budget, /*eachRank=*/false, skipped)))
    return failure();
  if (!skipped.empty()) {
    emitWarning(main.getLoc()) << "gradients are not checked: " << skipped;
    return success();
  }
  World world(module, small.grid, *small.sizes);
  FailureOr<std::vector<Tensor<double>>> drawn = makeInputs<Doubles>(main, world);
  if (failed(drawn))
    return failure();
  inputs = std::move(*drawn);
  FailureOr<std::vector<Tensor<double>>> outputs = runAt({});
  if (failed(outputs))
    return failure();
  llvm::StringMap<double> factors;
  Coordinates at = world.getCoordinates(0);
  for (Gradient &gradient : gradients) {
    ParameterOp op = gradient.parameter;
    auto weight = drawParameter<Doubles>(world, op.getWeight(), op.getViewAttr(), op.getType(), at);
    auto direction = drawDirection(world, op.getWeight(), op.getViewAttr(), op.getType(), at);
    if (failed(weight) || failed(direction))
      return op.emitError() << "reads a weight that does not exist";
    for (auto [r, x, y] :
         llvm::zip_equal(direction->data, weight->data, (*outputs)[gradient.result].data))
      gradient.product += r * x * y;
    factors[op.getWeight()] = Doubles::random(hashText(op.getWeight()), 0);
  }
  bool equal = true;
  if (failed(compare(factors, equal)) || equal)
    return failure(!equal);
  // Names the gradient.
  for (const auto &[name, factor] : factors) {
    llvm::StringMap<double> one;
    one[name] = 1;
    if (failed(compare(one, equal)))
      return failure();
    if (!equal)
      return emitError(main.getLoc())
             << "the gradient of weight '" << name
             << "' is not the derivative of the loss: along a "
             << "random direction it is " << llvm::formatv("{0:e6}", expected).str()
             << ", but the loss changes by " << llvm::formatv("{0:e6}", found).str();
  }
  return emitError(main.getLoc()) << "the gradients are not the derivative of the loss";
}

namespace {
struct VerifyGradients : public mlir::tpc::impl::VerifyGradientsBase<VerifyGradients> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || main.getNumResults() == 0 ||
        main.getResultAttrOfType<StringAttr>(0, kNameAttr) !=
            StringAttr::get(&getContext(), "loss"))
      return;
    if (failed(GradientCheck(module, main).run()))
      signalPassFailure();
  }
};
} // namespace
