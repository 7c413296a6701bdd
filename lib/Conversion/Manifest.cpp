//===- Manifest.cpp - Program manifest for the runtime --------------------===//

#include "ManifestJson.h"

#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/SourceToken.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
namespace json = llvm::json;

std::string mlir::tpc::getDtypeName(Type tensor) {
  Type t = getElementTypeOrSelf(tensor);
  if (t.isBF16())
    return "bf16";
  if (isa<FloatType>(t))
    return "f" + std::to_string(t.getIntOrFloatBitWidth());
  if (t.isInteger(1))
    return "bool";
  return (t.isUnsignedInteger() ? "u" : "i") + std::to_string(t.getIntOrFloatBitWidth());
}

static json::Array shapeOf(Type tensor) {
  json::Array shape;
  for (const SymExpr &size : getSizes(tensor))
    shape.push_back(size.str());
  return shape;
}

std::string mlir::tpc::toUtf8(StringRef name) {
  return json::isUTF8(name) ? name.str() : json::fixUTF8(name);
}

json::Array mlir::tpc::getAxisNames(ArrayRef<StringAttr> axes) {
  json::Array names;
  for (StringAttr axis : axes)
    names.push_back(toUtf8(axis.getValue()));
  return names;
}

static json::Object describeGrid(const EnvLayout &layout, ModuleOp module) {
  json::Object sizes;
  for (StringAttr axis : layout.axes())
    sizes[toUtf8(axis.getValue())] = layout.axisSize(axis.getValue());
  // Sequence parallelism scatters tokens over ranks that have the same inputs. Other
  // reduce-scatters scatter the last dimension (the width), or run over ranks that have different
  // samples.
  bool sequenceParallel = false;
  module.walk([&](PipelineOp pipeline) {
    auto isOfInputs = [&](StringRef axis) {
      return llvm::any_of(pipeline.getBody().getArgumentTypes(),
                          [&](Type type) { return getDist(type).usesAxis(axis); });
    };
    module.walk([&](ReduceScatterOp op) {
      auto type = cast<RankedTensorType>(op.getType());
      sequenceParallel |= int64_t(op.getDim()) + 1 < type.getRank() &&
                          llvm::none_of(op.getAxes().getAsValueRange<StringAttr>(), isOfInputs);
    });
  });
  return json::Object{{"sizes", std::move(sizes)},
                      {"order", getAxisNames(layout.axes())},
                      {"sequence_parallel", sequenceParallel},
                      {"micro_batches", layout.axisSize(kMicroBatchAxis)}};
}

/// Returns the process groups of the program. GPU ranks create their communicators before the first
/// step.
static json::Array describeGroups(const EnvLayout &layout, ModuleOp module) {
  llvm::SetVector<ArrayAttr> found;
  Builder builder(module.getContext());
  auto add = [&](auto names) {
    llvm::SmallSetVector<StringRef, 4> all(names.begin(), names.end());
    SmallVector<Attribute> axes;
    for (StringAttr axis : layout.axes())
      if (all.contains(axis.getValue()) && layout.axisSize(axis.getValue()) > 1)
        axes.push_back(axis);
    if (!axes.empty())
      found.insert(builder.getArrayAttr(axes));
  };
  module.walk([&](Operation *op) {
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      auto axes = llvm::to_vector(collective.getAxesAttr().getAsValueRange<StringAttr>());
      // A dimension split over several axes is gathered or scattered one axis at a time.
      if (collective.getOperandSplitDim() || collective.getResultSplitDim())
        for (StringRef axis : axes)
          add(ArrayRef<StringRef>(axis));
      else
        add(axes);
    } else if (isa<SendOp, RecvOp>(op))
      add(ArrayRef<StringRef>(kPipelineAxis));
  });
  json::Array groups;
  for (ArrayAttr axes : found)
    groups.push_back(getAxisNames(llvm::to_vector(axes.getAsRange<StringAttr>())));
  return groups;
}

/// Describes the KV caches and their distribution.
static FailureOr<json::Array> describeCaches(ModuleOp module) {
  struct Use {
    int64_t stage;
    SmallVector<DimAttr> dims;
  };
  DenseMap<Attribute, Use> uses;
  for (auto pipeline : module.getOps<PipelineOp>())
    pipeline.walk([&](OutputOp output) {
      auto attrs = cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]);
      if (FlatSymbolRefAttr cache = getCache(attrs))
        uses[cache] = {static_cast<int64_t>(output->getParentOfType<StageOp>().getIndex()),
                       SmallVector<DimAttr>(getDist(output.getValue()).getDims())};
    });
  json::Array caches;
  for (auto cache : module.getOps<CacheOp>()) {
    auto use = uses.find(FlatSymbolRefAttr::get(cache.getSymNameAttr()));
    if (use == uses.end())
      return cache.emitOpError("is used by no stage");
    json::Array shape, split;
    for (DimAttr dim : use->second.dims) {
      SmallVector<StringAttr> axes;
      for (FactorAttr factor : dim.getFactors())
        llvm::append_range(axes, factor.getAxes());
      llvm::append_range(axes, dim.getAxes());
      llvm::erase_if(axes, [](StringAttr axis) { return axis.getValue() == kMicroBatchAxis; });
      shape.push_back(dim.getExpr().str());
      split.push_back(getAxisNames(axes));
    }
    caches.push_back(json::Object{{"name", toUtf8(cache.getSymName())},
                                  {"stage", use->second.stage},
                                  {"dtype", getDtypeName(cache.getType())},
                                  {"shape", std::move(shape)},
                                  {"axes", std::move(split)}});
  }
  return caches;
}

/// Describes the roles of the inputs, sizes and outputs of a generation step.
static FailureOr<json::Object> describeGeneration(ModuleOp module, PipelineOp pipeline,
                                                  const PreallocatedStep &step) {
  std::string batch, ids;
  auto inputs = pipeline.getInputAttrs().getAsRange<DictionaryAttr>();
  auto types = pipeline.getBody().front().getArgumentTypes();
  auto nameOf = [](DictionaryAttr attrs) {
    auto name = attrs.getAs<StringAttr>(kNameAttr);
    return name ? name.getValue() : StringRef();
  };
  for (auto [attrs, type] : llvm::zip(inputs, types))
    if (nameOf(attrs) == step.lengths)
      batch = getSymbolName(getSizes(type)[0]).value_or("");
  SmallVector<SymExpr> tokens{SymExpr::symbol(batch), SymExpr::symbol(step.tokens)};
  for (auto [attrs, type] : llvm::zip(inputs, types))
    if (ids.empty() && !getCache(attrs) && isa<IntegerType>(getElementTypeOrSelf(type)) &&
        llvm::equal(getSizes(type), tokens))
      ids = toUtf8(nameOf(attrs));
  if (batch.empty() || ids.empty())
    return pipeline.emitOpError() << "is a step without token ids [batch, " << step.tokens
                                  << "] or without lengths '" << step.lengths << "'";
  auto logits = cast<DictionaryAttr>(pipeline.getOutputs()[0]);
  SmallVector<SymExpr> sizes(getSizes(logits.getAs<TypeAttr>("type").getValue()));
  if (step.last)
    tokens.pop_back();
  std::optional<int64_t> vocabulary;
  if (!getCache(logits) && sizes.size() == tokens.size() + 1 &&
      ArrayRef(sizes).drop_back() == ArrayRef(tokens))
    vocabulary = sizes.back().asConstant();
  if (!vocabulary)
    return pipeline.emitOpError() << "is a step whose first output is not logits"
                                  << (step.last ? " [batch, vocabulary]"
                                                : " [batch, sequence, vocabulary]");
  json::Object generation{
      {"tokens", ids},
      {"batch", batch},
      {"sequence", step.tokens},
      {"lengths", toUtf8(step.lengths)},
      {"counts", toUtf8(step.counts)},
      {"capacity", step.capacity},
      {"logits", toUtf8(logits.getAs<StringAttr>("name"))},
      {"last_only", step.last},
      {"in_flight", PreallocatedStep::getNumStepsInFlight(MeshAttr::lookup(module))},
      {"vocabulary", *vocabulary}};
  if (step.windowed) {
    generation["window"] = step.windowed->window;
    generation["window_capacity"] = step.windowed->capacity;
    generation["window_lengths"] = toUtf8(step.windowed->lengths);
  }
  if (auto source = SourceCaches::lookup(module)) {
    generation["source"] = source->tokens;
    generation["source_capacity"] = source->capacity;
    generation["source_lengths"] = toUtf8(source->lengths);
    if (source->each)
      generation["source_each"] = *source->each;
    if (auto token = module->getAttrOfType<IntegerAttr>(kSourceTokenAttr))
      generation["source_token"] = token.getInt();
    for (auto [attrs, type] : llvm::zip(inputs, types)) {
      std::set<std::string> symbols;
      for (const SymExpr &size : getSizes(type))
        size.collectSymbols(symbols);
      if (!getCache(attrs) && symbols.count(source->tokens))
        generation["source_input"] = toUtf8(nameOf(attrs));
    }
  }
  return generation;
}

FailureOr<std::string> mlir::tpc::buildManifest(ModuleOp module, PipelineOp pipeline,
                                                StringRef name, const EnvLayout &layout,
                                                const WeightTable &weights,
                                                const ProgramFacts &facts, bool digestWeights) {
  json::Array symbols, inputs, outputs, constraints;
  for (const std::string &symbol : layout.symbols)
    symbols.push_back(symbol);

  for (auto [i, type] : llvm::enumerate(pipeline.getBody().front().getArgumentTypes())) {
    auto attrs = cast<DictionaryAttr>(pipeline.getInputAttrs()[i]);
    if (getCache(attrs))
      continue;
    auto inputName = attrs.getAs<StringAttr>(kNameAttr);
    json::Object input{{"name", inputName ? toUtf8(inputName) : "input" + std::to_string(i)},
                       {"dtype", getDtypeName(type)},
                       {"shape", shapeOf(type)}};
    if (InputDefaultAttr value = InputDefaultAttr::lookup(attrs)) {
      input["default"] = stringifyInputDefaultKind(value.getKind());
      if (value.getMask())
        input["mask"] = toUtf8(value.getMask());
      else if (value.getKind() == InputDefaultKind::Positions)
        input["past"] = value.getPast() ? value.getPast().getExpr().str() : "0";
    } else if (auto why = attrs.getAs<StringAttr>(kRequiredAttr)) {
      input["required"] = toUtf8(why);
    }
    if (auto it = facts.inputRanges.find(i); it != facts.inputRanges.end()) {
      input["range"] = json::Array{it->second.min, it->second.max};
      input["range_of"] = toUtf8(it->second.of);
      json::Array casts;
      for (Type type : it->second.casts)
        casts.push_back(getDtypeName(type));
      if (!casts.empty())
        input["range_after"] = std::move(casts);
      if (it->second.ignored)
        input["ignored"] = *it->second.ignored;
    }
    inputs.push_back(std::move(input));
  }
  for (auto [i, attr] : llvm::enumerate(pipeline.getOutputs())) {
    auto dict = cast<DictionaryAttr>(attr);
    if (staysOnRanks(dict))
      continue;
    auto outputName = dict.getAs<StringAttr>("name");
    auto type = dict.getAs<TypeAttr>("type");
    if (!type || !isa<RankedTensorType>(type.getValue()) ||
        !getElementTypeOrSelf(type.getValue()).isIntOrFloat())
      return pipeline.emitOpError()
             << "output " << i << " has no type, or its elements are not numbers";
    outputs.push_back(
        json::Object{{"name", outputName ? toUtf8(outputName) : "output" + std::to_string(i)},
                     {"dtype", getDtypeName(type.getValue())},
                     {"shape", shapeOf(type.getValue())}});
  }
  if (auto attrs = module->getAttrOfType<ArrayAttr>(kConstraintsAttr))
    for (auto dict : attrs.getAsRange<DictionaryAttr>()) {
      json::Object constraint;
      constraint["expr"] = dict.getAs<SymExprAttr>("expr").getExpr().str();
      if (auto why = dict.getAs<StringAttr>("why"))
        constraint["why"] = toUtf8(why);
      for (StringRef key : {"min", "max"})
        if (auto value = dict.getAs<IntegerAttr>(key))
          constraint[key] = value.getInt();
      constraints.push_back(std::move(constraint));
    }

  auto table = ManifestParameters::make(module, weights, facts, digestWeights);
  if (failed(table))
    return failure();

  auto source = module->getAttrOfType<StringAttr>(kSourceAttr);
  json::Object manifest{{"format", 1},
                        {"name", toUtf8(name)},
                        {"compiler", "tpc " TPC_VERSION},
                        {"source", source ? toUtf8(source) : ""},
                        {"grid", describeGrid(layout, module)},
                        {"groups", describeGroups(layout, module)},
                        {"symbols", std::move(symbols)},
                        {"inputs", std::move(inputs)},
                        {"outputs", std::move(outputs)},
                        {"constraints", std::move(constraints)},
                        {"files", std::move(table->files)},
                        {"parameters", std::move(table->parameters)}};
  auto caches = describeCaches(module);
  if (failed(caches))
    return failure();
  if (!caches->empty())
    manifest["caches"] = std::move(*caches);
  if (auto step = PreallocatedStep::lookup(module)) {
    auto generation = describeGeneration(module, pipeline, *step);
    if (failed(generation))
      return failure();
    manifest["generation"] = std::move(*generation);
  }
  if (auto optimizer = module->getAttrOfType<DictionaryAttr>(kOptimizerAttr)) {
    json::Object training{{"optimizer", toUtf8(optimizer.getAs<StringAttr>("name"))}};
    for (NamedAttribute field : optimizer)
      if (auto number = dyn_cast<FloatAttr>(field.getValue()))
        training[field.getName().getValue()] = number.getValueAsDouble();
    manifest["training"] = std::move(training);
  }
  for (auto [key, attr] :
       {std::pair("schedule", kScheduleAttr), std::pair("not_verified", kNotVerifiedAttr),
        std::pair("no_randomized_check", kNoRandomizedCheckAttr)})
    if (auto value = module->getAttrOfType<StringAttr>(attr))
      manifest[key] = toUtf8(value);
  std::string result;
  llvm::raw_string_ostream(result) << json::Value(std::move(manifest));
  return result;
}
