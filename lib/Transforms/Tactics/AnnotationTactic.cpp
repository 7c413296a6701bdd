//===- AnnotationTactic.cpp - Tactic of user annotations ------------------===//
//
// Converts `tpc.sharding` annotations of weights, values and inputs to axes of classes. Classes
// propagate a split to all tensors: the columns of fc1 and the rows of fc2, for example, are one
// class. Later tactics do not change the classes of an annotated dimension, even if the annotation
// leaves the dimension unsplit.
//
// An annotation refers to dimensions of a weight; parameters are views of the weight. For a fused
// projection [64, 192] with three views [64, 4 * 16 of 192], `#tpc.dim<192{tp}>` selects, in each
// view, the outermost class of the dimension. `#tpc.dim<3 * 4{tp} * 16>` selects the class with
// strides 16 to 63, with the same result: the annotation determines the elements of a rank, and the
// tactic finds the class that has these elements (AnnotatedFactors.h).
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Classes of a factor of an annotated dimension, outermost first, and the dimensions of the
/// tensor that contain them.
struct AnnotatedFactor {
  FactorAttr factor;
  unsigned dim; // of the annotation
  FactorClasses::Classes classes;
  SmallVector<unsigned, 2> dims = {};
};

/// Annotated tensor.
struct AnnotatedTensor {
  ArrayAttr sharding;
  std::string name, source;
  Location loc;
  Site splitSite; // null for inputs, which are replicated anyway
  SmallVector<AnnotatedFactor> parts = {};
  Value value = {}; // null for inputs
  /// Classes of dimensions that the annotation leaves to other tactics.
  FactorClasses::Classes unconstrained = {};
  FactorClasses::Classes all = {};
  /// Classes and sizes of the tensor's dimensions.
  SmallVector<FactorClasses::Classes> lists = {};
  SmallVector<std::string> sizes = {};
};

class AnnotationTactic {
public:
  explicit AnnotationTactic(PartitionState &state)
      : state(state), problem(state.problem), grid(MeshAttr::lookup(problem.module)),
        factors(problem.classes, grid) {}
  LogicalResult run();

private:
  LogicalResult check(Attribute sharding, Type type, Location loc, const std::string &source);
  LogicalResult addParameter(ParameterOp parameter, WeightOp weight);
  LogicalResult addValue(Value value, ArrayAttr sharding, AnnotatedTensor tensor);
  LogicalResult reportNoFactor(AnnotatedTensor &tensor, Operation *op, FactorAttr factor,
                               unsigned dim, const ::tpc::SymExpr &size);
  LogicalResult seed(AnnotatedTensor &tensor);
  LogicalResult storeSplit(AnnotatedTensor &tensor, const AnnotatedFactor &part,
                           ArrayRef<StringAttr> axes);
  void storeArgumentSplits();
  void adoptColumns();
  InFlightDiagnostic error(const AnnotatedTensor &tensor) {
    return emitError(tensor.loc) << "annotation " << printSharding(tensor.sharding) << " of '"
                                 << tensor.name << "'"
                                 << (tensor.source.empty() ? "" : " (" + tensor.source + ")")
                                 << ": ";
  }

  PartitionState &state;
  const PartitionProblem &problem;
  MeshAttr grid;
  AnnotatedFactors factors;
  std::vector<AnnotatedTensor> tensors;
};

} // namespace

static std::string getSource(Operation *op) {
  auto source = op->getAttrOfType<StringAttr>(kShardingSourceAttr);
  return source ? source.getValue().str() : "";
}

LogicalResult AnnotationTactic::check(Attribute sharding, Type type, Location loc,
                                      const std::string &source) {
  return verifySharding(sharding, getSizes(type), grid, [&] {
    return emitError(loc) << "annotation of '" << getSourceName(loc) << "'"
                          << (source.empty() ? "" : " (" + source + ")") << " ";
  });
}

int64_t mlir::tpc::getStride(ArrayRef<StridedFactorAttr> factors, int64_t steps) {
  int64_t inner = 1;
  for (StridedFactorAttr factor : llvm::reverse(factors)) {
    if (steps < inner * factor.getSize()) {
      if (factor.getStride() != 0)
        return steps / inner * std::abs(factor.getStride());
      steps = inner * factor.getSize(); // skips the copies (stride 0)
    }
    inner *= factor.getSize();
  }
  return 0;
}

/// Adds the annotated factors of a weight that are in one view.
LogicalResult AnnotationTactic::addParameter(ParameterOp parameter, WeightOp weight) {
  auto sharding = cast<ArrayAttr>(weight->getAttr(kShardingAttr));
  AnnotatedTensor tensor{sharding,
                         weight.getSymName().str(),
                         getSource(weight),
                         weight.getLoc(),
                         parameter.getOperation(),
                         {},
                         parameter.getResult()};

  // Range of strides of an annotated factor in the dense weight: [begin, end).
  struct StrideRange {
    FactorAttr factor;   // null: left to other tactics
    unsigned dim, index; // dimension, and index of the factor in it
    int64_t begin, end;
  };
  SmallVector<StrideRange> ranges;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    auto dim = dyn_cast<DimAttr>(sharding[i]);
    int64_t begin = stride;
    if (dim)
      for (unsigned f = dim.getFactors().size(); f-- > 0;) {
        FactorAttr factor = dim.getFactors()[f];
        int64_t end = begin * factor.getExpr().asConstant().value_or(1);
        ranges.push_back({factor, unsigned(i), f, begin, end});
        begin = end;
      }
    stride *= shape[i];
    if (!dim)
      ranges.push_back({{}, unsigned(i), 0, begin, stride});
  }
  std::reverse(ranges.begin(), ranges.end());
  SmallVector<FactorClasses::Classes> found(ranges.size());
  SmallVector<SmallVector<unsigned, 2>> dims(ranges.size());

  ViewAttr view = parameter.getViewOrDense();
  for (unsigned d = 0; d < view.getDims().size(); ++d) {
    // Adjacent indices of a class are `inner` elements apart in the dimension, which corresponds to
    // a stride of the weight.
    int64_t inner = 1;
    FactorClasses::Classes list = problem.classes.getClasses(parameter.getResult(), d);
    SmallVector<StridedFactorAttr> factors = view.getFactors(d);
    tensor.lists.push_back(list);
    tensor.sizes.push_back(getSizes(parameter.getResult())[d].str());
    for (int cls : llvm::reverse(list)) {
      int64_t at = getStride(factors, inner);
      for (auto [range, classes, dimsOf] : llvm::zip(ranges, found, dims))
        if (at >= range.begin && at < range.end) {
          classes.insert(classes.begin(), cls);
          dimsOf.insert(dimsOf.begin(), d);
        }
      inner *= problem.classes.getSize(cls).asConstant().value_or(1);
    }
  }
  for (auto [range, classes, dimsOf] : llvm::zip(ranges, found, dims)) {
    llvm::append_range(tensor.all, classes);
    auto dim = dyn_cast<DimAttr>(sharding[range.dim]);
    if (isExact(dim) && !factors.getAxes(range.factor).empty() &&
        AnnotatedFactors::varies(parameter, weight, range.dim)) {
      auto exact = factors.find(parameter, weight, range.dim, dim, range.index);
      if (!exact)
        return reportNoFactor(tensor, parameter, range.factor, range.dim, shape[range.dim]);
      classes = {exact->cls};
      dimsOf = {exact->dim};
      llvm::append_range(tensor.all, classes);
    }
    if (range.factor)
      tensor.parts.push_back({range.factor, range.dim, classes, dimsOf});
    else
      llvm::append_range(tensor.unconstrained, classes);
  }
  tensors.push_back(std::move(tensor));
  return success();
}

/// Emits an error: no class matches an annotated factor. `op`: a tpc.parameter of the weight, or
/// the op that defines the value; null for inputs.
LogicalResult AnnotationTactic::reportNoFactor(AnnotatedTensor &tensor, Operation *op,
                                               FactorAttr factor, unsigned dim,
                                               const ::tpc::SymExpr &size) {
  InFlightDiagnostic diag = error(tensor);
  diag << "the model has no factor of " << factor.getExpr().str() << " in dimension " << dim << " ("
       << size.str() << ") with these parts";
  Value value = op ? op->getResult(0) : tensor.value;
  if (!value)
    return diag;
  auto parameter = dyn_cast<ParameterOp>(op);
  Operation *user = op;
  // The reader of a layer's weight is inside the layer's function.
  for (Value read = value; parameter && !read.use_empty();) {
    OpOperand &use = *read.use_begin();
    user = use.getOwner();
    auto call = dyn_cast<func::CallOp>(user);
    auto callee =
        call ? problem.module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (!callee)
      break;
    read = callee.getArgument(use.getOperandNumber());
  }
  diag << (parameter ? "; '" + getSourceName(user->getLoc()) + "' reads it as ["
                     : std::string("; the value is ["));
  for (unsigned d = 0; d < getSizes(value).size(); ++d) {
    diag << (d ? ", " : "");
    FactorClasses::Classes list = problem.classes.getClasses(value, d);
    llvm::interleave(
        list, diag, [&](int cls) { diag << problem.classes.getSize(cls).str(); }, " * ");
    if (list.empty())
      diag << "1";
  }
  return diag << "]: split one of these factors, or the dimension without naming a factor";
}

LogicalResult AnnotationTactic::addValue(Value value, ArrayAttr sharding, AnnotatedTensor tensor) {
  for (auto [i, entry] : llvm::enumerate(sharding)) {
    FactorClasses::Classes list = problem.classes.getClasses(value, i);
    tensor.lists.push_back(list);
    tensor.sizes.push_back(getSizes(value)[i].str());
    llvm::append_range(tensor.all, list);
    auto dim = dyn_cast<DimAttr>(entry);
    if (!dim) {
      llvm::append_range(tensor.unconstrained, list);
      continue;
    }
    if (!isExact(dim)) {
      SmallVector<unsigned, 2> dims(list.size(), i);
      tensor.parts.push_back({dim.getFactors().front(), unsigned(i), list, dims});
      continue;
    }
    for (auto [f, factor] : llvm::enumerate(dim.getFactors())) {
      if (factors.getAxes(factor).empty())
        continue;
      auto exact = factors.find(value, i, dim, f);
      if (!exact)
        return reportNoFactor(tensor, value.getDefiningOp(), factor, i, dim.getExpr());
      tensor.parts.push_back({factor, unsigned(i), {exact->cls}, {exact->dim}});
    }
  }
  tensors.push_back(std::move(tensor));
  return success();
}

LogicalResult AnnotationTactic::seed(AnnotatedTensor &tensor) {
  for (const AnnotatedFactor &part : tensor.parts) {
    SmallVector<StringAttr> axes;
    for (StringAttr axis : part.factor.getAxes())
      if (grid.getAxisSize(axis) > 1)
        axes.push_back(axis);
    if (axes.empty() || part.classes.empty())
      continue;
    // Selects the outermost factor that can be split; heads come before the size of a head.
    auto chosen =
        llvm::find_if(part.classes, [&](int cls) { return !problem.getPreventingOp(cls, axes); });
    if (chosen == part.classes.end()) {
      if (failed(storeSplit(tensor, part, axes)))
        return failure();
      continue;
    }
    int cls = *chosen;
    if (tensor.splitSite)
      state.order(tensor.splitSite, cls, axes);
    for (StringAttr axis : axes)
      if (!state.hasAxis({cls}, axis)) {
        std::string what = problem.describe(cls);
        state.assign(cls, axis,
                     "annotation " + printSharding(tensor.sharding) + " of '" + tensor.name + "'" +
                         (tensor.source.empty() ? "" : " (" + tensor.source + ")"),
                     tensor.splitSite);
        state.explain(tensor.name + " " + printSharding(tensor.sharding) + ": " + what + " over " +
                      axis.getValue().str() + " " + std::to_string(grid.getAxisSize(axis)) + ": " +
                      problem.describeSites(cls));
        state.expectOfClass(cls, axis, what, axis.getValue());
      }
  }
  for (int cls : tensor.all)
    if (!llvm::is_contained(tensor.unconstrained, cls))
      state.fix(cls);
  return success();
}

/// Stores the tensor sharded without splitting the class, because some op needs the dimension
/// unsplit. The tensor is gathered before such ops.
LogicalResult AnnotationTactic::storeSplit(AnnotatedTensor &tensor, const AnnotatedFactor &part,
                                           ArrayRef<StringAttr> axes) {
  int cls = part.classes.front();
  Operation *whole = problem.getPreventingOp(cls, axes);
  std::string needs = "'" + getSourceName(whole->getLoc()) + "' (" +
                      whole->getName().getStringRef().str() + ") needs all of it";
  if (!tensor.value) {
    InFlightDiagnostic diag =
        error(tensor) << "dimension " << part.dim << " (" << part.factor.getExpr().str()
                      << ") cannot be split: " << needs
                      << ", and inputs are whole on every rank; annotate the op that reads it";
    diag.attachNote(whole->getLoc()) << "needed unsplit here";
    return diag;
  }
  std::string text =
      tensor.name + " " + printSharding(tensor.sharding) + ": " + problem.describe(cls);
  for (StringAttr axis : axes) {
    state.store(tensor.value, {part.dims.front(), cls, axis});
    // An op may produce its result sharded, or slice it. Ops without operands are split directly.
    if (tensor.value.getDefiningOp()->getNumOperands() == 0)
      state.assign(tensor.splitSite, part.dims.front(), cls, axis);
    text += " over " + axis.getValue().str() + " " + std::to_string(grid.getAxisSize(axis));
  }
  text += " in this tensor only; " + needs;
  state.explainOnce(text);
  return success();
}

/// Propagates stored splits from weights to arguments of layer functions.
void AnnotationTactic::storeArgumentSplits() {
  if (state.getStored().empty())
    return;
  llvm::MapVector<Value, SmallVector<Value>> passed; // per argument: operands of all calls
  problem.module.walk([&](func::CallOp call) {
    if (auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee()))
      for (auto [argument, operand] : llvm::zip(callee.getArguments(), call.getOperands()))
        passed[argument].push_back(operand);
  });
  // A layer may pass its arguments to other layers. Each iteration adds an argument, so the loop
  // terminates.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[argument, operands] : passed) {
      SmallVector<PartitionState::StoredSplit, 1> splits(state.getStored(operands.front()));
      if (splits.empty() || !state.getStored(argument).empty() ||
          problem.getParameters(argument).empty())
        continue;
      bool same = llvm::all_of(operands, [&](Value operand) {
        return state.getStored(operand) == ArrayRef<PartitionState::StoredSplit>(splits);
      });
      if (!same)
        continue;
      for (const PartitionState::StoredSplit &split : splits) {
        state.assign(cast<BlockArgument>(argument), split.dim, split.cls, split.axis);
        state.store(argument, split);
      }
      changed = true;
    }
  }
}

/// With two tp dimensions, a class that annotations split first over tpy becomes a column class,
/// like the classes that the other tactics choose.
void AnnotationTactic::adoptColumns() {
  if (!problem.spec.isTensor2D())
    return;
  for (Operation *op : problem.getOps()) {
    Value matrix = problem.getMatrix(op);
    if (!matrix)
      continue;
    Site splitSite = problem.getParameters(matrix).front();
    for (unsigned dim = 0; dim < cast<RankedTensorType>(matrix.getType()).getRank(); ++dim)
      for (int cls : problem.classes.getClasses(matrix, dim)) {
        SmallVector<StringAttr> axes = state.getAxes(cls, splitSite);
        llvm::erase_if(axes, [&](StringAttr axis) { return !problem.isInView(axis, "tp"); });
        if (problem.getPreventingOp(cls, axes))
          continue; // an op prevents the split; only the stored matrix is sharded
        if (!axes.empty() && axes.front() == "tpy")
          state.mark(cls, kColumns);
      }
  }
}

LogicalResult AnnotationTactic::run() {
  SymbolTableCollection tables;
  for (Operation *op : problem.getOps()) {
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      auto weight = tables.lookupNearestSymbolFrom<WeightOp>(op, parameter.getWeightAttr());
      if (!weight->hasAttr(kShardingAttr))
        continue;
      if (failed(check(weight->getAttr(kShardingAttr), weight.getType(), weight.getLoc(),
                       getSource(weight))) ||
          failed(addParameter(parameter, weight)))
        return failure();
    } else if (Attribute sharding = op->getAttr(kShardingAttr)) {
      AnnotatedTensor tensor{{}, getSourceName(op->getLoc()), getSource(op), op->getLoc(), op};
      if (failed(check(sharding, op->getResult(0).getType(), op->getLoc(), tensor.source)))
        return failure();
      tensor.sharding = cast<ArrayAttr>(sharding);
      tensor.value = op->getResult(0);
      if (failed(addValue(op->getResult(0), tensor.sharding, tensor)))
        return failure();
    }
  }
  auto main = problem.module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument input : main.getArguments()) {
    Attribute sharding = main.getArgAttr(input.getArgNumber(), kShardingAttr);
    if (!sharding)
      continue;
    auto source = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kShardingSourceAttr);
    auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
    Location loc = name ? Location(NameLoc::get(name, input.getLoc())) : input.getLoc();
    AnnotatedTensor tensor{{},
                           name ? name.getValue().str()
                                : "input " + std::to_string(input.getArgNumber()),
                           source ? source.getValue().str() : "",
                           loc,
                           nullptr};
    if (failed(check(sharding, input.getType(), loc, tensor.source)))
      return failure();
    tensor.sharding = cast<ArrayAttr>(sharding);
    if (failed(addValue(input, tensor.sharding, tensor)))
      return failure();
  }

  for (AnnotatedTensor &tensor : tensors) {
    if (failed(seed(tensor)))
      return failure();
    if (tensor.value)
      state.pin(tensor.value.getDefiningOp());
  }
  storeArgumentSplits();
  // A site has at most the axes of its annotation.
  for (const AnnotatedTensor &tensor : tensors)
    for (int cls : tensor.all) {
      if (!tensor.splitSite || llvm::is_contained(tensor.unconstrained, cls))
        continue;
      for (StringAttr axis : state.getAxes(cls)) {
        bool wanted = llvm::any_of(tensor.parts, [&](const AnnotatedFactor &part) {
          return llvm::is_contained(part.classes, cls) &&
                 llvm::is_contained(part.factor.getAxes(), axis);
        });
        if (wanted)
          continue;
        state.forbid(tensor.splitSite, cls, axis,
                     "this tensor is annotated " + printSharding(tensor.sharding));
      }
      // The rows tactic adds the missing axis to classes that annotations split over only one axis.
      if (problem.spec.isTensor2D())
        for (StringAttr axis : problem.getAtoms("tp"))
          if (!state.hasAxis({cls}, axis))
            state.forbid(tensor.splitSite, cls, axis,
                         "this tensor is annotated " + printSharding(tensor.sharding));
    }
  adoptColumns();
  if (problem.spec.manual)
    for (StringAttr axis : grid.getOrder()) {
      bool used = axis == kPipelineAxis || state.usesAxis(axis);
      if (int64_t ranks = grid.getAxisSize(axis); ranks > 1 && !used)
        state.warn("manual: no annotation splits anything over " + axis.getValue().str() +
                   std::to_string(ranks) + ", so all its ranks do the same work");
    }
  return success();
}

LogicalResult mlir::tpc::seedAnnotations(PartitionState &state) {
  return AnnotationTactic(state).run();
}
