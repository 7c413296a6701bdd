//===- WriteSharded.cpp - Export of shardings to ONNX files ---------------===//
//
// Works on the protobuf wire format: copies the fields of the model, of its graph and of its nodes,
// except for replaced fields. Parses only the structure, like the importer, so that files larger
// than protobuf's limit of 2 GiB can be written.
//
//===----------------------------------------------------------------------===//

#include "tpc/Export/ONNX/WriteSharded.h"

#include "tpc/Import/ONNX/TensorSource.h"
#include "tpc/Import/ONNX/WireReader.h"

#include "onnx.pb.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace tpc;
using llvm::Error;
using llvm::StringRef;

namespace {

/// First IR version with device configurations.
constexpr int64_t kIrVersion = 11;
// Field numbers of onnx.proto.
constexpr uint64_t kModelIrVersion = 1, kModelGraph = 7, kModelConfiguration = 26, kGraphNode = 1,
                   kNodeDevices = 10;

Error makeError(const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), what);
}

Error makeChangedError() { return makeError("the file has changed while it was compiled"); }

/// One field of a message: the bytes of tag and value, and those of the value alone.
struct Field {
  uint64_t number;
  unsigned wire;
  StringRef bytes, value;
};

/// Iterates over the fields of a message.
class FieldReader {
public:
  explicit FieldReader(StringRef message) : rest(message) {}
  bool atEnd() const { return rest.empty(); }

  llvm::Expected<Field> next() {
    StringRef begin = rest;
    uint64_t tag, length;
    if (!readVarint(tag))
      return makeChangedError();
    Field field{tag >> 3, unsigned(tag & 7), {}, {}};
    StringRef value = rest;
    switch (field.wire) {
    case 0:
      if (!readVarint(length))
        return makeChangedError();
      field.value = value.drop_back(rest.size());
      break;
    case 1:
    case 5:
      length = field.wire == 1 ? 8 : 4;
      if (rest.size() < length)
        return makeChangedError();
      field.value = rest.take_front(length);
      rest = rest.drop_front(length);
      break;
    case 2:
      if (!readVarint(length) || length > rest.size())
        return makeChangedError();
      field.value = rest.take_front(length);
      rest = rest.drop_front(length);
      break;
    default:
      return makeChangedError();
    }
    field.bytes = begin.drop_back(rest.size());
    return field;
  }

private:
  bool readVarint(uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      uint8_t byte = rest.front();
      rest = rest.drop_front();
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }

  StringRef rest;
};

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
  return out;
}

std::string header(uint64_t number, uint64_t length) {
  return varint(number << 3 | 2) + varint(length);
}

/// Computes the device configuration of each node of the graph.
class NodePlanner {
public:
  NodePlanner(const ::onnx::GraphProto &graph, const OnnxDevices &devices)
      : graph(graph), devices(devices) {}

  /// Serialized NodeDeviceConfigurationProto for each node; empty: none.
  llvm::Expected<std::vector<std::string>> run();

private:
  void findStages();
  void addSpec(::onnx::NodeDeviceConfigurationProto &out, const std::string &tensor,
               const OnnxSharding &sharding, std::optional<int64_t> stage) const;

  const ::onnx::GraphProto &graph;
  const OnnxDevices &devices;
  std::vector<std::optional<int64_t>> stages;
};

} // namespace

/// Returns the name of a node as in the importer's locations.
static std::string nameOf(const ::onnx::NodeProto &node) {
  std::string name = node.name();
  for (int i = 0; name.empty() && i < node.output_size(); ++i)
    name = node.output(i);
  return name.empty() ? node.op_type() : name;
}

/// Assigns each node without a stage to the first stage that uses its results; a node without
/// users, to the last stage of its operands.
void NodePlanner::findStages() {
  llvm::StringMap<int> producers;
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output())
      producers[output] = i;
  stages.resize(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i)
    if (auto it = devices.nodes.find(nameOf(graph.node(i))); it != devices.nodes.end())
      stages[i] = it->second;
  std::vector<std::optional<int64_t>> known = stages, needed = stages;
  // ONNX requires topological order. In a file that violates it, some nodes get a later stage than
  // necessary.
  for (int i = graph.node_size(); i-- > 0;)
    for (const std::string &input : graph.node(i).input())
      if (auto it = producers.find(input); it != producers.end() && needed[i]) {
        std::optional<int64_t> &stage = needed[it->second];
        if (!known[it->second])
          stage = stage ? std::min(*stage, *needed[i]) : *needed[i];
      }
  for (int i = 0; i < graph.node_size(); ++i) {
    stages[i] = needed[i];
    if (stages[i])
      continue;
    for (const std::string &input : graph.node(i).input())
      if (auto it = producers.find(input); it != producers.end() && stages[it->second])
        stages[i] = std::max(stages[i].value_or(0), *stages[it->second]);
  }
}

void NodePlanner::addSpec(::onnx::NodeDeviceConfigurationProto &out, const std::string &tensor,
                          const OnnxSharding &sharding, std::optional<int64_t> stage) const {
  auto *spec = out.add_sharding_spec();
  spec->set_tensor_name(tensor);
  int64_t parts = 1;
  for (const auto &dim : sharding.dims)
    for (const OnnxSharding::Factor &factor : dim)
      parts *= factor.shards;
  std::vector<std::vector<int64_t>> groups(parts);
  for (int64_t rank = 0; rank < devices.ranks; ++rank) {
    if (stage && devices.stageOf(rank) != *stage)
      continue;
    int64_t part = 0;
    for (const auto &dim : sharding.dims)
      for (const OnnxSharding::Factor &factor : dim)
        part = part * factor.shards + factor.shardOf(rank);
    groups[part].push_back(rank);
  }
  for (auto [k, group] : llvm::enumerate(groups)) {
    if (group.size() == 1) {
      spec->add_device(group[0]);
      continue;
    }
    int64_t index = -1 - int64_t(k); // negative, to differ from device numbers
    spec->add_device(index);
    auto *entry = spec->add_index_to_device_group_map();
    entry->set_key(index);
    for (int64_t rank : group)
      entry->add_value(rank);
  }
  for (auto [axis, dim] : llvm::enumerate(sharding.dims)) {
    bool isSplit = llvm::any_of(dim, [](const OnnxSharding::Factor &f) { return f.shards > 1; });
    if (!isSplit)
      continue;
    auto *out = spec->add_sharded_dim();
    out->set_axis(axis);
    for (const OnnxSharding::Factor &factor : dim) {
      auto *simple = out->add_simple_sharding();
      int64_t size;
      if (!StringRef(factor.size).getAsInteger(10, size))
        simple->set_dim_value(size);
      else
        simple->set_dim_param(factor.size);
      simple->set_num_shards(factor.shards);
    }
  }
}

llvm::Expected<std::vector<std::string>> NodePlanner::run() {
  if (devices.stages > 1)
    findStages();
  else
    stages.resize(graph.node_size());
  std::vector<std::string> added(graph.node_size());
  std::set<std::string> used;
  for (int i = 0; i < graph.node_size(); ++i) {
    const ::onnx::NodeProto &node = graph.node(i);
    ::onnx::NodeDeviceConfigurationProto out;
    out.set_configuration_id(devices.name);
    if (stages[i])
      out.set_pipeline_stage(*stages[i]);
    std::set<std::string> seen;
    auto add = [&](const std::string &tensor) {
      auto it = devices.tensors.find(tensor);
      if (it == devices.tensors.end() || !seen.insert(tensor).second)
        return;
      addSpec(out, tensor, it->second, stages[i]);
      used.insert(tensor);
    };
    llvm::for_each(node.input(), add);
    llvm::for_each(node.output(), add);
    if (stages[i] || out.sharding_spec_size())
      out.SerializeToString(&added[i]);
  }
  for (const auto &[name, sharding] : devices.tensors)
    if (!used.count(name))
      return makeError(
          "the sharding of '" + name +
          "' cannot be written: no node of the file's graph has it as an input or output");
  return added;
}

/// Checks that the output is in the folder of the model's external data, because ONNX paths are
/// relative to the model.
static Error checkFolder(const ::onnx::GraphProto &graph, StringRef input, StringRef output) {
  bool external = llvm::any_of(graph.initializer(), [](const ::onnx::TensorProto &tensor) {
    return tensor.data_location() == ::onnx::TensorProto::EXTERNAL;
  });
  if (!external)
    return Error::success();
  auto folder = [](StringRef path) {
    llvm::SmallString<256> absolute(path), real;
    llvm::sys::fs::make_absolute(absolute);
    llvm::sys::path::remove_filename(absolute);
    return llvm::sys::fs::real_path(absolute, real) ? absolute.str().str() : real.str().str();
  };
  if (folder(input) == folder(output))
    return Error::success();
  return makeError("'" + output + "' would not find its weights: they are in files next to '" +
                   input + "'; write to the folder '" + folder(input) + "'");
}

Error tpc::writeShardedOnnx(StringRef input, StringRef outputPath, const OnnxDevices &devices,
                            llvm::raw_ostream &os) {
  llvm::Expected<mlir::tpc::frontend::StrippedModel> stripped =
      mlir::tpc::frontend::readStrippedModel(input);
  if (!stripped)
    return stripped.takeError();
  ::onnx::ModelProto model;
  if (!model.ParseFromString(stripped->message))
    return makeError("not a valid ONNX file");
  stripped->message = {};
  if (Error error = checkFolder(model.graph(), input, outputPath))
    return error;
  llvm::Expected<std::vector<std::string>> added = NodePlanner(model.graph(), devices).run();
  if (!added)
    return added.takeError();

  auto buffer = llvm::MemoryBuffer::getFile(input, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError("cannot read '" + input + "': " + buffer.getError().message());

  // Passes the new graph to `onBytes` in chunks. Called twice: to compute the length, and to write.
  size_t next = 0;
  auto walkGraph = [&](StringRef graph, llvm::function_ref<void(StringRef)> onBytes) -> Error {
    for (FieldReader fields(graph); !fields.atEnd();) {
      llvm::Expected<Field> field = fields.next();
      if (!field)
        return field.takeError();
      if (field->number != kGraphNode || field->wire != 2) {
        onBytes(field->bytes);
        continue;
      }
      if (next == added->size())
        return makeChangedError();
      const std::string &extra = (*added)[next++];
      std::string node;
      for (FieldReader inner(field->value); !inner.atEnd();) {
        llvm::Expected<Field> part = inner.next();
        if (!part)
          return part.takeError();
        if (part->number != kNodeDevices)
          node += part->bytes;
      }
      if (!extra.empty())
        node += header(kNodeDevices, extra.size()) + extra;
      onBytes(header(kGraphNode, node.size()));
      onBytes(node);
    }
    return Error::success();
  };

  os << varint(kModelIrVersion << 3) << varint(std::max<int64_t>(model.ir_version(), kIrVersion));
  for (FieldReader fields((*buffer)->getBuffer()); !fields.atEnd();) {
    llvm::Expected<Field> field = fields.next();
    if (!field)
      return field.takeError();
    if (field->number == kModelIrVersion || field->number == kModelConfiguration)
      continue;
    if (field->number != kModelGraph || field->wire != 2) {
      os << field->bytes;
      continue;
    }
    size_t first = next;
    uint64_t length = 0;
    if (Error error = walkGraph(field->value, [&](StringRef bytes) { length += bytes.size(); }))
      return error;
    next = first;
    os << header(kModelGraph, length);
    if (Error error = walkGraph(field->value, [&](StringRef bytes) { os << bytes; }))
      return error;
  }
  if (next != added->size())
    return makeChangedError();
  ::onnx::DeviceConfigurationProto configuration;
  configuration.set_name(devices.name);
  configuration.set_num_devices(devices.ranks);
  std::string text;
  configuration.SerializeToString(&text);
  os << header(kModelConfiguration, text.size()) << text;
  return Error::success();
}
