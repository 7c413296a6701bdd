//===- ManifestParameters.cpp - Parameters and weight files of the manifest --===//

#include "ManifestJson.h"

#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/WeightParts.h"
#include "tpc/digest.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Refines the factors of a dimension's view so that no factor is split only in part. The view
/// [768 x 1] with the distribution 12{tp} * 64 becomes [12 x 64 {tp}, 64 x 1].
static FailureOr<json::Array> refineDim(WeightOp weight, ArrayRef<StridedFactorAttr> view,
                                        DimAttr dim) {
  SmallVector<std::pair<int64_t, int64_t>> strided; // (size, stride), adjacent factors merged
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
  // Axes on the dimension split the product of several factors. No strided factor describes such a
  // shard.
  if (!dim.getAxes().empty())
    return weight.emitOpError() << "is split over " << dim.getAxes()[0].getValue()
                                << " across its factors, " << dim
                                << ", which no rank can load; load the factors' shard and split it "
                                   "further with tpc.local_slice";

  SmallVector<json::Value> result; // minor to major
  auto makeFactor = [&](int64_t size, int64_t stride) {
    return json::Object{{"size", size}, {"stride", stride}};
  };
  for (Split &split : llvm::reverse(splits)) {
    // Strided factors of the elements that `split` divides, minor to major.
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
               << " elements over factors of " << size;
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
        json::Array of; // factors, if heads are in blocks or repeated
        for (auto [size, stride] : llvm::reverse(pieces))
          of.push_back(makeFactor(size, stride));
        factor.erase("stride");
        factor["of"] = std::move(of);
      }
      factor["axes"] = getAxisNames(split.axes);
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
  // A packed parameter keeps its type if the matmul library supports it, and is widened to f32
  // otherwise.
  bool isWidened =
      isPacked && !TargetTraits::get(entry).computesMatmuls(getElementTypeOrSelf(p.getType()));
  std::string loaded = isWidened ? "f32" : getDtypeName(p.getType());
  json::Object object{{"name", toUtf8(p.getWeight())},
                      {"stage", static_cast<int64_t>(entry.getStage())},
                      {"dtype", loaded},
                      {"offset", (int64_t)weight.getOffset()},
                      {"bytes", type.getNumElements() * getElementBytes(type)},
                      {"view_offset", view.getOffset()},
                      {"dims", std::move(dims)},
                      {"source_shape", std::move(source)},
                      {"use", isPacked ? "matmul_rhs" : "dense"},
                      {"init", facts.onesByDefault.contains(p.getWeight()) ? "ones" : "normal"}};
  if (ArrayRef<int64_t> parts = getParts(weight); !parts.empty())
    object["parts"] = json::Array(parts);
  if (loaded != getDtypeName(type))
    object["source_dtype"] = getDtypeName(type);
  return object;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
struct File {
  std::string path;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  std::map<std::pair<uint64_t, uint64_t>, std::string> names; // tensor names by byte range
};
} // namespace

/// Describes a weight file. The file may be absent at compile time unless `digestWeights` reads it.
static FailureOr<json::Object> describe(File &file, bool digestWeights, Location loc) {
  json::Object object{{"path", toUtf8(file.path)}};
  auto missing = [&]() -> FailureOr<json::Object> {
    if (digestWeights)
      return emitError(loc) << "weight file '" << file.path
                            << "' cannot be read, but --digest-weights reads it";
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
  bool areRead = true;
  for (auto &[range, tensor] : file.names) {
    if (!digestWeights)
      break;
    auto tensorDigest = ::tpc::wholeDigest(range.first, range.second, read);
    areRead &= tensorDigest.has_value();
    tensors.push_back(json::Object{{"name", toUtf8(tensor)},
                                   {"offset", int64_t(range.first)},
                                   {"bytes", int64_t(range.second)},
                                   {"digest", tensorDigest.value_or("")}});
  }
  (void)llvm::sys::fs::closeFile(*handle);
  if (!areRead)
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
// Parameters that merged matmuls read together
//===----------------------------------------------------------------------===//

/// Returns the previous parameter entry for each entry that a merged matmul reads, except its
/// first. An entry that several merged matmuls read belongs to the first of them in program order.
/// Biases are read together if the results are columns of one buffer.
static llvm::StringMap<StringRef> findPreviousInMerged(ModuleOp module) {
  llvm::StringMap<SmallVector<buffer::CallOp>> calls;
  module.walk([&](buffer::CallOp call) { calls[call.getCallee()].push_back(call); });
  llvm::StringMap<StringRef> previous;
  llvm::StringSet<> taken;
  auto take = [&](ArrayRef<Value> parameters) {
    SmallVector<StringRef> names;
    for (Value v : parameters)
      names.push_back(v.getDefiningOp<buffer::ParameterOp>().getEntry());
    if (llvm::any_of(names, [&](StringRef name) { return taken.contains(name); }))
      return;
    for (auto [i, name] : llvm::enumerate(names))
      if (taken.insert(name).second && i > 0)
        previous[name] = names[i - 1];
  };
  // Replaces block arguments by the operands of all calls. Calls are not recursive.
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
    if (product.getParameters().size() < 2)
      return;
    resolve(llvm::to_vector(product.getParameters()));
    SmallVector<Value> biases;
    for (const buffer::ProductOp::Matmul &part : product.getMatmuls())
      if (auto dense = part.bias ? part.bias.getDefiningOp<buffer::DenseOp>() : buffer::DenseOp();
          dense && part.to.getDefiningOp<buffer::ColumnsOp>())
        biases.push_back(dense.getIndex());
    if (biases.size() == product.getParameters().size())
      resolve(biases);
  });
  return previous;
}

//===----------------------------------------------------------------------===//
// Matrices of experts
//===----------------------------------------------------------------------===//

/// Returns whether a tpc_buffer.experts reads the operand as matrices.
static bool isMatricesOfExperts(OpOperand &use) {
  auto experts = dyn_cast<buffer::ExpertsOp>(use.getOwner());
  if (!experts)
    return false;
  SmallVector<OpOperand *> matrices{&experts.getUpMutable(), &experts.getDownMutable()};
  for (OpOperand &gate : experts.getGateMutable())
    matrices.push_back(&gate);
  return llvm::is_contained(matrices, &use);
}

/// Returns whether all users of an index of the parameter table read matrices of experts, and there
/// are users.
static bool isReadByExperts(Value index, const SymbolTable &symbols) {
  return !index.use_empty() && llvm::all_of(index.getUses(), [&](OpOperand &use) {
    if (auto call = dyn_cast<buffer::CallOp>(use.getOwner())) {
      auto callee = symbols.lookup<buffer::FuncOp>(call.getCallee());
      return isReadByExperts(callee.getBody().getArgument(use.getOperandNumber()), symbols);
    }
    auto dense = dyn_cast<buffer::DenseOp>(use.getOwner());
    return dense && !dense->use_empty() && llvm::all_of(dense->getUses(), isMatricesOfExperts);
  });
}

/// Returns the parameter entries that only experts read, as matrices.
static llvm::StringSet<> findExperts(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::StringSet<> entries, others;
  module.walk([&](buffer::ParameterOp op) {
    (isReadByExperts(op.getIndex(), symbols) ? entries : others).insert(op.getEntry());
  });
  for (const auto &other : others)
    entries.erase(other.getKey());
  return entries;
}

//===----------------------------------------------------------------------===//
// Table of parameters
//===----------------------------------------------------------------------===//

FailureOr<ManifestParameters> ManifestParameters::make(ModuleOp module, const WeightTable &weights,
                                                       const ProgramFacts &facts,
                                                       bool digestWeights) {
  ManifestParameters table;
  SmallVector<File> found;
  auto previous = findPreviousInMerged(module);
  llvm::StringSet<> experts = findExperts(module);
  llvm::StringMap<int64_t> indices;
  DenseSet<std::pair<Attribute, Attribute>> updated;
  for (PipelineOp pipeline : module.getOps<PipelineOp>())
    for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
      if (std::optional<Update> update = Update::get(output))
        updated.insert({update->weight.getAttr(), update->view});
  for (auto entry : module.getOps<buffer::EntryOp>()) {
    indices[entry.getSymName()] = table.parameters.size();
    StringRef name = entry.getLoad().getWeight();
    WeightOp weight = weights.at(name).get();
    auto object = describe(weight, entry, facts);
    if (failed(object))
      return failure();
    if (updated.contains({entry.getLoad().getWeight(), entry.getLoad().getView()}))
      (*object)["updated"] = true;
    if (weight.getFile().empty()) { // state that is 0 before the first step
      (*object)["file"] = -1;
      (*object)["init"] = "zeros";
      table.parameters.push_back(std::move(*object));
      continue;
    }
    if (experts.contains(entry.getSymName()) && !object->get("updated"))
      (*object)["use"] = "experts";
    std::string path = absolutePath(module, weight.getFile());
    auto file = llvm::find_if(found, [&](const File &f) { return f.path == path; });
    if (file == found.end())
      file = &found.emplace_back(File{path, {}, {}});
    auto addRange = [&](int64_t offset, int64_t bytes, const Twine &tensor) {
      file->ranges.push_back({offset, bytes});
      file->names.try_emplace(file->ranges.back(), tensor.str());
    };
    int64_t bytes = *object->getInteger("bytes");
    ArrayRef<int64_t> parts = getParts(weight);
    if (parts.empty())
      addRange(*object->getInteger("offset"), bytes, name);
    for (auto [i, part] : llvm::enumerate(parts))
      addRange(part, bytes / int64_t(parts.size()), name + "[" + Twine(i) + "]");
    (*object)["file"] = (int64_t)(file - found.begin());
    if (auto other = previous.find(entry.getSymName()); other != previous.end())
      if (auto index = indices.find(other->second); index != indices.end())
        (*object)["beside"] = index->second;
    table.parameters.push_back(std::move(*object));
  }
  for (File &file : found) {
    auto object = describe(file, digestWeights, module.getLoc());
    if (failed(object))
      return failure();
    table.files.push_back(std::move(*object));
  }

  return table;
}
