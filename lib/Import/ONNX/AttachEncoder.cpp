//===- AttachEncoder.cpp - Encoder and decoder as one program -------------===//

#include "AttachEncoder.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static constexpr llvm::StringLiteral kStates = "encoder_hidden_states", kPrefix = "encoder_";

using Substitution = std::map<std::string, SymExpr>;

static void substitute(ModuleOp module, const Substitution &values) {
  if (values.empty())
    return;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) -> Type {
    SmallVector<SymExpr> sizes = getSizes(type);
    for (SymExpr &size : sizes)
      size = size.substitute(values);
    return makeTensorType(type.getElementType(), sizes);
  });
  replacer.addReplacement([&](SymExprAttr attribute) -> Attribute {
    return SymExprAttr::get(attribute.getContext(), attribute.getExpr().substitute(values));
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

static std::set<std::string> collectSymbols(func::FuncOp main) {
  std::set<std::string> symbols;
  auto add = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (const SymExpr &size : getSizes(type))
        size.collectSymbols(symbols);
  };
  llvm::for_each(main.getArgumentTypes(), add);
  main.walk([&](Operation *op) { llvm::for_each(op->getResultTypes(), add); });
  return symbols;
}

static StringRef getName(func::FuncOp main, unsigned argument) {
  auto name = main.getArgAttrOfType<StringAttr>(argument, kNameAttr);
  return name ? name.getValue() : StringRef();
}

static std::optional<unsigned> findInput(func::FuncOp main, StringRef name) {
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (getName(main, i) == name)
      return i;
  return std::nullopt;
}

/// Makes the file of a weight independent of the encoder's folder.
static std::string getFile(WeightOp weight, StringRef encoder, StringRef decoder) {
  StringRef file = weight.getFile(), folder = llvm::sys::path::parent_path(encoder);
  if (llvm::sys::path::is_absolute(file) || folder == llvm::sys::path::parent_path(decoder))
    return file.str();
  SmallString<256> path(folder);
  llvm::sys::path::append(path, file);
  return path.str().str();
}

/// Moves the encoder's weights. Returns the new name of each.
static DenseMap<StringAttr, StringAttr> moveWeights(ModuleOp decoder, ModuleOp encoder) {
  auto getSource = [](ModuleOp module) {
    auto path = module->getAttrOfType<StringAttr>(kSourceAttr);
    return path ? path.getValue() : StringRef();
  };
  SymbolTable table(decoder);
  DenseMap<StringAttr, StringAttr> names;
  for (auto weight : llvm::make_early_inc_range(encoder.getOps<WeightOp>())) {
    weight.setFile(getFile(weight, getSource(encoder), getSource(decoder)));
    StringAttr old = weight.getSymNameAttr();
    auto same = table.lookup<WeightOp>(old);
    if (same && same->getAttrDictionary() == weight->getAttrDictionary()) {
      names[old] = old;
      continue;
    }
    weight->remove();
    if (same)
      weight.setSymName((kPrefix + old.getValue()).str());
    names[old] = table.insert(weight, decoder.getBody()->begin());
  }
  return names;
}

/// Chooses sizes so that the encoder's output has the type of the decoder's input. Returns the
/// values of the decoder's symbols and of the encoder's.
static std::optional<std::pair<Substitution, Substitution>>
unify(func::FuncOp decoder, func::FuncOp encoder, Type input, Type output) {
  std::set<std::string> taken = collectSymbols(decoder);
  Substitution ofDecoder, ofEncoder;
  SmallVector<SymExpr> wanted = getSizes(input), given = getSizes(output);
  if (wanted.size() != given.size())
    return std::nullopt;
  for (auto [want, have] : llvm::zip(wanted, given)) {
    auto symbol = getSymbolName(have), other = getSymbolName(want);
    if (symbol && !ofEncoder.count(*symbol))
      ofEncoder[*symbol] = want;
    else if (symbol || other || want != have)
      if (!other)
        return std::nullopt;
  }
  for (const std::string &symbol : collectSymbols(encoder)) {
    std::string name = symbol;
    for (unsigned i = 0; taken.count(name) && !ofEncoder.count(symbol); ++i)
      name = kPrefix.str() + symbol + (i ? std::to_string(i) : "");
    if (name != symbol)
      ofEncoder[symbol] = SymExpr::symbol(name);
  }
  // A size that the encoder computes is the decoder's symbol.
  for (auto [want, have] : llvm::zip(wanted, given))
    if (auto symbol = getSymbolName(want); symbol && have.substitute(ofEncoder) != want)
      ofDecoder[*symbol] = have.substitute(ofEncoder);
  return std::pair(ofDecoder, ofEncoder);
}

static void joinConstraints(ModuleOp decoder, ModuleOp encoder) {
  SmallVector<Attribute> all;
  for (ModuleOp module : {decoder, encoder})
    if (auto list = module->getAttrOfType<ArrayAttr>(kConstraintsAttr))
      llvm::append_range(all, list);
  if (!all.empty())
    decoder->setAttr(kConstraintsAttr, ArrayAttr::get(decoder.getContext(), all));
}

LogicalResult mlir::tpc::frontend::attachEncoder(ModuleOp decoder, ModuleOp encoder) {
  auto main = decoder.lookupSymbol<func::FuncOp>("main");
  auto inner = encoder.lookupSymbol<func::FuncOp>("main");
  std::optional<unsigned> states = findInput(main, kStates);
  if (!states)
    return decoder.emitError() << "--encoder: the decoder has no input '" << kStates << "'";
  if (inner.getNumResults() == 0)
    return encoder.emitError("--encoder: the encoder has no output");
  Type input = main.getArgumentTypes()[*states], output = inner.getResultTypes()[0];
  auto sizes = unify(main, inner, input, output);
  if (!sizes || getElementTypeOrSelf(input) != getElementTypeOrSelf(output))
    return encoder.emitError() << "--encoder: its first output is " << output
                               << ", but the decoder's input '" << kStates << "' is " << input;
  substitute(decoder, sizes->first);
  substitute(encoder, sizes->second);
  DenseMap<StringAttr, StringAttr> names = moveWeights(decoder, encoder);

  IRMapping mapping;
  for (BlockArgument argument : inner.getArguments()) {
    unsigned at = argument.getArgNumber();
    NamedAttrList attributes(inner.getArgAttrDict(at));
    std::string name = getName(inner, at).str();
    if (!StringRef(name).starts_with(kPrefix))
      name = kPrefix.str() + name;
    if (auto same = findInput(main, name);
        same && same != states && main.getArgumentTypes()[*same] == argument.getType()) {
      mapping.map(argument, main.getArgument(*same));
      continue;
    }
    attributes.set(kNameAttr, StringAttr::get(main.getContext(), name));
    unsigned last = main.getNumArguments();
    (void)main.insertArgument(last, argument.getType(), attributes.getDictionary(main.getContext()),
                              argument.getLoc());
    mapping.map(argument, main.getArgument(last));
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
  for (Operation &op : inner.front().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    if (auto parameter = dyn_cast<ParameterOp>(copy))
      parameter.setWeightAttr(
          FlatSymbolRefAttr::get(names.lookup(parameter.getWeightAttr().getAttr())));
  }
  main.getArgument(*states).replaceAllUsesWith(
      mapping.lookup(inner.front().getTerminator()->getOperand(0)));
  (void)main.eraseArgument(*states);
  joinConstraints(decoder, encoder);
  return success();
}
