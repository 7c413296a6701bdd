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
  SmallVector<FactorClasses::Classes> getLists(Value value) const;
  bool has(Value value, int cls) const;
  double getBytes(Value value) const;

  void resolveOp(Operation *op, StringAttr axis);
  void resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis);
  double getSeconds(Operation *op, StringAttr axis, const Counts &counts, int winner) const;
  double getUseSeconds(Value value, StringAttr axis, const Counts &counts, int winner) const;
  void decide(Plan::Place place, StringAttr axis, const Counts &counts, const std::string &where,
              function_ref<double(int)> getSeconds);
  void predictGathers(Value value, StringAttr axis, int cls);
  void predict(StringRef kind, StringAttr axis, const std::string &size);

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
  for (const FactorClasses::Classes &list : lists)
    for (int cls : list)
      if (plan.hasAxis({cls}, axis.getValue(), place))
        ++counts[cls];
  return counts;
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
                            int winner) const {
  double seconds = 0;
  auto add = [&](::tpc::Transfer kind, Value value) {
    seconds += links.getSeconds(kind, axis, getBytes(value));
  };
  auto hasLoser = [&](Value value) {
    return llvm::any_of(
        counts, [&](auto &entry) { return entry.first != winner && has(value, entry.first); });
  };
  // Micro-batches of the batch cannot be gathered: a rank has one at a time.
  auto time = StringAttr::get(op->getContext(), "mb");
  for (auto [cls, n] : counts)
    if (cls != winner && llvm::is_contained(plan.getAxes(cls), time))
      return std::numeric_limits<double>::infinity();
  for (Value operand : op->getOperands())
    if (hasLoser(operand) && (winner < 0 || !has(operand, winner)))
      add(::tpc::Transfer::AllGather, operand);
  if (winner < 0)
    return seconds;
  const ShardingRule &rule = plan.classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (rule.factors[factor].kind != FactorKind::Parallel &&
        llvm::is_contained(plan.classes.getFactorClasses(op, factor), winner))
      for (Value result : op->getResults())
        add(hasLoser(result) ? ::tpc::Transfer::ReduceScatter : ::tpc::Transfer::AllReduce, result);
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
  Prediction prediction{kind, axis.getValue(), size,
                        "another class keeps " + axis.getValue().str() + " where they meet"};
  if (!llvm::is_contained(record.predictions, prediction))
    record.predictions.push_back(std::move(prediction));
}

/// A value that has `cls` may arrive split over it.
void Resolver::predictGathers(Value value, StringAttr axis, int cls) {
  for (auto [dim, list] : llvm::enumerate(getLists(value)))
    if (llvm::is_contained(list, cls)) {
      std::string size = getSizes(value)[dim].str();
      for (StringRef kind : {"all_gather", "all_to_all", "reduce_scatter"})
        predict(kind, axis, size);
      // Parts of parts: to give up the outer axis, the inner ones move as well.
      for (StringAttr other : plan.getAxes(cls))
        if (other != axis && other != "mb")
          for (StringRef kind : {"all_gather", "all_to_all"})
            predict(kind, other, size);
    }
}

void Resolver::decide(Plan::Place place, StringAttr axis, const Counts &counts,
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
    if (best < 0 ? seconds <= least + margin
                 : seconds < least - margin ||
                       (seconds <= least + margin && sizeOf(cls) > sizeOf(best))) {
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
  if (!llvm::is_contained(record.splits, text))
    record.splits.push_back(text);
}

void Resolver::resolveOp(Operation *op, StringAttr axis) {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned factor = 0; factor < plan.classes.getRule(op).factors.size(); ++factor)
    lists.push_back(plan.classes.getFactorClasses(op, factor));
  Counts counts = count(lists, axis, Plan::getPlace(op));
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  if (total < 2)
    return;
  std::string where =
      "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
  decide(Plan::getPlace(op), axis, counts, where, [&](int winner) {
    return double(plan.getCallCount(op)) * getSeconds(op, axis, counts, winner);
  });
  for (auto [cls, n] : counts)
    for (Value operand : op->getOperands())
      predictGathers(operand, axis, cls);
}

void Resolver::resolveValue(Value value, Plan::Place place, Location loc, StringAttr axis) {
  Counts counts = count(getLists(value), axis, place);
  unsigned total = 0;
  for (auto [cls, n] : counts)
    total += n;
  if (total < 2)
    return;
  decide(place, axis, counts, "'" + getSourceName(loc) + "'",
         [&](int winner) { return getUseSeconds(value, axis, counts, winner); });
  for (auto [cls, n] : counts)
    predictGathers(value, axis, cls);
}

void Resolver::run() {
  for (StringAttr axis : grid.getOrder()) {
    bool used = llvm::any_of(plan.axes,
                             [&](auto &entry) { return llvm::is_contained(entry.second, axis); });
    if (!used)
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
  if (!record.splits.empty())
    plan.records.push_back(std::move(record));
}

void mlir::tpc::resolveConflicts(Plan &plan) { Resolver(plan).run(); }
