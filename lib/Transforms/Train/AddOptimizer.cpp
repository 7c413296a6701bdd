//===- AddOptimizer.cpp - Updates of weights from gradients ---------------===//

#include "Optimizer.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"
#include "tpc/Transforms/Train/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "tpc/Transforms/Train/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// A parameter and its gradient.
struct Trained {
  ParameterOp parameter;
  Value gradient;
  std::string name; // of the weight, with ".at<offset>" for one of several views
};

/// A result of @main that replaces a parameter.
struct NewElements {
  std::string name;
  Value value;
  ArrayAttr update;
};

struct AddOptimizer : mlir::tpc::impl::AddOptimizerBase<AddOptimizer> {
  using AddOptimizerBase::AddOptimizerBase;
  void runOnOperation() override;

private:
  LogicalResult run();
  LogicalResult findTrained();
  FailureOr<ParameterOp> findParameter(StringRef name, Value gradient);
  LogicalResult shareElements(ParameterOp parameter);
  LogicalResult checkBytes(ParameterOp parameter);
  Value addInput(StringRef name);
  Value number(double x);
  template <typename OpT> Value make(Value a, Value b) {
    return OpT::create(*builder, loc, a, b).getResult();
  }
  /// Adds a weight that is 0 before the first step, and returns its parameter.
  ParameterOp addMoment(StringRef prefix, Trained &trained);
  void replace(StringRef name, ParameterOp parameter, Value value);
  Value addNorm();
  /// Returns whether the loss and the norm of the gradients are finite.
  Value addIsFinite(Value norm);
  void addSgd(Trained &trained, Value gradient);
  void addAdam(Trained &trained, Value gradient);
  void setResults(Value norm);

  func::FuncOp main;
  std::optional<OpBuilder> builder;
  LocationAttr loc;
  Optimizer settings;
  Value loss, rate, correction1, correction2;
  Value isFinite; // else parameters keep their elements
  SmallVector<Trained> trained;
  SmallVector<NewElements> updates, moments;
};
} // namespace

static std::string nameOfResult(func::FuncOp main, unsigned i) {
  auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
  return name ? name.str() : "";
}

/// Returns the permutation of dimensions that makes the view `to` of `from`; nothing if there is
/// none.
static std::optional<SmallVector<int64_t>> findPermutation(ViewAttr from, ViewAttr to) {
  if (from.getOffset() != to.getOffset() || from.getDims().size() != to.getDims().size())
    return std::nullopt;
  SmallVector<int64_t> permutation;
  for (ArrayAttr dim : to.getDims())
    for (auto [i, own] : llvm::enumerate(from.getDims()))
      if (own == dim && !llvm::is_contained(permutation, int64_t(i))) {
        permutation.push_back(i);
        break;
      }
  if (permutation.size() != to.getDims().size())
    return std::nullopt;
  return permutation;
}

/// Returns the first and last element of a view.
static std::pair<int64_t, int64_t> getRange(ViewAttr view) {
  int64_t low = view.getOffset(), high = low;
  for (unsigned dim = 0; dim < view.getDims().size(); ++dim)
    for (StridedFactorAttr factor : view.getFactors(dim)) {
      int64_t reach = (factor.getSize() - 1) * factor.getStride();
      (reach < 0 ? low : high) += reach;
    }
  return {low, high};
}

FailureOr<ParameterOp> AddOptimizer::findParameter(StringRef name, Value gradient) {
  auto weight = getOperation().lookupSymbol<WeightOp>(name);
  std::optional<int64_t> offset;
  if (!weight) {
    auto [prefix, digits] = name.rsplit(".at");
    int64_t number = 0;
    if (!digits.getAsInteger(10, number)) {
      weight = getOperation().lookupSymbol<WeightOp>(prefix);
      offset = number;
    }
  }
  if (!weight)
    return emitError(loc) << "result 'grad." << name << "' is a gradient of an unknown weight",
           failure();
  for (auto parameter : main.getOps<ParameterOp>())
    if (parameter.getWeight() == weight.getSymName() &&
        (!offset || parameter.getViewOrDense().getOffset() == *offset) &&
        getSizes(parameter) == getSizes(gradient) &&
        getElementTypeOrSelf(parameter.getType()) == getElementTypeOrSelf(gradient))
      return parameter;
  return emitError(loc) << "result 'grad." << name << "' is " << gradient.getType()
                        << ", but no parameter of this weight in @main has this type",
         failure();
}

/// Moves the parameter to the beginning of @main, and replaces other reads of its elements by the
/// parameter or its transpose. Emits an error for overlapping views of other forms.
LogicalResult AddOptimizer::shareElements(ParameterOp parameter) {
  ViewAttr view = parameter.getViewOrDense();
  parameter->moveBefore(&main.front(), main.front().begin());
  SmallVector<ParameterOp> others;
  getOperation().walk([&](ParameterOp other) {
    if (other != parameter && other.getWeight() == parameter.getWeight())
      others.push_back(other);
  });
  for (ParameterOp other : others) {
    auto permutation = findPermutation(view, other.getViewOrDense());
    auto [low, high] = getRange(view);
    auto [otherLow, otherHigh] = getRange(other.getViewOrDense());
    bool isTrained = llvm::any_of(trained, [&](Trained &t) { return t.parameter == other; });
    if (!permutation && (isTrained || high < otherLow || otherHigh < low))
      continue;
    if (!permutation || isTrained || other->getParentOfType<func::FuncOp>() != main)
      return other.emitOpError() << "reads elements of weight @" << parameter.getWeight()
                                 << " that the optimizer updates through another view";
    OpBuilder at(other);
    Value own = llvm::is_sorted(*permutation)
                    ? parameter.getResult()
                    : TransposeOp::create(at, other.getLoc(), parameter, *permutation).getResult();
    other.getResult().replaceAllUsesWith(own);
    other.erase();
  }
  return success();
}

/// Emits an error if another weight has bytes of this one: it would be another copy of elements
/// that the optimizer updates.
LogicalResult AddOptimizer::checkBytes(ParameterOp parameter) {
  WeightOp own = parameter.getWeightOp();
  auto getEnd = [](WeightOp weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    return int64_t(weight.getOffset()) + type.getNumElements() * getElementBytes(type);
  };
  for (auto other : getOperation().getOps<WeightOp>())
    if (other != own && other.getFile() == own.getFile() &&
        int64_t(other.getOffset()) < getEnd(own) && int64_t(own.getOffset()) < getEnd(other))
      return other.emitOpError() << "@" << other.getSymName() << " has bytes of the file that are "
                                 << "also weight @" << own.getSymName()
                                 << ", which the optimizer updates: use one initializer for both";
  return success();
}

LogicalResult AddOptimizer::findTrained() {
  Operation *end = main.front().getTerminator();
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    std::string name = nameOfResult(main, i);
    Value value = end->getOperand(i);
    if (name == "loss")
      loss = value;
    if (!StringRef(name).consume_front("grad."))
      continue;
    loc = value.getLoc();
    StringRef weight = StringRef(name).drop_front(StringRef("grad.").size());
    FailureOr<ParameterOp> parameter = findParameter(weight, value);
    if (failed(parameter))
      return failure();
    for (const Trained &other : trained)
      if (other.parameter == *parameter)
        return emitError(loc) << "results 'grad." << other.name << "' and '" << name
                              << "' are gradients of the same parameter";
    trained.push_back({*parameter, value, weight.str()});
  }
  loc = main.getLoc();
  if (!loss || !getSizes(loss).empty() || trained.empty())
    return emitError(loc) << "a training step needs a scalar result 'loss' and results 'grad.…' of "
                             "weights: run tpc-derive-backward first";
  for (Trained &t : trained)
    if (failed(checkBytes(t.parameter)) || failed(shareElements(t.parameter)))
      return failure();
  return success();
}

Value AddOptimizer::addInput(StringRef name) {
  unsigned index = main.getNumArguments();
  auto attributes =
      builder->getDictionaryAttr(builder->getNamedAttr(kNameAttr, builder->getStringAttr(name)));
  (void)main.insertArgument(index, RankedTensorType::get({}, builder->getF32Type()), attributes,
                            loc);
  return main.getArgument(index);
}

Value AddOptimizer::number(double x) {
  auto type = RankedTensorType::get({}, builder->getF32Type());
  Attribute value = builder->getFloatAttr(builder->getF32Type(), roundTo(builder->getF32Type(), x));
  return ConstantOp::create(*builder, loc, type, DenseElementsAttr::get(type, value));
}

ParameterOp AddOptimizer::addMoment(StringRef prefix, Trained &t) {
  std::string name = (prefix + "." + t.name).str();
  ModuleOp module = getOperation();
  auto type = cast<RankedTensorType>(t.parameter.getType());
  OpBuilder at(t.parameter.getWeightOp());
  for (auto weight : module.getOps<WeightOp>()) // moments are placed after the weights
    at.setInsertionPointAfter(weight);
  WeightOp::create(at, t.parameter.getLoc(), name, "", 0, type);
  OpBuilder inMain(t.parameter);
  return ParameterOp::create(inMain, t.parameter.getLoc(), type,
                             FlatSymbolRefAttr::get(&getContext(), name), ViewAttr());
}

void AddOptimizer::replace(StringRef name, ParameterOp parameter, Value value) {
  SmallVector<Attribute> update{parameter.getWeightAttr()};
  if (ViewAttr view = parameter.getViewAttr())
    update.push_back(view);
  value = SelectOp::create(*builder, loc, isFinite, value, parameter);
  bool isMoment = parameter.getWeightOp().getFile().empty();
  (isMoment ? moments : updates).push_back({name.str(), value, builder->getArrayAttr(update)});
}

/// Returns the L2 norm of all gradients together.
Value AddOptimizer::addNorm() {
  Value total;
  for (Trained &t : trained) {
    loc = t.parameter.getLoc();
    // Sums of rows are computed in parallel.
    int64_t rank = getSizes(t.gradient).size();
    Value sum = make<MulOp>(t.gradient, t.gradient);
    for (int64_t first : {1, 0}) {
      SmallVector<int64_t> dims;
      for (int64_t dim = first; dim < (first ? rank : std::min<int64_t>(rank, 1)); ++dim)
        dims.push_back(dim);
      if (!dims.empty())
        sum = ReduceOp::create(*builder, loc, ReduceFunction::Sum, sum, dims, /*keep_dims=*/false);
    }
    total = total ? make<AddOp>(total, sum) : sum;
  }
  return SqrtOp::create(*builder, loc, total);
}

// The sum of |loss| and the norm is finite only if both are. A comparison with NaN is false.
Value AddOptimizer::addIsFinite(Value norm) {
  Value sum = make<AddOp>(AbsOp::create(*builder, loc, loss), norm);
  return CmpOp::create(*builder, loc, Predicate::LE, sum,
                       number(std::numeric_limits<float>::max()));
}

void AddOptimizer::addSgd(Trained &t, Value gradient) {
  Value weight = t.parameter;
  if (settings.decays(t.name, getSizes(weight).size()))
    gradient = make<AddOp>(gradient, make<MulOp>(weight, number(settings.decay)));
  if (settings.momentum == 0) {
    replace(t.name, t.parameter, make<SubOp>(weight, make<MulOp>(gradient, rate)));
    return;
  }
  ParameterOp momentum = addMoment("sgd.momentum", t);
  Value next = make<AddOp>(make<MulOp>(momentum, number(settings.momentum)), gradient);
  replace(t.name, t.parameter, make<SubOp>(weight, make<MulOp>(next, rate)));
  replace(momentum.getWeight(), momentum, next);
}

void AddOptimizer::addAdam(Trained &t, Value gradient) {
  Value weight = t.parameter;
  ParameterOp mean = addMoment("adamw.mean", t), variance = addMoment("adamw.variance", t);
  if (settings.decays(t.name, getSizes(weight).size()))
    weight = make<MulOp>(weight, make<SubOp>(number(1), make<MulOp>(rate, number(settings.decay))));
  Value m = make<AddOp>(make<MulOp>(mean, number(settings.beta1)),
                        make<MulOp>(gradient, number(1 - settings.beta1)));
  // Does not reuse the square that addNorm sums, which would have to be stored.
  Value v = make<AddOp>(make<MulOp>(variance, number(settings.beta2)),
                        make<MulOp>(make<MulOp>(gradient, number(1 - settings.beta2)), gradient));
  // The variance is never negative. Verifiers draw numbers of both signs, whose root may be NaN.
  Value root = SqrtOp::create(*builder, loc, ReluOp::create(*builder, loc, v));
  Value scale = make<AddOp>(make<DivOp>(root, SqrtOp::create(*builder, loc, correction2)),
                            number(settings.epsilon));
  Value step = make<MulOp>(make<DivOp>(m, scale), make<DivOp>(rate, correction1));
  replace(t.name, t.parameter, make<SubOp>(weight, step));
  replace(mean.getWeight(), mean, m);
  replace(variance.getWeight(), variance, v);
}

void AddOptimizer::setResults(Value norm) {
  SmallVector<Value> values{loss, norm};
  SmallVector<DictionaryAttr> attributes;
  auto name = [&](StringRef text) {
    return builder->getNamedAttr(kNameAttr, builder->getStringAttr(text));
  };
  attributes.push_back(builder->getDictionaryAttr(name("loss")));
  attributes.push_back(builder->getDictionaryAttr(name("grad_norm")));
  updates.append(moments);
  for (const NewElements &update : updates) {
    values.push_back(update.value);
    attributes.push_back(builder->getDictionaryAttr(
        {name(update.name), builder->getNamedAttr(kUpdateAttr, update.update)}));
  }
  Operation *end = main.front().getTerminator();
  end->setOperands(values);
  main.setType(builder->getFunctionType(main.front().getArgumentTypes(), end->getOperandTypes()));
  main.setAllResultAttrs(attributes);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

LogicalResult AddOptimizer::run() {
  main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(getOperation().getLoc()) << "there is no function @main to train";
  std::string error;
  FailureOr<Optimizer> parsed = Optimizer::parse(optimizer, noDecay, error);
  if (failed(parsed))
    return emitError(main.getLoc()) << error;
  settings = *parsed;
  builder.emplace(main.front().getTerminator());
  if (failed(findTrained()))
    return failure();
  rate = addInput("learning_rate");
  if (settings.isAdam) {
    correction1 = addInput("correction1");
    correction2 = addInput("correction2");
  }
  Value norm = addNorm(), factor;
  isFinite = addIsFinite(norm);
  if (settings.clip > 0)
    factor =
        make<MinOp>(make<DivOp>(number(settings.clip), make<AddOp>(norm, number(1e-6))), number(1));
  for (Trained &t : trained) {
    loc = t.parameter.getLoc();
    Value gradient = factor ? make<MulOp>(t.gradient, factor) : t.gradient;
    settings.isAdam ? addAdam(t, gradient) : addSgd(t, gradient);
  }
  setResults(norm);
  SmallVector<NamedAttribute> fields = {
      builder->getNamedAttr("name", builder->getStringAttr(settings.isAdam ? "adamw" : "sgd"))};
  if (settings.isAdam) {
    fields.push_back(builder->getNamedAttr("beta1", builder->getF64FloatAttr(settings.beta1)));
    fields.push_back(builder->getNamedAttr("beta2", builder->getF64FloatAttr(settings.beta2)));
  }
  getOperation()->setAttr(kOptimizerAttr, builder->getDictionaryAttr(fields));
  return success();
}

void AddOptimizer::runOnOperation() {
  trained.clear();
  updates.clear();
  moments.clear();
  loss = {};
  loc = UnknownLoc::get(&getContext());
  if (failed(run()))
    signalPassFailure();
}
