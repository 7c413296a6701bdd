//===- Graph.cpp - Node order and unsupported operators -------------------===//

#include "Importer.h"
#include "LoopedExperts.h"
#include "OpTable.h"
#include "SortedExperts.h"

#include "onnx.pb.h"

#include "llvm/ADT/SetVector.h"

#include <queue>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Maximum number of nodes; function calls can multiply nodes without bound.
static constexpr int64_t kMaxNodes = 500'000;

void mlir::tpc::frontend::collectUses(const ::onnx::GraphProto &graph,
                                      std::vector<std::string> &names) {
  llvm::StringSet<> own;
  for (const auto &initializer : graph.initializer())
    own.insert(initializer.name());
  for (const auto &input : graph.input())
    own.insert(input.name());
  for (const auto &node : graph.node())
    for (const auto &output : node.output())
      own.insert(output);
  std::vector<std::string> inner;
  for (const auto &node : graph.node())
    collectUses(node, inner);
  for (const auto &output : graph.output())
    inner.push_back(output.name());
  for (std::string &name : inner)
    if (!own.contains(name))
      names.push_back(std::move(name));
}

void mlir::tpc::frontend::collectUses(const ::onnx::NodeProto &node,
                                      std::vector<std::string> &names) {
  for (const std::string &input : node.input())
    if (!input.empty())
      names.push_back(input);
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      collectUses(attribute.g(), names);
    for (const auto &graph : attribute.graphs())
      collectUses(graph, names);
  }
}

static std::string describe(const ::onnx::NodeProto &node) {
  if (!node.name().empty())
    return "'" + node.name() + "'";
  return node.op_type() + " of '" + (node.output_size() ? node.output(0) : "") + "'";
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Returns the needed nodes, producers first and otherwise in file order. Adds the names of their
/// inputs to the scope's used names.
FailureOr<SmallVector<unsigned>> Importer::sortNodes(NodeProtos nodes, Scope &scope) {
  if ((importedNodes += nodes.size()) > kMaxNodes)
    return emitError(scope.caller.value_or(fileLoc()))
           << "the graph has more than " << kMaxNodes << " nodes, those of functions counted for "
           << "each call";
  llvm::StringMap<unsigned> producer;
  for (auto [i, node] : llvm::enumerate(nodes))
    for (const std::string &output : node->output()) {
      if (output.empty())
        continue;
      if (scope.values.count(output) || !producer.try_emplace(output, i).second)
        return emitError(nodeLoc(*node, scope))
               << "'" << output << "' is computed by node " << describe(*node)
               << " and has a value already; names must be unique";
    }

  std::vector<std::vector<unsigned>> users(nodes.size());
  std::vector<std::vector<std::string>> uses(nodes.size());
  std::vector<unsigned> waiting(nodes.size());
  for (auto [i, node] : llvm::enumerate(nodes)) {
    collectUses(*node, uses[i]);
    for (const std::string &name : uses[i]) {
      auto it = producer.find(name);
      if (it != producer.end()) {
        users[it->second].push_back(i);
        ++waiting[i];
      } else if (!scope.lookup(name)) {
        return emitError(nodeLoc(*node, scope))
               << "node " << describe(*node) << " (" << node->op_type() << ") uses '" << name
               << "', which no node, input or initializer of the file defines";
      }
    }
  }

  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<unsigned>> ready;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (!waiting[i])
      ready.push(i);
  SmallVector<unsigned> order;
  while (!ready.empty()) {
    unsigned i = ready.top();
    ready.pop();
    order.push_back(i);
    for (unsigned user : users[i])
      if (--waiting[user] == 0)
        ready.push(user);
  }
  if (order.size() != nodes.size()) {
    // Follows waiting producers until a node repeats, which closes a cycle.
    unsigned at = 0;
    while (!waiting[at])
      ++at;
    llvm::SetVector<unsigned> path;
    while (path.insert(at))
      for (const std::string &name : uses[at]) {
        auto it = producer.find(name);
        if (it == producer.end() || !waiting[it->second])
          continue;
        at = it->second;
        break;
      }
    auto begin = llvm::find(path, at);
    InFlightDiagnostic diag = emitError(nodeLoc(*nodes[at], scope));
    diag << "the graph has a cycle: ";
    unsigned listed = 0;
    for (auto it = begin; it != path.end() && listed < 8; ++it, ++listed)
      diag << describe(*nodes[*it]) << " uses ";
    if (unsigned rest = (path.end() - begin) - listed)
      diag << "… (" << rest << " more) uses ";
    diag << describe(*nodes[at]);
    return failure();
  }

  std::vector<bool> needed(nodes.size());
  for (unsigned i : llvm::reverse(order)) {
    for (const std::string &output : nodes[i]->output())
      needed[i] = needed[i] || (!output.empty() && scope.used.contains(output));
    if (needed[i])
      for (const std::string &name : uses[i])
        scope.used.insert(name);
  }
  llvm::erase_if(order, [&](unsigned i) { return !needed[i]; });
  return order;
}

/// Returns the attribute with the value of a Constant, or null for another node.
static const ::onnx::AttributeProto *getConstant(const ::onnx::NodeProto &node) {
  bool constant = node.op_type() == "Constant" && node.output_size() == 1 &&
                  (node.domain().empty() || node.domain() == "ai.onnx");
  return constant && node.attribute_size() == 1 ? &node.attribute(0) : nullptr;
}

/// Returns true if two Constants have values of the same type (tensor, value_ints, …).
static bool sameType(const ::onnx::AttributeProto &a, const ::onnx::AttributeProto &b) {
  return a.name() == b.name() && a.has_t() == b.has_t() && a.ints_size() == b.ints_size() &&
         a.floats_size() == b.floats_size() && a.t().data_type() == b.t().data_type() &&
         llvm::equal(a.t().dims(), b.t().dims());
}

/// Drops overwritten constants. If several constants have the same name, ONNX Runtime emits a
/// warning and uses the last constant (nodes follow initializers). Files with tied copies of
/// weights contain such constants.
SmallVector<const ::onnx::NodeProto *> Importer::dropReplaced(NodeProtos nodes, Scope &scope) {
  llvm::StringMap<const ::onnx::NodeProto *> last;
  llvm::DenseSet<const ::onnx::NodeProto *> replaced;
  for (const ::onnx::NodeProto *node : nodes) {
    const ::onnx::AttributeProto *value = getConstant(*node);
    if (!value)
      continue;
    const std::string &name = node->output(0);
    auto [it, isNew] = last.try_emplace(name, node);
    auto initializer = scope.values.find(name);
    if (!isNew && sameType(*value, *getConstant(*it->second))) {
      replaced.insert(std::exchange(it->second, node));
    } else if (isNew && initializer != scope.values.end() && initializer->second.source &&
               value->has_t() && isTyped(initializer->second, value->t())) {
      scope.values.erase(initializer);
    } else {
      continue;
    }
    warnOfCopies(name, nodeLoc(*node, scope));
  }
  SmallVector<const ::onnx::NodeProto *> kept(nodes);
  llvm::erase_if(kept, [&](auto *node) { return replaced.contains(node); });
  return kept;
}

LogicalResult Importer::importNodes(NodeProtos all, Scope &scope) {
  SmallVector<const ::onnx::NodeProto *> nodes = dropReplaced(all, scope);
  llvm::StringSet<> outputs = scope.used;
  FailureOr<SmallVector<unsigned>> order = sortNodes(nodes, scope);
  if (failed(order))
    return failure();
  SmallVector<const ::onnx::NodeProto *> sorted;
  for (unsigned i : *order)
    sorted.push_back(nodes[i]);
  if (const ::onnx::NodeProto *split = unsortExperts(sorted, outputs, *this, scope, newNodes))
    return emitError(nodeLoc(*split, scope))
           << "node '" << split->name() << "' (Split) has the numbers of rows of each expert as "
           << "constants: the exporter recorded those of its own tokens, so the file is wrong for "
           << "others; export the model with torch.onnx.export(..., dynamo=True)";
  replaceLoopedExperts(sorted, outputs, *this, scope, newNodes);
  // Checked for the top-level graph only: this includes the functions and branches inside.
  if (&scope == &top && failed(reportUnsupported(sorted, scope)))
    return failure();
  for (const ::onnx::NodeProto *node : sorted)
    if (failed(importNode(*node, scope)))
      return failure();
  return success();
}

LogicalResult Importer::importNode(const ::onnx::NodeProto &proto, Scope &scope) {
  // Imports a node again after it has found equal sizes, so that the types of its operands have the
  // replaced symbols.
  for (;;) {
    int64_t known = equalities;
    LogicalResult result = importNodeOnce(proto, scope);
    bool isCall =
        findFunction(proto) || proto.op_type() == "If"; // inner nodes were already imported again
    if (isCall || equalities == known)
      return result;
  }
}

LogicalResult Importer::importNodeOnce(const ::onnx::NodeProto &proto, Scope &scope) {
  Location loc = nodeLoc(proto, scope);
  StringRef domain = proto.domain() == "ai.onnx" ? StringRef() : StringRef(proto.domain());
  int64_t version = scope.version(domain).value_or(1);
  Node node(*this, scope, proto, domain, version, loc);
  if (node.failed())
    return failure();
  if (const ::onnx::FunctionProto *function = findFunction(proto))
    return importCall(node, *function);
  Handler handler = OpTable::get().lookup(domain, proto.op_type(), version);
  if (!handler)
    return node.error() << "is not supported";
  if (!OpTable::get().isUnpacking(domain, proto.op_type()) && failed(node.expectWholeBytes()))
    return failure();
  if (failed(handler(node)) || node.failed())
    return failure();
  for (unsigned i = 0; i < node.numOutputs(); ++i)
    if (node.isUsed(i) && !scope.values.count(proto.output(i)))
      return node.error() << "has a use of its output '" << proto.output(i)
                          << "', which the op does not define";
  return node.expectNoMoreAttributes();
}

//===----------------------------------------------------------------------===//
// Ops that tpc does not have
//===----------------------------------------------------------------------===//

struct Importer::Unsupported {
  struct Entry {
    std::vector<std::string> nodes; // first few
    int64_t count = 0;
  };
  std::map<std::string, Entry> entries; // by description
  llvm::DenseSet<const ::onnx::FunctionProto *> visited;
  std::set<std::string> hints;
  std::optional<Location> first;
};

/// Returns the remedy for an op that is not imported, which depends on the kind of file.
static std::string findRemedy(StringRef domain, StringRef type) {
  auto isOneOf = [&](std::initializer_list<StringRef> names) {
    return llvm::is_contained(names, type);
  };
  if (isOneOf({"ConvInteger", "MatMulBnb4", "MatMulFpQ4"}) || type.starts_with("QLinear") ||
      type.starts_with("DynamicQuantize") ||
      (domain == "com.microsoft" && type.starts_with("Q") && type != "QuickGelu"))
    return "The weights are quantized: take the file in float32 or float16 (model.onnx or "
           "model_fp16.onnx, next to "
           "model_quantized.onnx, model_q4.onnx and the like), or export the model without "
           "quantization";
  if (isOneOf({"GreedySearch", "BeamSearch", "WhisperBeamSearch", "Sampling"}))
    return type.str() + " generates by itself, with the decoder as a graph in its attribute "
                        "'decoder': compile that decoder, exported as a file of its own, with "
                        "--generate";
  if (domain == "ai.onnx.contrib" || isOneOf({"StringNormalizer", "TfIdfVectorizer", "StringSplit",
                                              "StringConcat", "RegexFullMatch"}))
    return "The file has a tokenizer (" + type.str() + "): compile the model without it";
  if (isOneOf({"Loop", "Scan"}) || type.starts_with("Sequence") || type == "SplitToSequence" ||
      type == "ConcatFromSequence")
    return "Loops and sequences (" + type.str() +
           ") are not imported: export the model with torch.onnx.export(dynamo=True), or only its "
           "decoder";
  if (domain == "ai.onnx.preview.training" || type.ends_with("Grad") || type.ends_with("Gradient"))
    return type.str() + " is a training op: export the model for inference";
  if (isOneOf({"ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Resize", "Upsample",
               "BatchNormalization", "InstanceNormalization", "GridSample", "DeformConv", "LSTM",
               "GRU", "RNN", "STFT", "DFT", "MelWeightMatrix"}))
    return type.str() + " is not an op of transformers: export the transformer without the layers "
                        "before or after it";
  if (domain == "com.microsoft")
    return "Export the model again without ops of ONNX Runtime (" + type.str() +
           "): by torch.onnx.export or optimum, and without ONNX Runtime's optimizer";
  if (!domain.empty())
    return "Register the ops of domain '" + domain.str() +
           "' as functions of the model, or export it without them";
  return "Export the model again without " + type.str() +
         " (with another opset, or by torch.onnx.export(dynamo=True)), or have it expanded into "
         "other ops of ai.onnx";
}

const ::onnx::FunctionProto *Importer::findFunction(const ::onnx::NodeProto &node) const {
  auto it = functions.find({node.domain(), node.op_type(), node.overload()});
  return it == functions.end() ? nullptr : it->second;
}

void Importer::collectUnsupported(NodeProtos nodes, const std::map<std::string, int64_t> &opsets,
                                  Unsupported &found, int depth) {
  if (depth > kMaxDepth)
    return; // reported when the import reaches it
  Scope scope;
  scope.opsets = opsets;
  auto descend = [&](const auto &body, const std::map<std::string, int64_t> &versions) {
    SmallVector<const ::onnx::NodeProto *> inner;
    for (const auto &node : body)
      inner.push_back(&node);
    collectUnsupported(inner, versions, found, depth + 1);
  };
  for (const ::onnx::NodeProto *node : nodes) {
    if (const ::onnx::FunctionProto *function = findFunction(*node)) {
      if (!found.visited.insert(function).second)
        continue;
      std::map<std::string, int64_t> versions;
      for (const auto &opset : function->opset_import())
        versions[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
      descend(function->node(), versions);
      continue;
    }
    StringRef domain = node->domain() == "ai.onnx" ? StringRef() : StringRef(node->domain());
    std::optional<int64_t> version = scope.version(domain);
    if (domain.empty() && node->op_type() == "If") {
      for (const auto &attribute : node->attribute())
        if (attribute.has_g())
          descend(attribute.g().node(), opsets);
      continue;
    }
    if (version && OpTable::get().lookup(domain, node->op_type(), *version))
      continue;
    std::string key = node->op_type() + " (domain " + (domain.empty() ? "ai.onnx" : domain.str()) +
                      ", opset " + (version ? std::to_string(*version) : "not imported") + ")";
    Unsupported::Entry &entry = found.entries[key];
    if (++entry.count <= 5)
      entry.nodes.push_back(describe(*node));
    found.hints.insert(findRemedy(domain, node->op_type()));
    if (!found.first)
      found.first = nodeLoc(*node, scope);
  }
}

LogicalResult Importer::reportUnsupported(NodeProtos nodes, const Scope &scope) {
  Unsupported found;
  collectUnsupported(nodes, scope.opsets, found, 0);
  if (found.entries.empty())
    return success();
  InFlightDiagnostic diag = emitError(*found.first);
  diag << "the model uses ops that tpc cannot import:";
  for (const auto &[what, entry] : found.entries) {
    diag << "\n  " << what << ": " << entry.count << (entry.count == 1 ? " node, " : " nodes, ");
    llvm::interleaveComma(entry.nodes, diag);
    if (entry.count > (int64_t)entry.nodes.size())
      diag << ", …";
  }
  constexpr unsigned maxHints = 4;
  for (const std::string &hint : llvm::make_range(
           found.hints.begin(),
           std::next(found.hints.begin(), std::min<size_t>(maxHints, found.hints.size()))))
    diag << "\n" << hint;
  return diag;
}
