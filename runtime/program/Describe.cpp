//===- Describe.cpp - Description of a program from its manifest ----------===//

#include "program/Describe.h"
#include "program/CommandLine.h"
#include "program/View.h"
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tpc::rt {
namespace {

using json = nlohmann::ordered_json;

/// Returns the groups of one axis, in ascending order of their first rank.
std::vector<std::vector<int>> groupsOf(const Grid &grid, int axis) {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < grid.numRanks(); ++rank) {
    Group group = grid.groupOf(rank, uint32_t(1) << axis);
    if (group.index == 0)
      groups.push_back(group.ranks);
  }
  return groups;
}

std::string groupsText(const std::vector<std::vector<int>> &groups) {
  std::string text;
  for (const auto &group : groups) {
    std::string ranks;
    for (int rank : group)
      ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    text += (text.empty() ? "[" : " [") + ranks + "]";
  }
  return text;
}

std::string megabytes(int64_t bytes) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return buffer;
}

std::string portText(const Port &port, const Manifest &manifest) {
  std::string shape;
  for (const std::string &size : port.shape)
    shape += (shape.empty() ? "" : ", ") + size;
  std::string text = "  " + port.name + "  " + dtypeName(port.dtype) + "[" + shape + "]";
  if (port.fallback != Port::Default::None)
    text += "  default: " + defaultText(port, manifest);
  else if (!port.required.empty())
    text += "  no default: " + port.required;
  if (port.range)
    text += "  values " + std::to_string(port.range->first) + " to " +
            std::to_string(port.range->second);
  if (port.ignored)
    text += " or " + std::to_string(*port.ignored) + " (ignored)";
  return text + "\n";
}

json portJson(const Port &port, const Manifest &manifest, bool isInput) {
  json result = {{"name", port.name}, {"dtype", dtypeName(port.dtype)}, {"shape", json::array()}};
  for (const std::string &size : port.shape) {
    bool number = !size.empty() && std::all_of(size.begin(), size.end(),
                                               [](char c) { return c >= '0' && c <= '9'; });
    if (number && size.size() < 19)
      result["shape"].push_back(std::stoll(size));
    else
      result["shape"].push_back(size);
  }
  if (isInput)
    result["optional"] = port.fallback != Port::Default::None;
  if (port.fallback != Port::Default::None)
    result["default"] = port.fallback == Port::Default::Ones ? "ones" : "positions";
  if (port.mask >= 0)
    result["mask"] = manifest.inputs[port.mask].name;
  else if (port.fallback == Port::Default::Positions)
    result["past"] = port.past;
  if (!port.required.empty())
    result["required"] = port.required;
  if (port.range)
    result["range"] = {port.range->first, port.range->second};
  if (port.ignored)
    result["ignored"] = *port.ignored;
  return result;
}

json gridJson(const Manifest &manifest) {
  json sizes = json::object(), order = json::array();
  for (const Grid::Axis &axis : manifest.grid.axes()) {
    sizes[axis.name] = axis.size;
    order.push_back(axis.name);
  }
  return {{"sizes", sizes},
          {"order", order},
          {"sequence_parallel", manifest.sequenceParallel},
          {"micro_batches", manifest.microBatches}};
}

json generationJson(const Manifest &manifest) {
  const Generation &generation = *manifest.generation;
  json result = {{"tokens", manifest.inputs[static_cast<size_t>(generation.tokens)].name},
                 {"logits", manifest.outputs[static_cast<size_t>(generation.logits)].name},
                 {"last_only", generation.lastOnly},
                 {"vocabulary", generation.vocabulary},
                 {"max_sequence", nullptr},
                 {"caches", json::array()}};
  if (generation.maxSequence)
    result["max_sequence"] = *generation.maxSequence;
  for (const Cache &cache : manifest.caches) {
    json axes = json::array();
    for (const std::vector<int> &splits : cache.axes) {
      axes.push_back(json::array());
      for (int axis : splits)
        axes.back().push_back(manifest.grid.axes()[static_cast<size_t>(axis)].name);
    }
    result["caches"].push_back({{"name", cache.name},
                                {"stage", cache.stage},
                                {"dtype", dtypeName(cache.dtype)},
                                {"shape", cache.shape},
                                {"axes", axes}});
  }
  return result;
}

json trainingJson(const Manifest &manifest) {
  const Training &training = *manifest.training;
  auto input = [&](int index) {
    return index < 0 ? json(nullptr) : json(manifest.inputs[static_cast<size_t>(index)].name);
  };
  return {{"optimizer", training.optimizer},
          {"beta1", training.beta1},
          {"beta2", training.beta2},
          {"tokens", input(training.tokens)},
          {"labels", input(training.labels)},
          {"rate", input(training.rate)},
          {"correction1", input(training.correction1)},
          {"correction2", input(training.correction2)},
          {"last_token", training.lastToken}};
}

const char *useOf(const Parameter &parameter) {
  return parameter.matmulRhs ? "matmul_rhs" : parameter.isExperts ? "experts" : "dense";
}

} // namespace

std::string defaultText(const Port &port, const Manifest &manifest) {
  if (port.fallback == Port::Default::Ones)
    return "ones";
  if (port.mask >= 0)
    return "positions of the visible tokens of '" + manifest.inputs[port.mask].name + "'";
  return "positions from " + port.past + (port.past == "0" ? "" : ", the number of past tokens");
}

std::string describe(const Manifest &manifest) {
  const Grid &grid = manifest.grid;
  std::string text =
      manifest.name + (manifest.source.empty() ? "" : ", from " + manifest.source) + "\n\nInputs\n";
  for (const Port &port : manifest.inputs)
    text += portText(port, manifest);
  text += "Outputs\n";
  for (const Port &port : manifest.outputs)
    text += portText(port, manifest);
  for (const Constraint &constraint : manifest.constraints)
    text += "  " + constraint.expr +
            (constraint.min ? " >= " + std::to_string(*constraint.min) : "") +
            (constraint.max ? " <= " + std::to_string(*constraint.max) : "") +
            (constraint.why.empty() ? "" : ": " + constraint.why) + "\n";

  if (!manifest.noRandomizedCheck.empty())
    text +=
        "Verified only by proof, not by a run at small sizes: " + manifest.noRandomizedCheck + "\n";
  if (!manifest.notVerified.empty())
    text += "NOT VERIFIED: compiled without " + manifest.notVerified + "\n";
  if (!manifest.schedule.empty())
    text += "Schedule: " + manifest.schedule + "\n";
  text += "Grid: " + std::to_string(grid.numRanks()) + (grid.numRanks() == 1 ? " rank" : " ranks");
  for (const Grid::Axis &axis : grid.axes())
    if (axis.size > 1)
      text += ", " + axis.name + " " + std::to_string(axis.size);
  if (manifest.sequenceParallel)
    text += ", sequence parallel";
  if (manifest.microBatches > 1)
    text += ", " + std::to_string(manifest.microBatches) + " micro-batches";
  text += "\n";
  for (int axis = 0; axis < grid.numAxes(); ++axis)
    if (grid.axes()[axis].size > 1)
      text += "  " + grid.axes()[axis].name + ": " + groupsText(groupsOf(grid, axis)) + "\n";

  text += "Weights\n";
  for (const WeightFile &file : manifest.files)
    text += "  " + file.path + (file.bytes ? "  " + megabytes(*file.bytes) : "") + "\n";
  // Ranks of a stage with equal contents share a line.
  for (int stage = 0; stage < manifest.numStages(); ++stage) {
    std::vector<std::pair<std::string, std::string>> lines; // contents, ranks
    for (int rank = 0; rank < grid.numRanks(); ++rank) {
      if (manifest.stageOf(rank) != stage)
        continue;
      WeightBytes bytes = weightBytesOf(manifest, rank);
      std::string contents = std::to_string(bytes.total()) + " bytes (" + megabytes(bytes.sharded) +
                             " sharded, " + megabytes(bytes.replicated) + " replicated) + " +
                             megabytes(bytes.padding) + " padding";
      auto line = std::find_if(lines.begin(), lines.end(),
                               [&](const auto &other) { return other.first == contents; });
      if (line == lines.end())
        lines.push_back({contents, std::to_string(rank)});
      else
        line->second += " " + std::to_string(rank);
    }
    for (const auto &[contents, ranks] : lines)
      text += "  stage " + std::to_string(stage) + ", rank " + ranks + ": " + contents + "\n";
  }
  return text;
}

std::string describeJson(const Manifest &manifest) {
  const Grid &grid = manifest.grid;
  json result = {{"name", manifest.name},
                 {"compiler", manifest.compiler},
                 {"source", manifest.source},
                 {"schedule", manifest.schedule},
                 {"not_verified", manifest.notVerified},
                 {"no_randomized_check", manifest.noRandomizedCheck},
                 {"grid", gridJson(manifest)},
                 {"world_size", grid.numRanks()}};
  result["groups"] = json::object();
  for (int axis = 0; axis < grid.numAxes(); ++axis)
    result["groups"][grid.axes()[axis].name] = groupsOf(grid, axis);
  result["symbols"] = manifest.symbols;
  for (std::string_view flag : knownFlags())
    result["flags"].push_back(flag);
  result["inputs"] = result["outputs"] = result["files"] = result["ranks"] = result["parameters"] =
      json::array();
  for (const Port &port : manifest.inputs)
    result["inputs"].push_back(portJson(port, manifest, true));
  for (const Port &port : manifest.outputs)
    result["outputs"].push_back(portJson(port, manifest, false));
  for (const WeightFile &file : manifest.files)
    result["files"].push_back({{"path", file.path}, {"digest", file.digest}});
  for (int rank = 0; rank < grid.numRanks(); ++rank) {
    json coordinates = json::object();
    auto values = grid.coordinatesOf(rank);
    for (int axis = 0; axis < grid.numAxes(); ++axis)
      coordinates[grid.axes()[axis].name] = values[axis];
    WeightBytes bytes = weightBytesOf(manifest, rank);
    result["ranks"].push_back({{"rank", rank},
                               {"stage", manifest.stageOf(rank)},
                               {"coordinates", coordinates},
                               {"weight_bytes", bytes.total()},
                               {"sharded_bytes", bytes.sharded},
                               {"replicated_bytes", bytes.replicated},
                               {"packing_bytes", bytes.padding}});
  }
  for (const Parameter &parameter : manifest.parameters) {
    json bytes = json::array();
    for (int rank = 0; rank < grid.numRanks(); ++rank)
      bytes.push_back(
          manifest.stageOf(rank) == parameter.stage ? localBytes(parameter, manifest, rank) : 0);
    result["parameters"].push_back({{"name", parameter.name},
                                    {"stage", parameter.stage},
                                    {"use", useOf(parameter)},
                                    {"bytes", bytes}});
    int owner = parameter.transposeOf >= 0 ? parameter.transposeOf : parameter.sameAs;
    if (owner >= 0)
      result["parameters"].back()["shares"] = owner;
  }
  if (manifest.generation)
    result["generation"] = generationJson(manifest);
  if (manifest.training)
    result["training"] = trainingJson(manifest);
  return result.dump(2);
}

} // namespace tpc::rt
