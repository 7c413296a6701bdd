//===- Conflicts.cpp - Who yields where one axis splits two classes -------===//
//
// An axis splits one dimension of a value and one factor of an op. Annotations may ask for more:
// with `%x: [tp, -]` and `%w: [-, tp]`, the product x·w has tp on its rows and on its columns. One
// of the two classes yields there: it is whole in that op, and what arrives split over it is
// gathered before. Every place is decided for itself, by seconds (LinkModel.h):
//
//     an operand that has a yielding class, and not the one that stays   all-gather
//     the results, where the class that stays is a reduction             all-reduce, or
//                                                    reduce-scatter into a yielding dimension
//
// times the number of calls. The smallest sum wins; of equals the largest class, and then the
// first factor of the rule. Neither depends on the order in which anything is visited.
//
// Weights, constants and arguments of layers have no operands: they take what costs least at
// their users. A weight whose own annotation does not have an axis yields it as well: it is loaded
// as annotated, and sliced where it is used.
//
// A tensor that is held in parts of a class which some op needs whole (Plan::holds) offers its axis
// to the ops that read it. Each takes the offer, as one more class of the table above, if
// that is less than to gather the tensor; its result is then in parts as well. So a gather moves
// down to where it is needed or cheaper. A gather that another reader needs anyway is free.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/LinkModel.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Resolver {
public:
  explicit Resolver(Plan &plan)
      : plan(plan), grid(GridAttr::lookup(plan.module)), links(plan.module),
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
  /// Whether `value` arrives split over `axis` by `cls`.
  bool arrivesSplit(Value value, int cls, StringAttr axis) const;
  void recordHolds();
  SmallVector<FactorClasses::Classes> getLists(Value value) const;
  bool has(Value value, int cls) const;
  double getBytes(Value value) const;

  void resolveOp(Operation *op, StringAttr axis);
  void resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis);
  double getSeconds(Operation *op, StringAttr axis, const Counts &counts, const Offers &offers,
                    int winner) const;
  double getUseSeconds(Value value, StringAttr axis, const Counts &counts, int winner) const;
  int decide(Plan::Place place, StringAttr axis, const Counts &counts, const Offers &offers,
             const std::string &where, function_ref<double(int)> getSeconds);
  void predictGathers(Value value, StringAttr axis, int cls);
  void predict(StringRef kind, StringAttr axis, const std::string &size);
  static void predict(TacticRecord &record, StringRef kind, StringAttr axis,
                      const std::string &size, const std::string &why);

  Plan &plan;
  GridAttr grid;
  LinkModel links;
  Symbols symbols;
  TacticRecord record{"conflicts", {}, {}};
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

bool Resolver::arrivesSplit(Value value, int cls, StringAttr axis) const {
  return holds(value, cls, axis) || (plan.hasAxis({cls}, axis.getValue()) && has(value, cls));
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

bool Resolver::has(Value value, int cls) const {
  return llvm::any_of(getLists(value), [&](auto &list) { return llvm::is_contained(list, cls); });
}

double Resolver::getBytes(Value value) const {
  double bytes = std::max(1u, cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() / 8);
  for (const ::tpc::SymExpr &size : getSizes(value))
    bytes *= double(evaluateOr1(size, symbols));
  return bytes;
}

/// What `op` communicates over `axis` if all classes but `winner` yield. -1: all yield.
double Resolver::getSeconds(Operation *op, StringAttr axis, const Counts &counts,
                            const Offers &offers, int winner) const {
  double seconds = 0;
  auto add = [&](::tpc::Transfer kind, Value value) {
    double bytes = getBytes(value);
    if (kind == ::tpc::Transfer::AllToAll)
      bytes /= double(links.getMembers(axis));
    seconds += links.getSeconds(kind, axis, bytes);
  };
  auto hasLoser = [&](Value value) {
    return llvm::any_of(counts, [&](auto &entry) {
      int cls = entry.first;
      return cls != winner && arrivesSplit(value, cls, axis) &&
             !(offers.contains(cls) && value.getDefiningOp() != op && isNeededWhole(value, cls));
    });
  };
  // Micro-batches of the batch cannot be gathered: a rank has one at a time.
  auto time = StringAttr::get(op->getContext(), "mb");
  for (auto [cls, n] : counts)
    if (cls != winner && llvm::is_contained(plan.getAxes(cls), time))
      return std::numeric_limits<double>::infinity();
  for (Value operand : op->getOperands())
    if (hasLoser(operand)) {
      if (winner < 0 || !has(operand, winner))
        add(::tpc::Transfer::AllGather, operand);
      else if (!arrivesSplit(operand, winner, axis) ||
               (plan.holds.contains(operand) && !offers.contains(winner)))
        add(::tpc::Transfer::AllToAll, operand);
    }
  if (winner < 0)
    return seconds;
  const ShardingRule &rule = plan.classes.getRule(op);
  auto offered = offers.find(winner);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    if (offered != offers.end()
            ? factor != offered->second.factor
            : !llvm::is_contained(plan.classes.getFactorClasses(op, factor), winner))
      continue;
    for (Value result : op->getResults()) {
      if (rule.factors[factor].kind != FactorKind::Parallel)
        add(hasLoser(result) ? ::tpc::Transfer::ReduceScatter : ::tpc::Transfer::AllReduce, result);
      else if (plan.holds.contains(result) && hasLoser(result))
        add(::tpc::Transfer::AllToAll, result);
    }
  }
  return seconds;
}

/// What the users of `value` communicate if it has `axis` on `winner`.
double Resolver::getUseSeconds(Value value, StringAttr axis, const Counts &counts,
                               int winner) const {
  double seconds = 0;
  for (OpOperand &use : value.getUses()) {
    Plan::Place place = Plan::getPlace(use.getOwner());
    if (auto call = dyn_cast<func::CallOp>(use.getOwner())) {
      auto callee = plan.module.lookupSymbol<func::FuncOp>(call.getCallee());
      place = Plan::getPlace(callee.getArgument(use.getOperandNumber()));
    }
    int wanted = -1;
    for (auto [cls, n] : counts)
      if (plan.hasAxis({cls}, axis.getValue(), place))
        wanted = cls;
    if (wanted == winner || winner < 0)
      continue;
    seconds += links.getSeconds(
        wanted < 0 ? ::tpc::Transfer::AllGather : ::tpc::Transfer::AllToAll, axis,
        wanted < 0 ? getBytes(value) : getBytes(value) / double(links.getMembers(axis)));
  }
  return seconds;
}

void Resolver::predict(StringRef kind, StringAttr axis, const std::string &size) {
  predict(record, kind, axis, size,
          "another class keeps " + axis.getValue().str() + " where they meet");
}

void Resolver::predict(TacticRecord &record, StringRef kind, StringAttr axis,
                       const std::string &size, const std::string &why) {
  Prediction prediction{kind, axis.getValue(), size, why};
  if (!llvm::is_contained(record.predictions, prediction))
    record.predictions.push_back(std::move(prediction));
}

/// A value that has `cls` may arrive split over it.
void Resolver::predictGathers(Value value, StringAttr axis, int cls) {
  for (auto [dim, list] : llvm::enumerate(getLists(value)))
    if (llvm::is_contained(list, cls)) {
      std::string size = getSizes(value)[dim].str();
      for (StringRef kind : {"all_gather", "all_to_all", "collective_permute", "reduce_scatter"})
        predict(kind, axis, size);
      // Parts of parts: to give up the outer axis, the inner ones move as well.
      for (StringAttr other : plan.getAxes(cls))
        if (other != axis && other != "mb")
          for (StringRef kind : {"all_gather", "all_to_all", "collective_permute"})
            predict(kind, other, size);
    }
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
  if (auto offer = offers.find(best); offer != offers.end()) {
    take(op, axis, best, offer->second);
    if (plan.classes.getRule(op).factors[offer->second.factor].kind != FactorKind::Parallel)
      predict("all_reduce", axis, "");
  }
  for (auto [cls, n] : counts)
    if (!offers.contains(cls))
      for (Value operand : op->getOperands())
        predictGathers(operand, axis, cls);
}

void Resolver::resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis) {
  Counts counts = count(getLists(value), axis, place);
  // What an annotation says of this tensor stays.
  if (auto it = plan.holds.find(value); it != plan.holds.end())
    for (const Plan::Hold &hold : it->second)
      if (hold.axis == axis) {
        for (auto [cls, n] : counts)
          if (plan.hasAxis({cls}, axis.getValue())) {
            plan.yield(place, cls, axis);
            predictGathers(value, axis, cls);
          }
        return;
      }
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  if (total < 2)
    return;
  decide(place, axis, counts, {}, "'" + getSourceName(loc) + "'",
         [&](int winner) { return getUseSeconds(value, axis, counts, winner); });
  for (auto [cls, n] : counts)
    predictGathers(value, axis, cls);
}

/// Where held tensors are put together, what it takes, and that it was asked for.
void Resolver::recordHolds() {
  if (plan.holds.empty())
    return;
  TacticRecord &annotations = plan.getRecord("annotations");
  for (auto &[value, list] : plan.holds) {
    SmallVector<Operation *> parameters = plan.getParameters(value);
    std::string name =
        "'" +
        (parameters.empty()
             ? getSourceName(value.getLoc())
             : cast<ParameterOp>(parameters.front()).getWeightAttr().getValue().str()) +
        "'";
    if (parameters.size() > 1)
      name += " and " + std::to_string(parameters.size() - 1) + " more";
    for (const Plan::Hold &hold : list) {
      std::string size = getSizes(value)[hold.dim].str();
      for (StringRef kind : {"all_gather", "all_to_all", "reduce_scatter"})
        predict(annotations, kind, hold.axis, size, name + " is held in parts");
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
      double seconds = links.getSeconds(::tpc::Transfer::AllGather, hold.axis, getBytes(value));
      os << llvm::format(": %.1f us", seconds * 1e6 * double(plan.getCallCount(users.front())));
      if (!llvm::is_contained(annotations.splits, text))
        annotations.splits.push_back(text);
    }
  }
}

void Resolver::run() {
  for (StringAttr axis : grid.getOrder()) {
    if (!plan.usesAxis(axis))
      continue;
    for (Operation *op : plan.getOps())
      if (op->getNumOperands() > 0)
        resolveOp(op, axis);
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
  if (!record.splits.empty() || !record.predictions.empty())
    plan.records.push_back(std::move(record));
}

void mlir::tpc::resolveConflicts(Plan &plan) { Resolver(plan).run(); }
