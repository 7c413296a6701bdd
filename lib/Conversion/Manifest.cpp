//===- Manifest.cpp - What the runtime is told about a program ------------===//

#include "Manifest.h"

#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"
#include "tpc/digest.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
namespace json = llvm::json;

static std::string dtypeName(Type tensor) {
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

// JSON text must be UTF-8, and names come from files.
static std::string text(StringRef s) { return json::isUTF8(s) ? s.str() : json::fixUTF8(s); }

static json::Array axisNames(ArrayRef<StringAttr> axes) {
  json::Array names;
  for (StringAttr axis : axes)
    names.push_back(text(axis.getValue()));
  return names;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

// Factors of a dimension's view, cut so that each is split as a whole. The view
// [768 x 1] and the distribution 12{tp} * 64 give [12 x 64 {tp}, 64 x 1].
static FailureOr<json::Array> refineDim(WeightOp weight, ArrayRef<StridedFactorAttr> view,
                                        DimAttr dim) {
  SmallVector<std::pair<int64_t, int64_t>> strided; // merged as far as possible
  for (StridedFactorAttr f : view) {
    if (f.getSize() == 1)
      continue;
    if (!strided.empty() && strided.back().second == f.getSize() * f.getStride())
      strided.back() = {strided.back().first * f.getSize(), f.getStride()};
    else
      strided.push_back({f.getSize(), f.getStride()});
  }
  struct Split {
    int64_t size;
    ArrayRef<StringAttr> axes;
  };
  SmallVector<Split> splits;
  for (FactorAttr f : dim.getFactors())
    splits.push_back({*f.getExpr().asConstant(), f.getAxes()});
  // Of a product of one factor they belong to the factor; of several, some are split themselves.
  if (!dim.getAxes().empty())
    return weight.emitOpError() << "is split over " << dim.getAxes()[0].getValue()
                                << " across factors that are split already, " << dim
                                << ", which no rank can load; load the factors' part and take it "
                                   "apart with tpc.local_slice";

  SmallVector<json::Value> result; // minor to major
  auto makeFactor = [&](int64_t size, int64_t stride) {
    return json::Object{{"size", size}, {"stride", stride}};
  };
  for (Split &split : llvm::reverse(splits)) {
    // What the split's elements are made of, minor to major.
    SmallVector<std::pair<int64_t, int64_t>> pieces;
    for (int64_t left = split.size; left > 1;) {
      if (strided.empty())
        return weight.emitOpError() << "has a view that does not fit its distribution";
      auto &[size, stride] = strided.back();
      int64_t take = std::min(left, size);
      if (size % take || left % take)
        return weight.emitOpError()
               << "is split over " << (split.axes.empty() ? "nothing" : split.axes[0].getValue())
               << " where its view has no such factor: " << split.size
               << " elements over pieces of " << size;
      pieces.push_back({take, stride});
      left /= take;
      stride *= take;
      size /= take;
      if (size == 1)
        strided.pop_back();
    }
    if (split.axes.empty()) {
      for (auto [size, stride] : pieces)
        result.push_back(makeFactor(size, stride));
      if (split.size == 0)
        result.push_back(makeFactor(0, 0));
    } else {
      json::Object factor = makeFactor(split.size, pieces.size() == 1 ? pieces[0].second : 0);
      if (pieces.size() > 1) {
        json::Array of; // heads in blocks, or there several times
        for (auto [size, stride] : llvm::reverse(pieces))
          of.push_back(makeFactor(size, stride));
        factor.erase("stride");
        factor["of"] = std::move(of);
      }
      factor["axes"] = axisNames(split.axes);
      result.push_back(std::move(factor));
    }
    if (split.size == 0)
      break;
  }
  std::reverse(result.begin(), result.end());
  if (result.empty())
    result.push_back(json::Object{{"size", 1}, {"stride", 0}});
  json::Array array;
  for (json::Value &v : result)
    array.push_back(std::move(v));
  return array;
}

static FailureOr<json::Object> describe(WeightOp weight, buffer::EntryOp entry,
                                        const ProgramFacts &facts) {
  buffer::LoadAttr p = entry.getLoad();
  bool isPacked = p.getUse() == buffer::ParameterUse::Packed;
  auto type = cast<RankedTensorType>(weight.getType());
  ViewAttr view =
      p.getView() ? p.getView() : ViewAttr::getDense(weight.getContext(), type.getShape());
  json::Array dims, source;
  DistAttr dist = getDist(p.getType());
  for (auto [i, dim] : llvm::enumerate(dist.getDims())) {
    auto refined = refineDim(weight, view.getFactors(i), dim);
    if (failed(refined))
      return failure();
    dims.push_back(std::move(*refined));
  }
  for (int64_t size : type.getShape())
    source.push_back(size);
  // Libraries multiply by what they compute; f32 where that is not what the parameter is.
  bool isWidened =
      isPacked && !TargetTraits::get(entry).computesProducts(getElementTypeOrSelf(p.getType()));
  std::string loaded = isWidened ? "f32" : dtypeName(p.getType());
  json::Object object{{"name", text(p.getWeight())},
                      {"stage", static_cast<int64_t>(entry.getStage())},
                      {"dtype", loaded},
                      {"offset", (int64_t)weight.getOffset()},
                      {"bytes", type.getNumElements() * getElementBytes(type)},
                      {"view_offset", view.getOffset()},
                      {"dims", std::move(dims)},
                      {"source_shape", std::move(source)},
                      {"use", isPacked ? "matmul_rhs" : "dense"},
                      {"init", facts.onesByDefault.contains(p.getWeight()) ? "ones" : "normal"}};
  if (loaded != dtypeName(type))
    object["source_dtype"] = dtypeName(type);
  return object;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
struct File {
  std::string path;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  std::map<std::pair<uint64_t, uint64_t>, std::string> names; // of tensors, by range
};
} // namespace

// The weights need not be there when a program is compiled, unless all of them are to be read.
static FailureOr<json::Object> describe(File &file, bool digestWeights, Location loc) {
  json::Object object{{"path", text(file.path)}};
  auto missing = [&]() -> FailureOr<json::Object> {
    if (digestWeights)
      return emitError(loc) << "weight file '" << file.path
                            << "' cannot be read, and --digest-weights was asked for";
    return object;
  };
  uint64_t bytes;
  if (llvm::sys::fs::file_size(file.path, bytes))
    return missing();
  auto handle = llvm::sys::fs::openNativeFileForRead(file.path);
  if (!handle) {
    llvm::consumeError(handle.takeError());
    return missing();
  }
  auto read = [&](void *to, uint64_t count, uint64_t offset) {
    auto got = llvm::sys::fs::readNativeFileSlice(*handle, MutableArrayRef<char>((char *)to, count),
                                                  offset);
    if (!got) {
      llvm::consumeError(got.takeError());
      return false;
    }
    return *got == count;
  };
  auto digest = ::tpc::sampleDigest(bytes, file.ranges, read);
  json::Array tensors;
  bool all = true;
  for (auto &[range, tensor] : file.names) {
    if (!digestWeights)
      break;
    auto whole = ::tpc::wholeDigest(range.first, range.second, read);
    all &= whole.has_value();
    tensors.push_back(json::Object{{"name", text(tensor)},
                                   {"offset", int64_t(range.first)},
                                   {"bytes", int64_t(range.second)},
                                   {"digest", whole.value_or("")}});
  }
  (void)llvm::sys::fs::closeFile(*handle);
  if (!all)
    return missing();
  if (digestWeights)
    object["tensors"] = std::move(tensors);
  object["bytes"] = (int64_t)bytes;
  if (digest)
    object["digest"] = *digest;
  return object;
}

static std::string absolutePath(ModuleOp module, StringRef file) {
  SmallString<128> path(file);
  auto source = module->getAttrOfType<StringAttr>(kSourceAttr);
  if (!llvm::sys::path::is_absolute(path) && source) {
    path = llvm::sys::path::parent_path(source.getValue());
    llvm::sys::path::append(path, file);
  }
  (void)llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/false);
  return path.str().str();
}

//===----------------------------------------------------------------------===//
// Parameters that products take together
//===----------------------------------------------------------------------===//

/// Of the entries that a product multiplies by in one go, for each but the first the one before it.
/// A parameter that stands beside several is beside those that are met first.
static llvm::StringMap<StringRef> findNeighbours(ModuleOp module) {
  llvm::StringMap<SmallVector<buffer::CallOp>> calls;
  module.walk([&](buffer::CallOp call) { calls[call.getCallee()].push_back(call); });
  llvm::StringMap<StringRef> beside;
  llvm::StringSet<> taken;
  auto take = [&](ArrayRef<Value> parameters) {
    SmallVector<StringRef> names;
    for (Value v : parameters)
      names.push_back(v.getDefiningOp<buffer::ParameterOp>().getEntry());
    if (llvm::any_of(names, [&](StringRef name) { return taken.contains(name); }))
      return;
    for (auto [i, name] : llvm::enumerate(names))
      if (taken.insert(name).second && i > 0)
        beside[name] = names[i - 1];
  };
  // What is an argument is what callers give; calls do not recur.
  std::function<void(ArrayRef<Value>)> resolve = [&](ArrayRef<Value> parameters) {
    auto found = llvm::find_if(parameters, llvm::IsaPred<BlockArgument>);
    if (found == parameters.end())
      return take(parameters);
    auto function = cast<buffer::FuncOp>(cast<BlockArgument>(*found).getOwner()->getParentOp());
    for (buffer::CallOp call : calls[function.getSymName()])
      resolve(llvm::map_to_vector(parameters, [&](Value v) {
        auto argument = dyn_cast<BlockArgument>(v);
        return argument ? call.getArgs()[argument.getArgNumber()] : v;
      }));
  };
  module.walk([&](buffer::ProductOp product) {
    if (product.getParameters().size() > 1)
      resolve(llvm::to_vector(product.getParameters()));
  });
  return beside;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

static json::Object describeGrid(const EnvLayout &layout, ModuleOp module) {
  json::Object sizes;
  for (StringAttr axis : layout.axes())
    sizes[text(axis.getValue())] = layout.axisSize(axis.getValue());
  bool sequenceParallel = false;
  module.walk([&](ReduceScatterOp op) {
    sequenceParallel |= llvm::is_contained(op.getAxes().getAsValueRange<StringAttr>(), "tp");
  });
  return json::Object{{"sizes", std::move(sizes)},
                      {"order", axisNames(layout.axes())},
                      {"sequence_parallel", sequenceParallel},
                      {"micro_batches", layout.axisSize("mb")}};
}

/// The groups of ranks that communicate: GPUs connect them before the first step.
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
      // Of a dimension that is split over several axes, one is taken off, or added, at a time.
      if (collective.getOperandSplit() || collective.getResultSplit())
        for (StringRef axis : axes)
          add(ArrayRef<StringRef>(axis));
      else
        add(axes);
    } else if (isa<SendOp, RecvOp>(op))
      add(ArrayRef<StringRef>("pp"));
  });
  json::Array groups;
  for (ArrayAttr axes : found)
    groups.push_back(axisNames(llvm::to_vector(axes.getAsRange<StringAttr>())));
  return groups;
}

/// What ranks keep from step to step, and how it is split.
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
      return cache.emitOpError("is kept by no stage");
    json::Array shape, split;
    for (DimAttr dim : use->second.dims) {
      SmallVector<StringAttr> axes;
      for (FactorAttr factor : dim.getFactors())
        llvm::append_range(axes, factor.getAxes());
      llvm::append_range(axes, dim.getAxes());
      llvm::erase_if(axes, [](StringAttr axis) { return axis.getValue() == "mb"; });
      shape.push_back(dim.getExpr().str());
      split.push_back(axisNames(axes));
    }
    caches.push_back(json::Object{{"name", text(cache.getSymName())},
                                  {"stage", use->second.stage},
                                  {"dtype", dtypeName(cache.getType())},
                                  {"shape", std::move(shape)},
                                  {"axes", std::move(split)}});
  }
  return caches;
}

/// Of a program that generates: which of its inputs, sizes and outputs are what.
static FailureOr<json::Object> describeGeneration(ModuleOp module, PipelineOp pipeline,
                                                  const PlacedStep &step) {
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
      ids = text(nameOf(attrs));
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
  json::Object generation{{"tokens", ids},
                          {"batch", batch},
                          {"sequence", step.tokens},
                          {"lengths", text(step.lengths)},
                          {"counts", text(step.counts)},
                          {"capacity", step.capacity},
                          {"logits", text(logits.getAs<StringAttr>("name"))},
                          {"last_only", step.last},
                          {"in_flight", PlacedStep::getNumInFlight(GridAttr::lookup(module))},
                          {"vocabulary", *vocabulary}};
  if (step.windowed) {
    generation["window"] = step.windowed->window;
    generation["room"] = step.windowed->room;
    generation["window_lengths"] = text(step.windowed->lengths);
  }
  return generation;
}

FailureOr<std::string> mlir::tpc::buildManifest(ModuleOp module, PipelineOp pipeline,
                                                StringRef name, const EnvLayout &layout,
                                                const WeightTable &weights,
                                                const ProgramFacts &facts, bool digestWeights) {
  json::Array symbols, inputs, outputs, constraints, files, list;
  for (const std::string &symbol : layout.symbols)
    symbols.push_back(symbol);

  for (auto [i, type] : llvm::enumerate(pipeline.getBody().front().getArgumentTypes())) {
    auto attrs = cast<DictionaryAttr>(pipeline.getInputAttrs()[i]);
    if (getCache(attrs))
      continue;
    auto inputName = attrs.getAs<StringAttr>(kNameAttr);
    json::Object input{{"name", inputName ? text(inputName) : "input" + std::to_string(i)},
                       {"dtype", dtypeName(type)},
                       {"shape", shapeOf(type)}};
    if (InputDefaultAttr value = InputDefaultAttr::lookup(attrs)) {
      input["default"] = stringifyInputDefaultKind(value.getKind());
      if (value.getMask())
        input["mask"] = text(value.getMask());
      else if (value.getKind() == InputDefaultKind::Positions)
        input["past"] = value.getPast() ? value.getPast().getExpr().str() : "0";
    } else if (auto why = attrs.getAs<StringAttr>(kRequiredAttr)) {
      input["required"] = text(why);
    }
    if (auto it = facts.inputRanges.find(i); it != facts.inputRanges.end()) {
      input["range"] = json::Array{it->second.min, it->second.max};
      input["range_of"] = text(it->second.of);
      json::Array casts;
      for (Type type : it->second.casts)
        casts.push_back(dtypeName(type));
      if (!casts.empty())
        input["range_after"] = std::move(casts);
    }
    inputs.push_back(std::move(input));
  }
  for (auto [i, attr] : llvm::enumerate(pipeline.getOutputs())) {
    auto dict = cast<DictionaryAttr>(attr);
    if (getCache(dict))
      continue;
    auto outputName = dict.getAs<StringAttr>("name");
    auto type = dict.getAs<TypeAttr>("type");
    if (!type || !isa<RankedTensorType>(type.getValue()) ||
        !getElementTypeOrSelf(type.getValue()).isIntOrFloat())
      return pipeline.emitOpError() << "output " << i << " has no type, or none of numbers";
    outputs.push_back(
        json::Object{{"name", outputName ? text(outputName) : "output" + std::to_string(i)},
                     {"dtype", dtypeName(type.getValue())},
                     {"shape", shapeOf(type.getValue())}});
  }
  if (auto attrs = module->getAttrOfType<ArrayAttr>(kConstraintsAttr))
    for (auto dict : attrs.getAsRange<DictionaryAttr>()) {
      json::Object constraint;
      constraint["expr"] = dict.getAs<SymExprAttr>("expr").getExpr().str();
      if (auto why = dict.getAs<StringAttr>("why"))
        constraint["why"] = text(why);
      for (StringRef key : {"min", "max"})
        if (auto value = dict.getAs<IntegerAttr>(key))
          constraint[key] = value.getInt();
      constraints.push_back(std::move(constraint));
    }

  SmallVector<File> found;
  auto beside = findNeighbours(module);
  llvm::StringMap<int64_t> places;
  for (auto entry : module.getOps<buffer::EntryOp>()) {
    places[entry.getSymName()] = list.size();
    StringRef name = entry.getLoad().getWeight();
    WeightOp weight = weights.at(name).get();
    auto object = describe(weight, entry, facts);
    if (failed(object))
      return failure();
    std::string path = absolutePath(module, weight.getFile());
    auto file = llvm::find_if(found, [&](const File &f) { return f.path == path; });
    if (file == found.end())
      file = &found.emplace_back(File{path, {}, {}});
    file->ranges.push_back({*object->getInteger("offset"), *object->getInteger("bytes")});
    file->names.try_emplace(file->ranges.back(), name.str());
    (*object)["file"] = (int64_t)(file - found.begin());
    if (auto other = beside.find(entry.getSymName()); other != beside.end())
      if (auto place = places.find(other->second); place != places.end())
        (*object)["beside"] = place->second;
    list.push_back(std::move(*object));
  }
  for (File &file : found) {
    auto object = describe(file, digestWeights, module.getLoc());
    if (failed(object))
      return failure();
    files.push_back(std::move(*object));
  }

  auto source = module->getAttrOfType<StringAttr>(kSourceAttr);
  json::Object manifest{{"format", 1},
                        {"name", text(name)},
                        {"compiler", "tpc " TPC_VERSION},
                        {"source", source ? text(source) : ""},
                        {"grid", describeGrid(layout, module)},
                        {"groups", describeGroups(layout, module)},
                        {"symbols", std::move(symbols)},
                        {"inputs", std::move(inputs)},
                        {"outputs", std::move(outputs)},
                        {"constraints", std::move(constraints)},
                        {"files", std::move(files)},
                        {"parameters", std::move(list)}};
  auto caches = describeCaches(module);
  if (failed(caches))
    return failure();
  if (!caches->empty())
    manifest["caches"] = std::move(*caches);
  if (auto step = PlacedStep::lookup(module)) {
    auto generation = describeGeneration(module, pipeline, *step);
    if (failed(generation))
      return failure();
    manifest["generation"] = std::move(*generation);
  }
  for (auto [key, attr] :
       {std::pair("schedule", kScheduleAttr), std::pair("not_verified", kNotVerifiedAttr),
        std::pair("no_randomized_check", kNoRandomizedCheckAttr)})
    if (auto value = module->getAttrOfType<StringAttr>(attr))
      manifest[key] = text(value);
  std::string result;
  llvm::raw_string_ostream(result) << json::Value(std::move(manifest));
  return result;
}
