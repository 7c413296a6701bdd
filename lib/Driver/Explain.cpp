//===- Explain.cpp - Effects of each tactic -------------------------------===//

#include "Explain.h"

#include "tpc/Analysis/ParseSymbols.h"
#include "tpc/Analysis/PeakMemory.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Driver/Passes.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Transforms/Tactics/Tactic.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Format.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_EXPLAIN
#include "tpc/Driver/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Report data of a program after the first tactics.
struct Snapshot {
  Report report;
  int64_t weights = 0, peak = 0;
  /// Splits by name, in the order of tpc.tactics.
  std::vector<std::pair<std::string, std::string>> splits;
};

} // namespace

static FailureOr<Snapshot> takeSnapshot(ModuleOp model, ::tpc::ShardSpec spec,
                                        ArrayRef<const Tactic *> tactics, const Symbols &symbols) {
  OwningOpRef<ModuleOp> module = model.clone();
  PassManager pm(model.getContext());
  if (!getTacticsFor(tactics, "widths").empty())
    ::tpc::buildRewritePassPipeline(pm, spec);
  AssignShardingsOptions assign;
  assign.shard = spec;
  assign.tactics = tactics.size();
  pm.addPass(createAssignShardings(assign));
  pm.addPass(createInsertReshards());
  // Expected collectives of later tactics are missing, so unexpected collectives are accepted here.
  spec.allowReshard = true;
  ::tpc::buildSpmdPassPipeline(pm, spec);
  ::tpc::buildStagesPassPipeline(pm);
  if (failed(pm.run(*module)))
    return failure();

  Snapshot snapshot;
  auto report = computeReport(*module, symbols);
  if (failed(report))
    return failure();
  snapshot.report = std::move(*report);
  std::vector<int64_t> peaks = getPeakActivationBytes(*module, symbols);
  for (auto [stage, live] : llvm::zip(snapshot.report.stages, peaks)) {
    snapshot.weights = std::max(snapshot.weights, stage.weightBytes);
    snapshot.peak = std::max(snapshot.peak, stage.weightBytes + live);
  }
  if (auto list = module.get()->getAttrOfType<ArrayAttr>(kTacticsAttr))
    for (auto tactic : list.getAsRange<DictionaryAttr>())
      for (auto split : tactic.getAs<ArrayAttr>("splits").getAsRange<StringAttr>())
        snapshot.splits.push_back(
            {tactic.getAs<StringAttr>("name").getValue().str(), split.getValue().str()});
  return snapshot;
}

/// Sums the rows of all stages by axis and kind, except outputs.
static std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>>
sumRows(const Report &report) {
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> sums;
  for (const CollectiveRow &row : report.collectives) {
    if (row.axis == "output")
      continue;
    auto &sum = sums[{row.axis, row.kind}];
    sum.first += row.count;
    sum.second += row.bytes;
  }
  return sums;
}

static TacticEffect compare(const std::string &name, const Snapshot &before,
                            const Snapshot &after) {
  TacticEffect effect;
  effect.name = name;
  effect.weightsBefore = before.weights;
  effect.weights = after.weights;
  effect.peakBefore = before.peak;
  effect.peak = after.peak;
  for (const auto &split : after.splits)
    if (!llvm::is_contained(before.splits, split))
      effect.splits.push_back(split.first == name ? split.second
                                                  : split.first + ": " + split.second);
  auto old = sumRows(before.report), now = sumRows(after.report);
  for (const auto &[key, sum] : old)
    now.try_emplace(key, 0, 0);
  for (const auto &[key, sum] : now) {
    std::pair<int64_t, int64_t> was = old.count(key) ? old[key] : std::pair<int64_t, int64_t>();
    if (sum != was)
      effect.communication.push_back(
          {0, key.first, key.second, sum.first - was.first, sum.second - was.second});
  }
  return effect;
}

/// Returns a copy of a model with the rewrites that run before the tactics.
static FailureOr<OwningOpRef<ModuleOp>> rewrite(ModuleOp model, const ::tpc::ShardSpec &spec) {
  OwningOpRef<ModuleOp> copy = model.clone();
  PassManager pm(model.getContext());
  ::tpc::buildRewritePassPipeline(pm, spec);
  if (failed(pm.run(*copy)))
    return failure();
  return copy;
}

FailureOr<Explanation> mlir::tpc::explainTactics(ModuleOp module, const ::tpc::ShardSpec &spec,
                                                 const Symbols &given) {
  // Uses one stage first, because pipelining is the last tactic.
  ::tpc::ShardSpec flat = spec;
  flat.chunksPerRank = 1;
  for (::tpc::Grid *grid : {&flat.grid, &flat.experts}) {
    std::vector<::tpc::Grid::Axis> axes = grid->axes();
    for (::tpc::Grid::Axis &axis : axes)
      axis.size = axis.name == kPipelineAxis ? 1 : axis.size;
    *grid = ::tpc::Grid(std::move(axes));
  }

  Explanation explanation;
  explanation.symbols = getNominalSymbols(module);
  int64_t samples = spec.grid.size("dp") * spec.microBatches;
  // Sets the nominal batch to one sample for each micro-batch of each replica.
  std::set<std::string> batch;
  if (auto main = module.lookupSymbol<FunctionOpInterface>("main"))
    for (Type type : main.getArgumentTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() > 1)
        getSizes(tensor)[0].collectSymbols(batch);
  for (auto &[name, value] : explanation.symbols)
    if (batch.count(name))
      value = samples;
  for (const auto &[name, value] : given)
    explanation.symbols[name] = value;

  FailureOr<SmallVector<const Tactic *>> tactics =
      getTactics(spec, [&] { return emitError(module.getLoc()); });
  if (failed(tactics))
    return failure();
  llvm::erase_if(*tactics, [](const Tactic *tactic) { return tactic->isRequired(); });
  FailureOr<Snapshot> before = takeSnapshot(module, flat, {}, explanation.symbols);
  if (failed(before))
    return failure();
  auto add = [&](StringRef name, StringRef summary, FailureOr<Snapshot> after) -> LogicalResult {
    if (failed(after))
      return failure();
    explanation.tactics.push_back(compare(name.str(), *before, *after));
    explanation.tactics.back().summary = summary.str();
    before = std::move(after);
    return success();
  };
  for (auto [i, tactic] : llvm::enumerate(*tactics))
    if (failed(add(
            tactic->getName(), tactic->getSummary(),
            takeSnapshot(module, flat, ArrayRef(*tactics).take_front(i + 1), explanation.symbols))))
      return failure();
  if (spec.grid.size("pp") > 1) {
    if (failed(add("pp", "layers over stages, so that the slowest stage takes the least time",
                   takeSnapshot(module, spec, *tactics, explanation.symbols))))
      return failure();
    TacticEffect &effect = explanation.tactics.back();
    effect.splits.insert(effect.splits.begin(),
                         "layers over " + std::to_string(spec.grid.size("pp")) + " stages");
  }
  FailureOr<OwningOpRef<ModuleOp>> copy = rewrite(module, spec);
  if (failed(copy))
    return failure();
  auto reasons = getSplitReasons(**copy, spec);
  if (failed(reasons))
    return failure();
  for (TacticEffect &effect : explanation.tactics)
    for (const std::string &split : effect.splits)
      effect.reasons.push_back((*reasons)[{effect.name, split}]);
  return explanation;
}

static std::string printBytes(int64_t bytes) {
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  unsigned unit = 0;
  for (; std::abs(value) >= 1024 && unit < 4; ++unit)
    value /= 1024;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::format(unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

void Explanation::print(llvm::raw_ostream &os) const {
  os << "Tactic by tactic, for one step with ";
  llvm::interleaveComma(symbols, os, [&](auto &s) { os << s.first << "=" << s.second; });
  os << (symbols.empty() ? "no sizes to choose" : "") << ":\n";
  for (const TacticEffect &effect : tactics) {
    os << effect.name << ": " << effect.summary << "\n";
    if (effect.splits.empty())
      os << "  splits nothing\n";
    for (auto [split, why] : llvm::zip_equal(effect.splits, effect.reasons))
      os << "  " << split << (why.empty() ? "" : " (" + why + ")") << "\n";
    for (const CollectiveRow &row : effect.communication)
      os << "  " << row.axis << " " << row.kind << ": " << (row.count >= 0 ? "+" : "") << row.count
         << ", " << (row.bytes >= 0 ? "+" : "") << printBytes(row.bytes) << "\n";
    if (effect.splits.empty() && effect.communication.empty() && effect.peak == effect.peakBefore)
      continue;
    os << "  peak per rank " << printBytes(effect.peakBefore) << " -> " << printBytes(effect.peak)
       << ", of which weights " << printBytes(effect.weightsBefore) << " -> "
       << printBytes(effect.weights) << "\n";
  }
}

llvm::json::Value Explanation::toJSON() const {
  llvm::json::Object shape;
  for (const auto &[name, value] : symbols)
    shape[name] = value;
  llvm::json::Array list;
  for (const TacticEffect &effect : tactics) {
    llvm::json::Array rows;
    for (const CollectiveRow &row : effect.communication)
      rows.push_back(llvm::json::Object{
          {"axis", row.axis}, {"kind", row.kind}, {"count", row.count}, {"bytes", row.bytes}});
    list.push_back(llvm::json::Object{{"name", effect.name},
                                      {"summary", effect.summary},
                                      {"splits", llvm::json::Array(effect.splits)},
                                      {"reasons", llvm::json::Array(effect.reasons)},
                                      {"adds", std::move(rows)},
                                      {"weight_bytes", effect.weights},
                                      {"peak_bytes", effect.peak},
                                      {"weight_bytes_before", effect.weightsBefore},
                                      {"peak_bytes_before", effect.peakBefore}});
  }
  return llvm::json::Object{{"shape", std::move(shape)}, {"tactics", std::move(list)}};
}

FailureOr<ValueExplanations> mlir::tpc::explainValues(ModuleOp module, const ::tpc::ShardSpec &spec,
                                                      const std::string &name) {
  FailureOr<OwningOpRef<ModuleOp>> copy = rewrite(module, spec);
  if (failed(copy))
    return failure();
  auto values = explainDistributions(**copy, spec, name);
  if (failed(values))
    return failure();
  return ValueExplanations{std::move(*values)};
}

llvm::json::Value ValueExplanations::toJSON() const {
  llvm::json::Array list;
  for (const ValueExplanation &value : values)
    list.push_back(value.toJSON());
  return list;
}

void ValueExplanations::print(llvm::raw_ostream &os) const {
  for (const ValueExplanation &value : values)
    value.print(os);
}

namespace {
struct Explain : public mlir::tpc::impl::ExplainBase<Explain> {
  using ExplainBase::ExplainBase;
  void runOnOperation() override {
    FailureOr<Symbols> symbols =
        parseSymbols(ArrayRef<std::string>(shape), getOperation().getLoc());
    if (failed(symbols))
      return signalPassFailure();
    if (why.empty())
      printOrFail(explainTactics(getOperation(), shard, *symbols));
    else
      printOrFail(explainValues(getOperation(), shard, why));
  }

  template <typename T> void printOrFail(const FailureOr<T> &explanation) {
    if (failed(explanation))
      return signalPassFailure();
    if (json)
      llvm::outs() << llvm::formatv("{0:2}", explanation->toJSON()) << "\n";
    else
      explanation->print(llvm::outs());
  }
};
} // namespace
