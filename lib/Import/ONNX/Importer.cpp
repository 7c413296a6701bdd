//===- Importer.cpp - The state of one import -----------------------------===//

#include "Importer.h"
#include "OpTable.h"

#include "onnx.pb.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

Tensor *Scope::lookup(StringRef name) {
  for (Scope *scope = this; scope; scope = scope->parent) {
    auto it = scope->values.find(name);
    if (it != scope->values.end())
      return &it->second;
  }
  return nullptr;
}

/// `ai.onnx` is an alias of the empty domain.
static StringRef canonicalDomain(StringRef domain) { return domain == "ai.onnx" ? "" : domain; }

std::optional<int64_t> Scope::version(StringRef domain) const {
  auto it = opsets.find(canonicalDomain(domain).str());
  if (it != opsets.end())
    return it->second;
  // ONNX Runtime writes files that use its domain without importing it.
  if (domain == "com.microsoft")
    return 1;
  return std::nullopt;
}

Importer::Importer(MLIRContext *context, const ::onnx::ModelProto &model, TensorReader &reader,
                   StringRef path, const ::tpc::OnnxImportOptions &options)
    : context(context), builder(context), model(model), reader(reader), path(path),
      options(options) {
  for (const auto &function : model.functions())
    functions.insert({{function.domain(), function.name(), function.overload()}, &function});
}

/// Upper bound on the number of passes; real files need far fewer.
static constexpr int kMaxPasses = 50;

OwningOpRef<ModuleOp> Importer::run() {
  Messages first;
  // Names of sizes are hints (DeclaredSizes.cpp): an import that fails is repeated with others.
  for (const SizeNames &names : listSizeNames()) {
    sizeNames = names;
    replaced.clear();
    choices.clear();
    tied.clear();
    warnings.clear();
    hasNodeErrors = false;
    Messages messages;
    if (succeeded(importPasses(messages))) {
      tieSizes(messages);
      emit(std::move(messages));
      for (const auto &[loc, text] : warnings)
        emitWarning(loc) << text;
      return std::move(module);
    }
    if (first.empty())
      first = std::move(messages);
    if (!hasNodeErrors) // other names help only against errors of nodes
      break;
  }
  emit(std::move(first));
  return nullptr;
}

LogicalResult Importer::importPasses(Messages &messages) {
  ScopedDiagnosticHandler handler(
      context, [&](Diagnostic &message) { messages.push_back(std::move(message)); });
  // Ops that were created before an equality was found have types with the replaced symbol, and may
  // not have been folded. A pass therefore collects all equalities, and the next pass rebuilds the
  // program. Because it folds more ops, it may find further equalities.
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    equalities = 0;
    messages.clear(); // may be wrong, because not all equalities were known
    LogicalResult result = importOnce();
    if (!equalities)
      return result;
  }
  messages.clear();
  return emitError(fileLoc()) << "in each of " << kMaxPasses
                              << " passes over the nodes more sizes were found that must be equal; "
                                 "give the sizes of the inputs one name where they are equal";
}

void Importer::emit(Messages messages) {
  // Later errors may be consequences of the first. Report only that one.
  bool hasError = false;
  for (Diagnostic &message : messages) {
    bool isError = message.getSeverity() == DiagnosticSeverity::Error;
    if (!isError || !hasError)
      context->getDiagEngine().emit(std::move(message));
    hasError |= isError;
  }
}

Location Importer::fileLoc() { return FileLineColLoc::get(context, path, 0, 0); }

Location Importer::nodeLoc(const ::onnx::NodeProto &node, const Scope &scope) {
  std::string name = node.name();
  for (int i = 0; name.empty() && i < node.output_size(); ++i)
    name = node.output(i);
  if (name.empty())
    name = node.op_type();
  // A location's name must not be empty.
  Location type = NameLoc::get(builder.getStringAttr(
      node.op_type().empty() ? StringRef("node") : StringRef(node.op_type())));
  Location loc = NameLoc::get(builder.getStringAttr(name.empty() ? "node" : name), type);
  return scope.caller ? Location(CallSiteLoc::get(loc, *scope.caller)) : loc;
}

LogicalResult Importer::importOnce() {
  // The builder still points into the previous pass's module, which is destroyed here.
  builder.clearInsertionPoint();
  module = ModuleOp::create(builder, fileLoc(), llvm::sys::path::stem(path));
  builder.setInsertionPointToStart(module->getBody());
  main = {};
  top = Scope();
  weights.clear();
  keptSources.clear();
  symbolNames.clear();
  symbolNames.insert("main");
  missingFiles.clear();
  wrongNames = wrongNumbers = {};
  constraints.clear();
  importedNodes = foldedElements = 0;
  newNodes.clear();

  if (failed(readOpsets()) || failed(importInitializers(model.graph(), top)) ||
      failed(addInputs(top)))
    return failure();
  for (const auto &output : model.graph().output())
    top.used.insert(output.name());
  SmallVector<const ::onnx::NodeProto *> nodes;
  for (const auto &node : model.graph().node())
    nodes.push_back(&node);
  if (failed(importNodes(nodes, top)) || failed(addResults(top)))
    return failure();
  eraseUnused();
  addDefaults();
  if (failed(readDeviceConfigurations()))
    return failure();

  SmallVector<Attribute> list;
  for (const auto &[text, c] : constraints) {
    NamedAttrList fields;
    fields.set("expr", SymExprAttr::get(context, c.expr));
    if (c.low != INT64_MIN) // a lower bound exists
      fields.set("min", builder.getI64IntegerAttr(c.low));
    if (c.high != INT64_MAX)
      fields.set("max", builder.getI64IntegerAttr(c.high));
    fields.set("why", builder.getStringAttr(c.why));
    list.push_back(fields.getDictionary(context));
  }
  module->getOperation()->setAttr(kSourceAttr, builder.getStringAttr(path));
  module->getOperation()->setAttr(kConstraintsAttr, builder.getArrayAttr(list));
  return success();
}

LogicalResult Importer::readOpsets() {
  for (const auto &opset : model.opset_import()) {
    if (!top.opsets.insert({canonicalDomain(opset.domain()).str(), opset.version()}).second)
      return emitError(fileLoc()) << "operator set '" << opset.domain() << "' is imported twice";
    if (canonicalDomain(opset.domain()).empty() && opset.version() > OpTable::kNewestOpset)
      emitWarning(fileLoc()) << "the file uses ai.onnx operator set " << opset.version()
                             << "; ops are read as defined in operator set "
                             << OpTable::kNewestOpset;
  }
  if (!top.opsets.count(""))
    top.opsets[""] = 1; // IR version 2 and older
  return success();
}

void Importer::warnOfCopies(StringRef name, Location loc) {
  emitWarning(loc) << "there are several constants named '" << name
                   << "'; the last one is used, as in ONNX Runtime";
}

bool Importer::isTyped(const Tensor &tensor, const ::onnx::TensorProto &proto) {
  return tensor.element == getElementType(context, proto.data_type()) &&
         llvm::equal(tensor.shape, proto.dims(),
                     [](const SymExpr &size, int64_t dim) { return size.isConstant(dim); });
}

LogicalResult Importer::importInitializers(const ::onnx::GraphProto &graph, Scope &scope) {
  if (graph.sparse_initializer_size())
    return emitError(fileLoc()) << "initializer '" << graph.sparse_initializer(0).values().name()
                                << "' is sparse; store it dense";
  for (const auto &proto : graph.initializer()) {
    Location loc = NameLoc::get(
        builder.getStringAttr(proto.name().empty() ? "initializer" : proto.name()), fileLoc());
    if (proto.name().empty())
      return emitError(loc) << "an initializer has no name";
    FailureOr<Tensor> tensor =
        readTensor(proto, "initializer '" + Twine(proto.name()) + "'", loc, /*isInitializer=*/true);
    if (failed(tensor))
      return failure();
    auto [it, isNew] = scope.values.try_emplace(proto.name(), *tensor);
    if (isNew)
      continue;
    if (!isTyped(it->second, proto))
      return emitError(loc) << "there are two initializers named '" << proto.name()
                            << "', of different types";
    warnOfCopies(proto.name(), loc);
    it->second = std::move(*tensor);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Inputs and results
//===----------------------------------------------------------------------===//

bool Importer::quantizesByToken() {
  if (options.forGeneration && !std::exchange(hasRemarkedRanges, true))
    emitRemark(fileLoc())
        << "activations are quantized by the range of each token, as ONNX Runtime "
           "does in steps of one token; it quantizes longer steps by the range "
           "of all their tokens";
  return options.forGeneration;
}

/// Returns whether a merged decoder is that of an encoder-decoder. Its branch with a past does not
/// compute the keys and values of the encoder's states.
static bool hasEncoderStates(const ::onnx::GraphProto &graph) {
  return llvm::any_of(graph.input(),
                      [](const auto &port) { return port.name() == "encoder_hidden_states"; });
}

std::optional<int64_t> Importer::findFixedValue(StringRef input) const {
  if (auto it = options.inputs.find(input.str()); it != options.inputs.end())
    return it->second;
  if (options.forGeneration && input == kUseCacheBranch && !selectsPast(input) &&
      hasEncoderStates(model.graph()))
    return 0;
  // Transformers' names for the number of last tokens whose logits are computed (0: all), and
  // optimum's name for the choice between the branches of a merged decoder.
  if (options.forGeneration &&
      (input == "num_logits_to_keep" || input == "logits_to_keep" || input == kUseCacheBranch))
    return 1;
  if (selectsPast(input))
    return 1;
  return std::nullopt;
}

LogicalResult Importer::fixInput(StringRef name, Type element, ArrayRef<SymExpr> sizes,
                                 int64_t value, Scope &scope) {
  std::optional<int64_t> count = product(sizes).asConstant();
  if (!isa<IntegerType>(element) || !count || *count > kMaxContents)
    return emitError(fileLoc()) << "--fix-input: input '" << name << "' is " << str(sizes) << " of "
                                << element
                                << "; only integers and booleans of fixed shape can be "
                                   "made constants";
  Tensor tensor;
  tensor.element = element;
  tensor.shape.assign(sizes.begin(), sizes.end());
  auto contents = std::make_shared<Contents>();
  contents->ints.assign(*count, SymExpr(element.isInteger(1) ? value != 0 : value));
  tensor.contents = std::move(contents);
  scope.values.try_emplace(name, std::move(tensor));
  return success();
}

LogicalResult Importer::addInputs(Scope &scope) {
  collectDeclaredSymbols();
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<const ::onnx::ValueInfoProto *> inputs;
  llvm::StringSet<> names, unknown;
  for (const auto &[name, value] : options.inputs)
    unknown.insert(name);
  CacheViews views = options.forGeneration ? findCacheViews() : CacheViews();
  SymExpr past = SymExpr::symbol(kPastSymbol.str());
  std::vector<std::tuple<std::string, Type, Sizes, SymExpr>> counts;
  for (const auto &input : model.graph().input()) {
    if (input.name().empty())
      return emitError(fileLoc()) << "an input has no name";
    if (!names.insert(input.name()).second)
      return emitError(fileLoc()) << "there are two inputs named '" << input.name() << "'";
    if (scope.values.count(input.name()))
      continue; // an initializer that callers may override in ONNX; here it is constant
    if (!input.type().has_tensor_type())
      return emitError(fileLoc()) << "input '" << input.name()
                                  << "' is not a tensor; tpc has no sequences, maps or optionals";
    Type element = getElementType(context, input.type().tensor_type().elem_type());
    if (!element)
      return emitError(fileLoc()) << "input '" << input.name() << "' has elements of type "
                                  << getDataTypeName(input.type().tensor_type().elem_type())
                                  << ", which tpc does not have";
    if (!input.type().tensor_type().has_shape())
      return emitError(fileLoc()) << "input '" << input.name()
                                  << "' has no shape; export the model with one (its sizes may be "
                                     "symbols)";
    FailureOr<Sizes> sizes = readShape(input);
    if (failed(sizes))
      return failure();
    if (std::optional<int64_t> value = findFixedValue(input.name())) {
      unknown.erase(input.name());
      if (!options.inputs.count(input.name()) && !options.forGeneration)
        emitRemark(fileLoc()) << "'" << input.name()
                              << "' is 1: the branch with a past also computes prompts, with an "
                                 "empty past; --fix-input="
                              << input.name() << "=0 takes the branch without";
      if (failed(fixInput(input.name(), element, *sizes, *value, scope)))
        return failure();
      continue;
    }
    if (views.starts.count(input.name()) || views.ends.count(input.name())) {
      FailureOr<SymExpr> tokens = countTokens(views);
      if (failed(tokens))
        return failure();
      bool isStart = views.starts.count(input.name());
      counts.emplace_back(input.name(), element, *sizes, isStart ? past : *tokens);
      continue;
    }
    if (auto view = views.dims.find(input.name()); view != views.dims.end()) {
      FailureOr<SymExpr> tokens = countTokens(views);
      if (failed(tokens))
        return failure();
      SymExpr &rows = (*sizes)[view->second];
      if (std::optional<int64_t> capacity = rows.asConstant())
        constrain(*tokens, INT64_MIN, *capacity,
                  "cache " + Twine(input.name()) + " has " + Twine(*capacity) + " rows");
      rows = past;
    }
    if (std::string fault = findFault(*sizes); !fault.empty())
      return emitError(fileLoc()) << "input '" << input.name() << "' " << fault;
    types.push_back(makeTensorType(element, *sizes));
    inputs.push_back(&input);

    attributes.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(kNameAttr, builder.getStringAttr(input.name()))));
  }

  for (const auto &[name, value] : options.inputs)
    if (unknown.contains(name))
      return emitError(fileLoc()) << "--fix-input: the model has no input '" << name << "'";

  main = func::FuncOp::create(builder, fileLoc(), "main", builder.getFunctionType(types, {}));
  main.setAllArgAttrs(attributes);
  Block *block = main.addEntryBlock();
  builder.setInsertionPointToStart(block);
  for (auto [i, input] : llvm::enumerate(inputs)) {
    Tensor tensor;
    tensor.value = block->getArgument(i);
    tensor.element = elementOf(tensor.value);
    tensor.shape = getSizes(tensor.value);
    scope.values.try_emplace(input->name(), std::move(tensor));
  }
  for (const auto &[name, element, sizes, count] : counts) {
    Value number =
        SizeOp::create(builder, fileLoc(), RankedTensorType::get({}, element), resolve(count));
    Tensor tensor;
    tensor.shape.assign(sizes.begin(), sizes.end());
    tensor.element = element;
    tensor.value =
        ExpandOp::create(builder, fileLoc(), makeTensorType(element, tensor.shape), number);
    scope.values.try_emplace(name, std::move(tensor));
  }
  return success();
}

LogicalResult Importer::addResults(Scope &scope) {
  if (!model.graph().output_size())
    return emitError(fileLoc()) << "the graph has no output";
  SmallVector<Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  llvm::StringSet<> names;
  for (const auto &output : model.graph().output()) {
    if (!names.insert(output.name()).second)
      return emitError(fileLoc()) << "there are two outputs named '" << output.name() << "'";
    FailureOr<const Tensor *> found = lookup(scope, output.name());
    if (failed(found))
      return failure();
    const Tensor *tensor = *found;
    if (!tensor)
      return emitError(fileLoc()) << "no node computes output '" << output.name() << "'";
    if (failed(checkDeclaredShape(output, *tensor)))
      return failure();
    Value value =
        materialize(*tensor, NameLoc::get(builder.getStringAttr(output.name()), fileLoc()));
    if (!value)
      return failure();
    results.push_back(value);
    types.push_back(value.getType());
    attributes.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(kNameAttr, builder.getStringAttr(output.name()))));
  }
  reportWrongShapes();
  func::ReturnOp::create(builder, fileLoc(), results);
  main.setFunctionType(builder.getFunctionType(main.getArgumentTypes(), types));
  main.setAllResultAttrs(attributes);
  return success();
}

void Importer::eraseUnused() {
  Block &block = main.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  llvm::DenseSet<Attribute> used;
  for (ParameterOp parameter : block.getOps<ParameterOp>())
    used.insert(parameter.getWeightAttr());
  for (WeightOp weight : llvm::make_early_inc_range(module->getOps<WeightOp>()))
    if (!used.contains(FlatSymbolRefAttr::get(weight.getSymNameAttr())))
      weight.erase();
}
