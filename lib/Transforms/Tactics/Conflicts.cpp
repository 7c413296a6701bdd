//===- Conflicts.cpp - Who yields where one axis splits two classes -------===//
//
// An axis splits one dimension of a value and one factor of an op. Annotations may ask for more:
// with `%x: [tp, -]` and `%w: [-, tp]`, the product x·w has tp on its rows and on its columns. One
// of the two classes yields there: it is whole in that op. Every place is decided for itself, by
// seconds: those of the collectives that make what the op needs of what its operands are, and what
// others are to find of what it makes (PlannedDists.h), times the number of calls. The smallest
// sum wins; of equals the largest class, and then the first factor of the rule. Neither depends
// on the order in which anything is visited.
//
// Axes are decided one after the other. Producers come before their users, so that an op knows
// what it reads; axes that are not decided yet count for nobody.
//
// Weights, constants and arguments of layers have no operands: they take what costs least at
// their users. A weight whose own annotation does not have an axis yields it as well: it is loaded
// as annotated, and sliced where it is used.
//
// A tensor that is held in parts of a class which some op needs whole (Plan::holds) offers its axis
// to the ops that read it. Each takes the offer, as one more class that may stay, if
// that is less than to gather the tensor; its result is then in parts as well. So a gather moves
// down to where it is needed or cheaper. A gather that another reader needs anyway is free.
//
//===----------------------------------------------------------------------===//

#include "PlannedDists.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Resolver {
public:
  explicit Resolver(Plan &plan)
      : plan(plan), grid(GridAttr::lookup(plan.module)), dists(plan),
        symbols(getNominalSymbols(plan.module)) {}
  void run();

private:
  /// Classes that `axis` splits among these, and how often each occurs.
  using Counts = llvm::MapVector<int, unsigned>;
  Counts count(ArrayRef<FactorClasses::Classes> lists, StringAttr axis, Plan::Place place) const;
  /// A class that `axis` splits in a tensor that `op` reads or makes, by an annotation of that
  /// tensor: factor `factor` of the op's rule, which is not a whole one.
  struct Offer {
    unsigned factor;
    bool own; // the tensor is the op's result
  };
  using Offers = llvm::SmallMapVector<int, Offer, 2>;
  Offers getOffers(Operation *op, StringAttr axis) const;
  void take(Operation *op, StringAttr axis, int cls, const Offer &offer);
  bool holds(Value value, int cls, StringAttr axis) const;
  bool isNeededWhole(Value value, int cls) const;
  std::string getTensorName(Value value) const;
  void recordHolds();
  void claim();
  SmallVector<FactorClasses::Classes> getLists(Value value) const;

  void resolveOp(Operation *op, StringAttr axis);
  void resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis);
  void resolveOrder(Operation *op);
  double getSeconds(Operation *op, StringAttr axis, const Counts &counts, const Offers &offers,
                    int winner);
  double getSeconds(Operation *op, PlannedDists::AxesOf axesOf,
                    function_ref<DistAttr(Value)> getArrival);
  double getUseSeconds(Value value, StringAttr axis, const Counts &counts, int winner);
  double getSeconds(Value value, DistAttr from, DistAttr to);
  int decide(Plan::Place place, StringAttr axis, const Counts &counts, const Offers &offers,
             const std::string &where, function_ref<double(int)> getSeconds);
  Plan &plan;
  GridAttr grid;
  PlannedDists dists;
  Symbols symbols;
  SmallVector<StringAttr> known; // axes that are decided, and the one that is being decided
  /// Where something yields: what these read and are read by is resharded.
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> values;
  TacticRecord record{"conflicts"};
};

} // namespace

Resolver::Counts Resolver::count(ArrayRef<FactorClasses::Classes> lists, StringAttr axis,
                                 Plan::Place place) const {
  Counts counts;
  for (auto [index, list] : llvm::enumerate(lists))
    for (int cls : list)
      if (plan.hasAxis({cls}, axis.getValue(), place, index))
        ++counts[cls];
  return counts;
}

bool Resolver::holds(Value value, int cls, StringAttr axis) const {
  auto it = plan.holds.find(value);
  return it != plan.holds.end() && llvm::any_of(it->second, [&](const Plan::Hold &hold) {
           return hold.cls == cls && hold.axis == axis;
         });
}

/// Whether somebody gathers a held tensor, whatever the others do.
bool Resolver::isNeededWhole(Value value, int cls) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (!isa<ShardingRuleOpInterface>(user))
      return isa<func::CallOp>(user);
    const ShardingRule &rule = plan.classes.getRule(user);
    for (const ShardingRule::Dim &dim : rule.operands[use.getOperandNumber()])
      for (int factor : dim)
        if (rule.factors[factor].kind == FactorKind::Whole &&
            llvm::is_contained(plan.classes.getFactorClasses(user, factor), cls))
          return true;
    return false;
  });
}

Resolver::Offers Resolver::getOffers(Operation *op, StringAttr axis) const {
  Offers offers;
  const ShardingRule &rule = plan.classes.getRule(op);
  auto collect = [&](Value value, const ShardingRule::Dims &dims, bool own) {
    auto it = plan.holds.find(value);
    if (it == plan.holds.end())
      return;
    for (const Plan::Hold &hold : it->second)
      for (int factor : dims[hold.dim])
        if (hold.axis == axis && rule.factors[factor].kind != FactorKind::Whole &&
            !plan.hasAxis({hold.cls}, axis.getValue()) &&
            llvm::is_contained(plan.classes.getFactorClasses(op, factor), hold.cls))
          offers.insert({hold.cls, Offer{unsigned(factor), own}});
  };
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    collect(value, dims, true);
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    collect(value, dims, false);
  return offers;
}

/// The op works on its part; what it makes is in parts, too.
void Resolver::take(Operation *op, StringAttr axis, int cls, const Offer &offer) {
  plan.splitHere(Plan::getPlace(op), offer.factor, cls, axis);
  const ShardingRule &rule = plan.classes.getRule(op);
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    for (auto [d, dim] : llvm::enumerate(dims))
      if (llvm::is_contained(dim, int(offer.factor)) && !holds(value, cls, axis))
        plan.holds[value].push_back({unsigned(d), cls, axis});
}

SmallVector<FactorClasses::Classes> Resolver::getLists(Value value) const {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned dim = 0; dim < cast<RankedTensorType>(value.getType()).getRank(); ++dim)
    lists.push_back(plan.classes.getClasses(value, dim));
  return lists;
}

/// Seconds to reshard, as far as axes are known.
double Resolver::getSeconds(Value value, DistAttr from, DistAttr to) {
  auto isKnown = [&](StringAttr axis) {
    return axis.getValue() == "mb" || llvm::is_contained(known, axis);
  };
  return dists.getSeconds(value, keepAxes(from, isKnown), keepAxes(to, isKnown));
}

/// What `op` communicates over known axes if it splits its classes so.
double Resolver::getSeconds(Operation *op, PlannedDists::AxesOf axesOf,
                            function_ref<DistAttr(Value)> getArrival) {
  constexpr double never = std::numeric_limits<double>::infinity();
  SmallVector<DimAttr> splits = dists.getSplits(op, axesOf);
  double seconds = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    DistAttr needed = dists.getNeeded(op, i, splits);
    seconds += needed ? getSeconds(operand, getArrival(operand), needed) : never;
  }
  for (OpResult result : op->getResults()) {
    DistAttr made = dists.getMade(result, splits);
    seconds += made ? getSeconds(result, made, dists.getArrival(result, made)) : never;
  }
  return seconds;
}

/// What it communicates if of the classes in `counts` `axis` splits `winner` alone. -1: none.
double Resolver::getSeconds(Operation *op, StringAttr axis, const Counts &counts,
                            const Offers &offers, int winner) {
  bool outermost = false;
  auto axesOf = [&](int cls, unsigned factor) {
    SmallVector<StringAttr> axes = plan.getAxes(cls, Plan::getPlace(op), factor);
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
  // What others gather anyway is there whole.
  auto getArrival = [&](Value operand) {
    DistAttr arrival = dists.getArrival(operand);
    for (auto &[cls, offer] : offers)
      if (!offer.own && holds(operand, cls, axis) && isNeededWhole(operand, cls))
        arrival = keepAxes(arrival, [&](StringAttr other) { return other != axis; });
    return arrival;
  };
  double seconds = getSeconds(op, axesOf, getArrival);
  // Which order of axes is best is decided later (resolveOrder).
  outermost = true;
  return std::min(seconds, getSeconds(op, axesOf, getArrival));
}

/// What the users of `value` communicate if it has `axis` on `winner`.
double Resolver::getUseSeconds(Value value, StringAttr axis, const Counts &counts, int winner) {
  if (winner < 0)
    return 0; // slices
  MLIRContext *context = value.getContext();
  SmallVector<DimAttr> dims;
  for (auto [d, list] : llvm::enumerate(getLists(value))) {
    SmallVector<FactorAttr> factors;
    for (int cls : list) {
      SmallVector<StringAttr> axes = plan.getAxes(cls);
      if (counts.contains(cls) && cls != winner)
        llvm::erase(axes, axis);
      factors.push_back(FactorAttr::get(context, plan.classes.getSize(cls), axes));
    }
    dims.push_back(factors.empty() ? DimAttr::get(context, getSizes(value)[d])
                                   : DimAttr::get(context, factors));
  }
  DistAttr from = DistAttr::get(context, dims);
  double seconds = 0;
  for (OpOperand &use : value.getUses())
    if (DistAttr to = dists.getNeeded(use))
      seconds += getSeconds(value, from, to);
  return seconds;
}

int Resolver::decide(Plan::Place place, StringAttr axis, const Counts &counts, const Offers &offers,
                     const std::string &where, function_ref<double(int)> getSeconds) {
  // A class that occurs in two factors cannot stay.
  int best = -1;
  double least = getSeconds(-1);
  auto sizeOf = [&](int cls) { return evaluateOr1(plan.classes.getSize(cls), symbols); };
  for (auto [cls, n] : counts) {
    if (n > 1)
      continue;
    double seconds = getSeconds(cls);
    double margin = std::isfinite(seconds + least) ? 1e-9 * (seconds + least) : 0;
    // What an operand offers is taken for a gain only.
    auto offer = offers.find(cls);
    bool reluctant = offer != offers.end() && !offer->second.own;
    bool as = seconds <= least + margin && !reluctant;
    if (seconds < least - margin || (best < 0 ? as : as && sizeOf(cls) > sizeOf(best))) {
      best = cls;
      least = seconds;
    }
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << where << ": " << axis.getValue() << " stays on "
     << (best < 0 ? std::string("nothing") : plan.classes.getSize(best).str())
     << llvm::format(" (%.1f us)", least * 1e6);
  for (auto [cls, n] : counts) {
    if (cls == best)
      continue;
    if (!offers.contains(cls))
      plan.yield(place, cls, axis);
    os << ", not on " << plan.classes.getSize(cls).str();
    double seconds = getSeconds(cls);
    if (n > 1)
      os << " (twice in this op)";
    else if (std::isfinite(seconds))
      os << llvm::format(" (%.1f us)", seconds * 1e6);
    else
      os << " (micro-batches cannot be gathered)";
  }
  // That an op makes its own result in parts goes without saying.
  bool choice = counts.size() > 1 || (!offers.empty() && !offers.begin()->second.own);
  if (choice && !llvm::is_contained(record.splits, text))
    record.splits.push_back(text);
  return best;
}

void Resolver::resolveOp(Operation *op, StringAttr axis) {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned factor = 0; factor < plan.classes.getRule(op).factors.size(); ++factor)
    lists.push_back(plan.classes.getFactorClasses(op, factor));
  Counts counts = count(lists, axis, Plan::getPlace(op));
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
  int best = decide(Plan::getPlace(op), axis, counts, offers, where, [&](int winner) {
    return double(plan.getCallCount(op)) * getSeconds(op, axis, counts, offers, winner);
  });
  if (auto offer = offers.find(best); offer != offers.end())
    take(op, axis, best, offer->second);
  ops.insert(op);
}

/// Takes the order of axes in which an operand has a class, if that takes less time.
void Resolver::resolveOrder(Operation *op) {
  Plan::Place place = Plan::getPlace(op);
  auto getArrival = [&](Value value) { return dists.getArrival(value); };
  auto getOpSeconds = [&](int reordered, ArrayRef<StringAttr> order) {
    auto axesOf = [&](int cls, unsigned factor) {
      return cls == reordered ? SmallVector<StringAttr>(order) : plan.getAxes(cls, place, factor);
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
        SmallVector<StringAttr> axes = plan.getAxes(cls, place), order = part.getAllAxes();
        llvm::erase_if(order, [&](StringAttr axis) { return !llvm::is_contained(axes, axis); });
        for (StringAttr axis : axes)
          if (!llvm::is_contained(order, axis))
            order.push_back(axis);
        if (order == axes || getOpSeconds(cls, order) >= getOpSeconds(-1, {}))
          continue;
        plan.setOrder(place, cls, order);
        ops.insert(op);
      }
    }
  }
}

void Resolver::resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis) {
  Counts counts = count(getLists(value), axis, place);
  // What an annotation says of this tensor stays.
  if (auto it = plan.holds.find(value); it != plan.holds.end())
    for (const Plan::Hold &hold : it->second)
      if (hold.axis == axis) {
        for (auto [cls, n] : counts)
          if (plan.hasAxis({cls}, axis.getValue()))
            plan.yield(place, cls, axis);
        values.insert(value);
        return;
      }
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  if (total < 2)
    return;
  decide(place, axis, counts, {}, "'" + getSourceName(loc) + "'",
         [&](int winner) { return getUseSeconds(value, axis, counts, winner); });
  values.insert(value);
}

/// "'fc.weight'", or "'h.0.fc.weight' and 11 more", of a layer's argument.
std::string Resolver::getTensorName(Value value) const {
  SmallVector<Operation *> parameters = plan.getParameters(value);
  if (parameters.empty())
    return "'" + getSourceName(value.getLoc()) + "'";
  std::string name =
      "'" + cast<ParameterOp>(parameters.front()).getWeightAttr().getValue().str() + "'";
  return parameters.size() == 1 ? name
                                : name + " and " + std::to_string(parameters.size() - 1) + " more";
}

/// Where held tensors are put together, what it takes, and that it was asked for.
void Resolver::recordHolds() {
  if (plan.holds.empty())
    return;
  TacticRecord &annotations = plan.getRecord("annotations");
  for (auto &[value, list] : plan.holds) {
    std::string name = getTensorName(value);
    for (const Plan::Hold &hold : list) {
      // One gather does for all of them.
      SmallVector<Operation *> users;
      for (Operation *user : value.getUsers())
        if (isa<ShardingRuleOpInterface>(user) && !llvm::is_contained(users, user) &&
            !plan.hasAxis({hold.cls}, hold.axis.getValue(), Plan::getPlace(user)))
          users.push_back(user);
      if (users.empty())
        continue;
      std::string text = name + " is gathered over " + hold.axis.getValue().str() + " before ";
      llvm::raw_string_ostream os(text);
      llvm::interleaveComma(llvm::reverse(users), os, [&](Operation *user) {
        os << "'" << getSourceName(user->getLoc()) << "' (" << user->getName().getStringRef()
           << ")";
      });
      DistAttr from = dists.getArrival(value);
      double seconds = dists.getSeconds(
          value, from, keepAxes(from, [&](StringAttr axis) { return axis != hold.axis; }));
      os << llvm::format(": %.1f us", seconds * 1e6 * double(plan.getCallCount(users.front())));
      if (!llvm::is_contained(annotations.splits, text))
        annotations.splits.push_back(text);
    }
  }
}

/// What is resharded where something yields, is held, or is annotated.
void Resolver::claim() {
  const std::string why = "of what one axis splits twice, one yields";
  for (Operation *op : ops)
    plan.claimOp(op, why, record);
  for (Value value : values)
    record.claims.push_back({value, nullptr, {}, why});
  if (plan.holds.empty() && plan.asked.empty())
    return;
  TacticRecord &annotations = plan.getRecord("annotations");
  for (auto &[value, holds] : plan.holds)
    annotations.claims.push_back({value, nullptr, {}, getTensorName(value) + " is held in parts"});
  for (Operation *op : plan.asked)
    plan.claimOp(op, getTensorName(op->getResult(0)) + " is annotated", annotations);
}

void Resolver::run() {
  for (StringAttr axis : grid.getOrder()) {
    if (!plan.usesAxis(axis))
      continue;
    known.push_back(axis);
    for (Operation *op : plan.getOps())
      if (op->getNumOperands() > 0) {
        resolveOp(op, axis);
        if (!plan.asked.contains(op))
          resolveOrder(op);
      }
    for (auto function : plan.module.getOps<func::FuncOp>()) {
      if (function.getName() == "main")
        continue; // inputs are whole
      for (BlockArgument argument : function.getArguments())
        if (isa<RankedTensorType>(argument.getType()))
          resolveValue(argument, Plan::getPlace(argument), argument.getLoc(), axis);
    }
    for (Operation *op : plan.getOps())
      if (op->getNumOperands() == 0)
        for (Value result : op->getResults())
          resolveValue(result, Plan::getPlace(op), op->getLoc(), axis);
  }
  recordHolds();
  claim();
  if (!record.splits.empty() || !record.claims.empty())
    plan.records.push_back(std::move(record));
}

void mlir::tpc::resolveConflicts(Plan &plan) { Resolver(plan).run(); }
