//===- AnnotationTactic.cpp - What a user wants ---------------------------===//
//
// `tpc.sharding` on a weight, a value or an input becomes axes on classes, from which everything
// else follows: fc1's columns are fc2's rows. What it says is decided, also where it says
// "not split": tactics that come later leave those classes alone.
//
// A weight has dimensions, a parameter is a view of it. `#tpc.dim<192{tp}>` of a fused projection
// [64, 192] reaches its three views [64, 4 * 16 of 192] as: of the strides that belong to the
// dimension, the outermost class in each view. `#tpc.dim<3 * 4{tp} * 16>` names strides 16 to 63
// and gives the same: which elements a rank holds is said, and the class that has them is looked
// for (AnnotatedFactors.h).
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Classes that a factor of an annotated dimension consists of, outermost first, and the
/// dimensions of the place's tensor that they are in.
struct Part {
  FactorAttr factor;
  unsigned dim; // of the annotation
  FactorClasses::Classes classes;
  SmallVector<unsigned, 2> dims = {};
};

/// One place that is annotated.
struct Site {
  ArrayAttr sharding;
  std::string name, source;
  Location loc;
  Plan::Place place; // null for inputs, which are whole anyway
  SmallVector<Part> parts = {};
  Value value = {}; // null for inputs
  /// Classes of dimensions that are left to the other tactics.
  FactorClasses::Classes open = {};
  FactorClasses::Classes all = {};
  /// Of the dimensions that the place has: their classes and sizes.
  SmallVector<FactorClasses::Classes> lists = {};
  SmallVector<std::string> sizes = {};
};

class AnnotationTactic {
public:
  explicit AnnotationTactic(Plan &plan)
      : plan(plan), grid(GridAttr::lookup(plan.module)), factors(plan.classes, grid) {}
  LogicalResult run();

private:
  LogicalResult check(Attribute sharding, Type type, Location loc, const std::string &source);
  LogicalResult addParameter(ParameterOp parameter, WeightOp weight);
  LogicalResult addValue(Value value, ArrayAttr sharding, Site site);
  LogicalResult refuse(Site &site, Operation *op, FactorAttr factor, unsigned dim,
                       const ::tpc::SymExpr &size);
  LogicalResult seed(Site &site);
  LogicalResult hold(Site &site, const Part &part, ArrayRef<StringAttr> axes);
  void holdArguments();
  void adoptColumns();
  InFlightDiagnostic error(const Site &site) {
    return emitError(site.loc) << "annotation " << printSharding(site.sharding) << " of '"
                               << site.name << "'"
                               << (site.source.empty() ? "" : " (" + site.source + ")") << ": ";
  }

  Plan &plan;
  GridAttr grid;
  AnnotatedFactors factors;
  std::vector<Site> sites;
  TacticRecord record{"annotations"};
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
      steps = inner * factor.getSize(); // from one copy to what is behind the last
    }
    inner *= factor.getSize();
  }
  return 0;
}

/// The part of a weight's annotation that concerns one view of it.
LogicalResult AnnotationTactic::addParameter(ParameterOp parameter, WeightOp weight) {
  auto sharding = cast<ArrayAttr>(weight->getAttr(kShardingAttr));
  Site site{sharding,
            weight.getSymName().str(),
            getSource(weight),
            weight.getLoc(),
            Plan::getPlace(parameter),
            {},
            parameter.getResult()};

  // Strides of the annotation's factors in the dense weight: [begin, end).
  struct Range {
    FactorAttr factor;   // null: open
    unsigned dim, index; // of the factor in its dimension
    int64_t begin, end;
  };
  SmallVector<Range> ranges;
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
    // One step of a class is `inner` steps of the dimension, and those are a stride of the weight.
    int64_t inner = 1;
    FactorClasses::Classes list = plan.classes.getClasses(parameter.getResult(), d);
    SmallVector<StridedFactorAttr> factors = view.getFactors(d);
    site.lists.push_back(list);
    site.sizes.push_back(getSizes(parameter.getResult())[d].str());
    for (int cls : llvm::reverse(list)) {
      int64_t at = getStride(factors, inner);
      for (auto [range, classes, dimsOf] : llvm::zip(ranges, found, dims))
        if (at >= range.begin && at < range.end) {
          classes.insert(classes.begin(), cls);
          dimsOf.insert(dimsOf.begin(), d);
        }
      inner *= plan.classes.getSize(cls).asConstant().value_or(1);
    }
  }
  for (auto [range, classes, dimsOf] : llvm::zip(ranges, found, dims)) {
    llvm::append_range(site.all, classes);
    auto dim = dyn_cast<DimAttr>(sharding[range.dim]);
    if (isExact(dim) && !factors.getAxes(range.factor).empty() &&
        AnnotatedFactors::varies(parameter, weight, range.dim)) {
      auto exact = factors.find(parameter, weight, range.dim, dim, range.index);
      if (!exact)
        return refuse(site, parameter, range.factor, range.dim, shape[range.dim]);
      classes = {exact->cls};
      dimsOf = {exact->dim};
      llvm::append_range(site.all, classes);
    }
    if (range.factor)
      site.parts.push_back({range.factor, range.dim, classes, dimsOf});
    else
      llvm::append_range(site.open, classes);
  }
  sites.push_back(std::move(site));
  return success();
}

/// No class has the parts of a factor. `op` is what reads a weight; null for inputs.
LogicalResult AnnotationTactic::refuse(Site &site, Operation *op, FactorAttr factor, unsigned dim,
                                       const ::tpc::SymExpr &size) {
  InFlightDiagnostic diag = error(site);
  diag << "the model has no factor of " << factor.getExpr().str() << " in dimension " << dim << " ("
       << size.str() << ") whose parts these are";
  Value value = op ? op->getResult(0) : site.value;
  if (!value)
    return diag;
  auto parameter = dyn_cast<ParameterOp>(op);
  Operation *user = op;
  // What reads a layer's weight is in its function.
  for (Value read = value; parameter && !read.use_empty();) {
    OpOperand &use = *read.use_begin();
    user = use.getOwner();
    auto call = dyn_cast<func::CallOp>(user);
    auto callee = call ? plan.module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (!callee)
      break;
    read = callee.getArgument(use.getOperandNumber());
  }
  diag << (parameter ? "; what '" + getSourceName(user->getLoc()) + "' reads of it is ["
                     : std::string("; the value is ["));
  for (unsigned d = 0; d < getSizes(value).size(); ++d) {
    diag << (d ? ", " : "");
    FactorClasses::Classes list = plan.classes.getClasses(value, d);
    llvm::interleave(list, diag, [&](int cls) { diag << plan.classes.getSize(cls).str(); }, " * ");
    if (list.empty())
      diag << "1";
  }
  return diag << "]: split one of these factors, or the dimension without naming a factor";
}

LogicalResult AnnotationTactic::addValue(Value value, ArrayAttr sharding, Site site) {
  for (auto [i, entry] : llvm::enumerate(sharding)) {
    FactorClasses::Classes list = plan.classes.getClasses(value, i);
    site.lists.push_back(list);
    site.sizes.push_back(getSizes(value)[i].str());
    llvm::append_range(site.all, list);
    auto dim = dyn_cast<DimAttr>(entry);
    if (!dim) {
      llvm::append_range(site.open, list);
      continue;
    }
    if (!isExact(dim)) {
      SmallVector<unsigned, 2> dims(list.size(), i);
      site.parts.push_back({dim.getFactors().front(), unsigned(i), list, dims});
      continue;
    }
    for (auto [f, factor] : llvm::enumerate(dim.getFactors())) {
      if (factors.getAxes(factor).empty())
        continue;
      auto exact = factors.find(value, i, dim, f);
      if (!exact)
        return refuse(site, value.getDefiningOp(), factor, i, dim.getExpr());
      site.parts.push_back({factor, unsigned(i), {exact->cls}, {exact->dim}});
    }
  }
  sites.push_back(std::move(site));
  return success();
}

LogicalResult AnnotationTactic::seed(Site &site) {
  for (const Part &part : site.parts) {
    SmallVector<StringAttr> axes;
    for (StringAttr axis : part.factor.getAxes())
      if (grid.getAxisSize(axis) > 1)
        axes.push_back(axis);
    if (axes.empty() || part.classes.empty())
      continue;
    // The outermost factor that can be split; heads before the size of a head.
    auto chosen =
        llvm::find_if(part.classes, [&](int cls) { return !plan.classes.getWholeOp(cls); });
    if (chosen == part.classes.end()) {
      if (failed(hold(site, part, axes)))
        return failure();
      continue;
    }
    int cls = *chosen;
    if (site.place)
      plan.setOrder(site.place, cls, axes);
    for (StringAttr axis : axes)
      if (!plan.hasAxis({cls}, axis.getValue())) {
        plan.addAxis(cls, axis.getValue());
        std::string what = plan.describe(cls);
        record.splits.push_back(site.name + " " + printSharding(site.sharding) + ": " + what +
                                " over " + axis.getValue().str() + " " +
                                std::to_string(grid.getAxisSize(axis)) + ": " +
                                plan.describeSites(cls));
        plan.claimCommunication(cls, axis.getValue(), what, record);
      }
  }
  for (int cls : site.all)
    if (!llvm::is_contained(site.open, cls))
      plan.decided.insert(cls);
  return success();
}

/// Some op needs all of a dimension: the tensor alone is held in parts, and put together where it
/// is needed whole.
LogicalResult AnnotationTactic::hold(Site &site, const Part &part, ArrayRef<StringAttr> axes) {
  int cls = part.classes.front();
  Operation *whole = plan.classes.getWholeOp(cls);
  std::string needs = "'" + getSourceName(whole->getLoc()) + "' (" +
                      whole->getName().getStringRef().str() + ") needs all of it";
  if (!site.value) {
    InFlightDiagnostic diag =
        error(site) << "dimension " << part.dim << " (" << part.factor.getExpr().str()
                    << ") cannot be split: " << needs
                    << ", and inputs are whole on every rank; annotate what reads the input";
    diag.attachNote(whole->getLoc()) << "needed whole here";
    return diag;
  }
  std::string text = site.name + " " + printSharding(site.sharding) + ": " + plan.describe(cls);
  for (StringAttr axis : axes) {
    plan.holds[site.value].push_back({part.dims.front(), cls, axis});
    // What an op computes it may have in parts, or take its part of.
    if (site.value.getDefiningOp()->getNumOperands() == 0)
      plan.splitHere(site.place, part.dims.front(), cls, axis);
    text += " over " + axis.getValue().str() + " " + std::to_string(grid.getAxisSize(axis));
  }
  text += " in this place; " + needs;
  if (!llvm::is_contained(record.splits, text))
    record.splits.push_back(text);
  return success();
}

/// Weights of layers are held in the layers' functions as they are outside.
void AnnotationTactic::holdArguments() {
  if (plan.holds.empty())
    return;
  llvm::MapVector<Value, SmallVector<Value>> passed; // to each argument
  plan.module.walk([&](func::CallOp call) {
    if (auto callee = plan.module.lookupSymbol<func::FuncOp>(call.getCallee()))
      for (auto [argument, operand] : llvm::zip(callee.getArguments(), call.getOperands()))
        passed[argument].push_back(operand);
  });
  // A layer may pass its arguments on. Each round holds an argument more: it ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[argument, operands] : passed) {
      auto first = plan.holds.find(operands.front());
      if (first == plan.holds.end() || plan.holds.contains(argument) ||
          plan.getParameters(argument).empty())
        continue;
      SmallVector<Plan::Hold, 1> holds = first->second;
      bool same = llvm::all_of(operands, [&](Value operand) {
        auto it = plan.holds.find(operand);
        return it != plan.holds.end() && it->second == holds;
      });
      if (!same)
        continue;
      for (const Plan::Hold &hold : holds)
        plan.splitHere(Plan::getPlace(cast<BlockArgument>(argument)), hold.dim, hold.cls,
                       hold.axis);
      plan.holds[argument] = std::move(holds);
      changed = true;
    }
  }
}

/// With a tp of two dimensions, what annotations split over tpy first is on the side of the columns
/// of its matrices, as what the other tactics choose.
void AnnotationTactic::adoptColumns() {
  if (!plan.spec.isTensor2D())
    return;
  for (Operation *op : plan.getOps()) {
    Value matrix = plan.getMatrix(op);
    if (!matrix)
      continue;
    Plan::Place place = Plan::getPlace(plan.getParameters(matrix).front());
    for (unsigned dim = 0; dim < cast<RankedTensorType>(matrix.getType()).getRank(); ++dim)
      for (int cls : plan.classes.getClasses(matrix, dim)) {
        if (plan.classes.getWholeOp(cls))
          continue; // held in parts in this matrix alone
        SmallVector<StringAttr> axes = plan.getAxes(cls, place);
        llvm::erase_if(axes, [](StringAttr axis) { return axis != "tpx" && axis != "tpy"; });
        if (!axes.empty() && axes.front() == "tpy")
          plan.columns.insert(cls);
      }
  }
}

LogicalResult AnnotationTactic::run() {
  for (Operation *op : plan.getOps()) {
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      WeightOp weight = parameter.getWeightOp();
      if (!weight->hasAttr(kShardingAttr))
        continue;
      if (failed(check(weight->getAttr(kShardingAttr), weight.getType(), weight.getLoc(),
                       getSource(weight))) ||
          failed(addParameter(parameter, weight)))
        return failure();
    } else if (Attribute sharding = op->getAttr(kShardingAttr)) {
      Site site{{}, getSourceName(op->getLoc()), getSource(op), op->getLoc(), Plan::getPlace(op)};
      if (failed(check(sharding, op->getResult(0).getType(), op->getLoc(), site.source)))
        return failure();
      site.sharding = cast<ArrayAttr>(sharding);
      site.value = op->getResult(0);
      if (failed(addValue(op->getResult(0), site.sharding, site)))
        return failure();
    }
  }
  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument input : main.getArguments()) {
    Attribute sharding = main.getArgAttr(input.getArgNumber(), kShardingAttr);
    if (!sharding)
      continue;
    auto source = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kShardingSourceAttr);
    auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
    Location loc = name ? Location(NameLoc::get(name, input.getLoc())) : input.getLoc();
    Site site{{},
              name ? name.getValue().str() : "input " + std::to_string(input.getArgNumber()),
              source ? source.getValue().str() : "",
              loc,
              nullptr};
    if (failed(check(sharding, input.getType(), loc, site.source)))
      return failure();
    site.sharding = cast<ArrayAttr>(sharding);
    if (failed(addValue(input, site.sharding, site)))
      return failure();
  }

  for (Site &site : sites) {
    if (failed(seed(site)))
      return failure();
    if (site.value)
      plan.asked.insert(site.value.getDefiningOp());
  }
  holdArguments();
  // A place has no more axes than its annotation says.
  for (const Site &site : sites)
    for (int cls : site.all) {
      if (!site.place || llvm::is_contained(site.open, cls))
        continue;
      for (StringAttr axis : plan.getAxes(cls)) {
        bool wanted = llvm::any_of(site.parts, [&](const Part &part) {
          return llvm::is_contained(part.classes, cls) &&
                 llvm::is_contained(part.factor.getAxes(), axis);
        });
        if (wanted)
          continue;
        plan.yield(site.place, cls, axis);
      }
      // The tactic of rows adds axes to what annotations split over one of two.
      for (StringRef axis : {"tpx", "tpy"})
        if (!plan.hasAxis({cls}, axis))
          plan.yield(site.place, cls, StringAttr::get(plan.module.getContext(), axis));
    }
  adoptColumns();
  if (plan.spec.manual)
    for (StringAttr axis : grid.getOrder()) {
      bool used = axis == "pp" || plan.usesAxis(axis);
      if (int64_t ranks = grid.getAxisSize(axis); ranks > 1 && !used)
        plan.warnings.push_back("manual: no annotation splits anything over " +
                                axis.getValue().str() + std::to_string(ranks) +
                                ", so that all its ranks do the same");
    }
  if (!record.splits.empty())
    plan.records.push_back(std::move(record));
  return success();
}

LogicalResult mlir::tpc::applyAnnotations(Plan &plan) { return AnnotationTactic(plan).run(); }
