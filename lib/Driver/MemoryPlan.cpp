//===- MemoryPlan.cpp - Splits that fit into given GPU memory -------------===//

#include "MemoryPlan.h"
#include "TpccOptions.h"

#include "tpc/Analysis/Report.h"
#include "tpc/Dialect/State.h"
#include "tpc/Driver/PassPipelines.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::MemoryPlan;
using ::tpc::MemoryRow;

/// Maximum number of ranks in the search.
static constexpr int64_t maxRanks = 1024;

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

namespace tpc {
llvm::Expected<int64_t> checkMemoryPlan(TpccOptions &options) {
  auto makeError = [](const Twine &message) {
    return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
  };
  std::string error;
  std::optional<int64_t> bytes = parseMemorySize(options.memoryPlan, error);
  if (!bytes)
    return makeError("--memory-plan=" + options.memoryPlan + ": " + error);
  if (!options.output.empty() || options.emitGiven || !options.report.empty() ||
      !options.certificate.empty() || options.explain || !options.why.empty())
    return makeError(
        "--memory-plan compiles nothing: leave out -o, --emit, --report, "
        "--certificate, --explain and --why, and compile for the split that you choose");
  if (!options.shardGiven)
    options.megatronShard.clear(); // removes the default tp1
  for (llvm::StringRef item : llvm::split(options.megatronShard, ','))
    if (item.trim().starts_with("tp") || item.trim().starts_with("pp"))
      return makeError("--memory-plan finds tp and pp itself: leave '" + item.trim() +
                       "' out of --megatron-shard");
  if (!options.target.empty() && options.target != "cuda")
    return makeError("--memory-plan is only for GPUs: --target must be cuda, but is " +
                     options.target);
  options.target = "cuda";
  return *bytes;
}
} // namespace tpc

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

/// Computes the memory of a split.
static LogicalResult count(ModuleOp model, const ::tpc::ShardSpec &spec, const Symbols &symbols,
                           MemoryRow &row) {
  OwningOpRef<ModuleOp> module = model.clone();
  PassManager split(model.getContext());
  for (::tpc::Emit level : {::tpc::Emit::Sharded, ::tpc::Emit::Spmd, ::tpc::Emit::Staged})
    ::tpc::buildLevelPassPipeline(split, level, spec, nullptr, /*last=*/false);
  if (failed(split.run(*module)))
    return failure();
  FailureOr<Report> report = computeReport(*module, symbols);
  if (failed(report))
    return failure();

  PassManager plan(model.getContext());
  ::tpc::buildKernelsPassPipeline(plan);
  ::tpc::buildBuffersPassPipeline(plan);
  if (failed(plan.run(*module)))
    return failure();
  static_cast<RankMemory &>(row) =
      getRankMemory(*module, MeshAttr::lookup(*module), *report, symbols);
  return success();
}

namespace tpc {
FailureOr<MemoryPlan> planMemory(ModuleOp model, StringRef base, int64_t memory,
                                 const Symbols &symbols) {
  MemoryPlan plan{memory, symbols, {}, false};
  int64_t largestTp = maxRanks, largestPp = maxRanks; // maximum tp and pp that the model supports
  int64_t least = INT64_MAX;                          // minimum memory over all splits
  bool helps = true; // whether doubling the number of ranks reduces the memory of a rank
  for (int64_t ranks = 1; ranks <= maxRanks && !plan.fits && helps; ranks *= 2) {
    helps = false;
    for (int64_t pp = 1; pp <= ranks; pp *= 2) {
      MemoryRow row;
      row.tp = ranks / pp;
      row.pp = pp;
      if (row.tp > largestTp || row.pp > largestPp)
        continue;
      std::string text = (base.empty() ? "" : base + ",").str() + "tp" + std::to_string(row.tp) +
                         ",pp" + std::to_string(row.pp);
      std::string error;
      std::optional<ShardSpec> spec = ShardSpec::parse(text, error);
      if (!spec) {
        emitError(model.getLoc()) << "--megatron-shard=" << text << ": " << error;
        return failure();
      }
      row.ranks = spec->grid.numRanks();
      // If a split is rejected, larger splits of the same axis are rejected as well.
      ScopedDiagnosticHandler quiet(model.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error && row.why.empty())
          row.why = diagnostic.str();
        return success();
      });
      row.exists = succeeded(count(model, *spec, symbols, row));
      if (!row.exists && row.tp == 1)
        largestPp = row.pp / 2;
      if (!row.exists && row.pp == 1)
        largestTp = row.tp / 2;
      if (!row.exists && ranks == 1) {
        emitError(model.getLoc()) << row.why;
        return failure();
      }
      plan.fits |= row.exists && row.getNeed() <= memory;
      helps |= row.exists && row.getNeed() < least;
      if (row.exists)
        least = std::min(least, row.getNeed());
      plan.rows.push_back(std::move(row));
    }
  }
  return plan;
}
} // namespace tpc

namespace tpc {
FailureOr<std::optional<TrainingMemory>> planTraining(ModuleOp staged, const Symbols &symbols) {
  if (!staged->hasAttr(kOptimizerAttr))
    return std::optional<TrainingMemory>();
  OwningOpRef<ModuleOp> module = staged.clone();
  PassManager plan(staged.getContext());
  ::tpc::buildKernelsPassPipeline(plan);
  ::tpc::buildBuffersPassPipeline(plan);
  if (failed(plan.run(*module)))
    return failure();
  return getTrainingMemory(*module, MeshAttr::lookup(*module), symbols);
}
} // namespace tpc

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

void MemoryPlan::print(llvm::raw_ostream &os) const {
  os << "Ranks with " << formatMemorySize(memory) << " each, at ";
  llvm::interleaveComma(shape, os,
                        [&](const auto &size) { os << size.first << "=" << size.second; });
  os << ": memory of the worst-case rank\n\n";
  os << "  tp   pp  ranks        need     weights      inputs        step   libraries   remains\n";
  for (const MemoryRow &row : rows) {
    os << llvm::format("%4lld %4lld  %5lld", static_cast<long long>(row.tp),
                       static_cast<long long>(row.pp), static_cast<long long>(row.ranks));
    if (!row.exists) {
      os << "  impossible: " << StringRef(row.why).split('\n').first << "\n";
      continue;
    }
    for (int64_t bytes :
         {row.getNeed(), row.weights, row.caches + row.inputs, row.step, row.libraries})
      os << llvm::right_justify(formatMemorySize(bytes), 12);
    if (row.getNeed() <= memory)
      os << llvm::right_justify(formatMemorySize(memory - row.getNeed()), 12) << "\n";
    else
      os << "    too much\n";
  }
  if (!fits) {
    os << "\nNone of these fits, and more ranks would not reduce the memory of a rank: run smaller "
          "sizes (--shape), or use GPUs with more memory.\n";
    return;
  }
  os << "\nThe smallest that fit:\n";
  for (const MemoryRow &row : rows)
    if (row.exists && row.getNeed() <= memory)
      os << "  --megatron-shard=tp" << row.tp << ",pp" << row.pp << "\n";
  os << "Not counted: some hundred MiB of the driver and its libraries.\n";
}

llvm::json::Value MemoryPlan::toJSON() const {
  llvm::json::Array list;
  for (const MemoryRow &row : rows) {
    llvm::json::Object one{{"tp", row.tp}, {"pp", row.pp}, {"ranks", row.ranks}};
    if (!row.exists) {
      one["refused"] = row.why;
    } else {
      one["need"] = row.getNeed();
      one["weights"] = row.weights;
      one["inputs"] = row.caches + row.inputs;
      one["step"] = row.step;
      one["libraries"] = row.libraries;
      one["remains"] = memory - row.getNeed();
      one["fits"] = row.getNeed() <= memory;
    }
    list.push_back(std::move(one));
  }
  llvm::json::Object sizes;
  for (const auto &[name, size] : shape)
    sizes[name] = size;
  return llvm::json::Object{
      {"memory", memory}, {"shape", std::move(sizes)}, {"splits", std::move(list)}};
}
