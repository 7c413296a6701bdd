//===- RowsTactic.cpp - The other dimension of matrices, over tpx ---------===//
//
// tp2x4. The columns' tactics have given tpy to heads, inner widths and the vocabulary (C below).
// This one splits what matrices have on their other side, the residual's width E, over tpx,
// and what is no product over both:
//
//     where E and C meet (products, tables)     E{tpx}        C{tpy}
//     anywhere else                             E{tpx, tpy}   C{tpy, tpx}
//
// With fewer heads of keys than X·Y, tpx splits the heads of each group instead, or the other way
// round: q [kv{tpy}, group{tpx}], k [kv{tpy}]. The vocabulary is large where the width is not:
// where it costs less (α + β·bytes), E is whole in its products, and it alone is split, V{tpy,
// tpx}.
//
// A product that sums over E leaves C{tpy} unreduced over tpx, which is reduce-scattered to
// C{tpy, tpx}; what it reads, E{tpx}, was gathered over tpy from E{tpx, tpy}. One
// that sums over C does the same with the axes exchanged. So each collective moves
// 1/X or 1/Y of what one dimension would (docs/design/partitioning.md has the closed form), and
// weights, activations and arithmetic are all split X·Y ways.
//
// (Pope et al. 2022, "Efficiently scaling transformer inference", 2D weight-stationary layout.)
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

constexpr llvm::StringLiteral kX = "tpx", kY = "tpy";

class RowsTactic {
public:
  explicit RowsTactic(Plan &plan) : plan(plan), symbols(getNominalSymbols(plan.module)) {}
  LogicalResult run();

private:
  LogicalResult chooseRows();
  int getCarrier(int column) const;
  void addAxes();
  void adoptAlone();
  void chooseAlone();
  double getSeconds(Operation *op, unsigned factor, bool isAlone) const;
  void yieldWhereTheyMeet();
  void yieldOverPartialSums();
  void yieldAt(Plan::Place place, ArrayRef<FactorClasses::Classes> lists);
  bool isPartial(Value value, StringRef axis) const;
  void claim(Value value, Operation *reader, StringRef why);
  void record();
  bool hasRow(Value value) const;
  SmallVector<FactorClasses::Classes> getLists(Operation *op) const;
  SmallVector<FactorClasses::Classes> getLists(Value value) const;

  Plan &plan;
  Symbols symbols;
  llvm::SetVector<int> rows;
  llvm::SetVector<int> carriers; // classes that tpx splits outside of products, besides rows
  llvm::SetVector<int> alone;    // columns in whose products rows are whole
  DenseSet<Operation *> inProducts;
  DenseMap<Operation *, StringRef> passing; // ops that add partial sums: over which axis
  TacticRecord result{"rows"};
};

} // namespace

/// Classes on the other side of matrices, those with the most bytes first; two that meet in an
/// op exclude each other.
LogicalResult RowsTactic::chooseRows() {
  llvm::MapVector<int, double> saved;
  for (Operation *op : plan.getOps())
    for (int cls : plan.getRows(op)) {
      double bytes = 0;
      for (Operation *parameter : plan.getParameters(plan.getMatrix(op)))
        bytes += estimateBytes(parameter->getResult(0), symbols);
      saved[cls] += bytes;
    }
  SmallVector<std::pair<int, double>> order(saved.begin(), saved.end());
  llvm::stable_sort(order, [](auto &a, auto &b) { return a.second > b.second; });

  int64_t largest = 0;
  SmallVector<std::string> sizes;
  SmallVector<int> refused;
  for (auto [cls, bytes] : order) {
    // An axis splits one factor of an op.
    bool meets = llvm::any_of(plan.getUses(cls), [&](ClassUse use) {
      return llvm::any_of(getLists(use.op), [&](const FactorClasses::Classes &list) {
        return llvm::any_of(list, [&](int other) { return other != cls && rows.contains(other); });
      });
    });
    if (plan.classes.getWholeOp(cls)) {
      refused.push_back(cls);
      continue;
    }
    if (meets)
      continue;
    rows.insert(cls);
    largest = std::max(largest, evaluateOr1(plan.classes.getSize(cls), symbols));
    if (std::string size = plan.classes.getSize(cls).str(); !llvm::is_contained(sizes, size))
      sizes.push_back(size);
  }
  std::string spelling =
      "tp" + std::to_string(plan.spec.tensorX) + "x" + std::to_string(plan.spec.tensorY);
  // What annotations leave whole stays so.
  bool annotated = plan.spec.manual || !plan.decided.empty();
  if (rows.empty() && annotated)
    return success();
  if (rows.empty()) {
    InFlightDiagnostic diag = emitError(plan.module.getLoc())
                              << spelling
                              << ": no matrix of the model can be split in two dimensions; use tp"
                              << plan.spec.tensorX * plan.spec.tensorY << ", which splits one";
    for (int cls : refused)
      if (Operation *op = plan.classes.getWholeOp(cls))
        diag.attachNote(op->getLoc())
            << "a dimension of " << plan.classes.getSize(cls).str() << " is needed whole by '"
            << getSourceName(op->getLoc()) << "' (" << op->getName().getStringRef() << ")";
    return diag;
  }
  if (plan.spec.tensorX > largest && !annotated)
    return emitError(plan.module.getLoc())
           << spelling << ": the first dimension is larger than what it splits: matrices have "
           << llvm::join(sizes, ", ") << " rows; use tp" << largest << "x" << plan.spec.tensorY
           << " or less";
  return success();
}

SmallVector<FactorClasses::Classes> RowsTactic::getLists(Operation *op) const {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned factor = 0; factor < plan.classes.getRule(op).factors.size(); ++factor)
    lists.push_back(plan.classes.getFactorClasses(op, factor));
  return lists;
}

SmallVector<FactorClasses::Classes> RowsTactic::getLists(Value value) const {
  SmallVector<FactorClasses::Classes> lists;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim)
    lists.push_back(plan.classes.getClasses(value, dim));
  return lists;
}

bool RowsTactic::hasRow(Value value) const {
  return llvm::any_of(getLists(value), [&](const FactorClasses::Classes &list) {
    return llvm::any_of(list, [&](int cls) { return rows.contains(cls); });
  });
}

/// The class that tpx splits where `column` is not in a product: itself, or, for too few heads,
/// the other kind of heads of their attention.
int RowsTactic::getCarrier(int column) const {
  int64_t x = plan.spec.tensorX, y = plan.spec.tensorY;
  auto sizeOf = [&](int cls) { return evaluateOr1(plan.classes.getSize(cls), symbols); };
  if (sizeOf(column) >= x * y)
    return column;
  for (ClassUse use : plan.getUses(column))
    if (auto attention = dyn_cast<AttentionOp>(use.op))
      for (int other : plan.classes.getClasses(attention.getQ(), 2))
        if (other != column && sizeOf(other) >= x && !plan.classes.getWholeOp(other) &&
            !plan.columns.contains(other) && !rows.contains(other) &&
            (plan.getAxes(other).empty() || plan.hasAxis({other}, kX)))
          return other;
  return column;
}

void RowsTactic::addAxes() {
  bool x = plan.spec.tensorX > 1, y = plan.spec.tensorY > 1;
  for (int cls : rows) {
    // Annotations may have said some of it.
    if (x && !plan.hasAxis({cls}, kX))
      plan.addAxis(cls, kX);
    if (y && !plan.hasAxis({cls}, kY))
      plan.addAxis(cls, kY);
  }
  for (int cls : plan.columns) {
    int carrier = getCarrier(cls);
    if (carriers.insert(carrier) && x && !plan.hasAxis({carrier}, kX))
      plan.addAxis(carrier, kX);
  }
}

/// Estimated seconds of what `op`, in which `factor` is a column, communicates.
double RowsTactic::getSeconds(Operation *op, unsigned factor, bool isAlone) const {
  LinkModel links(plan.module);
  MLIRContext *context = plan.module.getContext();
  double x = double(plan.spec.tensorX), y = double(plan.spec.tensorY), seconds = 0;
  auto add = [&](::tpc::Transfer transfer, StringRef axis, double bytes) {
    seconds += links.getSeconds(transfer, StringAttr::get(context, axis), bytes);
  };
  constexpr auto gather = ::tpc::Transfer::AllGather, scatter = ::tpc::Transfer::ReduceScatter;
  const ShardingRule &rule = plan.classes.getRule(op);
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    if (!plan.getParameters(operand).empty())
      continue;
    double bytes = estimateBytes(operand, symbols);
    if (hasRow(operand)) {
      add(gather, kY, bytes / x);
      if (isAlone)
        add(gather, kX, bytes);
    } else if (!isAlone && llvm::any_of(dims, [&](const ShardingRule::Dim &dim) {
                 return llvm::is_contained(dim, int(factor));
               })) {
      add(gather, kX, bytes / y);
    }
  }
  for (Value result : op->getResults()) {
    double bytes = estimateBytes(result, symbols);
    if (hasRow(result)) {
      if (isAlone)
        add(scatter, kX, bytes);
      add(scatter, kY, bytes / x);
    } else if (!isAlone) {
      add(scatter, kX, bytes / y);
    }
  }
  return seconds * double(plan.getCallCount(op));
}

/// Columns to which annotations of matrices give both axes.
void RowsTactic::adoptAlone() {
  for (Operation *op : plan.getOps()) {
    Value matrix = plan.getMatrix(op);
    if (!matrix)
      continue;
    Plan::Place place = Plan::getPlace(plan.getParameters(matrix).front());
    for (const FactorClasses::Classes &list : getLists(matrix))
      for (int cls : list)
        if (plan.columns.contains(cls) && plan.hasAxis({cls}, kX, place))
          alone.insert(cls);
  }
}

/// Decides about the vocabulary. A table and a head that are one weight are split alike, so that
/// a rank holds one part of it.
void RowsTactic::chooseAlone() {
  if (plan.spec.tensorX == 1)
    return; // the same either way
  struct Choice {
    llvm::SmallSetVector<int, 2> columns;
    double both = 0, alone = 0;
  };
  llvm::MapVector<Attribute, Choice> choices; // by weight
  for (Operation *op : plan.getOps())
    for (int column : plan.vocabulary) {
      for (unsigned factor = 0; factor < plan.classes.getRule(op).factors.size(); ++factor) {
        if (!llvm::is_contained(plan.classes.getFactorClasses(op, factor), column))
          continue;
        Value matrix = plan.getMatrix(op);
        if (!matrix)
          continue;
        SmallVector<Operation *> parameters = plan.getParameters(matrix);
        Choice &choice = choices[cast<ParameterOp>(parameters.front()).getWeightAttr()];
        choice.columns.insert(column);
        choice.both += getSeconds(op, factor, false);
        choice.alone += getSeconds(op, factor, true);
      }
    }
  for (auto &[weight, choice] : choices)
    if (choice.alone < choice.both)
      alone.insert(choice.columns.begin(), choice.columns.end());
}

/// Where both kinds of classes occur, each keeps its own axis only.
void RowsTactic::yieldAt(Plan::Place place, ArrayRef<FactorClasses::Classes> lists) {
  MLIRContext *context = plan.module.getContext();
  auto x = StringAttr::get(context, kX), y = StringAttr::get(context, kY);
  bool isAlone = llvm::any_of(lists, [&](const FactorClasses::Classes &list) {
    return llvm::any_of(list, [&](int cls) { return alone.contains(cls); });
  });
  for (const FactorClasses::Classes &list : lists)
    for (int cls : list) {
      if (rows.contains(cls)) {
        plan.yield(place, cls, y);
        if (isAlone)
          plan.yield(place, cls, x);
      } else if (carriers.contains(cls) && !isAlone) {
        plan.yield(place, cls, x);
      }
    }
}

void RowsTactic::yieldWhereTheyMeet() {
  auto meet = [&](ArrayRef<FactorClasses::Classes> lists) {
    bool row = false, column = false;
    for (const FactorClasses::Classes &list : lists)
      for (int cls : list) {
        row |= rows.contains(cls);
        column |= plan.columns.contains(cls) || carriers.contains(cls);
      }
    return row && column;
  };
  // An axis splits one factor: a class that is on both sides of a matrix is whole there.
  auto yieldTwice = [&](Plan::Place place, ArrayRef<FactorClasses::Classes> lists) {
    llvm::SmallDenseSet<int> seen;
    bool twice = false;
    for (const FactorClasses::Classes &list : lists)
      for (int cls : list)
        if (!seen.insert(cls).second) {
          for (StringAttr axis : plan.getAxes(cls))
            if (axis.getValue() == kX || axis.getValue() == kY) {
              plan.yield(place, cls, axis);
              twice = true;
            }
        }
    return twice;
  };
  for (Operation *op : plan.getOps()) {
    SmallVector<FactorClasses::Classes> lists = getLists(op);
    bool product = meet(lists);
    if (product)
      yieldAt(Plan::getPlace(op), lists);
    if (yieldTwice(Plan::getPlace(op), lists) || product)
      inProducts.insert(op);
  }
  for (auto function : plan.module.getOps<func::FuncOp>()) {
    if (function.getName() == "main")
      continue; // inputs are whole
    for (BlockArgument argument : function.getArguments()) {
      SmallVector<FactorClasses::Classes> lists = getLists(argument);
      if (meet(lists))
        yieldAt(Plan::getPlace(argument), lists);
      yieldTwice(Plan::getPlace(argument), lists);
    }
  }
}

bool RowsTactic::isPartial(Value value, StringRef axis) const {
  return inProducts.contains(value.getDefiningOp()) && plan.isUnreduced(value, axis);
}

/// Sums of partial sums stay as products are, so that one reduction does for all. An op that
/// passes partial sums on counts as one that makes them.
void RowsTactic::yieldOverPartialSums() {
  for (Operation *op : plan.getOps()) {
    if (inProducts.contains(op) || op->getNumResults() != 1)
      continue;
    for (StringRef axis : {kX, kY}) {
      SmallVector<int, 2> partial;
      bool alone = true;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        Operation *def = operand.getDefiningOp();
        auto it = passing.find(def);
        if (!(def && (isPartial(operand, axis) || (it != passing.end() && it->second == axis))))
          continue;
        alone &= operand.hasOneUse();
        partial.push_back(i);
      }
      bool linear = llvm::any_of(plan.classes.getRule(op).linear, [&](const auto &l) {
        return ArrayRef<int>(l.operands) == ArrayRef<int>(partial);
      });
      if (partial.size() < 2 || !alone || !linear)
        continue;
      yieldAt(Plan::getPlace(op), getLists(op));
      passing[op] = axis;
      break;
    }
  }
}

void RowsTactic::claim(Value value, Operation *reader, StringRef why) {
  MLIRContext *context = plan.module.getContext();
  result.claims.push_back(
      {value, reader, {StringAttr::get(context, kX), StringAttr::get(context, kY)}, why.str()});
}

void RowsTactic::record() {
  std::string x = " tpx " + std::to_string(plan.spec.tensorX);
  std::string y = " tpy " + std::to_string(plan.spec.tensorY);
  for (int cls : rows)
    result.splits.push_back(plan.describe(cls) + " over" + x + " in products, over" + x + " and" +
                            y + " elsewhere: " + plan.describeSites(cls));
  for (int cls : plan.columns)
    if (alone.contains(cls))
      result.splits.push_back(plan.describe(cls) + " over" + y + " and" + x +
                              ", the other side whole: " + plan.describeSites(cls));
  for (int cls : carriers)
    if (!plan.columns.contains(cls))
      result.splits.push_back(plan.describe(cls) + " over" + x + " outside of products");
  for (Operation *op : plan.getOps()) {
    for (unsigned factor = 0; factor < plan.classes.getRule(op).factors.size(); ++factor)
      for (StringRef axis : {kX, kY})
        if (plan.hasAxis(plan.getPermuted(op, factor), axis, Plan::getPlace(op)))
          plan.claimPermutation(op, axis, result);
    if (inProducts.contains(op))
      for (Value operand : op->getOperands())
        if (plan.getParameters(operand).empty())
          claim(operand, op, "products have their own axis on each side");
    for (Value value : op->getResults())
      if (plan.isUnreduced(value, kX) || plan.isUnreduced(value, kY))
        claim(value, nullptr,
              inProducts.contains(op)  ? "products sum over the other side"
              : op->hasAttr(kNormAttr) ? "norms need mean and variance of a width that is split"
                                       : "sums over what both axes split");
  }
  // A product with a matrix that has no such side.
  for (Operation *op : plan.getOps()) {
    if (!isa<MatmulOp>(op) || plan.getParameters(op->getOperand(1)).empty())
      continue;
    bool split = llvm::any_of(getLists(op->getOperand(1)), [&](const auto &list) {
      return plan.hasAxis(list, kX, Plan::getPlace(op)) ||
             plan.hasAxis(list, kY, Plan::getPlace(op));
    });
    if (!split)
      result.splits.push_back("not split, on every rank: " + getSourceName(op->getLoc()));
  }
  plan.records.push_back(std::move(result));
}

LogicalResult RowsTactic::run() {
  if (failed(chooseRows()))
    return failure();
  if (rows.empty()) {
    record(); // columns may be split all the same
    return success();
  }
  adoptAlone(); // before there are other axes than those of annotations
  addAxes();
  chooseAlone();
  yieldWhereTheyMeet();
  yieldOverPartialSums();
  record();
  return success();
}

LogicalResult mlir::tpc::applyRowsTactic(Plan &plan) { return RowsTactic(plan).run(); }
