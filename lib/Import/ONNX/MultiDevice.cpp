//===- MultiDevice.cpp - Multi-device fields of a file --------------------===//
//
// IR version 11 has ModelProto.configuration and NodeProto.device_configurations, which name
// devices by number. The importer records them as `tpc.devices` on the module.
// tpc-apply-annotations maps them to grid axes once the grid is known.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "StageOrder.h"

#include "tpc/Dialect/Sharding.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Returns the devices of each shard, in order: one device, or a group with copies.
static FailureOr<ArrayAttr> readDevices(const ::onnx::ShardingSpecProto &spec, int64_t numDevices,
                                        Builder &builder,
                                        function_ref<InFlightDiagnostic()> emitError) {
  std::map<int64_t, const ::onnx::IntIntListEntryProto *> groups;
  for (const auto &entry : spec.index_to_device_group_map()) {
    if (!groups.insert({entry.key(), &entry}).second)
      return emitError() << "has two device groups with the index " << entry.key();
    if (entry.value().empty())
      return emitError() << "has a device group without devices, of the index " << entry.key();
  }
  SmallVector<Attribute> list;
  llvm::DenseSet<int64_t> seen;
  for (int64_t device : spec.device()) {
    SmallVector<int64_t> members;
    if (auto it = groups.find(device); it != groups.end())
      members.assign(it->second->value().begin(), it->second->value().end());
    else
      members.push_back(device);
    for (int64_t member : members) {
      if (member < 0 || member >= numDevices)
        return emitError() << "names device " << member << "; the configuration has devices 0 to "
                           << numDevices - 1;
      if (!seen.insert(member).second)
        return emitError() << "names device " << member << " twice";
    }
    list.push_back(builder.getDenseI64ArrayAttr(members));
  }
  return builder.getArrayAttr(list);
}

/// Returns the sharding of one tensor in one node's device configuration.
static FailureOr<DictionaryAttr> readSpec(const ::onnx::ShardingSpecProto &spec,
                                          const std::string &node, int64_t numDevices,
                                          Builder &builder,
                                          function_ref<InFlightDiagnostic()> emitError) {
  FailureOr<ArrayAttr> devices = readDevices(spec, numDevices, builder, emitError);
  if (failed(devices))
    return failure();
  SmallVector<Attribute> dims;
  int64_t parts = 1;
  for (const auto &dim : spec.sharded_dim()) {
    SmallVector<Attribute> sizes; // text if the field has another form
    SmallVector<int64_t> shards;
    if (!dim.has_axis())
      return emitError() << "is cut along an unspecified dimension; set the axis of its "
                            "sharded_dim";
    if (dim.simple_sharding().empty())
      return emitError() << "does not specify the number of parts along axis " << dim.axis()
                         << "; add a simple_sharding";
    for (const auto &part : dim.simple_sharding()) {
      if (part.num_shards() < 1 || part.num_shards() > numDevices ||
          (parts *= part.num_shards()) > numDevices)
        return emitError() << "is cut into " << part.num_shards() << " parts along axis "
                           << dim.axis() << "; all cuts together must make 1 to " << numDevices
                           << " parts, at most one for each device";
      shards.push_back(part.num_shards());
      std::optional<SymExpr> size =
          part.has_dim_value() ? SymExpr(part.dim_value()) : SymExpr::parse(part.dim_param());
      sizes.push_back(size ? Attribute(SymExprAttr::get(builder.getContext(), *size))
                           : builder.getStringAttr(part.dim_param()));
    }
    dims.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("axis", builder.getI64IntegerAttr(dim.axis())),
         builder.getNamedAttr("sizes", builder.getArrayAttr(sizes)),
         builder.getNamedAttr("shards", builder.getDenseI64ArrayAttr(shards))}));
  }
  // An empty list selects all devices, in order.
  if (!devices->empty() && parts > 1 && int64_t(devices->size()) != parts)
    return emitError() << "is cut into " << parts << " parts, but lists " << devices->size()
                       << " devices or groups of devices; there must be one for each part";
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("tensor", builder.getStringAttr(spec.tensor_name())),
       builder.getNamedAttr("node", builder.getStringAttr(node)),
       builder.getNamedAttr("devices", *devices),
       builder.getNamedAttr("dims", builder.getArrayAttr(dims))});
}

namespace {
/// One entry of ModelProto.configuration, with the nodes' references to it.
struct Configuration {
  int64_t devices;
  SmallVector<Attribute> tensors = {}, stages = {};
  llvm::MapVector<const ::onnx::NodeProto *, int64_t> stageOf = {};
  llvm::StringMap<int64_t> stageOfName = {};
};

class ConfigurationReader {
public:
  ConfigurationReader(const ::onnx::ModelProto &model, Builder &builder, Location fileLoc,
                      function_ref<Location(const ::onnx::NodeProto &)> nodeLoc)
      : model(model), builder(builder), fileLoc(fileLoc), nodeLoc(nodeLoc) {}
  /// Returns `tpc.devices`; empty if the file has no configuration.
  FailureOr<ArrayAttr> run();

private:
  LogicalResult readConfigurations();
  /// Reads a node's configurations. Nodes inside branches and functions have no stage or devices.
  LogicalResult readNode(const ::onnx::NodeProto &node, bool inside);
  LogicalResult readBody(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes);
  LogicalResult readStage(const ::onnx::NodeProto &node, int64_t stage, Configuration &of);
  LogicalResult readTensors(const ::onnx::NodeProto &node,
                            const ::onnx::NodeDeviceConfigurationProto &proto, Configuration &of);

  const ::onnx::ModelProto &model;
  Builder &builder;
  Location fileLoc;
  function_ref<Location(const ::onnx::NodeProto &)> nodeLoc;
  llvm::MapVector<StringRef, Configuration> configurations;
  bool warned = false;
};
} // namespace

LogicalResult ConfigurationReader::readConfigurations() {
  for (const auto &proto : model.configuration()) {
    if (proto.name().empty())
      return emitError(fileLoc) << "a device configuration has no name";
    auto error = [&] {
      return emitError(fileLoc) << "device configuration '" << proto.name() << "' ";
    };
    if (proto.num_devices() < 1)
      return error() << "has " << proto.num_devices() << " devices; it must have at least 1";
    if (proto.device_size() > 0 && proto.device_size() != proto.num_devices())
      return error() << "has " << proto.num_devices() << " devices, but names "
                     << proto.device_size() << "; name all of them, or none";
    if (!configurations.insert({proto.name(), {proto.num_devices()}}).second)
      return emitError(fileLoc) << "there are two device configurations named '" << proto.name()
                                << "'";
  }
  return success();
}

LogicalResult ConfigurationReader::readStage(const ::onnx::NodeProto &node, int64_t stage,
                                             Configuration &of) {
  Location loc = nodeLoc(node);
  std::string name = getSourceName(loc);
  if (stage < 0)
    return emitError(loc) << "'" << name << "' is in pipeline stage " << stage
                          << "; stages count from 0";
  // Later passes identify nodes by name.
  auto [it, isNew] = of.stageOfName.try_emplace(name, stage);
  if (!isNew && it->second != stage)
    return emitError(loc) << "two nodes are named '" << name << "', one in pipeline stage "
                          << it->second << " and one in stage " << stage
                          << "; give them different names";
  of.stageOf[&node] = stage;
  if (isNew)
    of.stages.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("node", builder.getStringAttr(name)),
         builder.getNamedAttr("stage", builder.getI64IntegerAttr(stage))}));
  return success();
}

LogicalResult ConfigurationReader::readTensors(const ::onnx::NodeProto &node,
                                               const ::onnx::NodeDeviceConfigurationProto &proto,
                                               Configuration &of) {
  Location loc = nodeLoc(node);
  std::string source = getSourceName(loc);
  llvm::StringSet<> seen;
  for (const auto &spec : proto.sharding_spec()) {
    auto fault = [&] {
      return emitError(loc) << "tensor '" << spec.tensor_name() << "' of node '" << source
                            << "' (device configuration '" << proto.configuration_id() << "') ";
    };
    if (spec.tensor_name().empty() || (!llvm::is_contained(node.input(), spec.tensor_name()) &&
                                       !llvm::is_contained(node.output(), spec.tensor_name())))
      return fault() << "is none of the node's inputs and outputs";
    if (!seen.insert(spec.tensor_name()).second)
      return fault() << "has two sharding_specs; keep one";
    FailureOr<DictionaryAttr> read = readSpec(spec, source, of.devices, builder, fault);
    if (failed(read))
      return failure();
    of.tensors.push_back(*read);
  }
  return success();
}

LogicalResult ConfigurationReader::readNode(const ::onnx::NodeProto &node, bool inside) {
  Location loc = nodeLoc(node);
  std::string source = getSourceName(loc);
  llvm::StringSet<> seen;
  for (const auto &proto : node.device_configurations()) {
    auto it = configurations.find(proto.configuration_id());
    if (it == configurations.end()) {
      InFlightDiagnostic diag = emitError(loc)
                                << "'" << source << "' has device configuration '"
                                << proto.configuration_id() << "', which the file does not define";
      if (configurations.empty())
        return diag << "; it defines none";
      diag << "; it defines ";
      llvm::interleaveComma(configurations, diag,
                            [&](auto &entry) { diag << "'" << entry.first << "'"; });
      return diag;
    }
    if (!seen.insert(proto.configuration_id()).second)
      return emitError(loc) << "'" << source << "' has two entries of device configuration '"
                            << proto.configuration_id() << "'; make them one";
    if (inside)
      continue;
    if ((proto.has_pipeline_stage() &&
         failed(readStage(node, proto.pipeline_stage(), it->second))) ||
        failed(readTensors(node, proto, it->second)))
      return failure();
  }
  if (inside && !node.device_configurations().empty() && !std::exchange(warned, true))
    emitWarning(loc) << "the device configuration of node '" << source
                     << "' is ignored, because the node is inside a branch or a function; "
                        "configure the node that calls it";
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g() && failed(readBody(attribute.g().node())))
      return failure();
    for (const auto &graph : attribute.graphs())
      if (failed(readBody(graph.node())))
        return failure();
  }
  return success();
}

LogicalResult
ConfigurationReader::readBody(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes) {
  return success(
      llvm::all_of(nodes, [&](auto &node) { return succeeded(readNode(node, /*inside=*/true)); }));
}

FailureOr<ArrayAttr> ConfigurationReader::run() {
  if (failed(readConfigurations()))
    return failure();
  for (const auto &node : model.graph().node())
    if (failed(readNode(node, /*inside=*/false)))
      return failure();
  for (const auto &function : model.functions())
    if (failed(readBody(function.node())))
      return failure();

  StageOrder order(model.graph());
  SmallVector<Attribute> list;
  for (auto &[name, configuration] : configurations) {
    auto &stageOf = configuration.stageOf;
    if (auto edge = order.findBackwardDependence(stageOf)) {
      std::string from = getSourceName(nodeLoc(*edge->from)),
                  to = getSourceName(nodeLoc(*edge->to));
      return emitError(nodeLoc(*edge->to))
             << "'" << to << "' is in pipeline stage " << stageOf[edge->to]
             << " of device configuration '" << name << "', but it uses a result of '" << from
             << "' from stage " << stageOf[edge->from] << ", and stages run in order; put '" << to
             << "' into stage " << stageOf[edge->from] << " or a later one, or '" << from
             << "' into stage " << stageOf[edge->to] << " or an earlier one";
    }
    list.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(name)),
         builder.getNamedAttr("devices", builder.getI64IntegerAttr(configuration.devices)),
         builder.getNamedAttr("tensors", builder.getArrayAttr(configuration.tensors)),
         builder.getNamedAttr("stages", builder.getArrayAttr(configuration.stages))}));
  }
  return builder.getArrayAttr(list);
}

LogicalResult Importer::readDeviceConfigurations() {
  FailureOr<ArrayAttr> list =
      ConfigurationReader(model, builder, fileLoc(), [&](const ::onnx::NodeProto &node) {
        return nodeLoc(node, top);
      }).run();
  if (succeeded(list) && !list->empty())
    module->getOperation()->setAttr(kDevicesAttr, *list);
  return success(succeeded(list));
}
