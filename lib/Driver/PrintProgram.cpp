//===- PrintProgram.cpp - Readable program text ---------------------------===//

#include "PrintProgram.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/StringSaver.h"

using namespace mlir;
using namespace mlir::tpc;
using llvm::raw_ostream;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Names of types
//===----------------------------------------------------------------------===//

/// Returns `batch` unchanged, and `past_sequence_length` as `psl`.
static std::string shorten(StringRef symbol) {
  if (!symbol.contains('_'))
    return symbol.str();
  SmallVector<StringRef> words;
  symbol.split(words, '_', -1, /*KeepEmpty=*/false);
  std::string text;
  for (StringRef word : words)
    text += word[0];
  return text;
}

/// Returns a size as an identifier: `past_sequence_length + 1` as `psl_plus_1`.
static std::string nameSize(const SymExpr &size) {
  std::string text = size.str(), name;
  auto add = [&](StringRef word) { name += (name.empty() ? "" : "_") + word.str(); };
  for (StringRef rest = text; !rest.empty();) {
    StringRef word =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    if (word.empty()) {
      char c = rest.front();
      rest = rest.drop_front();
      if (c == '+' || c == '-')
        add(c == '+' ? "plus" : "minus");
      continue;
    }
    rest = rest.drop_front(word.size());
    std::string symbol = shorten(word);
    llvm::replace(symbol, '.', '_');
    add(symbol);
  }
  return name;
}

static std::string nameAxes(ArrayRef<StringAttr> axes) {
  std::string name;
  for (StringAttr axis : axes)
    name += "_" + axis.str();
  return name;
}

/// Returns `1000{tp}` as `1000tp`, `4{tp}*8` as `4tp_8`.
static std::string nameDim(DimAttr dim) {
  std::string name;
  for (FactorAttr factor : dim.getFactors()) {
    std::string axes = nameAxes(factor.getAxes());
    std::string size = nameSize(factor.getExpr());
    // A number and its only axis are joined without an underscore.
    if (factor.getExpr().isConstant() && factor.getAxes().size() == 1)
      axes.erase(0, 1);
    name += (name.empty() ? "" : "_") + size + axes;
  }
  return name + nameAxes(dim.getAxes());
}

namespace {
/// Aliases of types: `tensor<?x64xf32, #tpc.dist<[batch*sequence, 128{tp}], local>>` is
/// `!f32_batch_sequence_x_128tp_l`, with `l` for one rank's shape and `g` for the global one. Types
/// without a distribution have no alias.
struct TypeNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto dist = tensor ? dyn_cast_or_null<DistAttr>(tensor.getEncoding()) : DistAttr();
    if (!dist)
      return AliasResult::NoAlias;
    os << tensor.getElementType();
    if (PartialAttr partial = dist.getPartial())
      os << "_" << stringifyReductionKind(partial.getKind()) << nameAxes(partial.getAxes());
    for (auto [d, dim] : llvm::enumerate(dist.getDims()))
      os << (d == 0 ? "_" : "_x_") << nameDim(dim);
    os << (dist.getLocal() ? "_l" : "_g");
    // FinalAlias prevents the printer from appending a number.
    return AliasResult::FinalAlias;
  }
};

//===----------------------------------------------------------------------===//
// Names of values
//===----------------------------------------------------------------------===//

/// Assigns names of values as locations, from which the printer derives SSA names. The module is
/// discarded after printing.
class ValueNames {
public:
  explicit ValueNames(ModuleOp module) : module(module), symbols(module) {}
  void assign();

private:
  /// Returns the components of a value's name; empty for computed values.
  SmallVector<StringRef> getParts(Value v);
  SmallVector<StringRef> getParts(BlockArgument argument);
  SmallVector<StringRef> getParts(StringRef weight, ViewAttr view);
  /// Returns the components for an argument of the tensor function with this name.
  SmallVector<StringRef> getParts(StringRef function, unsigned argument);
  /// Returns the common components of the names of a layer's repetitions.
  static SmallVector<StringRef> getCommon(ArrayRef<SmallVector<StringRef>> names);
  /// Returns the operands that calls pass for the argument.
  SmallVector<Value> getCallOperands(BlockArgument argument);

  ModuleOp module;
  SymbolTable symbols;
  DenseMap<Operation *, SmallVector<CallOpInterface>> calls; // by callee
  DenseMap<Value, SmallVector<StringRef>> partsOf;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver texts{allocator};
};
} // namespace

static StringRef getText(DictionaryAttr attributes, StringRef name) {
  auto text = attributes ? attributes.getAs<StringAttr>(name) : StringAttr();
  return text ? text.getValue() : StringRef();
}

static SmallVector<StringRef> split(StringRef name) {
  SmallVector<StringRef> parts;
  llvm::SplitString(name, parts, "./");
  return parts;
}

static bool isNumber(StringRef part) { return !part.empty() && llvm::all_of(part, llvm::isDigit); }

SmallVector<Value> ValueNames::getCallOperands(BlockArgument argument) {
  SmallVector<Value> operands;
  for (CallOpInterface call : calls.lookup(argument.getOwner()->getParentOp()))
    operands.push_back(call.getArgOperands()[argument.getArgNumber()]);
  return operands;
}

SmallVector<StringRef> ValueNames::getCommon(ArrayRef<SmallVector<StringRef>> names) {
  // Returns the components after those that differ between repetitions; if none follow, those
  // before.
  SmallVector<StringRef> head(names.front()), tail(names.front());
  for (ArrayRef<StringRef> other : names) {
    size_t limit = std::min(other.size(), head.size()), same = 0;
    while (same < limit && other[same] == head[same])
      ++same;
    head.truncate(same);
    limit = std::min(other.size(), tail.size());
    for (same = 0; same < limit && other[other.size() - 1 - same] == tail[tail.size() - 1 - same];)
      ++same;
    tail.erase(tail.begin(), tail.end() - same);
  }
  if (!tail.empty() || !head.empty())
    return tail.empty() ? head : tail;
  // Names such as `onnx::MatMul_4711` have only a common prefix.
  StringRef name = names.front().empty() ? StringRef() : names.front().front();
  for (ArrayRef<StringRef> other : names)
    while (!other.empty() && !other.front().starts_with(name))
      name = name.drop_back();
  name = name.rtrim("0123456789_");
  return name.empty() ? SmallVector<StringRef>() : SmallVector<StringRef>{name};
}

SmallVector<StringRef> ValueNames::getParts(StringRef name, unsigned argument) {
  auto function = symbols.lookup<FunctionOpInterface>(name);
  if (!function || function.isExternal() || argument >= function.getNumArguments())
    return {};
  return getParts(Value(function.getArgument(argument)));
}

SmallVector<StringRef> ValueNames::getParts(BlockArgument argument) {
  Operation *parent = argument.getOwner()->getParentOp();
  // Lowered functions use the names of the tensors that they implement.
  if (auto kernel = dyn_cast<kernel::FuncOp>(parent))
    return getParts(kernel.getSymName(), argument.getArgNumber());
  if (auto lowered = dyn_cast<buffer::FuncOp>(parent)) {
    if (argument.getArgNumber() >= lowered.getArgs().size())
      return {};
    auto attr = cast<buffer::ArgumentAttr>(lowered.getArgs()[argument.getArgNumber()]);
    if (buffer::LoadAttr load = attr.getLoad())
      return getParts(load.getWeight().getValue(), load.getView());
    return getParts(lowered.getOf(), attr.getArgument().getInt());
  }
  if (auto pipeline = dyn_cast<PipelineOp>(parent))
    return split(getText(cast<DictionaryAttr>(pipeline.getInputAttrs()[argument.getArgNumber()]),
                         kNameAttr));
  auto function = dyn_cast<FunctionOpInterface>(parent);
  if (!function || !argument.getOwner()->isEntryBlock())
    return {};
  if (StringRef name = getText(function.getArgAttrDict(argument.getArgNumber()), kNameAttr);
      !name.empty())
    return split(name);
  SmallVector<SmallVector<StringRef>> names;
  for (Value operand : getCallOperands(argument))
    names.push_back(getParts(operand));
  if (names.empty())
    return {};
  SmallVector<StringRef> common = getCommon(names);
  // Removes the prefix up to the layer's number.
  auto *number = llvm::find_if(llvm::reverse(common), isNumber).base();
  if (number != common.begin() && number != common.end())
    common.erase(common.begin(), number);
  return common;
}

SmallVector<StringRef> ValueNames::getParts(Value v) {
  if (auto it = partsOf.find(v); it != partsOf.end())
    return it->second;
  partsOf[v]; // breaks recursion
  SmallVector<StringRef> parts;
  if (auto parameter = v.getDefiningOp<ParameterOp>()) {
    parts = getParts(parameter.getWeight(), parameter.getViewAttr());
  } else if (auto index = v.getDefiningOp<buffer::ParameterOp>()) {
    if (auto entry = symbols.lookup<buffer::EntryOp>(index.getEntry()))
      parts = getParts(entry.getLoad().getWeight().getValue(), entry.getLoad().getView());
  } else if (auto dense = v.getDefiningOp<buffer::DenseOp>()) {
    parts = getParts(dense.getIndex());
  } else if (auto argument = dyn_cast<BlockArgument>(v)) {
    parts = getParts(argument);
  }
  return partsOf[v] = parts;
}

SmallVector<StringRef> ValueNames::getParts(StringRef weight, ViewAttr view) {
  SmallVector<StringRef> parts = split(weight);
  // A slice of a weight is named by its offset.
  if (view && view.getOffset() != 0)
    parts.push_back(texts.save("at" + Twine(view.getOffset())));
  return parts;
}

/// Returns the components from the layer's on: `h.0.attn.…` for
/// `model.transformer.h.0.attn.c_proj.weight`.
static ArrayRef<StringRef> skipModel(ArrayRef<StringRef> parts) {
  const StringRef *number = llvm::find_if(parts, isNumber);
  if (number == parts.end())
    return parts;
  return parts.drop_front(std::max<int64_t>(0, number - parts.begin() - 1));
}

/// Joins components with characters that the printer accepts unchanged.
static std::string join(ArrayRef<StringRef> parts) {
  std::string name = llvm::join(parts, ".");
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '.' && c != '_' && c != '-')
      c = '_';
  return name.empty() || llvm::isAlpha(name[0]) ? name : "_" + name;
}

void ValueNames::assign() {
  module.walk([&](CallOpInterface call) {
    if (auto callee = dyn_cast<SymbolRefAttr>(call.getCallableForCallee()))
      if (Operation *function = symbols.lookup(callee.getLeafReference()))
        calls[function].push_back(call);
  });
  MLIRContext *context = module.getContext();
  Location unknown = UnknownLoc::get(context);
  auto toLocation = [&](Value v) -> Location {
    std::string name = join(skipModel(getParts(v)));
    return name.empty() ? unknown : NameLoc::get(StringAttr::get(context, name));
  };
  module.walk([&](Operation *op) {
    op->setLoc(isa<ParameterOp, buffer::ParameterOp, buffer::DenseOp>(op)
                   ? toLocation(op->getResult(0))
                   : unknown);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setLoc(toLocation(argument));
  });
}

void ::tpc::printProgram(ModuleOp module, raw_ostream &os) {
  module.getContext()->getOrLoadDialect<TpcDialect>()->addInterfaces<TypeNames>();
  OwningOpRef<ModuleOp> named(module.clone());
  ValueNames(*named).assign();
  std::string text;
  llvm::raw_string_ostream buffer(text);
  named->print(buffer, OpPrintingFlags().printNameLocAsPrefix());
  breakLines(text, kLineWidth, os);
}
