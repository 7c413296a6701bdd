//===- MultiDevice.cpp - Multi-device fields of a file --------------------===//
//
// IR version 11: ModelProto.configuration and NodeProto.device_configurations. They speak of
// device numbers; what the grid makes of them is decided where it is known
// (tpc-apply-annotations). Here they become `tpc.devices` on the module.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "tpc/Dialect/Sharding.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// A list of devices for each part, in order: one, or a group that has copies.
static FailureOr<ArrayAttr> readDevices(const ::onnx::ShardingSpecProto &spec, int64_t numDevices,
                                        Builder &builder,
                                        function_ref<InFlightDiagnostic()> emitError) {
  std::map<int64_t, const ::onnx::IntIntListEntryProto *> groups;
  for (const auto &entry : spec.index_to_device_group_map())
    if (!groups.insert({entry.key(), &entry}).second)
      return emitError() << "has two device groups with the index " << entry.key();
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

/// What one node says of one tensor.
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
    SmallVector<Attribute> sizes;
    SmallVector<int64_t> shards;
    for (const auto &part : dim.simple_sharding()) {
      if (part.num_shards() < 1 || part.num_shards() > numDevices ||
          (parts *= part.num_shards()) > numDevices)
        return emitError() << "is cut into " << part.num_shards() << " along axis " << dim.axis()
                           << ", more than the " << numDevices << " devices have parts for";
      shards.push_back(part.num_shards());
      sizes.push_back(builder.getStringAttr(part.has_dim_value() ? std::to_string(part.dim_value())
                                                                 : part.dim_param()));
    }
    dims.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("axis", builder.getI64IntegerAttr(dim.axis())),
         builder.getNamedAttr("sizes", builder.getArrayAttr(sizes)),
         builder.getNamedAttr("shards", builder.getDenseI64ArrayAttr(shards))}));
  }
  // Without devices: all of them, in order.
  if (!devices->empty() && parts > 1 && int64_t(devices->size()) != parts)
    return emitError() << "is cut into " << parts << " parts, but lists " << devices->size()
                       << " devices or groups of devices; there must be one for each part";
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("tensor", builder.getStringAttr(spec.tensor_name())),
       builder.getNamedAttr("node", builder.getStringAttr(node)),
       builder.getNamedAttr("devices", *devices),
       builder.getNamedAttr("dims", builder.getArrayAttr(dims))});
}

LogicalResult Importer::readDeviceConfigurations() {
  struct Configuration {
    int64_t devices;
    SmallVector<Attribute> tensors, stages;
  };
  llvm::MapVector<StringAttr, Configuration> configurations;
  for (const auto &proto : model.configuration()) {
    StringAttr name = builder.getStringAttr(proto.name());
    if (proto.num_devices() < 1)
      return emitError(fileLoc()) << "device configuration '" << proto.name() << "' has "
                                  << proto.num_devices() << " devices";
    if (!configurations.insert({name, {proto.num_devices(), {}, {}}}).second)
      return emitError(fileLoc()) << "there are two device configurations named '" << proto.name()
                                  << "'";
  }
  if (configurations.empty())
    return success();

  for (const auto &node : model.graph().node()) {
    Location loc = nodeLoc(node, top);
    std::string source = getSourceName(loc);
    for (const auto &proto : node.device_configurations()) {
      auto it = configurations.find(builder.getStringAttr(proto.configuration_id()));
      if (it == configurations.end())
        return emitError(loc) << "node '" << source << "' is placed by the device configuration '"
                              << proto.configuration_id() << "', which the file does not define";
      Configuration &configuration = it->second;
      if (proto.has_pipeline_stage()) {
        if (proto.pipeline_stage() < 0)
          return emitError(loc) << "node '" << source << "' is in pipeline stage "
                                << proto.pipeline_stage();
        configuration.stages.push_back(builder.getDictionaryAttr(
            {builder.getNamedAttr("node", builder.getStringAttr(source)),
             builder.getNamedAttr("stage", builder.getI64IntegerAttr(proto.pipeline_stage()))}));
      }
      for (const auto &spec : proto.sharding_spec()) {
        auto fault = [&] {
          return emitError(loc) << "tensor '" << spec.tensor_name() << "' of node '" << source
                                << "' (device configuration '" << proto.configuration_id() << "') ";
        };
        if (!llvm::is_contained(node.input(), spec.tensor_name()) &&
            !llvm::is_contained(node.output(), spec.tensor_name()))
          return fault() << "is none of the node's inputs and outputs";
        FailureOr<DictionaryAttr> read =
            readSpec(spec, source, configuration.devices, builder, fault);
        if (failed(read))
          return failure();
        configuration.tensors.push_back(*read);
      }
    }
  }

  SmallVector<Attribute> list;
  for (auto &[name, configuration] : configurations)
    list.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", name),
         builder.getNamedAttr("devices", builder.getI64IntegerAttr(configuration.devices)),
         builder.getNamedAttr("tensors", builder.getArrayAttr(configuration.tensors)),
         builder.getNamedAttr("stages", builder.getArrayAttr(configuration.stages))}));
  module->getOperation()->setAttr(kDevicesAttr, builder.getArrayAttr(list));
  return success();
}
