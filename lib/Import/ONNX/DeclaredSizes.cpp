//===- DeclaredSizes.cpp - Sizes of inputs and outputs in the file --------===//
//
// ONNX Runtime checks numbers in the shapes of inputs, and takes names of sizes as hints. Exporters
// write wrong names: optimum 1.x declares a mask of `past_sequence_length + 1` tokens for prompts
// of any length, and names the size of the logits `1`. The graph is more reliable, so names are
// used as follows:
//
//   1. The file is imported with the names of its inputs, where equal names are equal sizes. If a
//      node then has an error, the import is tried again with other names, finally with none
//      (SizeNames).
//   2. tieSizes sets sizes that no op relates to other sizes, if the graph allows it: a mask
//      [batch, tokens] covers past and new tokens; other sizes are equal if their names are.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Names with a leading underscore are reserved for the compiler (e.g. indices, IndexAnalysis.h).
static std::string makeSymbol(const std::string &name) {
  return name[0] == '_' ? "d" + name : name;
}

/// Parses a size: an expression over printable symbols.
static std::optional<SymExpr> parseSize(StringRef text) {
  if (text.size() > 200)
    return std::nullopt;
  std::optional<SymExpr> e = SymExpr::parse(std::string_view(text.data(), text.size()));
  if (!e || !isReasonable(*e) || (e->isConstant() && *e->asConstant() < 0))
    return std::nullopt;
  // Operators, and words that the assembly format reads as literals, are not names.
  std::set<std::string> symbols;
  e->collectSymbols(symbols);
  for (const char *reserved : {"min", "max", "mod", "floordiv", "true", "false"})
    if (symbols.count(reserved))
      return std::nullopt;
  std::map<std::string, SymExpr> renamed;
  for (const std::string &symbol : symbols)
    renamed.insert({symbol, SymExpr::symbol(makeSymbol(symbol))});
  return e->substitute(renamed);
}

/// Returns true for a name such as `batch`, which is not an expression.
static bool isSymbol(const SymExpr &e) {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return symbols.size() == 1 && e == SymExpr::symbol(*symbols.begin());
}

/// Calls `fn` with the parsed name of each dimension of an input.
static void visitNames(const ::onnx::GraphProto &graph, function_ref<void(const SymExpr &)> fn) {
  for (const auto &input : graph.input())
    for (const auto &dim : input.type().tensor_type().shape().dim())
      if (auto size = parseSize(dim.dim_param()))
        fn(*size);
}

SmallVector<Importer::SizeNames> Importer::listSizeNames() {
  bool hasSymbols = false, hasExpressions = false, hasOffsets = false, hasNumbers = false;
  visitNames(model.graph(), [&](const SymExpr &size) {
    if (size.isConstant()) {
      hasNumbers = true;
    } else if (isSymbol(size)) {
      hasSymbols = true;
    } else {
      hasExpressions = true;
      // A number in the sum may be the number of traced tokens: `past_sequence_length + 1`.
      hasOffsets |= llvm::any_of(size.getTerms(), [](auto &term) { return term.atoms.empty(); });
    }
  });
  SmallVector<SizeNames> result = {{}};
  if (hasExpressions)
    result.insert(hasOffsets ? result.begin() : result.end(), SizeNames{true, false, false, false});
  if (hasNumbers)
    result.push_back({true, true, true, false});
  SizeNames empty = result.front();
  empty.emptyPast = true;
  result.push_back(empty);
  if (hasSymbols)
    result.push_back({false, false, false, false});
  return result;
}

void Importer::collectDeclaredSymbols() {
  declaredSymbols.clear();
  hints.clear();
  ownSymbols.clear();
  visitNames(model.graph(), [&](const SymExpr &size) { size.collectSymbols(declaredSymbols); });
}

SymExpr Importer::readSize(const ::onnx::ValueInfoProto &info, int i) {
  const auto &dim = info.type().tensor_type().shape().dim(i);
  if (dim.has_dim_value() && dim.dim_value() >= 0)
    return SymExpr(dim.dim_value());
  if (auto it = tied.find({info.name(), i}); it != tied.end())
    return resolve(it->second);
  std::optional<SymExpr> size;
  if (dim.has_dim_param())
    size = parseSize(dim.dim_param());
  if (size && (size->isConstant() ? sizeNames.numbers
               : isSymbol(*size)  ? sizeNames.symbols
                                  : sizeNames.expressions))
    return resolve(*size);
  std::string name;
  for (char c : info.name())
    name += isalnum((unsigned char)c) || c == '_' ? c : '_';
  if (name.empty() || isdigit((unsigned char)name[0]))
    name = "d" + name;
  name = makeSymbol(name);
  name += "_dim" + std::to_string(i);
  // Inputs a.b and a_b need distinct symbols.
  while (!declaredSymbols.insert(name).second)
    name += "_";
  if (size) {
    hints.insert({{info.name(), i}, *size});
    ownSymbols.insert(name);
  }
  return resolve(SymExpr::symbol(name));
}

FailureOr<Sizes> Importer::readShape(const ::onnx::ValueInfoProto &info) {
  const auto &shape = info.type().tensor_type().shape();
  if (shape.dim_size() > 32)
    return emitError(fileLoc()) << "input '" << info.name() << "' has " << shape.dim_size()
                                << " dimensions";
  Sizes sizes;
  for (int i = 0; i < shape.dim_size(); ++i)
    sizes.push_back(readSize(info, i));
  return sizes;
}

//===----------------------------------------------------------------------===//
// Sizes that the graph does not determine
//===----------------------------------------------------------------------===//

bool Importer::importTied(const std::map<InputDim, SymExpr> &sizes, Messages &messages,
                          bool mustRelax) {
  auto before =
      std::tuple(module.release(), main, replaced, choices, tied, hints, ownSymbols, constraints);
  for (auto &[dim, size] : sizes)
    tied[dim] = size;
  Messages ownMessages;
  bool imported = succeeded(importPasses(ownMessages));
  const auto &known = std::get<7>(before);
  for (auto &[text, constraint] : constraints) {
    auto same = known.find(text);
    if (same == known.end() || constraint.low > same->second.low ||
        constraint.high < same->second.high)
      imported = false; // the graph contradicts these sizes
  }
  if (mustRelax && constraints.size() >= known.size())
    imported = false; // the sizes follow from the graph already
  OwningOpRef<ModuleOp> old(std::get<0>(before));
  if (imported) {
    messages = std::move(ownMessages);
    return true;
  }
  module = std::move(old);
  std::tie(std::ignore, main, replaced, choices, tied, hints, ownSymbols, constraints) = before;
  return false;
}

void Importer::tieSizes(Messages &messages) {
  if (std::map<InputDim, SymExpr> pasts = findPastSizes(); !pasts.empty())
    importTied(pasts, messages, /*mustRelax=*/true);
  bool mustRelax = false;
  std::map<InputDim, SymExpr> mask = findMaskSizes(mustRelax);
  if (!mask.empty())
    importTied(mask, messages, mustRelax);
  // Unused names that relate sizes which are independent in the graph.
  std::map<InputDim, SymExpr> named;
  for (BlockArgument input : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
    for (auto [i, size] : llvm::enumerate(getSizes(input))) {
      auto hint = hints.find({name.str(), int(i)});
      if (hint == hints.end() || hint->second.isConstant() || !isSymbol(size))
        continue;
      std::set<std::string> symbols;
      size.collectSymbols(symbols);
      if (ownSymbols.count(*symbols.begin()))
        named.insert({hint->first, resolve(hint->second)});
    }
  }
  if (!named.empty())
    importTied(named, messages);

  ScopedDiagnosticHandler handler(
      context, [&](Diagnostic &message) { messages.push_back(std::move(message)); });
  for (const auto &input : model.graph().input())
    for (BlockArgument argument : main.getArguments()) {
      if (main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr) != input.name())
        continue;
      remarkOnNames(input, getSizes(argument));
    }
}

/// Returns true if the two sizes differ for some sampled values of the symbols.
static bool differ(const SymExpr &a, const SymExpr &b) {
  if (a == b)
    return false;
  std::set<std::string> symbols;
  a.collectSymbols(symbols);
  b.collectSymbols(symbols);
  for (int64_t sample = 0; sample < 4; ++sample) {
    std::map<std::string, int64_t> values;
    int64_t next = 3 + sample;
    for (const std::string &symbol : symbols)
      values[symbol] = next += 4;
    auto x = a.evaluate(values), y = b.evaluate(values);
    if (x && y && *x != *y)
      return true;
  }
  return false;
}

std::set<std::string> Importer::collectInputSymbols() {
  std::set<std::string> known;
  for (BlockArgument argument : main.getArguments())
    for (const SymExpr &size : getSizes(argument))
      size.collectSymbols(known);
  return known;
}

static bool isKnown(const SymExpr &e, const std::set<std::string> &known) {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return llvm::all_of(symbols, [&](const auto &s) { return known.count(s) > 0; });
}

void Importer::remarkOnNames(const ::onnx::ValueInfoProto &info, ArrayRef<SymExpr> sizes) {
  std::set<std::string> known = collectInputSymbols();
  for (auto [i, size] : llvm::enumerate(sizes)) {
    const auto &dim = info.type().tensor_type().shape().dim(i);
    std::optional<SymExpr> declared =
        dim.has_dim_value() ? std::nullopt : parseSize(dim.dim_param());
    if (!declared)
      continue;
    SymExpr named = resolve(*declared);
    // A symbol that occurs nowhere else does not relate sizes.
    if (isKnown(named, known) && differ(named, size))
      emitRemark(fileLoc()) << "size " << i << " of input '" << info.name() << "' is named `"
                            << dim.dim_param() << "`, but the graph takes `" << size.str()
                            << "`; names of sizes are hints";
  }
}

/// Checks the declared type of an output, and records a wrong shape for a warning. A file may omit
/// sizes, or name them freely; ONNX Runtime only warns of wrong numbers.
LogicalResult Importer::checkDeclaredShape(const ::onnx::ValueInfoProto &info,
                                           const Tensor &tensor) {
  if (!info.type().has_tensor_type())
    return success();
  const auto &type = info.type().tensor_type();
  Type element = getElementType(context, type.elem_type());
  if (type.elem_type() && element != tensor.element)
    return emitError(fileLoc()) << "output '" << info.name()
                                << "' is declared with elements of type "
                                << getDataTypeName(type.elem_type()) << ", but they are "
                                << tensor.element;
  if (!type.has_shape())
    return success();
  std::set<std::string> known = collectInputSymbols();
  Sizes declared;
  bool wrongName = false, wrongNumber = type.shape().dim_size() != tensor.rank();
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const auto &dim = type.shape().dim(i);
    SymExpr size = SymExpr::symbol("?");
    bool isNumber = dim.has_dim_value() && dim.dim_value() >= 0, isName = false;
    if (isNumber) {
      size = SymExpr(dim.dim_value());
    } else if (auto e = parseSize(dim.dim_param())) {
      size = resolve(*e);
      isName = isKnown(size, known);
    }
    declared.push_back(size);
    if (i >= tensor.rank() || !differ(size, tensor.shape[i]))
      continue;
    wrongNumber |= isNumber;
    wrongName |= isName;
  }
  if (wrongNumber || wrongName) {
    WrongShapes &wrong = wrongNumber ? wrongNumbers : wrongNames;
    if (++wrong.count == 1)
      wrong.first = "output '" + info.name() + "' is declared with shape " + str(declared) +
                    ", but it is " + str(tensor.shape);
  }
  return success();
}

void Importer::reportWrongShapes() {
  // Wrong numbers are sizes of the traced example, a mistake of the export that deserves a warning.
  // Wrong names are common, so they are only a remark.
  for (WrongShapes *wrong : {&wrongNumbers, &wrongNames}) {
    if (!wrong->count)
      continue;
    InFlightDiagnostic diag =
        wrong == &wrongNumbers ? emitWarning(fileLoc()) : emitRemark(fileLoc());
    diag << wrong->first;
    if (wrong->count > 1)
      diag << ", and " << wrong->count - 1 << " more outputs have other sizes than declared";
    diag << "; the program has the sizes that the graph computes";
  }
}
