//===- RankMemory.cpp - Memory of a rank before compilation ---------------===//

#include "tpc/Plan/RankMemory.h"

#include "tpc/Buffer/Async.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Cost/LocalSizes.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/State.h"
#include "tpc/attention.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Page size of GPU drivers, and the minimum size of an allocation with its own pages.
static constexpr int64_t page = 2 << 20, largeFrom = 1 << 20;
/// Minimum size of a device's stack.
static constexpr int64_t minStack = 256 << 10;
/// Alignment of buffers and frames within one allocation.
static constexpr int64_t alignment = 256;
/// Workspace of GEMM libraries on the latest GPUs, and two pages for small allocations.
static constexpr int64_t libraryBytes = (32 << 20) + 2 * page;

std::optional<int64_t> mlir::tpc::parseMemorySize(StringRef text, std::string &error) {
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
  if (number.empty() || number.getAsDouble(value) || scale == 0) {
    error = "expected the memory of a device, a number with MiB, GiB, TiB, MB, GB or TB, such as "
            "80GiB";
    return std::nullopt;
  }
  double bytes = value * scale;
  if (bytes < 1 || bytes > 0x1p60) {
    error = std::string("no device has so ") + (bytes < 1 ? "little" : "much") + " memory";
    return std::nullopt;
  }
  return static_cast<int64_t>(bytes);
}

std::string mlir::tpc::formatMemorySize(int64_t bytes) {
  bool large = std::abs(bytes) >= (int64_t(1) << 30);
  return llvm::formatv("{0:f2} {1}", double(bytes) / (large ? 0x1p30 : 0x1p20),
                       large ? "GiB" : "MiB");
}

void RankMemory::print(llvm::raw_ostream &os) const {
  os << formatMemorySize(getNeed()) << ": weights " << formatMemorySize(weights) << ", caches "
     << formatMemorySize(caches) << ", inputs " << formatMemorySize(inputs) << ", step "
     << formatMemorySize(step) << ", libraries " << formatMemorySize(libraries);
}

llvm::json::Object RankMemory::toJSON() const {
  return llvm::json::Object{{"need", getNeed()},    {"weights", weights}, {"caches", caches},
                            {"inputs", inputs},     {"step", step},       {"libraries", libraries},
                            {"peak_node", peakNode}};
}

namespace {

/// Sum of allocations, on devices rounded as drivers round them.
class AllocationSum {
public:
  explicit AllocationSum(bool rounds) : rounds(rounds) {}
  void add(int64_t bytes) {
    if (!rounds)
      large += bytes;
    else if (bytes >= largeFrom)
      large += llvm::alignTo(bytes, page);
    else
      small += llvm::alignTo(std::max<int64_t>(bytes, 256), 512);
  }
  int64_t get() const { return large + static_cast<int64_t>(llvm::alignTo(small, page)); }

private:
  bool rounds;
  int64_t large = 0, small = 0;
};

/// Computes stack memory of buffer functions on the rank with coordinate 0 on every axis, which has
/// the largest shards.
class StackCounter {
public:
  StackCounter(ModuleOp module, MeshAttr grid, const Symbols &symbols) : sizes(grid, symbols) {
    for (auto function : module.getOps<buffer::FuncOp>())
      callees[function.getSymName()] = function;
  }

  /// A size that exceeds 64 bits is treated as too large for any GPU.
  int64_t evaluate(const SymExpr &size) {
    return std::max<int64_t>(sizes.evaluate(size).value_or(int64_t(1) << 60), 0);
  }
  int64_t evaluate(buffer::ExprAttr size) { return evaluate(size.getExpr()); }
  /// Maximum total size of live frames, and the op at which it is reached.
  struct Peak {
    int64_t bytes = 0;
    Operation *op = nullptr;
  };
  Peak getPeak(Block &block);
  /// Maximum workspace of attention kernels in the function and its callees.
  int64_t workspace = 0;
  /// Maximum size of packed send and receive buffers, which are on the stack as well.
  int64_t staging = 0;

private:
  void visit(Operation &op);

  LocalSizes sizes;
  llvm::StringMap<buffer::FuncOp> callees;
  DenseMap<Operation *, Peak> functions;
};

} // namespace

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
  } else if (op.hasAttr("axes") && !isa<buffer::AllReduceOp, buffer::AllReduceStartOp>(op)) {
    // Packed send and receive buffers, with shards rounded up to equal sizes.
    int64_t bytes = 0;
    for (Value operand : op.getOperands())
      if (isa<buffer::BufferType>(operand.getType()))
        bytes += evaluate(buffer::getExtent(operand).getBytes());
    staging = std::max(staging, 2 * bytes);
  }
}

static int64_t alignFrame(int64_t bytes) {
  return llvm::alignTo(std::max<int64_t>(bytes, 1), alignment);
}

StackCounter::Peak StackCounter::getPeak(Block &block) {
  int64_t live = 0;
  Peak peak;
  for (Operation &op : block) {
    Peak inside{0, &op};
    if (auto push = dyn_cast<buffer::PushOp>(op)) {
      live += alignFrame(evaluate(push.getBytes()));
    } else if (auto pop = dyn_cast<buffer::PopOp>(op)) {
      auto push = pop.getFrame().getDefiningOp<buffer::PushOp>();
      live -= alignFrame(evaluate(push.getBytes()));
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      buffer::FuncOp callee = callees.lookup(call.getCallee());
      auto [it, isNew] = functions.try_emplace(callee);
      if (isNew)
        functions[callee] = inside = getPeak(callee.getBody().front());
      else
        inside = it->second;
    } else {
      visit(op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          if (Peak one = getPeak(inner); one.bytes > inside.bytes)
            inside = one;
    }
    // Frames and slots are not calls: the peak is at the first call with all frames live.
    bool isCall = !isa<buffer::PushOp, buffer::PopOp, buffer::SlotOp>(op);
    if (live + inside.bytes > peak.bytes ||
        (isCall && live + inside.bytes == peak.bytes && isa_and_nonnull<buffer::PushOp>(peak.op)))
      peak = {live + inside.bytes, inside.op ? inside.op : &op};
  }
  return peak;
}

/// Returns the first ONNX node from an op on, in program order. Calls and messages have none.
static std::string getNodeName(Operation *op) {
  for (; op; op = op->getNextNode()) {
    std::string name = isa<FileLineColLoc>(op->getLoc()) ? "" : getSourceName(op->getLoc());
    if (auto call = dyn_cast<buffer::CallOp>(op); call && name.empty()) {
      auto module = call->getParentOfType<ModuleOp>();
      auto callee = module.lookupSymbol<buffer::FuncOp>(call.getCallee());
      name = getNodeName(&callee.getBody().front().front());
    }
    if (!name.empty())
      return name;
  }
  return "";
}

std::vector<RankMemory> mlir::tpc::getStageMemories(ModuleOp lowered, MeshAttr grid,
                                                    const Report &report, const Symbols &symbols) {
  bool isDevice = bool(TargetTraits::get(lowered).emitKernels);
  AllocationSum inputs(isDevice);
  for (PipelineOp pipeline : lowered.getOps<PipelineOp>())
    for (auto [argument, attributes] :
         llvm::zip(pipeline.getBody().front().getArguments(), pipeline.getInputAttrs()))
      if (!getCache(cast<DictionaryAttr>(attributes)))
        inputs.add(static_cast<int64_t>(estimateBytes(argument.getType(), symbols)));
  // All weights are one allocation; all constants are another.
  int64_t ofConstants = 0;
  lowered->walk([&](buffer::ConstantOp constant) {
    ofConstants += llvm::alignTo(
        evaluateOr1(buffer::getExtent(constant.getBuffer()).getBytes(), symbols), alignment);
  });
  std::vector<RankMemory> stages(report.stages.size());
  for (auto function : lowered.getOps<buffer::FuncOp>()) {
    if (!function.getStage())
      continue;
    const StageRow &stage = report.stages[static_cast<size_t>(*function.getStage())];
    RankMemory memory;
    int64_t ofParameters = 0;
    for (const ParameterRow &parameter : stage.parameters)
      ofParameters += llvm::alignTo(parameter.bytes, alignment);
    AllocationSum weights(isDevice);
    weights.add(ofParameters);
    weights.add(ofConstants);
    memory.weights = weights.get();
    if (stage.cacheBytes > 0) {
      AllocationSum caches(isDevice);
      caches.add(stage.cacheBytes);
      memory.caches = caches.get();
    }
    memory.inputs = inputs.get();
    StackCounter counter(lowered, grid, symbols);
    StackCounter::Peak peak = counter.getPeak(function.getBody().front());
    memory.peakNode = getNodeName(peak.op);
    AllocationSum step(isDevice);
    step.add(std::max<int64_t>(peak.bytes + counter.staging, isDevice ? minStack : 0));
    step.add(counter.workspace);
    memory.step = step.get();
    memory.libraries = isDevice ? libraryBytes : 0;
    stages[static_cast<size_t>(*function.getStage())] = memory;
  }
  return stages;
}

RankMemory mlir::tpc::getRankMemory(ModuleOp lowered, MeshAttr grid, const Report &report,
                                    const Symbols &symbols) {
  RankMemory worst;
  for (RankMemory &memory : getStageMemories(lowered, grid, report, symbols))
    if (memory.getNeed() > worst.getNeed())
      worst = std::move(memory);
  return worst;
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

llvm::json::Object TrainingMemory::toJSON() const {
  return llvm::json::Object{{"weight_bytes", weights},
                            {"state_bytes", state},
                            {"gradient_bytes", gradients},
                            {"activation_bytes", frames - gradients}};
}

/// Whether an output replaces the elements of this parameter.
static bool isUpdated(ModuleOp lowered, buffer::LoadAttr load) {
  for (PipelineOp pipeline : lowered.getOps<PipelineOp>())
    for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
      if (auto update = Update::get(output);
          update && update->weight.getAttr() == load.getWeight() && update->view == load.getView())
        return true;
  return false;
}

std::optional<TrainingMemory> mlir::tpc::getTrainingMemory(ModuleOp lowered, MeshAttr grid,
                                                           const Symbols &symbols) {
  TrainingMemory memory;
  StackCounter counter(lowered, grid, symbols);
  bool trains = false;
  for (auto entry : lowered.getOps<buffer::EntryOp>()) {
    buffer::LoadAttr load = entry.getLoad();
    auto weight = lowered.lookupSymbol<WeightOp>(load.getWeight());
    auto type = cast<RankedTensorType>(load.getType());
    int64_t bytes =
        counter.evaluate(getNumElements(type, grid)) * getElementBytes(type.getElementType());
    bool isState = weight && weight.getFile().empty();
    (isState ? memory.state : memory.weights) += bytes;
    if (!isUpdated(lowered, load))
      continue;
    trains = true;
    if (!isState)
      memory.gradients += bytes;
  }
  if (!trains)
    return std::nullopt;
  for (auto function : lowered.getOps<buffer::FuncOp>())
    if (function.getStage())
      memory.frames = counter.getPeak(function.getBody().front()).bytes;
  return memory;
}
