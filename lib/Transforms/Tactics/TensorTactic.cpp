//===- TensorTactic.cpp - Tactic of tensor parallelism --------------------===//
//
// Selects the classes that tp splits. Candidates are the classes of matrices that no op needs
// unsplit; the residual's width, for example, is excluded by norms. Two candidates in one op are in
// conflict, because an axis may split only one factor of an op. The connected components of the
// conflict graph are small: the heads of attention, the inner width of an MLP, the vocabulary. For
// each component, the tactic selects the independent set of minimum cost,
//
//     64 * bytes of matrices stored on the worst-case rank  +  bytes that a rank sends
//
// in a step of 128 tokens. A byte of weights weighs 64 times as much as a byte of communication,
// because it is stored permanently and read in each step. Communication of a class is the reduction
// of the result of each op that reduces over the class. In an MLP, for example, the independent
// sets are the inner width (splits both matrices; one reduction of [tokens, hidden]), and the input
// and output widths (split both matrices; one reduction of [tokens, inner]). The inner width has
// the lower cost, which is Megatron's column-parallel fc1 followed by row-parallel fc2.
//
// A class is not a candidate if its communication grows faster than the number of tokens, such as
// the size of a head, whose split would require a reduction of scores [sequence, sequence]. If
// nothing else is split instead, a warning reports such a class. Another warning reports a class
// with more than one reduction per layer, and the alternative. (Megatron's split has 2 L + 1.)
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Support/Links.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct Candidate {
  int cls;
  SmallVector<StringAttr> axes; // atoms of tp that are free in all ops of the class
  int64_t parts;                // ranks of a group over these axes
  double saved = 0;             // bytes of weights that the worst-case rank saves
  double sent = 0;              // bytes that a rank sends in a step of 128 tokens
  /// Reduction over this class whose communication grows faster than the number of tokens; null if
  /// none.
  Operation *excessive = nullptr;
  /// Matmuls and lookups that reduce over the class.
  SmallVector<Operation *> sums;
  bool table = false; // rows of an embedding
  SmallVector<unsigned> conflicts;
  unsigned matrices = 0;

  Candidate(int cls, ArrayRef<StringAttr> axes, int64_t parts)
      : cls(cls), axes(axes), parts(parts) {}
  double getScore() const {
    constexpr double costOfWeights = 64;
    return excessive ? -1 : costOfWeights * saved - sent;
  }
};

class TensorTactic {
public:
  TensorTactic(PartitionState &state)
      : state(state), problem(state.problem), axis(problem.spec.isTensor2D() ? "tpy" : "tp"),
        parts(problem.spec.isTensor2D() ? problem.spec.tensorY : problem.spec.grid.size("tp")),
        spelling(problem.spec.isTensor2D() ? "tp" + std::to_string(problem.spec.tensorX) + "x"
                                           : std::string("tp")),
        symbols(getNominalSymbols(problem.module)), links(problem.module) {}
  LogicalResult run(bool vocabulary);

private:
  void collect();
  std::vector<unsigned> chooseAll(std::optional<unsigned> without = std::nullopt) const;
  double countTokens() const;
  bool isExcessive(Operation *op) const;
  bool isVocabulary(const Candidate &candidate) const;
  void addMatrix(Operation *op, unsigned operand, std::optional<unsigned> only = std::nullopt);
  std::vector<unsigned> choose(ArrayRef<unsigned> component) const;
  LogicalResult explainFailure();
  std::string describeExcess(const Candidate &candidate) const;
  std::string describeCost(const Candidate &candidate) const;
  LogicalResult checkRanks(ArrayRef<unsigned> chosen);
  void warnOfExcess(ArrayRef<unsigned> chosen);
  void warnOfSums(ArrayRef<unsigned> chosen);
  void recordWhole(ArrayRef<unsigned> chosen);

  PartitionState &state;
  const PartitionProblem &problem;
  StringRef axis;
  int64_t parts;
  std::string spelling; // text of the spec before `parts`: "tp" or "tp2x"
  Symbols symbols;
  LinkModel links;
  std::vector<Candidate> candidates;
  DenseMap<int, unsigned> index;
  SmallVector<int> unsplittable; // classes of matrices that cannot be split
};

/// Returns the fraction of `size` that a rank does not store, for the largest of `parts` shards.
double getSavedShare(const ::tpc::SymExpr &size, int64_t parts, const Symbols &symbols) {
  int64_t n = evaluateOr1(size, symbols);
  return n <= 0 ? 0 : 1.0 - double(::tpc::shardSize(n, parts, 0)) / double(n);
}

/// Returns true for a lookup of rows of a table, which may be quantized.
bool isRowLookup(Operation *op) {
  auto gather = dyn_cast<GatherOp>(op);
  return isa<EmbeddingOp>(op) ||
         (gather && gather.getDim() == 0 && gather.getData().getDefiningOp<DequantizeOp>());
}

/// Adds the matrix operand `operand` of `op` to each of its classes, or to those of one dimension.
void TensorTactic::addMatrix(Operation *op, unsigned operand, std::optional<unsigned> only) {
  Value value = op->getOperand(operand);
  double bytes = 0;
  for (Operation *parameter : problem.getParameters(value))
    bytes += estimateBytes(parameter->getResult(0), symbols);
  if (bytes == 0)
    return;
  for (unsigned dim = only.value_or(0), end = only ? dim + 1 : rankOf(value); dim < end; ++dim)
    for (int cls : problem.classes.getClasses(value, dim)) {
      SmallVector<StringAttr> free = state.getFreeAtoms(cls, axis);
      if (problem.isResidualWidth(cls) || free.empty()) {
        unsplittable.push_back(cls);
        continue;
      }
      auto [it, inserted] = index.try_emplace(cls, candidates.size());
      if (inserted)
        candidates.emplace_back(cls, free, links.getGroupSize(free));
      Candidate &candidate = candidates[it->second];
      // Assume at least two shards, so that tp4x1 and tp4x2 have the same result.
      candidate.saved += bytes * getSavedShare(problem.classes.getSize(cls),
                                               std::max<int64_t>(candidate.parts, 2), symbols);
      candidate.table |= isRowLookup(op);
      ++candidate.matrices;
    }
}

/// Returns the number of rows of matmuls with weights at nominal sizes.
double TensorTactic::countTokens() const {
  double tokens = 1;
  for (Operation *op : problem.getOps())
    if (isa<MatmulOp>(op) && problem.getMatrix(op)) {
      double rows = 1;
      SmallVector<::tpc::SymExpr> sizes = getSizes(op->getResult(0));
      for (const ::tpc::SymExpr &size : ArrayRef(sizes).drop_back())
        rows *= double(evaluateOr1(size, symbols));
      tokens = std::max(tokens, rows);
    }
  return tokens;
}

/// Returns true if the result of a reduction grows faster than the number of tokens, that is, if
/// doubling a symbol (such as the sequence length) clearly more than doubles the result's size. For
/// constant sizes, returns true for a matmul of two activations whose result is larger than both.
bool TensorTactic::isExcessive(Operation *op) const {
  double bytes = estimateBytes(op->getResult(0), symbols);
  for (const auto &[name, size] : symbols) {
    Symbols twice = symbols;
    twice[name] = 2 * size;
    if (estimateBytes(op->getResult(0), twice) > 2.2 * bytes)
      return true;
  }
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return problem.getParameters(operand).empty() && estimateBytes(operand, symbols) < bytes;
  });
}

void TensorTactic::collect() {
  // Only tables with the maximum number of rows, which are those of the vocabulary, are split.
  // Position tables are small.
  double rows = 0;
  for (Operation *op : problem.getOps())
    if (isRowLookup(op))
      rows = std::max(rows, double(evaluateOr1(getSizes(op->getOperand(0))[0], symbols)));
  for (Operation *op : problem.getOps()) {
    if (isa<MatmulOp>(op)) {
      addMatrix(op, 1);
      addMatrix(op, 0);
    } else if (auto moe = dyn_cast<MoeOp>(op)) { // inner widths of up, down and gate
      addMatrix(op, 2, 1);
      addMatrix(op, 3, 2);
      if (moe.getGate())
        addMatrix(op, 4, 1);
    } else if (isRowLookup(op) &&
               double(evaluateOr1(getSizes(op->getOperand(0))[0], symbols)) == rows) {
      addMatrix(op, 0);
    }
  }

  int64_t members = std::max<int64_t>(parts, 2);
  double steps = countTokens() / 128;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    llvm::SmallSet<unsigned, 4> conflicts;
    auto send = [&](::tpc::Transfer transfer, Operation *op, double bytes) {
      candidate.sent +=
          ::tpc::getSentBytes(transfer, members, bytes) * double(problem.getCallCount(op)) / steps;
    };
    for (ClassUse use : problem.getUses(candidate.cls)) {
      if (problem.isPermuted(use, candidate.cls))
        for (Value result : use.op->getResults())
          send(::tpc::Transfer::CollectivePermute, use.op,
               estimateBytes(result, symbols) / double(members));
      if (getReduction(problem.classes.getRule(use.op).factors[use.factor].kind)) {
        for (Value result : use.op->getResults())
          send(::tpc::Transfer::AllReduce, use.op, estimateBytes(result, symbols));
        if (isExcessive(use.op))
          candidate.excessive = use.op;
        if (isa<MatmulOp, MoeOp>(use.op) || isRowLookup(use.op))
          candidate.sums.push_back(use.op);
      } else if (problem.decomposable.inner.contains(use.op)) {
        send(::tpc::Transfer::AllReduce, use.op, estimateNormSumBytes(use, problem, symbols));
      }
      for (const FactorClasses::Classes &list : problem.getLists(use.op))
        for (int other : list)
          if (auto it = index.find(other); it != index.end() && it->second != i)
            conflicts.insert(it->second);
    }
    candidate.conflicts.assign(conflicts.begin(), conflicts.end());
    llvm::sort(candidate.conflicts);
  }
}

/// Returns the best independent set of a component, by exhaustive search if the component is small,
/// otherwise greedily.
std::vector<unsigned> TensorTactic::choose(ArrayRef<unsigned> component) const {
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
        total += candidates[component[bit]].getScore();
      }
      if (legal && total > bestScore * (1 + 1e-12)) {
        bestScore = total;
        best = members;
      }
    }
    return best;
  }
  std::vector<unsigned> order(component.begin(), component.end());
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    return candidates[a].getScore() > candidates[b].getScore();
  });
  for (unsigned i : order)
    if (candidates[i].getScore() > 0 && llvm::none_of(best, [&](unsigned m) {
          return llvm::is_contained(candidates[i].conflicts, m);
        }))
      best.push_back(i);
  return best;
}

/// Returns true for rows of the vocabulary's table, and for the last dimension of outputs.
bool TensorTactic::isVocabulary(const Candidate &candidate) const {
  if (candidate.table)
    return true;
  auto main = problem.module.lookupSymbol<func::FuncOp>("main");
  return llvm::any_of(main.front().getTerminator()->getOperands(), [&](Value value) {
    auto rank = cast<RankedTensorType>(value.getType()).getRank();
    return rank > 0 &&
           llvm::is_contained(problem.classes.getClasses(value, rank - 1), candidate.cls);
  });
}

/// Records the matmuls whose matrix is replicated.
void TensorTactic::recordWhole(ArrayRef<unsigned> chosen) {
  for (Operation *op : problem.getOps()) {
    if (!isa<MatmulOp>(op) || problem.getParameters(op->getOperand(1)).empty())
      continue;
    bool split = llvm::any_of(problem.getLists(op->getOperand(1)), [&](const auto &list) {
      return state.hasAxis(list, "tp") || llvm::any_of(chosen, [&](unsigned i) {
               return llvm::is_contained(list, candidates[i].cls);
             });
    });
    if (!split)
      state.explain("not split, on every rank: " + getSourceName(op->getLoc()));
  }
}

LogicalResult TensorTactic::explainFailure() {
  InFlightDiagnostic diag = emitError(problem.module.getLoc())
                            << spelling << parts << ": no weight of the model can be split";
  if (unsplittable.empty() && candidates.empty()) {
    diag << ": it has no matrix product or embedding with a weight";
    // In test files of single operators, weights are inputs.
    for (Operation *op : problem.getOps())
      if (auto input =
              isa<MatmulOp>(op) ? dyn_cast<BlockArgument>(op->getOperand(1)) : BlockArgument())
        if (auto main = dyn_cast<func::FuncOp>(input.getOwner()->getParentOp());
            main && main.getName() == "main") {
          auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
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
  for (int cls : unsplittable)
    if (Operation *op = problem.classes.getPreventingOp(cls); op && seen.insert(cls).second)
      diag.attachNote(op->getLoc())
          << "a dimension of " << problem.classes.getSize(cls).str() << " is needed unsplit by '"
          << getSourceName(op->getLoc()) << "' (" << op->getName().getStringRef() << ")";
  for (const Candidate &candidate : candidates)
    if (candidate.excessive)
      diag.attachNote(candidate.excessive->getLoc()) << describeExcess(candidate);
    else
      diag.attachNote(problem.module.getLoc())
          << problem.describeParts(candidate.cls) << " in parts would send "
          << describeCost(candidate) << "; an annotation can request it";
  for (int cls : unsplittable)
    if (state.isFixed(cls) && !problem.classes.getPreventingOp(cls) && seen.insert(cls).second)
      diag.attachNote(problem.module.getLoc())
          << "annotations decide the split of a dimension of " << problem.classes.getSize(cls).str()
          << ": " << problem.describeSites(cls);
  return diag;
}

/// Returns the best classes of all components, optionally without one class.
std::vector<unsigned> TensorTactic::chooseAll(std::optional<unsigned> without) const {
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
    if (without)
      llvm::erase(component, *without);
    llvm::append_range(chosen, choose(component));
  }
  return chosen;
}

/// Checks that each rank has a non-empty shard of each class. A class with fewer elements than
/// ranks causes a warning, or an error if all classes are too small. The message names the maximum
/// number of ranks without empty shards.
LogicalResult TensorTactic::checkRanks(ArrayRef<unsigned> chosen) {
  int64_t maxSize = 0, minSize = std::numeric_limits<int64_t>::max();
  for (const Candidate &candidate : candidates)
    maxSize = std::max(maxSize, evaluateOr1(problem.classes.getSize(candidate.cls), symbols));
  SmallVector<std::string> all, few; // all classes, and those with too few elements
  for (unsigned i : chosen) {
    int64_t size = evaluateOr1(problem.classes.getSize(candidates[i].cls), symbols);
    minSize = std::min(minSize, size);
    all.push_back(problem.describeParts(candidates[i].cls));
    if (int64_t ranks = candidates[i].parts; size < ranks)
      few.push_back(std::to_string(ranks - size) + " have none of " + all.back());
  }
  if (parts > maxSize)
    return emitError(problem.module.getLoc())
           << spelling << parts
           << " is larger than anything that can be split: " << llvm::join(all, ", ") << "; use "
           << spelling << minSize;
  if (!few.empty())
    state.warn(spelling + std::to_string(parts) + ": of " + std::to_string(parts) +
               " ranks along " + axis.str() + " " + llvm::join(few, ", ") + "; with " + spelling +
               std::to_string(minSize) + " all ranks have some of each");
  return success();
}

/// Describes the candidate's excessive reduction.
std::string TensorTactic::describeExcess(const Candidate &candidate) const {
  Operation *op = candidate.excessive;
  return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() +
         ") would be summed over the ranks, and its result grows faster than the number of tokens; "
         "annotations of " +
         problem.describeSites(candidate.cls) + " can request it";
}

/// Describes what a rank sends and saves if the candidate is split.
std::string TensorTactic::describeCost(const Candidate &candidate) const {
  return std::to_string(int64_t(candidate.sent)) + " bytes in a step of 128 tokens for " +
         std::to_string(int64_t(candidate.saved)) + " bytes of weights";
}

/// Emits warnings about classes that stay unsplit because of excessive reductions, if nothing else
/// is split instead.
void TensorTactic::warnOfExcess(ArrayRef<unsigned> chosen) {
  for (const Candidate &candidate : candidates)
    if (candidate.excessive && candidate.saved > 0 &&
        llvm::none_of(candidate.conflicts,
                      [&](unsigned other) { return llvm::is_contained(chosen, other); }))
      state.warn(
          spelling + std::to_string(parts) + ": " + problem.describeParts(candidate.cls) +
          " is not split, and its matrices are whole on every rank: " + describeExcess(candidate));
}

/// Emits warnings about classes with more than one reduction per layer.
void TensorTactic::warnOfSums(ArrayRef<unsigned> chosen) {
  auto count = [&](ArrayRef<unsigned> list, double &saved) {
    int64_t sums = 0;
    for (unsigned i : list) {
      saved += candidates[i].saved;
      for (Operation *op : candidates[i].sums)
        sums += problem.getCallCount(op);
    }
    return sums;
  };
  for (unsigned i : chosen) {
    const Candidate &candidate = candidates[i];
    if (!hasSeveralSums(candidate.sums) || isVocabulary(candidate))
      continue;
    std::string sites, others;
    for (Operation *op : candidate.sums)
      sites += (sites.empty() ? "'" : ", '") + getSourceName(op->getLoc()) + "'";
    std::vector<unsigned> instead = chooseAll(i);
    for (unsigned other : instead)
      if (!llvm::is_contained(chosen, other))
        others += (others.empty() ? ", " : " and ") + problem.describeParts(candidates[other].cls) +
                  " instead";
    double saved = 0, savedInstead = 0;
    int64_t sums = count(chosen, saved), fewer = count(instead, savedInstead);
    state.warn(
        spelling + std::to_string(parts) + ": the matmuls " + sites +
        " are each summed over the ranks where " + problem.describeParts(candidate.cls) +
        " is split (" + std::to_string(sums) + " sums in a step); if annotations keep it whole" +
        others + ", " + std::to_string(fewer) + " are left, and the worst-case rank stores " +
        std::to_string(int64_t(std::max(0.0, saved - savedInstead))) + " more bytes of weights");
  }
}

LogicalResult TensorTactic::run(bool vocabulary) {
  if (parts == 1 && !problem.spec.isTensor2D())
    return success();
  collect();
  std::vector<unsigned> chosen = chooseAll();
  bool annotated = state.usesView(axis);
  if (chosen.empty() && !annotated)
    return explainFailure();
  if (!vocabulary && !annotated && failed(checkRanks(chosen)))
    return failure();
  if (!vocabulary) {
    warnOfExcess(chosen);
    warnOfSums(chosen);
  }
  for (unsigned i : chosen) {
    if (isVocabulary(candidates[i]) != vocabulary)
      continue;
    int cls = candidates[i].cls;
    state.mark(cls, kColumns);
    if (vocabulary)
      state.mark(cls, kVocabulary);
    if (parts == 1)
      continue;
    // Experts that ep splits over a part of tp leave the rest of tp, which is etp.
    int64_t ranks = candidates[i].parts;
    StringRef over = ranks < parts ? "etp" : axis;
    std::string why = "sends " + describeCost(candidates[i]);
    state.assign(cls, candidates[i].axes, why);
    std::string what = problem.describe(cls), repeated, idle;
    for (ClassUse use : problem.getUses(cls))
      if (auto text = use.op->getAttrOfType<StringAttr>(kRepeatedHeadsAttr))
        repeated = " (" + text.str() + ")";
    if (auto count = problem.classes.getSize(cls).asConstant(); count && *count < ranks)
      idle = " (" + std::to_string(ranks - *count) + " without any)";
    state.explain(what + repeated + " over " + over.str() + " " + std::to_string(ranks) + idle +
                      ": " + problem.describeSites(cls),
                  why);
    // With two dimensions, the rows tactic expects the communication and records unsplit matmuls.
    if (!problem.spec.isTensor2D())
      state.expectOfClass(cls, candidates[i].axes, what, over);
  }
  if (!vocabulary && !problem.spec.isTensor2D())
    recordWhole(chosen);
  return success();
}

} // namespace

LogicalResult mlir::tpc::seedTensor(PartitionState &state) {
  return TensorTactic(state).run(false);
}

LogicalResult mlir::tpc::seedVocabulary(PartitionState &state) {
  return TensorTactic(state).run(true);
}
