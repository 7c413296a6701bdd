//===- TensorTactic.cpp - Weights over tp ---------------------------------===//
//
// Which classes of factors tp splits is a choice with a simple structure: two
// classes that meet in one op exclude each other (an axis splits one factor of
// an op), a class that some op needs whole is out. What remains falls into small
// components: the heads of attention, the inner width of an MLP, the
// vocabulary; the residual's width is out because norms need it whole. For each component
// the independent set is taken that
//
//     takes the most bytes of matrices from the fullest rank   (main term)
//     communicates least, in seconds (LinkModel.h)             (breaks ties)
//
// where a class communicates the result of each op in which it is a reduction. In
// an MLP the candidates are the inner width (both matrices, one reduction of
// [tokens, hidden]) or input and output widths (both matrices, a reduction of
// [tokens, inner]): the first wins, and that is Megatron's column-parallel fc1
// followed by row-parallel fc2.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Analysis/Nominal.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Analysis/Verify.h"
#include "tpc/Dialect/LinkModel.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct Candidate {
  int cls;
  double saved = 0;        // bytes that the fullest rank does not hold
  double communicated = 0; // seconds of reductions in a step
  bool table = false;      // rows of an embedding
  SmallVector<unsigned> conflicts;
  unsigned matrices = 0;
};

class TensorTactic {
public:
  TensorTactic(Plan &plan)
      : plan(plan), axis(plan.spec.isTensor2D() ? "tpy" : "tp"),
        parts(plan.spec.isTensor2D() ? plan.spec.tensorY : plan.spec.grid.size(::tpc::Axis::TP)),
        spelling(plan.spec.isTensor2D() ? "tp" + std::to_string(plan.spec.tensorX) + "x"
                                        : std::string("tp")),
        symbols(getNominalSymbols(plan.module)), links(plan.module) {}
  LogicalResult run(bool vocabulary);

private:
  void collect();
  std::vector<unsigned> chooseAll() const;
  bool isVocabulary(const Candidate &candidate) const;
  void addMatrix(Operation *op, unsigned operand);
  std::vector<unsigned> choose(ArrayRef<unsigned> component) const;
  LogicalResult explainFailure();
  std::string describeParts(const Candidate &candidate) const;
  LogicalResult checkRanks(ArrayRef<unsigned> chosen);
  void recordWhole(ArrayRef<unsigned> chosen, TacticRecord &record);

  Plan &plan;
  StringRef axis;
  int64_t parts;
  std::string spelling; // of the spec before `parts`
  Symbols symbols;
  LinkModel links;
  std::vector<Candidate> candidates;
  DenseMap<int, unsigned> index;
  SmallVector<int> refused; // classes of matrices that cannot be split
};

/// Share of `size` that the fullest of `parts` ranks does not hold.
double getSavedShare(const ::tpc::SymExpr &size, int64_t parts, const Symbols &symbols) {
  int64_t n = evaluateOr1(size, symbols);
  if (n <= 0)
    return 0;
  return 1.0 - double(::tpc::shardSize(n, parts, 0)) / double(n);
}

double getBytes(Value value, const Symbols &symbols) {
  double bytes = std::max(1u, cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() / 8);
  for (const ::tpc::SymExpr &size : getSizes(value))
    bytes *= double(evaluateOr1(size, symbols));
  return bytes;
}

/// Counts the matrix that is operand `operand` of `op` for each of its classes.
void TensorTactic::addMatrix(Operation *op, unsigned operand) {
  Value value = op->getOperand(operand);
  double bytes = 0;
  for (Operation *parameter : plan.getParameters(value))
    bytes += getBytes(parameter->getResult(0), symbols);
  if (bytes == 0)
    return;
  for (unsigned dim = 0; dim < cast<RankedTensorType>(value.getType()).getRank(); ++dim)
    for (int cls : plan.classes.getClasses(value, dim)) {
      if (plan.isNormWidth(cls) || !plan.canSplit(cls, axis)) {
        refused.push_back(cls);
        continue;
      }
      auto [it, inserted] = index.try_emplace(cls, candidates.size());
      if (inserted)
        candidates.push_back({cls, 0, 0, false, {}, 0});
      Candidate &candidate = candidates[it->second];
      // tp4x1 chooses as tp4x2 does: the choice is about more than one part.
      candidate.saved +=
          bytes * getSavedShare(plan.classes.getSize(cls), std::max<int64_t>(parts, 2), symbols);
      candidate.table |= isa<EmbeddingOp>(op);
      ++candidate.matrices;
    }
}

void TensorTactic::collect() {
  // Of tables, only the vocabulary's: those with as many rows as the largest. Tables of
  // positions are small, and a rank needs all of those that its tokens have.
  double rows = 0;
  for (Operation *op : plan.getOps())
    if (isa<EmbeddingOp>(op))
      rows = std::max(rows, double(evaluateOr1(getSizes(op->getOperand(0))[0], symbols)));

  for (Operation *op : plan.getOps()) {
    if (isa<MatmulOp>(op)) {
      addMatrix(op, 1);
      addMatrix(op, 0);
    } else if (isa<EmbeddingOp>(op) &&
               double(evaluateOr1(getSizes(op->getOperand(0))[0], symbols)) == rows) {
      addMatrix(op, 0);
    }
  }

  auto link = StringAttr::get(plan.module.getContext(), axis);
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    llvm::SmallSet<unsigned, 4> conflicts;
    for (ClassUse use : plan.getUses(candidate.cls)) {
      const ShardingRule &rule = plan.classes.getRule(use.op);
      FactorKind kind = rule.factors[use.factor].kind;
      if (auto roll = dyn_cast<RollOp>(use.op);
          roll && llvm::is_contained(plan.getRun(roll), candidate.cls))
        candidate.communicated += links.getSeconds(::tpc::Transfer::CollectivePermute, link,
                                                   getBytes(roll.getResult(), symbols) /
                                                       double(std::max<int64_t>(parts, 2))) *
                                  plan.getCallCount(use.op);
      if (kind != FactorKind::Parallel && kind != FactorKind::Whole)
        for (Value result : use.op->getResults())
          candidate.communicated +=
              links.getSeconds(::tpc::Transfer::AllReduce, link, getBytes(result, symbols)) *
              plan.getCallCount(use.op);
      for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
        for (int other : plan.classes.getFactorClasses(use.op, factor))
          if (auto it = index.find(other); it != index.end() && it->second != i)
            conflicts.insert(it->second);
    }
    candidate.conflicts.assign(conflicts.begin(), conflicts.end());
    llvm::sort(candidate.conflicts);
  }
}

/// The best independent set of a component: all sets where it is small, else
/// greedily the best class first.
std::vector<unsigned> TensorTactic::choose(ArrayRef<unsigned> component) const {
  double saved = 0, communicated = 0;
  for (unsigned i : component) {
    saved += candidates[i].saved;
    communicated += candidates[i].communicated;
  }
  auto score = [&](unsigned i) {
    double value = saved > 0 ? candidates[i].saved / saved : 0;
    return communicated > 0 ? value - 0.25 * candidates[i].communicated / communicated : value;
  };

  std::vector<unsigned> best;
  if (component.size() <= 16) {
    double bestScore = 0;
    for (unsigned set = 1; set < 1u << component.size(); ++set) {
      double total = 0;
      bool legal = true;
      std::vector<unsigned> members;
      for (unsigned bit = 0; bit < component.size() && legal; ++bit) {
        if (!(set >> bit & 1))
          continue;
        legal = llvm::none_of(members, [&](unsigned m) {
          return llvm::is_contained(candidates[component[bit]].conflicts, m);
        });
        members.push_back(component[bit]);
        total += score(component[bit]);
      }
      if (legal && total > bestScore + 1e-12) {
        bestScore = total;
        best = members;
      }
    }
    return best;
  }
  std::vector<unsigned> order(component.begin(), component.end());
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::make_pair(-score(a), a) < std::make_pair(-score(b), b);
  });
  for (unsigned i : order)
    if (score(i) > 0 && llvm::none_of(best, [&](unsigned m) {
          return llvm::is_contained(candidates[i].conflicts, m);
        }))
      best.push_back(i);
  return best;
}

/// Rows of the vocabulary's table, and columns that the outputs end with.
bool TensorTactic::isVocabulary(const Candidate &candidate) const {
  if (candidate.table)
    return true;
  auto main = plan.module.lookupSymbol<func::FuncOp>("main");
  return llvm::any_of(main.front().getTerminator()->getOperands(), [&](Value value) {
    auto rank = cast<RankedTensorType>(value.getType()).getRank();
    return rank > 0 && llvm::is_contained(plan.classes.getClasses(value, rank - 1), candidate.cls);
  });
}

/// Products whose matrix stays whole on every rank.
void TensorTactic::recordWhole(ArrayRef<unsigned> chosen, TacticRecord &record) {
  for (Operation *op : plan.getOps()) {
    if (!isa<MatmulOp>(op) || plan.getParameters(op->getOperand(1)).empty())
      continue;
    bool split = false;
    for (unsigned dim = 0; dim < getSizes(op->getOperand(1)).size(); ++dim) {
      FactorClasses::Classes list = plan.classes.getClasses(op->getOperand(1), dim);
      split |= plan.hasAxis(list, "tp") || llvm::any_of(chosen, [&](unsigned i) {
                 return llvm::is_contained(list, candidates[i].cls);
               });
    }
    if (!split)
      record.splits.push_back("not split, on every rank: " + getSourceName(op->getLoc()));
  }
}

LogicalResult TensorTactic::explainFailure() {
  InFlightDiagnostic diag = emitError(plan.module.getLoc())
                            << spelling << parts << ": no weight of the model can be split";
  if (refused.empty()) {
    diag << ": it has no matrix product or embedding with a weight";
    // Files for tests of operators have weights as inputs.
    for (Operation *op : plan.getOps())
      if (auto input =
              isa<MatmulOp>(op) ? dyn_cast<BlockArgument>(op->getOperand(1)) : BlockArgument())
        if (auto main = dyn_cast<func::FuncOp>(input.getOwner()->getParentOp());
            main && main.getName() == "main") {
          auto name =
              main.getArgAttrOfType<StringAttr>(input.getArgNumber(), TpcDialect::kNameAttr);
          diag << "; the matrix of '" << getSourceName(op->getLoc()) << "' is the input "
               << (name ? "'" + name.getValue().str() + "'" : std::to_string(input.getArgNumber()))
               << ", and inputs are whole on every rank: make it an initializer of the file, or "
                  "split the batch with dp"
               << parts;
          break;
        }
    return diag;
  }
  llvm::SmallSet<int, 8> seen;
  for (int cls : refused)
    if (Operation *op = plan.classes.getWholeOp(cls); op && seen.insert(cls).second)
      diag.attachNote(op->getLoc())
          << "a dimension of " << plan.classes.getSize(cls).str() << " is needed whole by '"
          << getSourceName(op->getLoc()) << "' (" << op->getName().getStringRef() << ")";
  for (int cls : refused)
    if (plan.decided.contains(cls) && !plan.classes.getWholeOp(cls) && seen.insert(cls).second)
      diag.attachNote(plan.module.getLoc())
          << "annotations decide about a dimension of " << plan.classes.getSize(cls).str() << ": "
          << plan.describeSites(cls);
  return diag;
}

/// The best classes of all components.
std::vector<unsigned> TensorTactic::chooseAll() const {
  // Components of the conflict graph, in program order.
  std::vector<bool> visited(candidates.size());
  std::vector<unsigned> chosen;
  for (unsigned root = 0; root < candidates.size(); ++root) {
    if (visited[root])
      continue;
    SmallVector<unsigned> component, work = {root};
    visited[root] = true;
    while (!work.empty()) {
      unsigned i = work.pop_back_val();
      component.push_back(i);
      for (unsigned other : candidates[i].conflicts)
        if (!visited[other]) {
          visited[other] = true;
          work.push_back(other);
        }
    }
    llvm::sort(component);
    llvm::append_range(chosen, choose(component));
  }
  return chosen;
}

/// "8 heads", "96 of 'fc1'"
std::string TensorTactic::describeParts(const Candidate &candidate) const {
  std::string text = plan.describe(candidate.cls);
  if (StringRef(text).contains(' '))
    return text;
  for (ClassUse use : plan.getUses(candidate.cls))
    if (isa<MatmulOp, EmbeddingOp>(use.op))
      return text + " of '" + getSourceName(use.op->getLoc()) + "'";
  return text;
}

/// A rank has no work in what has fewer parts than there are ranks. Where nothing has enough it is
/// an error, otherwise a warning. Both name the most ranks of which all have work everywhere.
LogicalResult TensorTactic::checkRanks(ArrayRef<unsigned> chosen) {
  int64_t largest = 0, least = std::numeric_limits<int64_t>::max();
  for (const Candidate &candidate : candidates)
    largest = std::max(largest, evaluateOr1(plan.classes.getSize(candidate.cls), symbols));
  SmallVector<std::string> all, few; // what there is, and of what there is too little
  for (unsigned i : chosen) {
    int64_t size = evaluateOr1(plan.classes.getSize(candidates[i].cls), symbols);
    least = std::min(least, size);
    std::string what = describeParts(candidates[i]);
    all.push_back(what);
    if (size < parts)
      few.push_back(std::to_string(parts - size) + " have none of " + what);
  }
  if (parts > largest)
    return emitError(plan.module.getLoc())
           << spelling << parts
           << " is larger than anything that can be split: " << llvm::join(all, ", ") << "; use "
           << spelling << least;
  if (!few.empty())
    warnOfPlan(plan.module, spelling + std::to_string(parts) + ": of " + std::to_string(parts) +
                                " ranks along " + axis + " " + llvm::join(few, ", ") + "; with " +
                                spelling + std::to_string(least) + " all have some of each");
  return success();
}

LogicalResult TensorTactic::run(bool vocabulary) {
  if (parts == 1 && !plan.spec.isTensor2D())
    return success();
  collect();
  std::vector<unsigned> chosen = chooseAll();
  bool annotated =
      llvm::any_of(plan.axes, [&](auto &entry) { return plan.hasAxis({entry.first}, axis); });
  if (chosen.empty() && !annotated)
    return explainFailure();

  if (!vocabulary && !annotated && failed(checkRanks(chosen)))
    return failure();

  TacticRecord record{vocabulary ? "vocabulary" : "tp", {}, {}};
  for (unsigned i : chosen) {
    if (isVocabulary(candidates[i]) != vocabulary)
      continue;
    int cls = candidates[i].cls;
    plan.columns.insert(cls);
    if (vocabulary)
      plan.vocabulary.insert(cls);
    if (parts == 1)
      continue;
    plan.addAxis(cls, axis);
    std::string what = plan.describe(cls), repeated, idle;
    for (ClassUse use : plan.getUses(cls))
      if (auto text = use.op->getAttrOfType<StringAttr>(kRepeatedHeadsAttr))
        repeated = " (" + text.str() + ")";
    if (auto count = plan.classes.getSize(cls).asConstant(); count && *count < parts)
      idle = " (" + std::to_string(parts - *count) + " without any)";
    record.splits.push_back(what + repeated + " over " + axis.str() + " " + std::to_string(parts) +
                            idle + ": " + plan.describeSites(cls));
    // With two dimensions the rows' tactic knows what follows, and what stays whole.
    if (!plan.spec.isTensor2D())
      plan.predictReductions(cls, axis, what, record);
  }
  if (!vocabulary && !plan.spec.isTensor2D())
    recordWhole(chosen, record);
  if (!record.splits.empty())
    plan.records.push_back(std::move(record));
  return success();
}

} // namespace

LogicalResult mlir::tpc::applyTensorTactic(Plan &plan) { return TensorTactic(plan).run(false); }

LogicalResult mlir::tpc::applyVocabularyTactic(Plan &plan) { return TensorTactic(plan).run(true); }
