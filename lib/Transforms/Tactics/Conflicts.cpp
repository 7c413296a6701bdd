//===- Conflicts.cpp - Resolution of axis conflicts -----------------------===//
//
// An axis may split only one dimension of a value and one factor of an op. Annotations may cause
// conflicts: with `%x: [tp, -]` and `%w: [-, tp]`, tp splits both the rows and the columns of the
// matmul x·w. For each such op, one of the classes is selected to keep the axis; the other class is
// unsplit in this op. The selection minimizes the estimated time of collectives at the op:
// resharding its operands to the required distributions, and its result to the distributions that
// users require (PlannedDists.h), times the number of calls. Ties are resolved in favor of the
// largest class, then of the first factor of the rule. The result does not depend on the order of
// visits.
//
// Axes are processed one after the other. Producers are visited before their users, so that the
// distributions of operands are known. Axes that have not been processed are ignored.
//
// Weights, constants and arguments of layers have no operands; the split with the lowest cost at
// their users is selected. If the annotation of a weight lacks the axis, the weight is loaded
// without it, and sliced before each use.
//
// A tensor may be stored sharded in a class that some op needs unsplit (PartitionState::store). For
// the readers of the tensor, its axis is an additional candidate (an offer), which is accepted if
// the op's communication is then cheaper than gathering the tensor. The result of the op is then
// sharded too. Thus an all-gather is delayed until the first op that requires it or where it is
// cheaper. The cost of an all-gather that another reader needs anyway is zero.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"
#include "PlannedDists.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class ConflictResolver {
public:
  explicit ConflictResolver(PartitionState &state)
      : state(state), problem(state.problem), grid(MeshAttr::lookup(problem.module)), dists(state),
        symbols(getNominalSymbols(problem.module)) {}
  void run();

private:
  /// Classes among these that `axis` splits, with their numbers of occurrences.
  using Counts = llvm::MapVector<int, unsigned>;
  Counts count(ArrayRef<FactorClasses::Classes> lists, StringAttr axis, Site site) const;
  /// Class that `axis` splits in an operand or result of `op`, because of an annotation of that
  /// tensor. `factor`: the corresponding factor of the op's rule, which must be splittable.
  struct SplitOffer {
    unsigned factor;
    bool isResult; // the tensor is the op's result
  };
  using Offers = llvm::SmallMapVector<int, SplitOffer, 2>;
  Offers getOffers(Operation *op, StringAttr axis) const;
  void acceptOffer(Operation *op, StringAttr axis, int cls, const SplitOffer &offer);
  bool isStoredSplit(Value value, int cls, StringAttr axis) const;
  bool isNeededWhole(Value value, int cls) const;
  std::string getTensorName(Value value) const;
  void recordAnnotations();
  void expectReshards();
  SmallVector<FactorClasses::Classes> getLists(Value value) const;

  void resolveOp(Operation *op, StringAttr axis);
  void resolveValue(Value value, Site site, Location loc, StringAttr axis);
  void resolveOrder(Operation *op);
  double getSeconds(Operation *op, StringAttr axis, const Counts &counts, const Offers &offers,
                    int winner);
  double getSeconds(Operation *op, PlannedDists::AxesOf axesOf,
                    function_ref<DistAttr(Value)> getArrival);
  double getUseSeconds(Value value, StringAttr axis, const Counts &counts, int winner);
  double getSeconds(Value value, DistAttr from, DistAttr to);
  int decide(Site site, StringAttr axis, const Counts &counts, const Offers &offers,
             const std::string &where, function_ref<double(int)> getSeconds);
  PartitionState &state;
  const PartitionProblem &problem;
  MeshAttr grid;
  PlannedDists dists;
  Symbols symbols;
  SmallVector<StringAttr> processed; // processed axes, including the current one
  /// Sites where a class lost an axis: their operands and users are resharded.
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> values;
};

} // namespace

ConflictResolver::Counts ConflictResolver::count(ArrayRef<FactorClasses::Classes> lists,
                                                 StringAttr axis, Site site) const {
  Counts counts;
  for (auto [index, list] : llvm::enumerate(lists))
    for (int cls : list)
      if (state.hasAxis({cls}, axis, site, index))
        ++counts[cls];
  return counts;
}

bool ConflictResolver::isStoredSplit(Value value, int cls, StringAttr axis) const {
  return llvm::any_of(state.getStored(value), [&](const PartitionState::StoredSplit &split) {
    return split.cls == cls && split.axis == axis;
  });
}

/// Returns true if some user gathers a sharded tensor in any case.
bool ConflictResolver::isNeededWhole(Value value, int cls) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (!isa<ShardingRuleOpInterface>(user))
      return isa<func::CallOp>(user);
    const ShardingRule &rule = problem.classes.getRule(user);
    for (const ShardingRule::Dim &dim : rule.operands[use.getOperandNumber()])
      for (int factor : dim)
        if (rule.factors[factor].kind == FactorKind::Unsplittable &&
            llvm::is_contained(problem.classes.getFactorClasses(user, factor), cls))
          return true;
    return false;
  });
}

ConflictResolver::Offers ConflictResolver::getOffers(Operation *op, StringAttr axis) const {
  Offers offers;
  const ShardingRule &rule = problem.classes.getRule(op);
  auto collect = [&](Value value, const ShardingRule::Dims &dims, bool isResult) {
    for (const PartitionState::StoredSplit &split : state.getStored(value))
      for (int factor : dims[split.dim])
        if (split.axis == axis && rule.factors[factor].kind != FactorKind::Unsplittable &&
            !state.hasAxis({split.cls}, axis) &&
            llvm::is_contained(problem.classes.getFactorClasses(op, factor), split.cls))
          offers.insert({split.cls, SplitOffer{unsigned(factor), isResult}});
  };
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    collect(value, dims, true);
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    collect(value, dims, false);
  return offers;
}

/// Splits the op as offered, and marks its results as sharded.
void ConflictResolver::acceptOffer(Operation *op, StringAttr axis, int cls,
                                   const SplitOffer &offer) {
  state.assign(op, offer.factor, cls, axis);
  const ShardingRule &rule = problem.classes.getRule(op);
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    for (auto [d, dim] : llvm::enumerate(dims))
      if (llvm::is_contained(dim, int(offer.factor)) && !isStoredSplit(value, cls, axis))
        state.store(value, {unsigned(d), cls, axis});
}

SmallVector<FactorClasses::Classes> ConflictResolver::getLists(Value value) const {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned dim = 0; dim < cast<RankedTensorType>(value.getType()).getRank(); ++dim)
    lists.push_back(problem.classes.getClasses(value, dim));
  return lists;
}

/// Returns the estimated seconds of a reshard over processed axes.
double ConflictResolver::getSeconds(Value value, DistAttr from, DistAttr to) {
  auto isKnown = [&](StringAttr axis) {
    return axis.getValue() == kMicroBatchAxis || llvm::is_contained(processed, axis);
  };
  return dists.getSeconds(value, keepAxes(from, isKnown), keepAxes(to, isKnown));
}

/// Returns the estimated seconds of communication at `op` over processed axes with these splits.
double ConflictResolver::getSeconds(Operation *op, PlannedDists::AxesOf axesOf,
                                    function_ref<DistAttr(Value)> getArrival) {
  constexpr double never = std::numeric_limits<double>::infinity();
  SmallVector<DimAttr> splits = dists.getSplits(op, axesOf);
  double seconds = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    DistAttr needed = dists.getRequired(op, i, splits);
    seconds += needed ? getSeconds(operand, getArrival(operand), needed) : never;
  }
  for (OpResult result : op->getResults()) {
    DistAttr produced = dists.getProduced(result, splits);
    seconds += produced ? getSeconds(result, produced, dists.getArrival(result, produced)) : never;
  }
  return seconds;
}

/// Returns the same estimate if `axis` splits only `winner` of the classes in `counts` (-1: none).
double ConflictResolver::getSeconds(Operation *op, StringAttr axis, const Counts &counts,
                                    const Offers &offers, int winner) {
  bool outermost = false;
  auto axesOf = [&](int cls, unsigned factor) {
    SmallVector<StringAttr> axes = state.getAxes(cls, op, factor);
    auto offer = offers.find(cls);
    bool stays = cls == winner && (offer == offers.end() || offer->second.factor == factor);
    if (counts.contains(cls) && !stays)
      llvm::erase(axes, axis);
    else if (stays && !llvm::is_contained(axes, axis))
      axes.push_back(axis);
    if (stays && outermost)
      std::rotate(axes.begin(), llvm::find(axes, axis), std::next(llvm::find(axes, axis)));
    return axes;
  };
  // A tensor that another op gathers anyway is available unsharded.
  auto getArrival = [&](Value operand) {
    DistAttr arrival = dists.getArrival(operand);
    for (auto &[cls, offer] : offers)
      if (!offer.isResult && isStoredSplit(operand, cls, axis) && isNeededWhole(operand, cls))
        arrival = keepAxes(arrival, [&](StringAttr other) { return other != axis; });
    return arrival;
  };
  double seconds = getSeconds(op, axesOf, getArrival);
  // resolveOrder later selects the order of axes; assume the cheaper order.
  outermost = true;
  return std::min(seconds, getSeconds(op, axesOf, getArrival));
}

/// Returns the estimated seconds of communication at users if `axis` splits `winner` in `value`.
double ConflictResolver::getUseSeconds(Value value, StringAttr axis, const Counts &counts,
                                       int winner) {
  if (winner < 0)
    return 0; // slices cost nothing
  MLIRContext *context = value.getContext();
  SmallVector<DimAttr> dims;
  for (auto [d, list] : llvm::enumerate(getLists(value))) {
    SmallVector<FactorAttr> factors;
    for (int cls : list) {
      SmallVector<StringAttr> axes = state.getAxes(cls);
      if (counts.contains(cls) && cls != winner)
        llvm::erase(axes, axis);
      factors.push_back(FactorAttr::get(context, problem.classes.getSize(cls), axes));
    }
    dims.push_back(factors.empty() ? DimAttr::get(context, getSizes(value)[d])
                                   : DimAttr::get(context, factors));
  }
  DistAttr from = DistAttr::get(context, dims);
  double seconds = 0;
  for (OpOperand &use : value.getUses())
    if (DistAttr to = dists.getRequired(use))
      seconds += getSeconds(value, from, to);
  return seconds;
}

int ConflictResolver::decide(Site site, StringAttr axis, const Counts &counts, const Offers &offers,
                             const std::string &where, function_ref<double(int)> getSeconds) {
  // A class that occurs in two factors cannot keep the axis.
  int best = -1;
  double minSeconds = getSeconds(-1);
  auto sizeOf = [&](int cls) { return evaluateOr1(problem.classes.getSize(cls), symbols); };
  for (auto [cls, n] : counts) {
    if (n > 1)
      continue;
    double seconds = getSeconds(cls);
    double margin = std::isfinite(seconds + minSeconds) ? 1e-9 * (seconds + minSeconds) : 0;
    // An operand's offer is accepted only for a gain.
    auto offer = offers.find(cls);
    bool isOperandOffer = offer != offers.end() && !offer->second.isResult;
    bool wins = seconds <= minSeconds + margin && !isOperandOffer;
    if (seconds < minSeconds - margin || (best < 0 ? wins : wins && sizeOf(cls) > sizeOf(best))) {
      best = cls;
      minSeconds = seconds;
    }
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << where << ": " << axis.getValue() << " stays on "
     << (best < 0 ? std::string("nothing") : problem.classes.getSize(best).str())
     << llvm::format(" (%.1f us)", minSeconds * 1e6);
  for (auto [cls, n] : counts) {
    if (cls == best)
      continue;
    if (!offers.contains(cls))
      state.forbid(site, cls, axis, "another class keeps the axis in this op");
    os << ", not on " << problem.classes.getSize(cls).str();
    double seconds = getSeconds(cls);
    if (n > 1)
      os << " (twice in this op)";
    else if (std::isfinite(seconds))
      os << llvm::format(" (%.1f us)", seconds * 1e6);
    else
      os << " (micro-batches cannot be gathered)";
  }
  // A single candidate that is the op's own result is not recorded as a decision.
  bool isDecision = counts.size() > 1 || (!offers.empty() && !offers.begin()->second.isResult);
  if (isDecision)
    state.explainOnce(text);
  return best;
}

void ConflictResolver::resolveOp(Operation *op, StringAttr axis) {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned factor = 0; factor < problem.classes.getRule(op).factors.size(); ++factor)
    lists.push_back(problem.classes.getFactorClasses(op, factor));
  Counts counts = count(lists, axis, op);
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  Offers offers = getOffers(op, axis);
  if (total < 2 && offers.empty())
    return;
  for (auto &[cls, offer] : offers)
    counts[cls] = 1;
  std::string where =
      "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
  int best = decide(op, axis, counts, offers, where, [&](int winner) {
    return double(problem.getCallCount(op)) * getSeconds(op, axis, counts, offers, winner);
  });
  if (auto offer = offers.find(best); offer != offers.end())
    acceptOffer(op, axis, best, offer->second);
  ops.insert(op);
}

/// Adopts the order of a class's axes in an operand, if communication then takes less time.
void ConflictResolver::resolveOrder(Operation *op) {
  Site site = op;
  auto getArrival = [&](Value value) { return dists.getArrival(value); };
  auto getOpSeconds = [&](int reordered, ArrayRef<StringAttr> order) {
    auto axesOf = [&](int cls, unsigned factor) {
      return cls == reordered ? SmallVector<StringAttr>(order) : state.getAxes(cls, site, factor);
    };
    return getSeconds(op, axesOf, getArrival);
  };
  for (Value operand : op->getOperands()) {
    DistAttr arrival = dists.getArrival(operand);
    for (auto [d, list] : llvm::enumerate(getLists(operand))) {
      auto parts = dists.splitByClasses(arrival.getDims()[d], list);
      if (!parts)
        continue;
      for (auto [cls, part] : llvm::zip(list, *parts)) {
        SmallVector<StringAttr> axes = state.getAxes(cls, site), order = part.getAllAxes();
        llvm::erase_if(order, [&](StringAttr axis) { return !llvm::is_contained(axes, axis); });
        for (StringAttr axis : axes)
          if (!llvm::is_contained(order, axis))
            order.push_back(axis);
        if (order == axes || getOpSeconds(cls, order) >= getOpSeconds(-1, {}))
          continue;
        state.order(site, cls, order);
        ops.insert(op);
      }
    }
  }
}

void ConflictResolver::resolveValue(Value value, Site site, Location loc, StringAttr axis) {
  Counts counts = count(getLists(value), axis, site);
  // The annotation of this tensor stays.
  for (const PartitionState::StoredSplit &split : state.getStored(value))
    if (split.axis == axis) {
      for (auto [cls, n] : counts)
        if (state.hasAxis({cls}, axis))
          state.forbid(site, cls, axis, "an annotation stores the tensor in another way");
      values.insert(value);
      return;
    }
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  if (total < 2)
    return;
  decide(site, axis, counts, {}, "'" + getSourceName(loc) + "'",
         [&](int winner) { return getUseSeconds(value, axis, counts, winner); });
  values.insert(value);
}

/// Returns "'fc.weight'" or, for a layer's argument, "'h.0.fc.weight' and 11 more".
std::string ConflictResolver::getTensorName(Value value) const {
  SmallVector<Operation *> parameters = problem.getParameters(value);
  if (parameters.empty())
    return "'" + getSourceName(value.getLoc()) + "'";
  std::string name =
      "'" + cast<ParameterOp>(parameters.front()).getWeightAttr().getValue().str() + "'";
  return parameters.size() == 1 ? name
                                : name + " and " + std::to_string(parameters.size() - 1) + " more";
}

/// Records where sharded tensors are gathered and at what cost, and marks this communication as
/// expected.
void ConflictResolver::recordAnnotations() {
  for (auto &[value, list] : state.getStored()) {
    std::string name = getTensorName(value);
    for (const PartitionState::StoredSplit &split : list) {
      // One gather serves all users.
      SmallVector<Operation *> users;
      for (Operation *user : value.getUsers())
        if (isa<ShardingRuleOpInterface>(user) && !llvm::is_contained(users, user) &&
            !state.hasAxis({split.cls}, split.axis, user))
          users.push_back(user);
      if (users.empty())
        continue;
      std::string text = name + " is gathered over " + split.axis.getValue().str() + " before ";
      llvm::raw_string_ostream os(text);
      llvm::interleaveComma(llvm::reverse(users), os, [&](Operation *user) {
        os << "'" << getSourceName(user->getLoc()) << "' (" << user->getName().getStringRef()
           << ")";
      });
      DistAttr from = dists.getArrival(value);
      double seconds = dists.getSeconds(
          value, from, keepAxes(from, [&](StringAttr axis) { return axis != split.axis; }));
      os << llvm::format(": %.1f us", seconds * 1e6 * double(problem.getCallCount(users.front())));
      state.explainOnce(text);
    }
  }
  for (auto &[value, splits] : state.getStored())
    state.expect(value, nullptr, {}, getTensorName(value) + " is stored sharded");
  for (Operation *op : state.getPinned())
    state.expectOfOp(op, getTensorName(op->getResult(0)) + " is annotated");
}

/// Expects communication at ops and values where a class lost an axis.
void ConflictResolver::expectReshards() {
  const std::string why = "one axis would split two classes, and one loses the conflict";
  for (Operation *op : ops)
    state.expectOfOp(op, why);
  for (Value value : values)
    state.expect(value, nullptr, {}, why);
}

void ConflictResolver::run() {
  for (StringAttr axis : grid.getOrder()) {
    if (!state.usesAxis(axis))
      continue;
    processed.push_back(axis);
    for (Operation *op : problem.getOps())
      if (op->getNumOperands() > 0) {
        resolveOp(op, axis);
        if (!state.isPinned(op))
          resolveOrder(op);
      }
    for (auto function : problem.module.getOps<func::FuncOp>()) {
      if (function.getName() == "main")
        continue; // inputs are replicated
      for (BlockArgument argument : function.getArguments())
        if (isa<RankedTensorType>(argument.getType()))
          resolveValue(argument, argument, argument.getLoc(), axis);
    }
    for (Operation *op : problem.getOps())
      if (op->getNumOperands() == 0)
        for (Value result : op->getResults())
          resolveValue(result, op, op->getLoc(), axis);
  }
  expectReshards();
  state.attributeTo("annotations", [&] { recordAnnotations(); });
}

LogicalResult mlir::tpc::resolveConflicts(PartitionState &state) {
  ConflictResolver(state).run();
  return success();
}
