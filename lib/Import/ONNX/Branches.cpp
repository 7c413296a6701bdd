//===- Branches.cpp - If and calls of functions ---------------------------===//

#include "Importer.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Returns the nodes of a graph or function.
template <typename Body> static SmallVector<const ::onnx::NodeProto *> listNodes(const Body &body) {
  return llvm::map_to_vector(body.node(), [](const ::onnx::NodeProto &node) { return &node; });
}

LogicalResult Importer::importBody(Node &node, NodeProtos body, ArrayRef<StringRef> outputs,
                                   Scope &scope, const Twine &what) {
  for (unsigned i = 0; i < node.numOutputs(); ++i)
    if (node.isUsed(i))
      scope.used.insert(outputs[i]);
  if (failed(importNodes(body, scope)))
    return failure();
  for (unsigned i = 0; i < node.numOutputs(); ++i) {
    if (!node.isUsed(i))
      continue;
    FailureOr<const Tensor *> tensor = lookup(scope, outputs[i]);
    if (failed(tensor))
      return failure();
    if (!*tensor)
      return node.error() << what << " does not compute its output '" << outputs[i] << "'";
    if (failed(node.set(i, **tensor)))
      return failure();
  }
  return success();
}

bool Importer::selectsPast(StringRef input) const {
  if (input != kUseCacheBranch)
    return false;
  llvm::StringSet<> inputs;
  for (const auto &port : model.graph().input())
    inputs.insert(port.name());
  bool found = false;
  for (const auto &node : model.graph().node()) {
    if (node.op_type() != "If" || node.input_size() != 1 || node.input(0) != input)
      continue;
    std::vector<std::string> without;
    llvm::StringSet<> with;
    for (const auto &attribute : node.attribute()) {
      std::vector<std::string> names;
      collectUses(attribute.g(), names);
      if (attribute.name() == "then_branch")
        with.insert_range(names);
      else
        without = std::move(names);
    }
    found = true;
    for (const std::string &name : without)
      if (inputs.contains(name) && !with.contains(name))
        return false;
  }
  return found;
}

LogicalResult Importer::importBranch(Node &node, const ::onnx::GraphProto &graph) {
  Scope scope;
  scope.parent = &node.scope;
  scope.opsets = node.scope.opsets;
  scope.caller = node.scope.caller;
  scope.depth = node.scope.depth + 1;
  scope.calls = node.scope.calls;
  // Attributes of an enclosing function are also visible.
  scope.attributes = node.scope.attributes;
  if (scope.depth > kMaxDepth)
    return node.error() << "is nested in more than " << kMaxDepth
                        << " branches and function calls; inline some "
                           "(onnx.inliner.inline_local_functions)";
  if (graph.output_size() < (int)node.numOutputs())
    return node.error() << "has " << node.numOutputs() << " outputs, but its branch has "
                        << graph.output_size();
  if (graph.input_size())
    return node.error() << "has a branch with inputs";
  if (failed(importInitializers(graph, scope)))
    return failure();
  SmallVector<StringRef> outputs;
  for (const auto &output : graph.output())
    outputs.push_back(output.name());
  return importBody(node, listNodes(graph), outputs, scope, "has a branch that");
}

std::optional<SymExpr> mlir::tpc::frontend::getSize(Value value) {
  if (auto size = value.getDefiningOp<SizeOp>())
    return size.getExpr();
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  return SymExpr(elements.getSplatValue<APInt>().getSExtValue());
}

/// Returns whether a comparison of a size with a number holds for small sizes, and constrains the
/// size to those. Models with long and short rotary tables select a table by the number of tokens.
static std::optional<bool> assumeShort(Node &node, Value condition) {
  auto compare = condition ? condition.getDefiningOp<CmpOp>() : CmpOp();
  if (!compare)
    return std::nullopt;
  std::optional<SymExpr> lhs = getSize(compare.getLhs()), rhs = getSize(compare.getRhs());
  Predicate predicate = compare.getPredicate();
  if (!lhs || !rhs || lhs->isConstant() == rhs->isConstant())
    return std::nullopt;
  bool isLess = predicate == Predicate::LT || predicate == Predicate::LE;
  if (!isLess && predicate != Predicate::GT && predicate != Predicate::GE)
    return std::nullopt;
  // `holds`: whether the condition holds for small sizes. `orEqual`: whether it holds for the
  // number itself. `maximum`: the largest of the small sizes.
  bool sizeIsLeft = rhs->isConstant(), holds = isLess == sizeIsLeft;
  bool orEqual = predicate == Predicate::LE || predicate == Predicate::GE;
  const SymExpr &size = sizeIsLeft ? *lhs : *rhs;
  int64_t number = *(sizeIsLeft ? *rhs : *lhs).asConstant();
  int64_t maximum = holds == orEqual ? number : number - 1;
  std::string name = "node '" + getSourceName(node.loc) + "' (If)";
  node.constrain(size, std::nullopt, maximum, name + " has another branch for more");
  mlir::emitWarning(node.loc) << name << ": the program has the branch for " << size.str()
                              << " of at most " << maximum << ", and rejects larger ones";
  return holds;
}

LogicalResult mlir::tpc::frontend::importIf(Node &node) {
  if (failed(node.expectInputs(1)))
    return failure();
  for (StringRef branch : {"then_branch", "else_branch"})
    node.ignore(branch); // one of them is imported
  const Tensor &condition = node.in(0);
  std::optional<SymExpr> known = condition.scalarInt();
  if (condition.isBool() && !known)
    if (std::optional<bool> holds = assumeShort(node, condition.value))
      known = SymExpr(*holds);
  if (!condition.isBool() || !known || !known->isConstant())
    return node.error() << "has a condition that depends on the model's inputs; only conditions "
                           "that are known while importing can be followed"
                        << node.importer.explainFixInput(condition.value)
                        << ". Each branch of a merged decoder (decoder_model_merged.onnx) is also "
                           "a separate file: decoder_with_past_model.onnx or decoder_model.onnx";
  const ::onnx::AttributeProto *branch = node.attribute(
      known->isConstant(0) ? "else_branch" : "then_branch", ::onnx::AttributeProto::GRAPH);
  if (node.failed())
    return failure();
  if (!branch)
    return node.error() << "lacks a branch";
  return node.importer.importBranch(node, branch->g());
}

LogicalResult Importer::importCall(Node &node, const ::onnx::FunctionProto &function) {
  Scope scope;
  scope.caller = node.loc;
  scope.depth = node.scope.depth + 1;
  scope.calls = node.scope.calls;
  if (auto first = llvm::find(scope.calls, &function); first != scope.calls.end()) {
    InFlightDiagnostic diag = node.error() << "calls function '" << function.name()
                                           << "', which is recursive: '" << function.name() << "'";
    size_t listed = 0, rest = scope.calls.end() - ++first;
    for (; first != scope.calls.end() && listed < 8; ++first, ++listed)
      diag << " calls '" << (*first)->name() << "'";
    if (rest > listed)
      diag << " calls … (" << rest - listed << " more)";
    return diag << " calls '" << function.name() << "'";
  }
  if (scope.depth > kMaxDepth)
    return node.error() << "calls function '" << function.name() << "' inside of " << kMaxDepth
                        << " other calls; inline some (onnx.inliner.inline_local_functions)";
  scope.calls.push_back(&function);
  for (const auto &opset : function.opset_import())
    scope.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  if (failed(node.expectInputs(0, function.input_size())))
    return failure();
  for (int i = 0; i < function.input_size(); ++i)
    if (node.has(i) && !scope.values.try_emplace(function.input(i), node.in(i)).second)
      return node.error() << "calls a function with two inputs named '" << function.input(i) << "'";
  for (const auto &attribute : function.attribute_proto())
    scope.attributes[attribute.name()] = &attribute;
  for (const auto &attribute : node.proto.attribute()) {
    const ::onnx::AttributeProto *given = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      auto it = node.scope.attributes.find(attribute.ref_attr_name());
      if (it == node.scope.attributes.end())
        continue;
      given = it->second;
    }
    scope.attributes[attribute.name()] = given;
  }
  if ((int)node.numOutputs() > function.output_size())
    return node.error() << "has " << node.numOutputs() << " outputs, but function '"
                        << function.name() << "' has " << function.output_size();
  SmallVector<StringRef> outputs(function.output().begin(), function.output().end());
  return importBody(node, listNodes(function), outputs, scope,
                    "calls function '" + function.name() + "', which");
}
