//===- DeviceConfiguration.cpp - Mapping of device numbers to grid axes ---===//
//
// An ONNX device configuration lists the devices of each shard of a tensor. On a grid tp2,dp2 with
// order tp-dp, shards 0 and 1 on the groups {0, 2} and {1, 3} mean: split over tp, replicated over
// dp. For each split into n shards, the pass tries all sequences of axes whose sizes multiply to n
// (there are few). It selects the sequence whose coordinates assign to each device the shard listed
// in the file.
//
//===----------------------------------------------------------------------===//

#include "AnnotationTargets.h"
#include "tpc/Dialect/Sharding.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::tpc;
using NamedAxis = ::tpc::ShardSpec::NamedAxis;
using ::tpc::SymExpr;

namespace {

/// Shard index by device. Devices that are not listed in the file are absent.
using ShardOfDevice = std::map<int64_t, int64_t>;

class DeviceReader {
public:
  DeviceReader(ModuleOp module, ArrayRef<AnnotationTarget> targets, const ::tpc::ShardSpec &spec)
      : module(module), context(module.getContext()), grid(spec.grid), axes(spec.axes()) {
    for (const AnnotationTarget &target : targets)
      byName.try_emplace(target.name, &target);
  }
  LogicalResult run(StringRef wanted);

private:
  FailureOr<DictionaryAttr> choose(ArrayAttr configurations, StringRef wanted);
  LogicalResult readTensor(DictionaryAttr tensor, StringAttr configuration);
  FailureOr<SmallVector<Attribute>> readDims(DictionaryAttr tensor, const AnnotationTarget &target);
  LogicalResult checkDevices(DictionaryAttr tensor);
  LogicalResult checkStage(DictionaryAttr tensor);
  std::optional<SmallVector<StringAttr>> findAxes(const ShardOfDevice &parts, int64_t count) const;
  LogicalResult readStages(DictionaryAttr configuration);
  void recordStages();
  InFlightDiagnostic error(DictionaryAttr tensor) {
    return emitError(NameLoc::get(tensor.getAs<StringAttr>("node"), module.getLoc()))
           << "tensor '" << tensor.getAs<StringAttr>("tensor").getValue() << "' of node '"
           << tensor.getAs<StringAttr>("node").getValue() << "' ";
  }

  ModuleOp module;
  MLIRContext *context;
  const ::tpc::Grid &grid;
  const std::vector<NamedAxis> axes;
  llvm::StringMap<const AnnotationTarget *> byName;
  llvm::StringMap<StringAttr> nodes; // node with a tensor's sharding, by tensor
  /// Stage by node, and the tensor whose devices imply the stage; null if the stage is that of the
  /// node itself.
  llvm::MapVector<StringAttr, std::pair<int64_t, StringAttr>> stages;
};

} // namespace

static Location inFile(ModuleOp module) { return module.getLoc(); }

FailureOr<DictionaryAttr> DeviceReader::choose(ArrayAttr configurations, StringRef wanted) {
  SmallVector<DictionaryAttr> fitting;
  std::string all;
  for (auto configuration : configurations.getAsRange<DictionaryAttr>()) {
    StringRef name = configuration.getAs<StringAttr>("name").getValue();
    int64_t devices = configuration.getAs<IntegerAttr>("devices").getInt();
    all += (all.empty() ? "" : ", ") + ("'" + name + "' (" + Twine(devices) + " devices)").str();
    if (wanted.empty() ? devices == grid.numRanks() : name == wanted)
      fitting.push_back(configuration);
  }
  if (wanted.empty() && fitting.empty()) {
    emitWarning(inFile(module)) << "the file's device configurations are ignored: the grid has "
                                << grid.numRanks() << " ranks, but the file has " << all;
    return DictionaryAttr();
  }
  if (fitting.empty())
    return emitError(inFile(module))
           << "the file has no device configuration '" << wanted << "'; it has " << all;
  if (fitting.size() > 1) {
    auto names = llvm::map_range(fitting, [](DictionaryAttr configuration) {
      return ("'" + configuration.getAs<StringAttr>("name").getValue() + "'").str();
    });
    return emitError(inFile(module))
           << fitting.size() << " device configurations of the file have " << grid.numRanks()
           << " devices: " << llvm::join(names, ", ") << "; name one with --device-configuration";
  }
  int64_t devices = fitting[0].getAs<IntegerAttr>("devices").getInt();
  if (devices != grid.numRanks())
    return emitError(inFile(module))
           << "device configuration '" << wanted << "' has " << devices
           << " devices, but the grid has " << grid.numRanks() << " ranks";
  return fitting[0];
}

/// Returns the axes that assign these shards to the devices; nothing if there are none.
std::optional<SmallVector<StringAttr>> DeviceReader::findAxes(const ShardOfDevice &parts,
                                                              int64_t count) const {
  SmallVector<const NamedAxis *> sequence;
  auto fits = [&] {
    return llvm::all_of(parts, [&](auto &entry) {
      int64_t index = 0;
      for (const NamedAxis *axis : sequence)
        index = index * axis->size + axis->coordinate(entry.first);
      return index == entry.second;
    });
  };
  std::function<bool(int64_t)> search = [&](int64_t left) {
    if (left == 1)
      return fits();
    for (const NamedAxis &axis : axes) {
      if (axis.name == kPipelineAxis || axis.size == 1 || left % axis.size != 0 ||
          llvm::is_contained(sequence, &axis))
        continue;
      sequence.push_back(&axis);
      if (search(left / axis.size))
        return true;
      sequence.pop_back();
    }
    return false;
  };
  if (!search(count))
    return std::nullopt;
  SmallVector<StringAttr> names;
  for (const NamedAxis *axis : sequence)
    names.push_back(StringAttr::get(context, axis->name));
  return names;
}

static std::set<int64_t> getDevices(DictionaryAttr tensor) {
  std::set<int64_t> listed;
  for (auto group : tensor.getAs<ArrayAttr>("devices").getAsRange<DenseI64ArrayAttr>())
    listed.insert(group.asArrayRef().begin(), group.asArrayRef().end());
  return listed;
}

/// Checks that a node's operands and results are on devices of the node's stage. If the node has no
/// stage, it is derived from a tensor on devices of a single stage.
LogicalResult DeviceReader::checkStage(DictionaryAttr tensor) {
  std::set<int64_t> listed = getDevices(tensor), stagesOf;
  for (int64_t device : listed)
    stagesOf.insert(grid.coordinate(device, kPipelineAxis));
  if (stagesOf.empty() || grid.size(kPipelineAxis) == 1)
    return success();
  auto node = tensor.getAs<StringAttr>("node");
  auto it = stages.find(node);
  if (it == stages.end()) {
    if (stagesOf.size() == 1)
      stages[node] = {*stagesOf.begin(), tensor.getAs<StringAttr>("tensor")};
    return success();
  }
  auto [stage, source] = it->second;
  if (stagesOf.count(stage))
    return success();
  InFlightDiagnostic diag = error(tensor);
  diag << "is on " << (listed.size() == 1 ? "device " : "devices ");
  llvm::interleaveComma(listed, diag);
  diag << " of pipeline stage ";
  llvm::interleaveComma(stagesOf, diag);
  diag << ", but ";
  if (source)
    diag << "its tensor '" << source.getValue() << "' is on devices";
  else
    diag << "the node is on devices";
  diag << " of stage " << stage << ", which has ";
  llvm::interleaveComma(llvm::make_filter_range(llvm::seq<int64_t>(0, grid.numRanks()),
                                                [&, stage = stage](int64_t rank) {
                                                  return grid.coordinate(rank, kPipelineAxis) ==
                                                         stage;
                                                }),
                        diag);
  return diag << "; list devices of the node's stage";
}

/// Checks that the tensor is on all ranks of one or more pipeline stages.
LogicalResult DeviceReader::checkDevices(DictionaryAttr tensor) {
  std::set<int64_t> listed = getDevices(tensor), stages;
  for (int64_t device : listed)
    stages.insert(grid.coordinate(device, kPipelineAxis));
  if (listed.empty())
    return success();
  for (int64_t rank = 0; rank < grid.numRanks(); ++rank)
    if (stages.count(grid.coordinate(rank, kPipelineAxis)) && !listed.count(rank))
      return error(tensor) << "is not on device " << rank << ", but on device " << *listed.begin()
                           << " of the same pipeline stage; list groups of devices that hold "
                              "copies (index_to_device_group_map)";
  return success();
}

FailureOr<SmallVector<Attribute>> DeviceReader::readDims(DictionaryAttr tensor,
                                                         const AnnotationTarget &target) {
  int64_t rank = target.sizes.size();
  struct Cut {
    SymExpr size;
    int64_t shards;
    SmallVector<StringAttr> axes;
  };
  std::vector<SmallVector<Cut>> cuts(rank);
  std::vector<bool> seen(rank);
  for (auto dim : tensor.getAs<ArrayAttr>("dims").getAsRange<DictionaryAttr>()) {
    int64_t axis = dim.getAs<IntegerAttr>("axis").getInt();
    if (axis < -rank || axis >= rank)
      return error(tensor) << "is cut along axis " << axis << ", but has " << rank << " dimensions";
    axis += axis < 0 ? rank : 0;
    if (seen[axis])
      return error(tensor) << "is cut along axis " << axis << " twice";
    seen[axis] = true;
    auto sizes = dim.getAs<ArrayAttr>("sizes");
    ArrayRef<int64_t> shards = dim.getAs<DenseI64ArrayAttr>("shards").asArrayRef();
    const SymExpr &whole = target.sizes[axis];
    SymExpr total(1);
    for (auto [stated, count] : llvm::zip(sizes, shards)) {
      std::optional<SymExpr> size;
      if (auto expr = dyn_cast<SymExprAttr>(stated))
        size = expr.getExpr();
      // Symbols in the file may have other names than in the program.
      bool isOnly = shards.size() == 1;
      if (isOnly && (!size || !size->isConstant()))
        size = whole;
      if (!size)
        return error(tensor) << "is cut along a factor of axis " << axis << " that has no size ("
                             << stated << ")";
      total = total * *size;
      cuts[axis].push_back({*size, count, {}});
    }
    if (!shards.empty() && total != whole)
      return error(tensor) << "is cut along axis " << axis << " as if it had size " << total.str()
                           << "; it has " << whole.str();
  }

  // Shard k of the tensor is on the k-th device (or group of devices); the last dimension varies
  // fastest.
  SmallVector<Cut *> list;
  for (SmallVector<Cut> &dim : cuts)
    for (Cut &cut : dim)
      if (cut.shards > 1)
        list.push_back(&cut);
  SmallVector<SmallVector<int64_t>> devices;
  for (auto group : tensor.getAs<ArrayAttr>("devices").getAsRange<DenseI64ArrayAttr>())
    devices.emplace_back(group.asArrayRef());
  int64_t total = 1;
  for (Cut *cut : list)
    total *= cut->shards;
  if (devices.empty() && total > 1) {
    if (total != grid.numRanks())
      return error(tensor) << "is cut into " << total
                           << " parts and lists no devices; the grid has " << grid.numRanks()
                           << " ranks";
    for (int64_t rank = 0; rank < total; ++rank)
      devices.push_back({rank});
  }
  int64_t inner = total;
  for (Cut *cut : list) {
    inner /= cut->shards;
    ShardOfDevice parts;
    for (auto [k, group] : llvm::enumerate(devices))
      for (int64_t device : group)
        parts[device] = int64_t(k) / inner % cut->shards;
    auto axes = findAxes(parts, cut->shards);
    if (!axes) {
      InFlightDiagnostic diag = error(tensor);
      diag << "is cut into " << cut->shards << " parts, which match no axis of the grid ";
      llvm::interleave(
          this->axes, diag, [&](const NamedAxis &axis) { diag << axis.name << axis.size; }, ",");
      for (auto [i, group] : llvm::enumerate(ArrayRef(devices).take_front(4))) {
        diag << (i ? " | " : ": parts are on devices ");
        llvm::interleaveComma(ArrayRef(group).take_front(8), diag);
      }
      diag << "; another order=… may fit";
      return diag;
    }
    cut->axes = *axes;
  }
  SmallVector<Attribute> dims;
  for (auto [dim, size] : llvm::zip(cuts, target.sizes)) {
    SmallVector<FactorAttr> factors;
    for (const Cut &cut : dim)
      factors.push_back(FactorAttr::get(context, cut.size, cut.axes));
    if (factors.empty())
      factors.push_back(FactorAttr::get(context, size));
    dims.push_back(DimAttr::get(context, factors));
  }
  return dims;
}

LogicalResult DeviceReader::readTensor(DictionaryAttr tensor, StringAttr configuration) {
  StringAttr name = tensor.getAs<StringAttr>("tensor"), node = tensor.getAs<StringAttr>("node");
  if (failed(checkStage(tensor)))
    return failure();
  auto it = byName.find(name.getValue());
  if (it == byName.end()) {
    bool cut = llvm::any_of(
        tensor.getAs<ArrayAttr>("dims").getAsRange<DictionaryAttr>(), [](DictionaryAttr dim) {
          return llvm::any_of(dim.getAs<DenseI64ArrayAttr>("shards").asArrayRef(),
                              [](int64_t shards) { return shards > 1; });
        });
    if (cut)
      emitWarning(NameLoc::get(node, module.getLoc()))
          << "the sharding of tensor '" << name.getValue() << "' of node '" << node.getValue()
          << "' is ignored: the imported program has no such tensor";
    return success();
  }
  if (failed(checkDevices(tensor)))
    return failure();
  auto dims = readDims(tensor, *it->second);
  if (failed(dims))
    return failure();
  auto sharding = ArrayAttr::get(context, *dims);
  auto [before, isNew] = nodes.try_emplace(name.getValue(), node);
  if (!isNew && it->second->getSharding() != sharding)
    return error(tensor) << "is " << printSharding(sharding) << ", but "
                         << printSharding(it->second->getSharding()) << " in node '"
                         << before->second.getValue() << "'; a tensor has one sharding";
  it->second->setSharding(sharding, StringAttr::get(context, "device configuration '" +
                                                                 configuration.getValue() + "'"));
  return success();
}

LogicalResult DeviceReader::readStages(DictionaryAttr configuration) {
  int64_t last = -1, wanted = grid.size(kPipelineAxis);
  for (auto stage : configuration.getAs<ArrayAttr>("stages").getAsRange<DictionaryAttr>()) {
    int64_t index = stage.getAs<IntegerAttr>("stage").getInt();
    last = std::max(last, index);
    stages[stage.getAs<StringAttr>("node")] = {index, {}};
  }
  if (last >= 0 && last + 1 != wanted)
    return emitError(inFile(module))
           << "device configuration '" << configuration.getAs<StringAttr>("name").getValue()
           << "' has pipeline stages 0 to " << last << ", but the grid has pp" << wanted
           << "; use pp" << last + 1;
  return success();
}

/// Records the stages of nodes for tpc-attach-annotations.
void DeviceReader::recordStages() {
  Builder builder(context);
  SmallVector<Attribute> list;
  for (auto &[node, stage] : stages)
    list.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("node", node),
         builder.getNamedAttr("stage", builder.getI64IntegerAttr(stage.first))}));
  if (grid.size(kPipelineAxis) > 1 && !list.empty())
    module->setAttr(kRecordedStagesAttr, builder.getArrayAttr(list));
}

LogicalResult DeviceReader::run(StringRef wanted) {
  auto configurations = dyn_cast_or_null<ArrayAttr>(module->removeAttr(kDevicesAttr));
  if (!configurations || configurations.empty()) {
    if (!wanted.empty())
      return emitError(inFile(module))
             << "the file has no device configuration '" << wanted << "'; it has none";
    return success();
  }
  auto chosen = choose(configurations, wanted);
  if (failed(chosen) || !*chosen)
    return LogicalResult(chosen);
  if (failed(readStages(*chosen)))
    return failure();
  for (auto tensor : chosen->getAs<ArrayAttr>("tensors").getAsRange<DictionaryAttr>())
    if (failed(readTensor(tensor, chosen->getAs<StringAttr>("name"))))
      return failure();
  recordStages();
  return success();
}

LogicalResult mlir::tpc::applyDeviceConfiguration(ModuleOp module,
                                                  ArrayRef<AnnotationTarget> targets,
                                                  const ::tpc::ShardSpec &spec,
                                                  StringRef configuration) {
  return DeviceReader(module, targets, spec).run(configuration);
}
