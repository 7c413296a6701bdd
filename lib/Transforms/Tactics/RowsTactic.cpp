//===- RowsTactic.cpp - Tactic of the second tp dimension -----------------===//
//
// With two tp dimensions (such as tp2x4), the column tactics split heads, inner widths and the
// vocabulary (C below) over tpy. This tactic splits the rows of matrices, which are the residual's
// width E, over tpx. Outside of matmuls, both classes are split over both axes:
//
//     matmuls and tables (with E and C)     E{tpx}        C{tpy}
//     all other ops                         E{tpx, tpy}   C{tpy, tpx}
//
// If there are fewer kv heads than X·Y ranks, tpy splits kv heads and tpx splits the query heads of
// each group, or vice versa: q [kv{tpy}, group{tpx}], k [kv{tpy}]. In matmuls with the vocabulary,
// which is much larger than E, E is unsplit and only the vocabulary is split, V{tpy, tpx}, if this
// costs less (α + β·bytes).
//
// The operand E{tpx, tpy} of a matmul that reduces over E is gathered over tpy to E{tpx}. The
// result C{tpy} is unreduced over tpx and is reduce-scattered to C{tpy, tpx}. For matmuls that
// reduce over C, the axes swap roles. Thus each collective transfers 1/X or 1/Y of the bytes of a
// collective in one tp dimension (docs/design/partitioning.md has the closed form), and weights,
// activations and arithmetic are split over X·Y ranks.
//
// (Pope et al. 2022, "Efficiently scaling transformer inference", 2D weight-stationary layout.)
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

constexpr llvm::StringLiteral kX = "tpx", kY = "tpy";
constexpr llvm::StringLiteral oneAxis = "matmuls have one axis per side";
constexpr llvm::StringLiteral rowsReason = "rows of matrices";
constexpr llvm::StringLiteral columnsReason = "columns of matrices, outside of matmuls";

class RowsTactic {
public:
  explicit RowsTactic(PartitionState &state)
      : state(state), problem(state.problem), symbols(getNominalSymbols(problem.module)) {}
  LogicalResult run();

private:
  LogicalResult chooseRows();
  int getCarrier(int column) const;
  void addAxes();
  void adoptOneSided();
  void chooseOneSided();
  double getSeconds(Operation *op, unsigned factor, bool isOneSided) const;
  void removeAxesInMatmuls();
  void removeAxesOverPartialSums();
  void removeOtherAxes(Site site, ArrayRef<FactorClasses::Classes> lists);
  bool isPartial(Value value, StringRef axis) const;
  void expect(Value value, Operation *reader, StringRef why);
  void record();
  bool hasRow(Value value) const;

  PartitionState &state;
  const PartitionProblem &problem;
  Symbols symbols;
  llvm::SetVector<int> rows;
  llvm::SetVector<int> carriers; // classes other than rows that tpx splits outside of matmuls
  llvm::SetVector<int> oneSided; // columns in whose matmuls rows are unsplit
  DenseSet<Operation *> inMatmuls;
  DenseMap<Operation *, StringRef> passing; // ops that propagate partial sums, and the axis
};

} // namespace

SmallVector<int> mlir::tpc::getRowClasses(const PartitionState &state, Operation *op) {
  Value matrix = state.problem.getMatrix(op);
  auto rowAxis = StringAttr::get(state.problem.module.getContext(), kX);
  SmallVector<int> rows;
  bool hasColumn = false;
  for (unsigned dim = 0; matrix && dim < cast<RankedTensorType>(matrix.getType()).getRank(); ++dim)
    for (int cls : state.problem.classes.getClasses(matrix, dim)) {
      bool column = state.isMarked(cls, kColumns);
      hasColumn |= column;
      if (!column &&
          (state.isWanted(cls, rowAxis) || (!state.problem.spec.manual && !state.isFixed(cls))))
        rows.push_back(cls);
    }
  return hasColumn ? rows : SmallVector<int>();
}

/// Selects row classes of matrices greedily, in descending order of bytes. Two classes of one op
/// exclude each other.
LogicalResult RowsTactic::chooseRows() {
  llvm::MapVector<int, double> saved;
  for (Operation *op : problem.getOps())
    for (int cls : getRowClasses(state, op)) {
      double bytes = 0;
      for (Operation *parameter : problem.getParameters(problem.getMatrix(op)))
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
    bool isExcluded = llvm::any_of(problem.getUses(cls), [&](ClassUse use) {
      return llvm::any_of(problem.getLists(use.op), [&](const FactorClasses::Classes &list) {
        return llvm::any_of(list, [&](int other) { return other != cls && rows.contains(other); });
      });
    });
    if (problem.classes.getPreventingOp(cls)) {
      refused.push_back(cls);
      continue;
    }
    if (isExcluded)
      continue;
    rows.insert(cls);
    largest = std::max(largest, evaluateOr1(problem.classes.getSize(cls), symbols));
    if (std::string size = problem.classes.getSize(cls).str(); !llvm::is_contained(sizes, size))
      sizes.push_back(size);
  }
  std::string spelling =
      "tp" + std::to_string(problem.spec.tensorX) + "x" + std::to_string(problem.spec.tensorY);
  // Dimensions that annotations leave unsplit are not split.
  bool annotated = problem.spec.manual || state.hasFixed();
  if (rows.empty() && annotated)
    return success();
  if (rows.empty()) {
    InFlightDiagnostic diag =
        emitError(problem.module.getLoc())
        << spelling << ": no matrix of the model can be split in two dimensions; use tp"
        << problem.spec.tensorX * problem.spec.tensorY << ", which splits one";
    for (int cls : refused)
      if (Operation *op = problem.classes.getPreventingOp(cls))
        diag.attachNote(op->getLoc())
            << "a dimension of " << problem.classes.getSize(cls).str() << " is needed unsplit by '"
            << getSourceName(op->getLoc()) << "' (" << op->getName().getStringRef() << ")";
    return diag;
  }
  if (problem.spec.tensorX > largest && !annotated)
    return emitError(problem.module.getLoc())
           << spelling
           << ": the first dimension has more ranks than a matrix has rows: matrices have "
           << llvm::join(sizes, ", ") << " rows; use tp" << largest << "x" << problem.spec.tensorY
           << " or less";
  return success();
}

bool RowsTactic::hasRow(Value value) const {
  return llvm::any_of(problem.getLists(value), [&](const FactorClasses::Classes &list) {
    return llvm::any_of(list, [&](int cls) { return rows.contains(cls); });
  });
}

/// Returns the class to which tpx is assigned outside of matmuls: `column` or, if it has too few
/// heads, the other class of heads in its attention op.
int RowsTactic::getCarrier(int column) const {
  int64_t x = problem.spec.tensorX, y = problem.spec.tensorY;
  auto sizeOf = [&](int cls) { return evaluateOr1(problem.classes.getSize(cls), symbols); };
  if (sizeOf(column) >= x * y)
    return column;
  for (ClassUse use : problem.getUses(column))
    if (auto attention = dyn_cast<AttentionOp>(use.op))
      for (int other : problem.classes.getClasses(attention.getQ(), 2))
        if (other != column && sizeOf(other) >= x && !problem.classes.getPreventingOp(other) &&
            !state.isMarked(other, kColumns) && !rows.contains(other) &&
            (state.getAxes(other).empty() || state.hasAxis({other}, kX)))
          return other;
  return column;
}

void RowsTactic::addAxes() {
  bool x = problem.spec.tensorX > 1, y = problem.spec.tensorY > 1;
  for (int cls : rows) {
    // Annotations may have added some of these axes.
    if (x && !state.hasAxis({cls}, kX))
      state.assign(cls, problem.getAtoms(kX), rowsReason);
    if (y && !state.hasAxis({cls}, kY))
      state.assign(cls, problem.getAtoms(kY), rowsReason);
  }
  for (int cls : state.getMarked(kColumns)) {
    int carrier = getCarrier(cls);
    if (carriers.insert(carrier) && x && !state.hasAxis({carrier}, kX))
      state.assign(carrier, problem.getAtoms(kX), columnsReason);
  }
}

/// Returns the estimated seconds of the communication of `op`, in which `factor` is a column.
double RowsTactic::getSeconds(Operation *op, unsigned factor, bool isOneSided) const {
  LinkModel links(problem.module);
  MLIRContext *context = problem.module.getContext();
  double x = double(problem.spec.tensorX), y = double(problem.spec.tensorY), seconds = 0;
  auto add = [&](::tpc::Transfer transfer, StringRef axis, double bytes) {
    seconds += links.getSeconds(transfer, StringAttr::get(context, axis), bytes);
  };
  constexpr auto gather = ::tpc::Transfer::AllGather, scatter = ::tpc::Transfer::ReduceScatter;
  const ShardingRule &rule = problem.classes.getRule(op);
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    if (!problem.getParameters(operand).empty())
      continue;
    double bytes = estimateBytes(operand, symbols);
    if (hasRow(operand)) {
      add(gather, kY, bytes / x);
      if (isOneSided)
        add(gather, kX, bytes);
    } else if (!isOneSided && llvm::any_of(dims, [&](const ShardingRule::Dim &dim) {
                 return llvm::is_contained(dim, int(factor));
               })) {
      add(gather, kX, bytes / y);
    }
  }
  for (Value result : op->getResults()) {
    double bytes = estimateBytes(result, symbols);
    if (hasRow(result)) {
      if (isOneSided)
        add(scatter, kX, bytes);
      add(scatter, kY, bytes / x);
    } else if (!isOneSided) {
      add(scatter, kX, bytes / y);
    }
  }
  return seconds * double(problem.getCallCount(op));
}

/// Adopts the columns that annotations of matrices split over both axes.
void RowsTactic::adoptOneSided() {
  for (Operation *op : problem.getOps()) {
    Value matrix = problem.getMatrix(op);
    if (!matrix)
      continue;
    Site site = problem.getParameters(matrix).front();
    for (const FactorClasses::Classes &list : problem.getLists(matrix))
      for (int cls : list)
        if (state.isMarked(cls, kColumns) && state.hasAxis({cls}, kX, site))
          oneSided.insert(cls);
  }
}

/// Selects the split of the vocabulary. The embedding and the head are split alike if they share a
/// weight, so that a rank stores only one shard.
void RowsTactic::chooseOneSided() {
  if (problem.spec.tensorX == 1)
    return; // no difference
  struct SplitCosts {
    llvm::SmallSetVector<int, 2> columns;
    double both = 0, oneSided = 0;
  };
  llvm::MapVector<Attribute, SplitCosts> costs; // by weight
  for (Operation *op : problem.getOps())
    for (int column : state.getMarked(kVocabulary)) {
      for (unsigned factor = 0; factor < problem.classes.getRule(op).factors.size(); ++factor) {
        if (!llvm::is_contained(problem.classes.getFactorClasses(op, factor), column))
          continue;
        Value matrix = problem.getMatrix(op);
        if (!matrix)
          continue;
        SmallVector<Operation *> parameters = problem.getParameters(matrix);
        SplitCosts &cost = costs[cast<ParameterOp>(parameters.front()).getWeightAttr()];
        cost.columns.insert(column);
        cost.both += getSeconds(op, factor, false);
        cost.oneSided += getSeconds(op, factor, true);
      }
    }
  for (auto &[weight, cost] : costs)
    if (cost.oneSided < cost.both)
      oneSided.insert(cost.columns.begin(), cost.columns.end());
}

/// In an op with rows and columns, removes tpy from rows and tpx from columns.
void RowsTactic::removeOtherAxes(Site site, ArrayRef<FactorClasses::Classes> lists) {
  MLIRContext *context = problem.module.getContext();
  auto x = StringAttr::get(context, kX), y = StringAttr::get(context, kY);
  bool isOneSided = llvm::any_of(lists, [&](const FactorClasses::Classes &list) {
    return llvm::any_of(list, [&](int cls) { return oneSided.contains(cls); });
  });
  for (const FactorClasses::Classes &list : lists)
    for (int cls : list) {
      if (rows.contains(cls)) {
        state.forbid(site, cls, y, oneAxis);
        if (isOneSided)
          state.forbid(site, cls, x, "columns are split over both axes here");
      } else if (carriers.contains(cls) && !isOneSided) {
        state.forbid(site, cls, x, oneAxis);
      }
    }
}

void RowsTactic::removeAxesInMatmuls() {
  auto hasRowAndColumn = [&](ArrayRef<FactorClasses::Classes> lists) {
    bool row = false, column = false;
    for (const FactorClasses::Classes &list : lists)
      for (int cls : list) {
        row |= rows.contains(cls);
        column |= state.isMarked(cls, kColumns) || carriers.contains(cls);
      }
    return row && column;
  };
  // An axis may split only one factor. If a class is both a row and a column of a matrix, it is
  // unsplit at this site.
  auto removeRepeatedAxes = [&](Site site, ArrayRef<FactorClasses::Classes> lists) {
    llvm::SmallDenseSet<int> seen;
    bool twice = false;
    for (const FactorClasses::Classes &list : lists)
      for (int cls : list)
        if (!seen.insert(cls).second) {
          for (StringAttr axis : state.getAxes(cls))
            if (axis.getValue() == kX || axis.getValue() == kY) {
              state.forbid(site, cls, axis, "both sides of the matrix are this class");
              twice = true;
            }
        }
    return twice;
  };
  for (Operation *op : problem.getOps()) {
    SmallVector<FactorClasses::Classes> lists = problem.getLists(op);
    bool hasBoth = hasRowAndColumn(lists);
    if (hasBoth)
      removeOtherAxes(op, lists);
    if (removeRepeatedAxes(op, lists) || hasBoth)
      inMatmuls.insert(op);
  }
  for (auto function : problem.module.getOps<func::FuncOp>()) {
    if (function.getName() == "main")
      continue; // inputs are replicated
    for (BlockArgument argument : function.getArguments()) {
      SmallVector<FactorClasses::Classes> lists = problem.getLists(argument);
      if (hasRowAndColumn(lists))
        removeOtherAxes(argument, lists);
      removeRepeatedAxes(argument, lists);
    }
  }
}

bool RowsTactic::isPartial(Value value, StringRef axis) const {
  return inMatmuls.contains(value.getDefiningOp()) && state.isUnreduced(value, axis);
}

/// Splits adds of partial sums like the matmuls that produce these, so that one reduction suffices.
/// Results of ops that propagate partial sums are partial sums, too.
void RowsTactic::removeAxesOverPartialSums() {
  for (Operation *op : problem.getOps()) {
    if (inMatmuls.contains(op) || op->getNumResults() != 1)
      continue;
    for (StringRef axis : {kX, kY}) {
      SmallVector<int, 2> partial;
      bool isOnlyUser = true;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        Operation *def = operand.getDefiningOp();
        auto it = passing.find(def);
        if (!(def && (isPartial(operand, axis) || (it != passing.end() && it->second == axis))))
          continue;
        isOnlyUser &= operand.hasOneUse();
        partial.push_back(i);
      }
      bool linear = llvm::any_of(problem.classes.getRule(op).linear, [&](const auto &l) {
        return ArrayRef<int>(l.operands) == ArrayRef<int>(partial);
      });
      if (partial.size() < 2 || !isOnlyUser || !linear)
        continue;
      removeOtherAxes(op, problem.getLists(op));
      passing[op] = axis;
      break;
    }
  }
}

void RowsTactic::expect(Value value, Operation *reader, StringRef why) {
  MLIRContext *context = problem.module.getContext();
  state.expect(value, reader, {StringAttr::get(context, kX), StringAttr::get(context, kY)}, why);
}

void RowsTactic::record() {
  std::string x = " tpx " + std::to_string(problem.spec.tensorX);
  std::string y = " tpy " + std::to_string(problem.spec.tensorY);
  for (int cls : rows)
    state.explain(problem.describe(cls) + " over" + x + " in matmuls, over" + x + " and" + y +
                      " elsewhere: " + problem.describeSites(cls),
                  oneAxis);
  for (int cls : state.getMarked(kColumns))
    if (oneSided.contains(cls))
      state.explain(problem.describe(cls) + " over" + y + " and" + x +
                    ", rows unsplit: " + problem.describeSites(cls));
  for (int cls : carriers)
    if (!state.isMarked(cls, kColumns))
      state.explain(problem.describe(cls) + " over" + x + " outside of matmuls");
  for (Operation *op : problem.getOps()) {
    for (unsigned factor = 0; factor < problem.classes.getRule(op).factors.size(); ++factor)
      for (StringRef axis : {kX, kY})
        if (state.hasAxis(problem.getPermuted(op, factor), axis, op))
          state.expectPermutation(op, problem.getAtoms(axis), axis);
    if (inMatmuls.contains(op))
      for (Value operand : op->getOperands())
        if (problem.getParameters(operand).empty())
          expect(operand, op, oneAxis);
    for (Value value : op->getResults())
      if (state.isUnreduced(value, kX) || state.isUnreduced(value, kY))
        expect(value, nullptr,
               inMatmuls.contains(op)   ? "matmuls reduce over rows or columns"
               : op->hasAttr(kNormAttr) ? "norms need mean and variance of a split width"
                                        : "sums over dimensions that both axes split");
  }
  // Record matmuls whose matrix has no row class.
  for (Operation *op : problem.getOps()) {
    if (!isa<MatmulOp>(op) || problem.getParameters(op->getOperand(1)).empty())
      continue;
    bool split = llvm::any_of(problem.getLists(op->getOperand(1)), [&](const auto &list) {
      return state.hasAxis(list, kX, op) || state.hasAxis(list, kY, op);
    });
    if (!split)
      state.explain("not split, on every rank: " + getSourceName(op->getLoc()));
  }
}

LogicalResult RowsTactic::run() {
  if (failed(chooseRows()))
    return failure();
  if (rows.empty()) {
    record(); // columns may still be split
    return success();
  }
  adoptOneSided(); // before axes are added to those of annotations
  addAxes();
  chooseOneSided();
  removeAxesInMatmuls();
  removeAxesOverPartialSums();
  record();
  return success();
}

LogicalResult mlir::tpc::seedRows(PartitionState &state) { return RowsTactic(state).run(); }
