//===- Manifest.cpp - Reads and checks the manifest -----------------------===//
//
// Later code relies on the checks made here, so that a damaged manifest cannot make the runtime
// access a file or memory out of bounds.
//
//===----------------------------------------------------------------------===//

#include "program/ManifestNode.h"
#include "program/SizeExpr.h"
#include "tpc/fnv1a.h"
#include <algorithm>
#include <set>

namespace tpc::rt {
namespace {

constexpr int64_t maxRanks = 1 << 20;

void readGrid(const Node &root, Manifest &manifest) {
  Node grid = root["grid"], sizes = grid["sizes"];
  std::vector<Grid::Axis> axes;
  int64_t ranks = 1;
  grid["order"].each([&](const Node &node) {
    std::string name = node.text();
    int64_t size = sizes[name.c_str()].integerIn(1, maxRanks);
    for (const Grid::Axis &axis : axes)
      if (axis.name == name)
        refuse(node.where, "'" + name + "' is repeated");
    ranks *= size;
    if (ranks > maxRanks || axes.size() >= 31)
      refuse(node.where, "the grid is too large");
    if (name == "pp")
      manifest.pipelineAxis = static_cast<int>(axes.size());
    axes.push_back({name, size});
  });
  for (const auto &[name, size] : sizes.value.items())
    if (std::none_of(axes.begin(), axes.end(),
                     [&](const Grid::Axis &axis) { return axis.name == name; }))
      refuse(sizes.where, "'" + name + "' is not in the order");
  manifest.grid = Grid(std::move(axes));
  manifest.microBatches = grid.integerOr("micro_batches", 1);
  if (grid.has("sequence_parallel"))
    manifest.sequenceParallel = grid["sequence_parallel"].flag();
}

void readGroups(const Node &root, Manifest &manifest) {
  if (!root.has("groups"))
    return;
  std::vector<uint32_t> masks;
  root["groups"].each([&](const Node &group) {
    uint32_t mask = 0;
    group.each([&](const Node &node) {
      std::string name = node.text();
      const std::vector<Grid::Axis> &axes = manifest.grid.axes();
      auto axis = std::find_if(axes.begin(), axes.end(),
                               [&](const Grid::Axis &known) { return known.name == name; });
      if (axis == axes.end())
        refuse(node.where, "'" + name + "' is not in the order");
      mask |= uint32_t(1) << (axis - axes.begin());
    });
    masks.push_back(mask);
  });
  manifest.groups = std::move(masks);
}

void checkSize(const Node &node, const std::string &text, const Manifest &manifest) {
  std::set<std::string> mentioned;
  try {
    mentioned = symbolsOf(text);
  } catch (const UserError &error) {
    refuse(node.where, error.what());
  }
  for (const std::string &symbol : mentioned)
    if (std::find(manifest.symbols.begin(), manifest.symbols.end(), symbol) ==
        manifest.symbols.end())
      refuse(node.where, "'" + symbol + "' is not one of the symbols");
}

Port readPort(const Node &node, const Manifest &manifest) {
  Port port;
  port.name = node["name"].name();
  port.dtype = readDtype(node["dtype"]);
  node["shape"].each([&](const Node &size) {
    port.shape.push_back(size.value.is_number() ? std::to_string(size.integer()) : size.text());
    checkSize(size, port.shape.back(), manifest);
  });
  if (node.has("default") && !node["default"].value.is_null()) {
    std::string text = node["default"].text();
    if (text != "ones" && text != "positions")
      refuse(node.where, "unknown default '" + text + "'");
    port.fallback = text == "ones" ? Port::Default::Ones : Port::Default::Positions;
    if (node.has("past")) {
      port.past = node["past"].text();
      checkSize(node["past"], port.past, manifest);
    }
  }
  port.required = node.nameOr("required", "");
  if (node.has("range") && !node["range"].value.is_null()) {
    std::vector<int64_t> ends;
    node["range"].each([&](const Node &end) { ends.push_back(end.integer()); });
    if (ends.size() != 2)
      refuse(node.where, "a range must have two ends");
    port.range = {ends[0], ends[1]};
    port.rangeOf = node.nameOr("range_of", "");
    node.eachIfPresent("range_after",
                       [&](const Node &type) { port.rangeAfter.push_back(readDtype(type)); });
    if (node.has("ignored"))
      port.ignored = node["ignored"].integer();
  }
  return port;
}

/// Finds the masks of default positions, once all inputs are known.
void findMasks(const Node &inputs, std::vector<Port> &ports) {
  size_t index = 0;
  inputs.each([&](const Node &node) {
    Port &port = ports[index++];
    if (!node.has("mask"))
      return;
    std::string name = node["mask"].name();
    if (port.fallback != Port::Default::Positions)
      refuse(node.where, "only an input with default positions can have a mask");
    auto mask =
        std::find_if(ports.begin(), ports.end(), [&](const Port &p) { return p.name == name; });
    if (mask == ports.end() || mask->shape.size() != 2 ||
        mask->fallback == Port::Default::Positions)
      refuse(node.where, "'" + name + "' is not a mask of tokens");
    if (port.shape.empty())
      refuse(node.where, "positions must have a dimension");
    port.mask = static_cast<int>(mask - ports.begin());
  });
}

Cache readCache(const Node &node, const Manifest &manifest) {
  Cache cache;
  cache.name = node["name"].name();
  cache.stage = static_cast<int>(node["stage"].integerIn(0, manifest.numStages() - 1));
  cache.dtype = readDtype(node["dtype"]);
  node["shape"].each([&](const Node &size) {
    cache.shape.push_back(size.value.is_number() ? std::to_string(size.integer()) : size.text());
    checkSize(size, cache.shape.back(), manifest);
  });
  node.eachIfPresent("axes",
                     [&](const Node &axes) { cache.axes.push_back(readAxes(axes, manifest)); });
  if (!cache.axes.empty() && cache.axes.size() != cache.shape.size())
    refuse(node.where, "axes of " + std::to_string(cache.axes.size()) +
                           " dimensions, but the shape has " + std::to_string(cache.shape.size()));
  return cache;
}

} // namespace

tpc_dtype readDtype(const Node &node) {
  auto dtype = dtypeNamed(node.text());
  if (!dtype)
    refuse(node.where, "unknown dtype '" + node.text() + "'");
  return *dtype;
}

std::vector<int> readAxes(const Node &node, const Manifest &manifest) {
  std::vector<int> axes;
  node.each([&](const Node &entry) {
    std::string name = entry.text();
    int found = -1;
    for (int i = 0; i < manifest.grid.numAxes(); ++i)
      if (manifest.grid.axes()[i].name == name)
        found = i;
    if (found < 0 || std::find(axes.begin(), axes.end(), found) != axes.end())
      refuse(entry.where, "'" + name + "' is not an axis, or is repeated");
    axes.push_back(found);
  });
  return axes;
}

Manifest parseManifest(const char *text) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded())
    throw UserError("the program's manifest is damaged: it is not JSON; compile the program again");
  Node root{parsed, "manifest"};
  if (root["format"].integer() != 1)
    refuse(root.where, "the format is " + std::to_string(root["format"].integer()) +
                           ", but this runtime reads 1");
  Manifest manifest;
  manifest.name = root.nameOr("name", "program");
  manifest.compiler = root.nameOr("compiler", "");
  manifest.notVerified = root.nameOr("not_verified", "");
  manifest.noRandomizedCheck = root.nameOr("no_randomized_check", "");
  manifest.digest = toHexDigits(fnv1a(text));
  manifest.source = root.textOr("source", "");
  if (root.has("schedule"))
    manifest.schedule = parsed["schedule"].is_string() ? parsed["schedule"].get<std::string>()
                                                       : parsed["schedule"].dump();
  readGrid(root, manifest);
  readGroups(root, manifest);
  root.eachIfPresent("symbols", [&](const Node &node) { manifest.symbols.push_back(node.text()); });
  root["inputs"].each(
      [&](const Node &node) { manifest.inputs.push_back(readPort(node, manifest)); });
  findMasks(root["inputs"], manifest.inputs);
  root["outputs"].each(
      [&](const Node &node) { manifest.outputs.push_back(readPort(node, manifest)); });
  root.eachIfPresent("constraints", [&](const Node &node) {
    Constraint constraint;
    constraint.expr = node["expr"].text();
    checkSize(node, constraint.expr, manifest);
    if (node.has("min") && !node["min"].value.is_null())
      constraint.min = node["min"].integer();
    if (node.has("max") && !node["max"].value.is_null())
      constraint.max = node["max"].integer();
    constraint.why = node.nameOr("why", "");
    manifest.constraints.push_back(std::move(constraint));
  });
  root.eachIfPresent("files", [&](const Node &node) {
    WeightFile file;
    file.path = node["path"].text();
    if (node.has("bytes"))
      file.bytes = node["bytes"].integer();
    file.digest = node.textOr("digest", "");
    node.eachIfPresent("tensors", [&](const Node &tensor) {
      file.tensors.push_back({tensor["name"].name(), tensor["offset"].integerIn(0, INT64_MAX / 4),
                              tensor["bytes"].integerIn(0, INT64_MAX / 4),
                              tensor["digest"].text()});
    });
    manifest.files.push_back(std::move(file));
  });
  root.eachIfPresent("parameters", [&](const Node &node) {
    manifest.parameters.push_back(readParameter(node, manifest));
  });
  findShared(manifest.parameters);
  root.eachIfPresent(
      "caches", [&](const Node &node) { manifest.caches.push_back(readCache(node, manifest)); });
  if (root.has("generation"))
    manifest.generation = readGeneration(root["generation"], manifest);
  if (root.has("training"))
    manifest.training = readTraining(root["training"], manifest);
  return manifest;
}

} // namespace tpc::rt
