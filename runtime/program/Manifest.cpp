//===- Manifest.cpp - reads the manifest ----------------------------------===//
//
// The compiler writes manifests, but a wrong one must not make the runtime read outside of a file
// or of memory: all that later code relies on is checked here.
//
//===----------------------------------------------------------------------===//

#include "program/Manifest.h"
#include "program/Error.h"
#include "program/SizeExpr.h"
#include "tpc/fnv1a.h"
#include "tpc/printable.h"
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace tpc::rt {
namespace {

using nlohmann::json;

constexpr int64_t maxRanks = 1 << 20;

[[noreturn]] void refuse(const std::string &where, const std::string &what) {
  throw UserError("the program's manifest is damaged: " + where + ": " + what +
                  "; compile the program again");
}

/// A JSON object and the path to it, for messages.
struct Node {
  const json &value;
  std::string where;

  bool has(const char *key) const { return value.is_object() && value.contains(key); }
  Node operator[](const char *key) const {
    if (!value.is_object())
      refuse(where, "not an object");
    auto it = value.find(key);
    if (it == value.end())
      refuse(where, std::string("no '") + key + "'");
    return {*it, where + "." + key};
  }
  std::string text() const {
    if (!value.is_string())
      refuse(where, "not text");
    return value.get<std::string>();
  }
  /// What is printed, and not the name of a file.
  std::string name() const { return printable(text()); }
  int64_t integer() const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      refuse(where, "not an integer");
    return value.get<int64_t>();
  }
  int64_t integerIn(int64_t min, int64_t max) const {
    int64_t result = integer();
    if (result < min || result > max)
      refuse(where, std::to_string(result) + " is not in " + std::to_string(min) + "…" +
                        std::to_string(max));
    return result;
  }
  bool flag() const {
    if (!value.is_boolean())
      refuse(where, "neither true nor false");
    return value.get<bool>();
  }
  std::string textOr(const char *key, const char *otherwise) const {
    return has(key) ? (*this)[key].text() : otherwise;
  }
  std::string nameOr(const char *key, const char *otherwise) const {
    return has(key) ? (*this)[key].name() : otherwise;
  }
  int64_t integerOr(const char *key, int64_t otherwise) const {
    return has(key) ? (*this)[key].integer() : otherwise;
  }
  template <class Fn> void each(Fn fn) const {
    if (!value.is_array())
      refuse(where, "not a list");
    for (size_t i = 0; i < value.size(); ++i)
      fn(Node{value[i], where + "[" + std::to_string(i) + "]"});
  }
  template <class Fn> void eachIfPresent(const char *key, Fn fn) const {
    if (has(key))
      (*this)[key].each(fn);
  }
};

tpc_dtype readDtype(const Node &node) {
  auto dtype = dtypeNamed(node.text());
  if (!dtype)
    refuse(node.where, "unknown dtype '" + node.text() + "'");
  return *dtype;
}

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
      refuse(node.where, "'" + symbol + "' is not among the symbols");
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
      refuse(node.where, "a range is two ends");
    port.range = {ends[0], ends[1]};
    port.rangeOf = node.nameOr("range_of", "");
    node.eachIfPresent("range_after",
                       [&](const Node &type) { port.rangeAfter.push_back(readDtype(type)); });
  }
  return port;
}

/// Finds the masks that default positions follow, once all inputs are known.
void findMasks(const Node &inputs, std::vector<Port> &ports) {
  size_t index = 0;
  inputs.each([&](const Node &node) {
    Port &port = ports[index++];
    if (!node.has("mask"))
      return;
    std::string name = node["mask"].name();
    if (port.fallback != Port::Default::Positions)
      refuse(node.where, "a mask is of default positions");
    auto mask =
        std::find_if(ports.begin(), ports.end(), [&](const Port &p) { return p.name == name; });
    if (mask == ports.end() || mask->shape.size() != 2 ||
        mask->fallback == Port::Default::Positions)
      refuse(node.where, "'" + name + "' is no mask of tokens");
    if (port.shape.empty())
      refuse(node.where, "positions have no dimension");
    port.mask = static_cast<int>(mask - ports.begin());
  });
}

/// Splits lists like ["tp"] into indices of the order.
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

/// Refuses a view that leaves its source tensor.
void checkView(const Node &node, const Parameter &parameter) {
  int64_t low = parameter.viewOffset, high = parameter.viewOffset, count = 1;
  bool overflow = false, empty = false;
  for (const auto &dim : parameter.dims)
    for (const ViewFactor &factor : dim) {
      int64_t reach = 0;
      if (!factor.offsets.empty()) { // of which the first is 0
        auto [least, most] = std::minmax_element(factor.offsets.begin(), factor.offsets.end());
        overflow |= __builtin_add_overflow(low, *least, &low);
        overflow |= __builtin_add_overflow(high, *most, &high);
        overflow |= __builtin_mul_overflow(count, factor.size, &count);
        continue;
      }
      overflow |=
          __builtin_mul_overflow(std::max<int64_t>(factor.size - 1, 0), factor.stride, &reach);
      overflow |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
      overflow |= __builtin_mul_overflow(count, factor.size, &count);
      empty |= factor.size == 0;
    }
  int64_t elements = parameter.bytes / dtypeBytes(parameter.sourceDtype);
  if (!empty && (overflow || low < 0 || high >= elements || count > INT64_MAX / 8))
    refuse(node.where, "the view of '" + parameter.name + "' leaves its " +
                           std::to_string(elements) + " elements");
}

/// Where the elements of a compound factor lie: `of` is a list of sizes and strides, major to
/// minor.
std::vector<int64_t> readOffsets(const Node &of, int64_t size) {
  std::vector<int64_t> offsets{0};
  of.each([&](const Node &entry) {
    int64_t count = entry["size"].integerIn(1, 1 << 20), stride = entry["stride"].integer();
    int64_t reach = 0;
    if (static_cast<int64_t>(offsets.size()) * count > 1 << 20 ||
        __builtin_mul_overflow(count - 1, stride, &reach))
      refuse(entry.where, "a factor of too many parts");
    std::vector<int64_t> next;
    for (int64_t outer : offsets)
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        if (__builtin_add_overflow(outer, i * stride, &at))
          refuse(entry.where, "a factor that leaves 64 bits");
        next.push_back(at);
      }
    offsets = std::move(next);
  });
  if (static_cast<int64_t>(offsets.size()) != size)
    refuse(of.where,
           "parts of another number of elements than the factor's " + std::to_string(size));
  return offsets;
}

Parameter readParameter(const Node &node, const Manifest &manifest) {
  Parameter parameter;
  parameter.name = node["name"].name();
  parameter.stage = static_cast<int>(node["stage"].integerIn(0, manifest.numStages() - 1));
  parameter.dtype = readDtype(node["dtype"]);
  parameter.sourceDtype =
      node.has("source_dtype") ? readDtype(node["source_dtype"]) : parameter.dtype;
  if (parameter.dtype != parameter.sourceDtype && parameter.dtype != TPC_F32)
    refuse(node.where, "weights are converted to f32 only");
  parameter.file =
      static_cast<int>(node["file"].integerIn(0, static_cast<int64_t>(manifest.files.size()) - 1));
  parameter.offset = node["offset"].integerIn(0, INT64_MAX / 4);
  parameter.bytes = node["bytes"].integerIn(0, INT64_MAX / 4);
  parameter.viewOffset = node.integerOr("view_offset", 0);
  node["dims"].each([&](const Node &dim) {
    std::vector<ViewFactor> factors;
    dim.each([&](const Node &entry) {
      ViewFactor factor;
      factor.size = entry["size"].integerIn(0, INT64_MAX / 8);
      if (entry.has("of"))
        factor.offsets = readOffsets(entry["of"], factor.size);
      else
        factor.stride = entry["stride"].integer();
      if (entry.has("axes"))
        factor.axes = readAxes(entry["axes"], manifest);
      factors.push_back(std::move(factor));
    });
    parameter.dims.push_back(std::move(factors));
  });
  node.eachIfPresent("source_shape", [&](const Node &size) {
    parameter.sourceShape.push_back(size.integerIn(0, INT64_MAX / 8));
  });
  std::string use = node.textOr("use", "dense"), init = node.textOr("init", "normal");
  if (use != "dense" && use != "matmul_rhs")
    refuse(node.where, "unknown use '" + use + "'");
  parameter.matmulRhs = use == "matmul_rhs";
  bool isMultiplied =
      parameter.dtype == TPC_F32 || parameter.dtype == TPC_F16 || parameter.dtype == TPC_BF16;
  if (parameter.matmulRhs && (parameter.dims.size() != 2 || !isMultiplied))
    refuse(node.where, "a matmul_rhs has two dimensions, and is f32, f16 or bf16");
  if (node.has("beside")) {
    auto count = static_cast<int64_t>(manifest.parameters.size());
    parameter.beside = static_cast<int>(node["beside"].integerIn(0, count - 1));
    const Parameter &other = manifest.parameters[parameter.beside];
    if (!parameter.matmulRhs || !other.matmulRhs || other.stage != parameter.stage)
      refuse(node.where, "stands beside no matmul_rhs of its stage, or is none");
  }
  if (init != "normal" && init != "ones" && init != "zeros")
    refuse(node.where, "unknown init '" + init + "'");
  parameter.init = init == "ones"    ? Parameter::Init::Ones
                   : init == "zeros" ? Parameter::Init::Zeros
                                     : Parameter::Init::Normal;
  checkView(node, parameter);
  return parameter;
}

/// Finds parameters that need not be held twice on a rank. Names must agree, because drawn weights
/// depend on them.
void findShared(std::vector<Parameter> &parameters) {
  auto sameSource = [](const Parameter &a, const Parameter &b) {
    return a.stage == b.stage && a.file == b.file && a.offset == b.offset && a.bytes == b.bytes &&
           a.viewOffset == b.viewOffset && a.dtype == b.dtype && a.sourceDtype == b.sourceDtype &&
           a.name == b.name && a.init == b.init && a.sourceShape == b.sourceShape;
  };
  // By place in the file: a model has thousands of parameters, a tensor few uses.
  std::map<std::pair<int, int64_t>, std::vector<int>> bySource;
  for (size_t i = 0; i < parameters.size(); ++i)
    bySource[{parameters[i].file, parameters[i].offset}].push_back(static_cast<int>(i));
  for (const auto &[source, uses] : bySource)
    for (int index : uses) {
      Parameter &parameter = parameters[index];
      for (int other : uses) {
        const Parameter &candidate = parameters[other];
        if (other == index || !sameSource(parameter, candidate))
          continue;
        if (other < index && parameter.sameAs < 0 && candidate.matmulRhs == parameter.matmulRhs &&
            candidate.dims == parameter.dims && !candidate.isShared())
          parameter.sameAs = other;
        if (parameter.transposeOf < 0 && parameter.matmulRhs && !candidate.matmulRhs &&
            candidate.dims.size() == 2 && candidate.sameAs < 0 &&
            candidate.dims[0] == parameter.dims[1] && candidate.dims[1] == parameter.dims[0])
          parameter.transposeOf = other;
      }
    }
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
    refuse(node.where, "axes of " + std::to_string(cache.axes.size()) + " dimensions, of " +
                           std::to_string(cache.shape.size()));
  return cache;
}

/// The place of the port that a node names.
int readPortName(const Node &node, const std::vector<Port> &ports) {
  std::string name = node.name();
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name)
      return static_cast<int>(i);
  refuse(node.where, "there is no '" + name + "'");
}

/// What a constraint such as `capacity + 2 <= 2050` or `2*capacity - 1 <= 200`, of a table of
/// positions, leaves to a symbol.
std::optional<int64_t> mostOf(const Constraint &constraint, const std::string &symbol) {
  if (!constraint.max || symbolsOf(constraint.expr) != std::set<std::string>{symbol})
    return std::nullopt;
  int64_t none = evaluateSize(constraint.expr, {{symbol, 0}}),
          one = evaluateSize(constraint.expr, {{symbol, 1}}), each = one - none;
  if (each < 1 || evaluateSize(constraint.expr, {{symbol, 2}}) != one + each ||
      *constraint.max < none)
    return std::nullopt;
  int64_t most = (*constraint.max - none) / each;
  // What grows no more, as min(capacity, 20) does, leaves any number.
  if (evaluateSize(constraint.expr, {{symbol, most + 1}}) <= *constraint.max)
    return std::nullopt;
  return most;
}

Generation readGeneration(const Node &node, const Manifest &manifest) {
  Generation generation;
  auto readSymbol = [&](const char *key) {
    std::string text = node[key].text();
    if (std::find(manifest.symbols.begin(), manifest.symbols.end(), text) == manifest.symbols.end())
      refuse(node.where, "'" + text + "' is not among the symbols");
    return text;
  };
  generation.batch = readSymbol("batch");
  generation.sequence = readSymbol("sequence");
  generation.capacity = readSymbol("capacity");
  for (auto [key, input] : {std::pair{"tokens", &generation.tokens},
                            {"lengths", &generation.lengths},
                            {"counts", &generation.counts}}) {
    *input = readPortName(node[key], manifest.inputs);
    const Port &port = manifest.inputs[static_cast<size_t>(*input)];
    std::vector<std::string> shape = {generation.batch};
    if (input == &generation.tokens)
      shape.push_back(generation.sequence);
    bool isId = port.dtype == TPC_I64 || (port.dtype == TPC_I32 && input == &generation.tokens);
    if (!isId || port.shape != shape)
      refuse(node.where, "'" + port.name + "' has another type or shape than " + key);
  }
  if (node.has("window")) {
    Generation::Windowed windowed;
    windowed.window = node["window"].integerIn(1, INT64_MAX / 8);
    windowed.room = readSymbol("room");
    windowed.lengths = readPortName(node["window_lengths"], manifest.inputs);
    const Port &port = manifest.inputs[static_cast<size_t>(windowed.lengths)];
    if (port.dtype != TPC_I64 || port.shape != std::vector<std::string>{generation.batch})
      refuse(node.where, "'" + port.name + "' has another type or shape than window_lengths");
    generation.windowed = windowed;
  }
  generation.logits = readPortName(node["logits"], manifest.outputs);
  generation.lastOnly = node["last_only"].flag();
  generation.vocabulary = node["vocabulary"].integerIn(1, int64_t(1) << 22);
  generation.inFlight = static_cast<int>(node["in_flight"].integerIn(1, manifest.numStages()));
  const Port &tokens = manifest.inputs[static_cast<size_t>(generation.tokens)];
  generation.lastToken = tokens.range ? tokens.range->second : generation.vocabulary - 1;
  const Port &logits = manifest.outputs[static_cast<size_t>(generation.logits)];
  std::vector<std::string> shape = {generation.batch, std::to_string(generation.vocabulary)};
  if (!generation.lastOnly)
    shape.insert(shape.begin() + 1, generation.sequence);
  bool isFloat = logits.dtype == TPC_F32 || logits.dtype == TPC_F64 || logits.dtype == TPC_F16 ||
                 logits.dtype == TPC_BF16;
  if (!isFloat || logits.shape != shape)
    refuse(node.where, "'" + logits.name + "' has another type or shape than logits");
  if (node.has("max_sequence") && !node["max_sequence"].value.is_null())
    generation.maxSequence = node["max_sequence"].integerIn(1, INT64_MAX / 8);
  for (const Constraint &constraint : manifest.constraints)
    if (std::optional<int64_t> most = mostOf(constraint, generation.capacity))
      generation.maxSequence = std::min(*most, generation.maxSequence.value_or(*most));
  return generation;
}

} // namespace

Manifest parseManifest(const char *text) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded())
    throw UserError("the program's manifest is damaged: it is not JSON; compile the program again");
  Node root{parsed, "manifest"};
  if (root["format"].integer() != 1)
    refuse(root.where, "format " + std::to_string(root["format"].integer()) +
                           " is not that of this runtime, 1");
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
  return manifest;
}

} // namespace tpc::rt
