//===- ManifestGeneration.cpp - Reads the manifest's generation step ------===//

#include "program/ManifestNode.h"
#include "program/SizeExpr.h"
#include <algorithm>
#include <limits>
#include <set>

namespace tpc::rt {

namespace {

/// Returns the index of the port that a node names.
int readPortName(const Node &node, const std::vector<Port> &ports) {
  std::string name = node.name();
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name)
      return static_cast<int>(i);
  refuse(node.where, "there is no '" + name + "'");
}

/// Returns the maximum of a symbol under a constraint that a table of positions imposes, such as
/// `capacity + 2 <= 2050` or `2*capacity - 1 <= 200`.
std::optional<int64_t> maxOf(const Constraint &constraint, const std::string &symbol) {
  if (!constraint.max || symbolsOf(constraint.expr) != std::set<std::string>{symbol})
    return std::nullopt;
  int64_t atZero = evaluateSize(constraint.expr, {{symbol, 0}}),
          atOne = evaluateSize(constraint.expr, {{symbol, 1}}), slope = atOne - atZero;
  if (slope < 1 || evaluateSize(constraint.expr, {{symbol, 2}}) != atOne + slope ||
      *constraint.max < atZero)
    return std::nullopt;
  int64_t maximum = (*constraint.max - atZero) / slope;
  // A bounded expression, such as min(capacity, 20), imposes no limit.
  if (evaluateSize(constraint.expr, {{symbol, maximum + 1}}) <= *constraint.max)
    return std::nullopt;
  return maximum;
}

} // namespace

Generation readGeneration(const Node &node, const Manifest &manifest) {
  Generation generation;
  auto readSymbol = [&](const char *key) {
    std::string text = node[key].text();
    if (std::find(manifest.symbols.begin(), manifest.symbols.end(), text) == manifest.symbols.end())
      refuse(node.where, "'" + text + "' is not one of the symbols");
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
      refuse(node.where, "'" + port.name + "' does not have the type and shape of " + key);
  }
  if (node.has("window")) {
    Generation::Windowed windowed;
    windowed.window = node["window"].integerIn(1, INT64_MAX / 8);
    windowed.capacity = readSymbol("window_capacity");
    windowed.lengths = readPortName(node["window_lengths"], manifest.inputs);
    const Port &port = manifest.inputs[static_cast<size_t>(windowed.lengths)];
    if (port.dtype != TPC_I64 || port.shape != std::vector<std::string>{generation.batch})
      refuse(node.where, "'" + port.name + "' does not have the type and shape of window_lengths");
    generation.windowed = windowed;
  }
  if (node.has("source")) {
    Generation::Source source;
    source.tokens = readSymbol("source");
    source.capacity = readSymbol("source_capacity");
    source.lengths = readPortName(node["source_lengths"], manifest.inputs);
    const Port &lengths = manifest.inputs[static_cast<size_t>(source.lengths)];
    if (lengths.dtype != TPC_I64 || lengths.shape != std::vector<std::string>{generation.batch})
      refuse(node.where,
             "'" + lengths.name + "' does not have the type and shape of source_lengths");
    source.input = readPortName(node["source_input"], manifest.inputs);
    const Port *found = &manifest.inputs[static_cast<size_t>(source.input)];
    if (node.has("source_each"))
      source.each = source.maxTokens = node["source_each"].integerIn(1, INT64_MAX / 8);
    if (node.has("source_token"))
      source.token = node["source_token"].integerIn(0, INT64_MAX);
    bool fits = source.each ? !found->shape.empty() &&
                                  symbolsOf(found->shape[0]) ==
                                      std::set<std::string>{generation.batch, source.tokens}
                            : found->shape.size() >= 2 && found->shape[0] == generation.batch &&
                                  found->shape[1] == source.tokens;
    if (!fits)
      refuse(node.where, "'" + found->name + "' does not have the shape of a source");
    source.lastToken = found->range ? found->range->second : std::numeric_limits<int64_t>::max();
    for (const Constraint &constraint : manifest.constraints)
      if (std::optional<int64_t> maximum = maxOf(constraint, source.tokens))
        source.maxTokens = std::min(*maximum, source.maxTokens.value_or(*maximum));
    generation.source = source;
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
    refuse(node.where, "'" + logits.name + "' does not have the type and shape of logits");
  if (node.has("max_sequence") && !node["max_sequence"].value.is_null())
    generation.maxSequence = node["max_sequence"].integerIn(1, INT64_MAX / 8);
  for (const Constraint &constraint : manifest.constraints)
    if (std::optional<int64_t> maximum = maxOf(constraint, generation.capacity))
      generation.maxSequence = std::min(*maximum, generation.maxSequence.value_or(*maximum));
  return generation;
}

} // namespace tpc::rt
