//===- Tactic.cpp - Registry and order of tactics -------------------------===//

#include "BuiltinTactics.h"
#include "tpc/Transforms/Tactics/Passes.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ShardSpec;

namespace {

/// Tactic of this library: a row of the table below.
struct BuiltinTactic : Tactic {
  BuiltinTactic(StringRef name, StringRef summary, bool (*enabled)(const ShardSpec &),
                ArrayRef<StringRef> needs, ArrayRef<StringRef> provides,
                LogicalResult (*apply)(PartitionState &), bool required = false)
      : name(name), summary(summary), needs(needs), provides(provides), enabled(enabled),
        apply(apply), required(required) {}

  StringRef getName() const override { return name; }
  StringRef getSummary() const override { return summary; }
  bool isEnabled(const ShardSpec &spec) const override { return enabled(spec); }
  SmallVector<StringRef> getNeeds() const override { return needs; }
  SmallVector<StringRef> getProvides() const override { return provides; }
  bool isRequired() const override { return required; }
  LogicalResult seed(PartitionState &state) const override { return apply(state); }

  StringRef name, summary;
  SmallVector<StringRef> needs, provides;
  bool (*enabled)(const ShardSpec &);
  LogicalResult (*apply)(PartitionState &);
  bool required;
};

bool always(const ShardSpec &) { return true; }
bool isAutomatic(const ShardSpec &spec) { return !spec.manual; }

std::vector<std::unique_ptr<Tactic>> makeBuiltinTactics() {
  std::vector<std::unique_ptr<Tactic>> list;
  auto add = [&](auto &&...arguments) {
    list.push_back(std::make_unique<BuiltinTactic>(arguments...));
  };
  using Facts = ArrayRef<StringRef>;
  add("annotations", "dimensions that the user annotates, before all other tactics", always,
      Facts{}, Facts{"annotations", "columns", "axes"}, seedAnnotations);
  // With `manual`, this tactic only splits micro-batches.
  add("dp", "the batch over replicas and then over micro-batches: samples are independent", always,
      Facts{"annotations"}, Facts{"batch", "axes"}, seedData);
  add(
      "ep", "experts of mixtures: each adds its part of a token's result",
      [](const ShardSpec &spec) { return isAutomatic(spec) && spec.experts.size("ep") > 1; },
      Facts{"annotations", "batch"}, Facts{"experts", "axes"}, seedExperts);
  add("tp",
      "heads and inner widths: at most one dimension of each op, with the minimum of stored "
      "and sent bytes",
      isAutomatic, Facts{"annotations", "batch", "experts"}, Facts{"widths", "columns", "axes"},
      seedTensor);
  add("vocabulary", "rows of the largest embedding and columns of the head", isAutomatic,
      Facts{"widths"}, Facts{"columns", "axes"}, seedVocabulary);
  // With `manual`, this tactic only assigns the axes of annotated matrices to rows and columns.
  add(
      "rows", "rows of matrices over the first dimension of tp, so that both sides are split",
      [](const ShardSpec &spec) { return spec.isTensor2D(); }, Facts{"columns"},
      Facts{"rows", "axes"}, seedRows);
  add("conflicts", "ops that one axis would split twice keep the split with the least time", always,
      Facts{"axes"}, Facts{"sites"}, resolveConflicts, /*required=*/true);
  add(
      "sp", "tokens of ops that tp does not split otherwise",
      [](const ShardSpec &spec) { return spec.sequenceParallel; }, Facts{"sites"}, Facts{"tokens"},
      seedSequence);
  return list;
}

std::vector<std::unique_ptr<Tactic>> &getRegistry() {
  static std::vector<std::unique_ptr<Tactic>> registry = makeBuiltinTactics();
  return registry;
}

bool precedes(const Tactic &first, const Tactic &second) {
  return llvm::any_of(first.getProvides(),
                      [&](StringRef fact) { return llvm::is_contained(second.getNeeds(), fact); });
}

} // namespace

void mlir::tpc::registerTactic(std::unique_ptr<Tactic> tactic) {
  getRegistry().push_back(std::move(tactic));
}

FailureOr<SmallVector<const Tactic *>>
mlir::tpc::getTactics(const ShardSpec &spec, function_ref<InFlightDiagnostic()> emit) {
  SmallVector<const Tactic *> enabled, order;
  llvm::SmallDenseSet<StringRef> names, facts;
  for (const auto &tactic : getRegistry()) {
    for (StringRef fact : tactic->getProvides())
      facts.insert(fact);
    if (!names.insert(tactic->getName()).second)
      return emit() << "two tactics are registered as '" << tactic->getName() << "'";
    if (tactic->isEnabled(spec))
      enabled.push_back(tactic.get());
  }
  for (const Tactic *tactic : enabled)
    for (StringRef fact : tactic->getNeeds())
      if (!facts.contains(fact))
        return emit() << "tactic '" << tactic->getName() << "' needs '" << fact
                      << "', which no tactic provides";
  while (!enabled.empty()) {
    auto *next = llvm::find_if(enabled, [&](const Tactic *tactic) {
      return llvm::none_of(enabled, [&](const Tactic *other) { return precedes(*other, *tactic); });
    });
    if (next == enabled.end()) {
      InFlightDiagnostic diag = emit() << "tactics need each other: ";
      llvm::interleaveComma(enabled, diag, [&](const Tactic *t) { diag << t->getName(); });
      return diag;
    }
    order.push_back(*next);
    enabled.erase(next);
  }
  return order;
}

SmallVector<const Tactic *> mlir::tpc::getTacticsFor(ArrayRef<const Tactic *> order,
                                                     StringRef fact) {
  SmallVector<const Tactic *> chosen;
  for (const Tactic *tactic : llvm::reverse(order))
    if (llvm::is_contained(tactic->getProvides(), fact) ||
        llvm::any_of(chosen, [&](const Tactic *later) { return precedes(*tactic, *later); }))
      chosen.push_back(tactic);
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}
