//===- OnnxSharded.cpp - Shardings as ONNX multi-device fields ------------===//

#include "OnnxSharded.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Transforms/Tactics/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

using Axes = std::vector<::tpc::ShardSpec::NamedAxis>;

/// A split factor of a weight's dimension: `size` indices, `stride` elements apart in the weight.
struct SplitFactor {
  int64_t stride, size;
  Axes axes;
  bool operator==(const SplitFactor &) const = default;
};

} // namespace

/// Returns the grid axes of a factor, without `mb`.
static Axes getAxes(ArrayRef<StringAttr> names, const Axes &grid) {
  Axes axes;
  for (StringAttr name : names)
    for (const ::tpc::ShardSpec::NamedAxis &axis : grid)
      if (axis.name == name.getValue() && axis.size > 1)
        axes.push_back(axis);
  return axes;
}

static ::tpc::OnnxSharding::Factor makeFactor(std::string size, Axes axes) {
  int64_t shards = 1;
  for (const ::tpc::ShardSpec::NamedAxis &axis : axes)
    shards *= axis.size;
  auto shardOf = [axes = std::move(axes)](int64_t rank) {
    int64_t shard = 0;
    for (const ::tpc::ShardSpec::NamedAxis &axis : axes)
      shard = shard * axis.size + axis.coordinate(rank);
    return shard;
  };
  return {std::move(size), shards, std::move(shardOf)};
}

/// Returns the split factors of a weight that `tpc.split` of a parameter specifies.
static std::vector<SplitFactor> getSplitFactors(ParameterOp parameter, const Axes &grid) {
  std::vector<SplitFactor> splitFactors;
  auto splits = parameter->getAttrOfType<ArrayAttr>(kSplitAttr);
  if (!splits)
    return splitFactors;
  ViewAttr view = parameter.getViewOrDense();
  for (auto [d, dim] : llvm::enumerate(splits.getAsRange<DimAttr>())) {
    SmallVector<StridedFactorAttr> factors = view.getFactors(d);
    int64_t inner = 1;
    for (FactorAttr factor : llvm::reverse(dim.getFactors())) {
      int64_t size = factor.getExpr().asConstant().value_or(1);
      if (auto axes = getAxes(factor.getAxes(), grid); !axes.empty()) {
        int64_t steps = 1, stride = 0;
        for (StridedFactorAttr f : llvm::reverse(factors)) {
          if (inner < steps * f.getSize()) {
            stride = inner / steps * f.getStride();
            break;
          }
          steps *= f.getSize();
        }
        splitFactors.push_back({stride, size, std::move(axes)});
      }
      inner *= size;
    }
  }
  llvm::sort(splitFactors,
             [](const SplitFactor &a, const SplitFactor &b) { return a.stride > b.stride; });
  return splitFactors;
}

/// Returns the sharding of a weight; nothing if a split factor spans several of its dimensions.
static std::optional<::tpc::OnnxSharding>
makeSharding(ArrayRef<int64_t> shape, ArrayRef<SplitFactor> splitFactors, const Axes &grid) {
  ::tpc::OnnxSharding sharding;
  sharding.dims.resize(shape.size());
  size_t used = 0;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    int64_t top = stride * shape[d]; // stride of the next outer dimension
    for (const SplitFactor &split : splitFactors) {
      if (split.stride < stride || split.stride >= stride * shape[d])
        continue;
      if (split.stride % stride || top % (split.stride * split.size))
        return std::nullopt;
      if (int64_t outer = top / (split.stride * split.size); outer > 1)
        sharding.dims[d].push_back(makeFactor(std::to_string(outer), {}));
      sharding.dims[d].push_back(makeFactor(std::to_string(split.size), split.axes));
      top = split.stride;
      ++used;
    }
    if (int64_t inner = top / stride; inner > 1 || sharding.dims[d].empty())
      sharding.dims[d].push_back(makeFactor(std::to_string(inner), {}));
  }
  if (used != splitFactors.size())
    return std::nullopt;
  return sharding;
}

/// Converts an annotation without '?' entries.
static ::tpc::OnnxSharding readSharding(ArrayAttr entries, const Axes &grid) {
  ::tpc::OnnxSharding sharding;
  for (auto dim : entries.getAsRange<DimAttr>()) {
    auto &factors = sharding.dims.emplace_back();
    for (FactorAttr factor : dim.getFactors())
      factors.push_back(makeFactor(factor.getExpr().str(), getAxes(factor.getAxes(), grid)));
  }
  return sharding;
}

/// Returns the sharding of an input in the first op that splits it; nothing if no op does. (Inputs
/// themselves are replicated.)
static std::optional<::tpc::OnnxSharding> getInputSharding(BlockArgument input, const Axes &grid) {
  for (OpOperand &use : input.getUses()) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(use.getOwner());
    auto splits = use.getOwner()->getAttrOfType<ArrayAttr>(kSplitAttr);
    if (!ruled || !splits)
      continue;
    ShardingRule rule = ruled.getShardingRule();
    ::tpc::OnnxSharding sharding;
    bool split = false;
    for (const ShardingRule::Dim &dim : rule.operands[use.getOperandNumber()]) {
      auto &factors = sharding.dims.emplace_back();
      for (int factor : dim)
        for (FactorAttr part : cast<DimAttr>(splits[factor]).getFactors()) {
          factors.push_back(makeFactor(part.getExpr().str(), getAxes(part.getAxes(), grid)));
          split |= factors.back().shards > 1;
        }
      if (factors.empty())
        factors.push_back(makeFactor("1", {}));
    }
    if (split)
      return sharding;
  }
  return std::nullopt;
}

namespace tpc {

mlir::LogicalResult collectShardings(ModuleOp model, const ShardSpec &spec, OnnxDevices &devices) {
  OwningOpRef<ModuleOp> module = model.clone();
  PassManager pm(model.getContext());
  ::tpc::buildRewritePassPipeline(pm, spec);
  AssignShardingsOptions assign;
  assign.shard = spec;
  pm.addPass(createAssignShardings(assign));
  if (failed(pm.run(*module)))
    return failure();

  devices.ranks = spec.grid.numRanks();
  devices.stages = spec.grid.size("pp");
  devices.stageOf = [grid = spec.grid](int64_t rank) { return grid.coordinate(rank, "pp"); };
  const Axes axes = spec.axes();
  llvm::MapVector<Operation *, std::optional<std::vector<SplitFactor>>> weights;
  module->walk([&](ParameterOp parameter) {
    std::vector<SplitFactor> splitFactors = getSplitFactors(parameter, axes);
    auto [it, isNew] = weights.insert({parameter.getWeightOp(), splitFactors});
    if (!isNew && it->second != splitFactors)
      it->second.reset();
  });
  for (auto &[op, splitFactors] : weights) {
    auto weight = cast<WeightOp>(op);
    if (!splitFactors || splitFactors->empty())
      continue;
    if (auto sharding =
            makeSharding(cast<RankedTensorType>(weight.getType()).getShape(), *splitFactors, axes))
      devices.tensors[weight.getSymName().str()] = std::move(*sharding);
  }
  auto main = module->lookupSymbol<func::FuncOp>("main");
  for (BlockArgument input : main.getArguments())
    if (auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr))
      if (auto sharding = getInputSharding(input, axes))
        devices.tensors[name.getValue().str()] = std::move(*sharding);
  return success();
}

mlir::LogicalResult collectAnnotations(ModuleOp annotated, const ShardSpec &spec,
                                       OnnxDevices &devices) {
  const Axes axes = spec.axes();
  // Adds only annotations without axes: splits of weights and inputs are part of the tactics'
  // result.
  auto addUnsplit = [&](StringRef name, ArrayAttr entries) {
    if (!entries || name.empty() || llvm::any_of(entries, [](Attribute entry) {
          auto dim = dyn_cast<DimAttr>(entry);
          return !dim || dim.isSharded();
        }))
      return;
    devices.tensors[name.str()] = readSharding(entries, axes);
  };
  for (auto weight : annotated.getOps<WeightOp>())
    addUnsplit(weight.getSymName(), weight->getAttrOfType<ArrayAttr>(kShardingAttr));
  auto main = annotated.lookupSymbol<func::FuncOp>("main");
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr))
      addUnsplit(name.getValue(), main.getArgAttrOfType<ArrayAttr>(i, kShardingAttr));
  bool ok = true;
  main.walk([&](Operation *op) {
    auto entries = op->getAttrOfType<ArrayAttr>(kShardingAttr);
    std::string name = getValueName(op->getLoc());
    if (!entries || name.empty())
      return;
    if (llvm::all_of(entries, [](Attribute entry) { return isa<DimAttr>(entry); })) {
      devices.tensors[name] = readSharding(entries, axes);
      return;
    }
    auto source = op->getAttrOfType<StringAttr>(kShardingSourceAttr);
    emitError(op->getLoc()) << "the annotation " << printSharding(entries) << " of value '" << name
                            << "'" << (source ? " (" + source.str() + ")" : std::string())
                            << " cannot be written to an ONNX file, which cannot express '?'; "
                               "use '-' or an axis";
    ok = false;
  });
  return mlir::success(ok);
}

void collectStages(ModuleOp staged, OnnxDevices &devices) {
  llvm::StringSet<> several;
  auto collect = [&](Operation *op, int64_t stage) {
    // Skips ops without operands: they have the location of a user, which may be in another stage.
    if (op->getNumOperands() == 0 || !isa<ShardingRuleOpInterface, func::CallOp>(op))
      return;
    SmallVector<std::string> names;
    collectNodeNames(op->getLoc(), names);
    for (const std::string &name : names) {
      auto [it, isNew] = devices.nodes.try_emplace(name, stage);
      if (!isNew && it->second != stage)
        several.insert(name);
    }
  };
  for (auto pipeline : staged.getOps<PipelineOp>())
    for (auto stage : pipeline.getBody().front().getOps<StageOp>())
      stage.walk([&](func::CallOp call) {
        if (auto function = staged.lookupSymbol<func::FuncOp>(call.getCallee()))
          for (Operation &op : function.front())
            collect(&op, stage.getIndex());
      });
  // Removes nodes that several stages compute, such as masks.
  for (const auto &entry : several)
    devices.nodes.erase(entry.getKey().str());
}

} // namespace tpc
