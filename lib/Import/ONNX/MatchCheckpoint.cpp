//===- MatchCheckpoint.cpp - Tensors of a checkpoint for a model ----------===//

#include "MatchCheckpoint.h"

#include "Importer.h"
#include "Json.h"
#include "SampleValues.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/printable.h"

#include "onnx.pb.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc::frontend;
using llvm::Twine;
using mlir::tpc::makeError;
using ::tpc::printable;

/// Limit on the size of the map file.
static constexpr uint64_t kMaxMap = 100'000'000;

/// Returns the element type of a dtype of safetensors, or null.
static Type getStoredElement(MLIRContext *context, StringRef dtype) {
  int32_t dataType = llvm::StringSwitch<int32_t>(dtype)
                         .Case("F64", ::onnx::TensorProto::DOUBLE)
                         .Case("F32", ::onnx::TensorProto::FLOAT)
                         .Case("F16", ::onnx::TensorProto::FLOAT16)
                         .Case("BF16", ::onnx::TensorProto::BFLOAT16)
                         .Case("BOOL", ::onnx::TensorProto::BOOL)
                         .Case("I8", ::onnx::TensorProto::INT8)
                         .Case("U8", ::onnx::TensorProto::UINT8)
                         .Case("I16", ::onnx::TensorProto::INT16)
                         .Case("I32", ::onnx::TensorProto::INT32)
                         .Case("I64", ::onnx::TensorProto::INT64)
                         .Default(0);
  return getElementType(context, dataType);
}

static std::string str(ArrayRef<int64_t> shape) {
  return "[" +
         llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), ", ") +
         "]";
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(shape);
  llvm::erase(result, 1);
  return result;
}

namespace {
enum class Order { Other, Same, Transposed, Either };

/// An initializer and its tensor.
struct Match {
  const ::onnx::TensorProto *proto;
  TensorSource own; ///< type and location in the model
  bool isTable = false;
  std::string alias; ///< name of the parameter of the module that uses it; empty: unknown
  const std::string *name = nullptr; ///< of the tensor; null: not found
  const StoredTensor *tensor = nullptr;
  bool isMapped = false, keepsValues = false;
  std::optional<bool> isTransposed = {};

  bool hasData() const { return own.fileExists; }
};

class Matcher {
public:
  Matcher(const ::onnx::GraphProto &graph, TensorReader &reader, const Checkpoint &checkpoint,
          StringRef path)
      : graph(graph), reader(reader), checkpoint(checkpoint), path(path) {}

  llvm::Error run(StringRef mapPath, std::string &warning);

private:
  llvm::Error collect();
  llvm::Error readMap(StringRef mapPath);
  void findNames();
  void findValues();
  void findTied();
  llvm::Error orient(Match &match);
  llvm::Error replace(Match &match);
  bool set(Match &match, StringRef name);
  Order compareShapes(const Match &match, const StoredTensor &tensor) const;

  const ::onnx::GraphProto &graph;
  TensorReader &reader;
  const Checkpoint &checkpoint;
  StringRef path;
  std::vector<Match> matches;
  bool someSame = false, someTransposed = false; ///< matrices whose shapes show their order
};
} // namespace

/// Returns the name of the weight of a node's module, from the node's name
/// (`/model/layers.0/mlp/up_proj/MatMul`) or from the second-to-last scope in its metadata.
/// Exporters rename a weight that they transpose, but neither nodes nor scopes.
static std::string getWeightName(const ::onnx::NodeProto &node) {
  for (const auto &entry : node.metadata_props()) {
    SmallVector<StringRef> parts; // every second part is in quotes
    StringRef(entry.value()).split(parts, '\'');
    if (entry.key() == kScopesKey && parts.size() >= 5 && !parts[parts.size() - 4].empty())
      return (parts[parts.size() - 4] + ".weight").str();
  }
  StringRef path = node.name();
  if (!path.consume_front("/") || !path.contains('/'))
    return "";
  std::string name = (path.rsplit('/').first + ".weight").str();
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

/// Collects the initializers that nodes use.
llvm::Error Matcher::collect() {
  std::vector<std::string> names;
  llvm::StringSet<> used, tables;
  llvm::StringMap<std::string> aliases;
  for (const auto &node : graph.node()) {
    collectUses(node, names);
    if (node.op_type() == "Gather" && node.input_size() == 2)
      tables.insert(node.input(0));
    if ((node.op_type() == "MatMul" || node.op_type() == "Gemm") && node.input_size() >= 2)
      aliases[node.input(1)] = getWeightName(node);
  }
  for (const std::string &name : names)
    used.insert(name);
  for (const auto &proto : graph.initializer()) {
    if (!used.contains(proto.name()))
      continue;
    llvm::Expected<TensorSource> own = reader.read(proto);
    if (!own)
      return makeError("initializer '" + proto.name() + "' " + llvm::toString(own.takeError()));
    matches.push_back(
        {&proto, std::move(*own), tables.contains(proto.name()), aliases.lookup(proto.name())});
  }
  return llvm::Error::success();
}

Order Matcher::compareShapes(const Match &match, const StoredTensor &tensor) const {
  if (match.own.packedBits)
    return Order::Other;
  SmallVector<int64_t> own = withoutOnes(match.own.type.getShape()),
                       other = withoutOnes(tensor.shape);
  ArrayRef<int64_t> shape = match.own.type.getShape();
  bool isSame = own == other,
       isMatrix = shape.size() >= 2 && shape.back() != 1 && shape[shape.size() - 2] != 1;
  if (!isMatrix)
    return isSame ? Order::Same : Order::Other;
  std::swap(own[own.size() - 2], own.back());
  bool isTransposed = own == other;
  return isSame && isTransposed ? Order::Either
         : isSame               ? Order::Same
         : isTransposed         ? Order::Transposed
                                : Order::Other;
}

bool Matcher::set(Match &match, StringRef name) {
  auto it = checkpoint.find(name.str());
  if (it == checkpoint.end())
    return false;
  match.name = &it->first;
  match.tensor = &it->second;
  return true;
}

llvm::Error Matcher::readMap(StringRef mapPath) {
  std::string text, flag = "--weights-map=" + printable(mapPath);
  if (std::string why = ::tpc::readFile(mapPath.str(), kMaxMap, text); !why.empty())
    return makeError(flag + ": " + why);
  llvm::Expected<Json> map = parseJson(text);
  if (!map)
    return makeError(flag + ": " + llvm::toString(map.takeError()));
  if (map->kind != Json::Object)
    return makeError(flag + ": expected an object, {\"initializer\": \"tensor\"}");
  llvm::StringMap<Match *> byName;
  for (Match &match : matches)
    byName[match.proto->name()] = &match;
  for (const auto &[name, value] : llvm::zip(map->names, map->items)) {
    Match *match = byName.lookup(name);
    if (!match)
      return makeError(flag + ": no node of the model uses an initializer '" + printable(name) +
                       "'");
    match->isMapped = true;
    if (value.kind == Json::Null) {
      match->keepsValues = true;
      continue;
    }
    const Json *target = value.kind == Json::Object ? value.find("name") : &value;
    if (const Json *transpose = value.find("transpose")) {
      if (transpose->kind != Json::Boolean)
        return makeError(flag + ": 'transpose' of '" + printable(name) +
                         "' is neither true nor false");
      match->isTransposed = transpose->text == "true";
    }
    if (!target || target->kind != Json::String)
      return makeError(flag + ": '" + printable(name) + "' has no name of a tensor");
    if (!set(*match, target->text))
      return makeError(flag + ": '" + path + "' has no tensor '" + printable(target->text) + "'");
  }
  return llvm::Error::success();
}

/// Finds tensors by name. A difference in leading parts of names, such as `model.`, is the same for
/// many tensors, so the most frequent difference takes precedence.
void Matcher::findNames() {
  auto dropPart = [](StringRef name) { return name.split('.').second; };
  auto isLong = [](StringRef name) { return name.contains('.'); };
  std::map<std::string, std::vector<StringRef>> endings; // by name without 1 to 3 parts
  for (const auto &[name, tensor] : checkpoint) {
    StringRef ending = name;
    for (int i = 0; i < 3 && isLong(ending = dropPart(ending)); ++i)
      endings[ending.str()].push_back(name);
  }
  // Candidates of an initializer by their difference: a removed part is "-model.", an added part
  // "+model.".
  auto visit = [&](StringRef name, auto callback) {
    callback("", name);
    StringRef ending = name;
    for (int i = 0; i < 3 && isLong(ending = dropPart(ending)); ++i)
      if (checkpoint.count(ending.str()))
        callback("-" + name.drop_back(ending.size()).str(), ending);
    if (auto it = endings.find(name.str()); isLong(name) && it != endings.end())
      for (StringRef tensor : it->second)
        callback("+" + tensor.drop_back(name.size()).str(), tensor);
  };
  std::map<std::string, int64_t> counts;
  for (const Match &match : matches)
    for (StringRef name : {StringRef(match.proto->name()), StringRef(match.alias)})
      visit(name, [&](std::string difference, StringRef tensor) {
        counts[difference] += checkpoint.count(tensor.str());
      });
  for (Match &match : matches) {
    if (match.isMapped)
      continue;
    int64_t best = 0;
    auto choose = [&](std::string difference, StringRef tensor) {
      auto it = checkpoint.find(tensor.str());
      int64_t count = difference.empty() ? INT64_MAX : counts[difference];
      if (it == checkpoint.end() || count <= best ||
          (!difference.empty() && compareShapes(match, it->second) == Order::Other))
        return;
      best = count;
      set(match, tensor);
    };
    visit(match.proto->name(), choose);
    if (!match.tensor && !match.alias.empty())
      visit(match.alias, choose);
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Returns a tensor of the checkpoint as a source.
static TensorSource makeSource(const StoredTensor &tensor, RankedTensorType type, Type stored) {
  TensorSource source;
  source.type = type;
  source.file = source.path = tensor.file;
  source.offset = tensor.offset;
  source.bytes = tensor.bytes;
  if (auto inFile = RankedTensorType::get(tensor.shape, stored); inFile != type)
    source.storedType = inFile;
  return source;
}

/// Returns a tensor of the checkpoint as a source of numbers; nothing if it has no floats.
static std::optional<TensorSource> makeNumbers(const Match &match, const StoredTensor &tensor) {
  Type element = getStoredElement(match.own.type.getContext(), tensor.dtype);
  if (!isa_and_nonnull<FloatType>(element))
    return std::nullopt;
  return makeSource(tensor, match.own.type, element);
}

static bool isFloatMatrix(const Match &match) {
  return isa<FloatType>(match.own.type.getElementType()) && match.own.type.getRank() >= 2 &&
         match.own.elements() > 1;
}

/// Finds tensors for matrices with the values of the model, which exporters have renamed:
/// `onnx::MatMul_217`.
void Matcher::findValues() {
  llvm::DenseSet<const StoredTensor *> taken;
  for (const Match &match : matches)
    if (match.tensor)
      taken.insert(match.tensor);
  for (Match &match : matches) {
    if (match.tensor || match.isMapped || !isFloatMatrix(match) || !match.hasData() ||
        match.own.file.empty())
      continue;
    for (const auto &[name, tensor] : checkpoint) {
      Order order = taken.contains(&tensor) ? Order::Other : compareShapes(match, tensor);
      std::optional<TensorSource> numbers = makeNumbers(match, tensor);
      for (bool isTransposed : {false, true})
        if (numbers && !match.tensor &&
            (order == Order::Either || order == (isTransposed ? Order::Transposed : Order::Same)) &&
            haveSameValues(reader, match.own, *numbers, isTransposed)) {
          match.name = &name;
          match.tensor = &tensor;
          match.isTransposed = isTransposed;
        }
      if (match.tensor)
        break;
    }
  }
}

/// Finds the table of the embedding for matrices without data and without a tensor.
void Matcher::findTied() {
  for (Match &match : matches) {
    if (match.tensor || match.isMapped || !isFloatMatrix(match) || match.hasData())
      continue;
    const Match *found = nullptr;
    bool isUnique = true;
    for (const Match &table : matches)
      if (table.isTable && table.tensor && compareShapes(match, *table.tensor) != Order::Other) {
        isUnique &= !found || found->tensor == table.tensor;
        found = &table;
      }
    if (found && isUnique) {
      match.name = found->name;
      match.tensor = found->tensor;
    }
  }
}

//===----------------------------------------------------------------------===//
// Replacement
//===----------------------------------------------------------------------===//

/// Determines whether the initializer is the transpose of its tensor.
llvm::Error Matcher::orient(Match &match) {
  Order order = compareShapes(match, *match.tensor);
  std::string what =
      "initializer '" + match.proto->name() + "' is " + str(match.own.type.getShape()) + ", ";
  if (order == Order::Other ||
      (match.isTransposed && order == (*match.isTransposed ? Order::Same : Order::Transposed)))
    return makeError(what + "but tensor '" + printable(*match.name) + "' of '" +
                     printable(match.tensor->file) + "' is " + str(match.tensor->shape) +
                     "; --weights-map=FILE may name another tensor");
  if (order != Order::Either)
    match.isTransposed = order == Order::Transposed;
  if (match.isTransposed)
    return llvm::Error::success();
  bool isFloat = isFloatMatrix(match);
  std::optional<TensorSource> numbers = makeNumbers(match, *match.tensor);
  if (isFloat && numbers && match.hasData() && !match.own.file.empty()) {
    // A fine-tuned matrix is similar to the model's.
    constexpr double similar = 0.8, different = 0.6;
    double same = correlate(reader, match.own, *numbers, false),
           transposed = correlate(reader, match.own, *numbers, true);
    if (std::max(same, transposed) > similar && std::min(same, transposed) < different) {
      match.isTransposed = transposed > same;
      return llvm::Error::success();
    }
  }
  if (isFloat && !match.isTable && someTransposed && someSame)
    return makeError(what + "and tensor '" + printable(*match.name) +
                     "' could be its transpose: say so with --weights-map=FILE, {\"" +
                     match.proto->name() + "\": {\"name\": \"" + printable(*match.name) +
                     "\", \"transpose\": true}}, or false");
  match.isTransposed = isFloat && !match.isTable && someTransposed;
  return llvm::Error::success();
}

llvm::Error Matcher::replace(Match &match) {
  Type own = match.own.type.getElementType(),
       stored = getStoredElement(own.getContext(), match.tensor->dtype);
  if (match.own.packedBits || !stored ||
      (stored != own && !(isa<FloatType>(stored) && isa<FloatType>(own))))
    return makeError("initializer '" + match.proto->name() + "' has elements of type " +
                     getDataTypeName(match.proto->data_type()) + ", but tensor '" +
                     printable(*match.name) + "' of '" + printable(match.tensor->file) +
                     "' has elements of type " + match.tensor->dtype);
  TensorSource source = makeSource(*match.tensor, match.own.type, stored);
  source.name = match.proto->name();
  source.isTransposed = *match.isTransposed;
  if (source.isTransposed)
    source.storedType = RankedTensorType::get(match.tensor->shape, stored);
  reader.replace(*match.proto, std::move(source));
  return llvm::Error::success();
}

llvm::Error Matcher::run(StringRef mapPath, std::string &warning) {
  if (llvm::Error e = collect())
    return e;
  if (!mapPath.empty())
    if (llvm::Error e = readMap(mapPath))
      return e;
  findNames();
  findValues();
  findTied();
  for (const Match &match : matches)
    if (match.tensor && !match.isTable && isFloatMatrix(match)) {
      Order order = compareShapes(match, *match.tensor);
      someSame |= order == Order::Same;
      someTransposed |= order == Order::Transposed;
    }
  const Match *missing = nullptr, *kept = nullptr;
  int64_t numMissing = 0, numKept = 0, numFound = 0;
  for (Match &match : matches) {
    if (!match.tensor) {
      bool isKept = !match.keepsValues && isFloatMatrix(match);
      if (!match.hasData() && !numMissing++)
        missing = &match;
      else if (match.hasData() && isKept && !numKept++)
        kept = &match;
      continue;
    }
    ++numFound;
    if (llvm::Error e = orient(match))
      return e;
    if (llvm::Error e = replace(match))
      return e;
  }
  std::string example =
      checkpoint.empty() ? "none" : "'" + printable(checkpoint.begin()->first) + "'";
  auto describe = [](const Match &match) {
    return "'" + match.proto->name() + "', " + str(match.own.type.getShape());
  };
  if (missing)
    return makeError("the model has " + Twine(numMissing) +
                     (numMissing == 1 ? " initializer (" : " initializers (such as ") +
                     describe(*missing) + ") without data, and '" + printable(path) +
                     "' has no tensor of their name (its first is " + example +
                     "): give names with --weights-map=FILE, {\"" + missing->proto->name() +
                     "\": \"tensor\"}");
  if (!numFound)
    return makeError("'" + printable(path) +
                     "' has no tensor for any initializer of the model (its "
                     "first is " +
                     example +
                     "): give names with --weights-map=FILE, {\"initializer\": \"tensor\"}");
  if (kept)
    warning =
        (Twine(numKept) + (numKept == 1 ? " matrix keeps" : " matrices keep") +
         " the values of the model file (such as " + describe(*kept) + "), because '" +
         printable(path) + "' has no tensor of their name; --weights-map=FILE names it, or null")
            .str();
  return llvm::Error::success();
}

llvm::Error mlir::tpc::frontend::matchCheckpoint(const ::onnx::GraphProto &graph,
                                                 TensorReader &reader, const Checkpoint &checkpoint,
                                                 StringRef checkpointPath, StringRef mapPath,
                                                 std::string &warning) {
  return Matcher(graph, reader, checkpoint, checkpointPath).run(mapPath, warning);
}
