//===- MemoryPlan.cpp - Splits that fit into given GPU memory -------------===//

#include "MemoryPlan.h"
#include "TpccOptions.h"

#include "tpc/Analysis/Report.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/attention.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::MemoryPlan;
using ::tpc::MemoryRow;
using ::tpc::SymExpr;

/// Maximum number of ranks in the search.
static constexpr int64_t maxRanks = 1024;
/// Page size of GPU drivers, and the minimum size of an allocation with its own pages.
static constexpr int64_t page = 2 << 20, largeFrom = 1 << 20;
/// Alignment of buffers within one allocation.
static constexpr int64_t alignment = 256;
/// Workspace of GEMM libraries on the latest GPUs, and two pages for small allocations.
static constexpr int64_t libraryBytes = (32 << 20) + 2 * page;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static llvm::Expected<int64_t> parseMemory(StringRef text) {
  auto refuse = [&](const Twine &why) {
    return llvm::createStringError(std::make_error_code(std::errc::invalid_argument),
                                   "--memory-plan=" + text + ": " + why);
  };
  StringRef number = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  StringRef unit = text.drop_front(number.size());
  double scale = llvm::StringSwitch<double>(unit)
                     .Case("MiB", 0x1p20)
                     .Case("GiB", 0x1p30)
                     .Case("TiB", 0x1p40)
                     .Case("MB", 1e6)
                     .Case("GB", 1e9)
                     .Case("TB", 1e12)
                     .Default(0);
  double value = 0;
  if (number.empty() || number.getAsDouble(value) || scale == 0)
    return refuse("expected the memory of a GPU, a number with MiB, GiB, TiB, MB, GB or TB, such "
                  "as 80GiB");
  double bytes = value * scale;
  if (bytes < 1 || bytes > 0x1p60)
    return refuse("no GPU has so " + Twine(bytes < 1 ? "little" : "much") + " memory");
  return static_cast<int64_t>(bytes);
}

namespace tpc {
llvm::Expected<int64_t> checkMemoryPlan(TpccOptions &options) {
  auto makeError = [](const Twine &message) {
    return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
  };
  llvm::Expected<int64_t> bytes = parseMemory(options.memoryPlan);
  if (!bytes)
    return bytes.takeError();
  if (!options.output.empty() || options.emitGiven || !options.report.empty() ||
      !options.certificate.empty() || options.explain)
    return makeError("--memory-plan compiles nothing: leave out -o, --emit, --report, "
                     "--certificate and --explain, and compile for the split that you choose");
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
  return bytes;
}
} // namespace tpc

namespace {

/// Sum of allocations, rounded as drivers round them.
class AllocationSum {
public:
  void add(int64_t bytes) {
    if (bytes >= largeFrom)
      large += llvm::alignTo(bytes, page);
    else
      small += llvm::alignTo(std::max<int64_t>(bytes, 256), 512);
  }
  int64_t get() const { return large + static_cast<int64_t>(llvm::alignTo(small, page)); }

private:
  int64_t large = 0, small = 0;
};

/// Computes stack memory of buffer functions on the rank with coordinate 0 on every axis, which has
/// the largest shards.
class StackCounter {
public:
  StackCounter(ModuleOp module, const Symbols &symbols)
      : module(module), grid(GridAttr::lookup(module)), symbols(symbols) {}

  int64_t evaluate(const SymExpr &size) const;
  int64_t evaluate(buffer::ExprAttr size) const { return evaluate(size.getExpr()); }
  /// Returns the maximum total size of live frames.
  int64_t getPeak(Block &block);
  /// Maximum workspace of attention kernels in the function and its callees.
  int64_t workspace = 0;
  /// Maximum size of packed send and receive buffers, which are on the stack as well.
  int64_t staging = 0;

private:
  void visit(Operation &op);

  ModuleOp module;
  GridAttr grid;
  const Symbols &symbols;
  DenseMap<Operation *, int64_t> functions;
};

} // namespace

int64_t StackCounter::evaluate(const SymExpr &size) const {
  SymExpr numbers = substituteNumbers(size, grid);
  std::set<std::string> names;
  numbers.collectSymbols(names);
  std::map<std::string, int64_t> values;
  for (const std::string &name : names) {
    auto known = symbols.find(name);
    values[name] = known == symbols.end() ? 0 : known->second; // 0 for coordinates
  }
  // A size that exceeds 64 bits is treated as too large for any GPU.
  return std::max<int64_t>(numbers.evaluate(values).value_or(int64_t(1) << 60), 0);
}

void StackCounter::visit(Operation &op) {
  if (auto attention = dyn_cast<buffer::AttentionOp>(op)) {
    tpc_attention_args args = {};
    args.batch = evaluate(attention.getBatch());
    args.seq_q = evaluate(attention.getQueries());
    args.seq_k = evaluate(attention.getKeys());
    args.heads_q = evaluate(attention.getHeads());
    args.heads_kv = evaluate(attention.getKvHeads());
    args.value_size = evaluate(attention.getValueSize());
    if (::tpc::attention::splitsKeys(args))
      workspace = std::max(workspace, ::tpc::attention::getWorkspaceBytes(args) +
                                          ::tpc::attention::getCounterBytes(args));
  } else if (op.hasAttr("axes") && !isa<buffer::AllReduceOp>(op)) {
    // Packed send and receive buffers, with shards rounded up to equal sizes.
    int64_t bytes = 0;
    for (Value operand : op.getOperands())
      if (isa<buffer::PlaceType>(operand.getType()))
        bytes += evaluate(buffer::getExtent(operand).getBytes());
    staging = std::max(staging, 2 * bytes);
  }
}

int64_t StackCounter::getPeak(Block &block) {
  int64_t live = 0, peak = 0;
  for (Operation &op : block) {
    int64_t inside = 0;
    if (auto push = dyn_cast<buffer::PushOp>(op)) {
      live += llvm::alignTo(std::max<int64_t>(evaluate(push.getBytes()), 1), 64);
    } else if (auto pop = dyn_cast<buffer::PopOp>(op)) {
      auto push = pop.getFrame().getDefiningOp<buffer::PushOp>();
      live -= llvm::alignTo(std::max<int64_t>(evaluate(push.getBytes()), 1), 64);
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      auto callee = module.lookupSymbol<buffer::FuncOp>(call.getCallee());
      auto [it, isNew] = functions.try_emplace(callee, 0);
      if (isNew)
        functions[callee] = inside = getPeak(callee.getBody().front());
      else
        inside = it->second;
    } else {
      visit(op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          inside = std::max(inside, getPeak(inner));
    }
    peak = std::max(peak, live + inside);
  }
  return peak;
}

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
  AllocationSum inputs;
  for (PipelineOp pipeline : module->getOps<PipelineOp>())
    for (Type type : pipeline.getBody().front().getArgumentTypes())
      inputs.add(static_cast<int64_t>(estimateBytes(type, symbols)));

  PassManager plan(model.getContext());
  ::tpc::buildKernelsPassPipeline(plan);
  ::tpc::buildBuffersPassPipeline(plan);
  if (failed(plan.run(*module)))
    return failure();
  for (auto function : module->getOps<buffer::FuncOp>()) {
    if (!function.getStage())
      continue;
    const StageRow &stage = report->stages[static_cast<size_t>(*function.getStage())];
    MemoryRow own = row;
    // All weights are one allocation; all constants are another.
    int64_t ofParameters = 0, ofConstants = 0;
    for (const ParameterRow &parameter : stage.parameters)
      ofParameters += llvm::alignTo(parameter.bytes, alignment);
    module->walk([&](buffer::ConstantOp constant) {
      ofConstants += llvm::alignTo(
          evaluateOr1(buffer::getExtent(constant.getPlace()).getBytes(), symbols), alignment);
    });
    AllocationSum weights;
    weights.add(ofParameters);
    weights.add(ofConstants);
    own.weights = weights.get();
    own.inputs = inputs.get();
    StackCounter counter(*module, symbols);
    int64_t peak = counter.getPeak(function.getBody().front());
    AllocationSum step;
    step.add(std::max<int64_t>(peak + counter.staging, 256 << 10));
    step.add(counter.workspace);
    own.step = step.get();
    own.libraries = libraryBytes;
    if (own.getNeed() > row.getNeed())
      row = own;
  }
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
      row.ranks = spec->grid.worldSize();
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

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static std::string gib(int64_t bytes) {
  bool large = std::abs(bytes) >= (int64_t(1) << 30);
  return llvm::formatv("{0:f2} {1}", double(bytes) / (large ? 0x1p30 : 0x1p20),
                       large ? "GiB" : "MiB");
}

void MemoryPlan::print(llvm::raw_ostream &os) const {
  os << "Ranks with " << gib(memory) << " each, at ";
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
    for (int64_t bytes : {row.getNeed(), row.weights, row.inputs, row.step, row.libraries})
      os << llvm::right_justify(gib(bytes), 12);
    if (row.getNeed() <= memory)
      os << llvm::right_justify(gib(memory - row.getNeed()), 12) << "\n";
    else
      os << "    too much\n";
  }
  if (!fits) {
    os << "\nNone of these fits, and more ranks would not reduce the memory of a rank: run smaller "
          "sizes (--shape), or use "
          "GPUs "
          "with more memory.\n";
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
      one["inputs"] = row.inputs;
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
