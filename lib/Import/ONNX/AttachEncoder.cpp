//===- AttachEncoder.cpp - Encoder and decoder as one program -------------===//

#include "AttachEncoder.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Dialect/SourceToken.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static constexpr llvm::StringLiteral kStates = "encoder_hidden_states", kPrefix = "encoder_",
                                     kEmbedded = "inputs_embeds";

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

/// Moves the encoder's weights that its program uses. Returns the new name of each.
static DenseMap<StringAttr, StringAttr> moveWeights(ModuleOp decoder, ModuleOp encoder) {
  auto getSource = [](ModuleOp module) {
    auto path = module->getAttrOfType<StringAttr>(kSourceAttr);
    return path ? path.getValue() : StringRef();
  };
  SymbolTable table(decoder);
  DenseSet<StringAttr> used;
  encoder.walk([&](ParameterOp op) { used.insert(op.getWeightAttr().getAttr()); });
  DenseMap<StringAttr, StringAttr> names;
  for (auto weight : llvm::make_early_inc_range(encoder.getOps<WeightOp>())) {
    if (!used.contains(weight.getSymNameAttr()))
      continue;
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

/// Type that an output must get, and its index.
struct Wanted {
  RankedTensorType type;
  unsigned output;
};

/// Chooses sizes so that outputs of the encoder have the wanted types. Returns the values of the
/// decoder's symbols and of the encoder's.
static std::optional<std::pair<Substitution, Substitution>>
unify(func::FuncOp decoder, func::FuncOp encoder, ArrayRef<Wanted> all) {
  std::set<std::string> taken = collectSymbols(decoder);
  Substitution ofDecoder, ofEncoder;
  SmallVector<SymExpr> wanted, given;
  for (auto [type, output] : all) {
    Type own = encoder.getResultTypes()[output];
    llvm::append_range(wanted, getSizes(type));
    llvm::append_range(given, getSizes(own));
    if (getElementTypeOrSelf(own) != type.getElementType() || wanted.size() != given.size())
      return std::nullopt;
  }
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

/// Adds the encoder's constraints, except those on symbols that occur only in ops that were not
/// inserted.
static void joinConstraints(ModuleOp decoder, ModuleOp encoder) {
  SmallVector<Attribute> all;
  if (auto list = decoder->getAttrOfType<ArrayAttr>(kConstraintsAttr))
    llvm::append_range(all, list);
  std::set<std::string> known = collectSymbols(decoder.lookupSymbol<func::FuncOp>("main"));
  if (auto list = encoder->getAttrOfType<ArrayAttr>(kConstraintsAttr))
    for (auto entry : list.getAsRange<DictionaryAttr>()) {
      std::set<std::string> symbols;
      entry.getAs<SymExprAttr>("expr").getExpr().collectSymbols(symbols);
      if (llvm::all_of(symbols, [&](const std::string &symbol) { return known.count(symbol); }))
        all.push_back(entry);
    }
  if (!all.empty())
    decoder->setAttr(kConstraintsAttr, ArrayAttr::get(decoder.getContext(), all));
}

/// Program of another file inside the decoder's.
struct Attached {
  SmallVector<Value> results;        ///< the wanted outputs
  SmallVector<BlockArgument> inputs; ///< the arguments of @main that are its inputs
};

/// Inserts the ops that compute the wanted outputs of `part` at the beginning of the decoder. Names
/// of its inputs get `prefix`. An input is shared if the decoder has one of this name and type that
/// is not in `replaced`. For errors: `flag` is the option that names the file; `user`, the reader
/// of the first output.
static FailureOr<Attached> insertPart(ModuleOp decoder, ModuleOp part, StringRef flag,
                                      StringRef prefix, ArrayRef<Wanted> wanted,
                                      ArrayRef<unsigned> replaced, const Twine &user) {
  auto main = decoder.lookupSymbol<func::FuncOp>("main");
  auto inner = part.lookupSymbol<func::FuncOp>("main");
  auto sizes = unify(main, inner, wanted);
  if (!sizes)
    return part.emitError() << flag << ": its output " << wanted[0].output << " is "
                            << inner.getResultTypes()[wanted[0].output] << ", but " << user
                            << " is " << wanted[0].type;
  substitute(decoder, sizes->first);
  substitute(part, sizes->second);
  Attached attached;
  for (const Wanted &one : wanted)
    attached.results.push_back(inner.front().getTerminator()->getOperand(one.output));
  inner.front().getTerminator()->setOperands({});
  bool isWhole = inner.getNumResults() == wanted.size();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(inner.front())))
    if (isOpTriviallyDead(&op) && !llvm::is_contained(attached.results, op.getResult(0)))
      op.erase();
  DenseMap<StringAttr, StringAttr> names = moveWeights(decoder, part);

  IRMapping mapping;
  for (BlockArgument argument : inner.getArguments()) {
    unsigned at = argument.getArgNumber();
    if (!isWhole && argument.use_empty())
      continue;
    NamedAttrList attributes(inner.getArgAttrDict(at));
    std::string name = getName(inner, at).str();
    if (!StringRef(name).starts_with(prefix))
      name = prefix.str() + name;
    std::optional<unsigned> same = findInput(main, name);
    if (!same || llvm::is_contained(replaced, *same) ||
        main.getArgumentTypes()[*same] != argument.getType()) {
      attributes.set(kNameAttr, StringAttr::get(main.getContext(), name));
      same = main.getNumArguments();
      (void)main.insertArgument(*same, argument.getType(),
                                attributes.getDictionary(main.getContext()), argument.getLoc());
    }
    attached.inputs.push_back(main.getArgument(*same));
    mapping.map(argument, attached.inputs.back());
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
  for (Operation &op : inner.front().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    if (auto parameter = dyn_cast<ParameterOp>(copy))
      parameter.setWeightAttr(
          FlatSymbolRefAttr::get(names.lookup(parameter.getWeightAttr().getAttr())));
  }
  joinConstraints(decoder, part);
  for (Value &result : attached.results)
    result = mapping.lookup(result);
  return attached;
}

/// Returns the inputs of the decoder for keys and values of cross-attention that the other file
/// returns, with the indices of its outputs: present.0.encoder.key becomes
/// past_key_values.0.encoder.key, and present_key_cross_0 past_key_cross_0.
static SmallVector<std::pair<unsigned, unsigned>> findCrossCaches(func::FuncOp main,
                                                                  func::FuncOp inner) {
  SmallVector<std::pair<unsigned, unsigned>> found;
  for (unsigned i = 0; i < inner.getNumResults(); ++i) {
    auto name = inner.getResultAttrOfType<StringAttr>(i, kNameAttr);
    StringRef rest = name ? name.getValue() : StringRef();
    if (!rest.consume_front("present") || (!rest.contains("encoder") && !rest.contains("cross")))
      continue;
    for (StringRef past : {"past_key_values", "past"})
      if (auto input = findInput(main, (past + rest).str()))
        found.emplace_back(*input, i);
  }
  return found;
}

/// Replaces inputs by outputs of the encoder: pairs of their indices.
static LogicalResult replaceInputs(ModuleOp decoder, ModuleOp encoder, StringRef flag,
                                   SmallVector<std::pair<unsigned, unsigned>> pairs) {
  auto main = decoder.lookupSymbol<func::FuncOp>("main");
  SmallVector<Wanted> wanted;
  SmallVector<unsigned> replaced;
  for (auto [input, output] : pairs) {
    wanted.push_back({cast<RankedTensorType>(main.getArgumentTypes()[input]), output});
    replaced.push_back(input);
  }
  FailureOr<Attached> attached =
      insertPart(decoder, encoder, flag, kPrefix, wanted, replaced,
                 "the decoder's input '" + Twine(getName(main, replaced[0])) + "'");
  if (failed(attached))
    return failure();
  for (auto [input, result] : llvm::zip(replaced, attached->results))
    main.getArgument(input).replaceAllUsesWith(result);
  BitVector erased(main.getNumArguments());
  for (unsigned input : replaced)
    erased.set(input);
  return main.eraseArguments(erased);
}

LogicalResult mlir::tpc::frontend::attachEncoder(ModuleOp decoder, ModuleOp encoder) {
  auto main = decoder.lookupSymbol<func::FuncOp>("main");
  auto inner = encoder.lookupSymbol<func::FuncOp>("main");
  if (inner.getNumResults() == 0)
    return encoder.emitError("--encoder: the encoder has no output");
  if (auto caches = findCrossCaches(main, inner); !caches.empty())
    return replaceInputs(decoder, encoder, "--encoder", caches);
  std::optional<unsigned> states = findInput(main, kStates);
  if (!states)
    return decoder.emitError() << "--encoder: the decoder has no input '" << kStates << "'"
                               << (findInput(main, kEmbedded)
                                       ? "; for images, name the file of its embedding with "
                                         "--embedding"
                                       : "");
  return replaceInputs(decoder, encoder, "--encoder", {{*states, 0}});
}

/// Returns a tensor of the type of `ids` whose elements are `number`.
static Value createIds(OpBuilder &builder, Value ids, int64_t number) {
  Type element = getElementTypeOrSelf(ids);
  auto scalar = RankedTensorType::get({}, element);
  auto contents = DenseElementsAttr::get(scalar, builder.getIntegerAttr(element, number));
  Value constant = ConstantOp::create(builder, ids.getLoc(), scalar, contents);
  return ExpandOp::create(builder, ids.getLoc(), ids.getType(), constant);
}

/// Returns the embedded tokens; for an id -1 - k, row k of the sequence's features instead.
static Value placeFeatures(OpBuilder &builder, Value ids, Value embedded, Value features) {
  Location loc = features.getLoc();
  SmallVector<SymExpr> tokens = getSizes(ids), sizes = getSizes(embedded);
  Type element = getElementTypeOrSelf(ids);
  Value first = SubOp::create(builder, loc, ids.getType(), createIds(builder, ids, -1), ids);
  Value row = MaxOp::create(builder, loc, ids.getType(), first, createIds(builder, ids, 0));
  SmallVector<SymExpr> tuples{tokens[0], tokens[1], SymExpr(1)};
  row = ReshapeOp::create(builder, loc, makeTensorType(element, tuples), row);
  Value taken = GatherNDOp::create(builder, loc, embedded.getType(), features, row, 1);
  Value isFeature = CmpOp::create(builder, loc, makeTensorType(builder.getI1Type(), tokens),
                                  Predicate::LT, ids, createIds(builder, ids, 0));
  isFeature =
      ReshapeOp::create(builder, loc, makeTensorType(builder.getI1Type(), tuples), isFeature);
  isFeature = ExpandOp::create(builder, loc, makeTensorType(builder.getI1Type(), sizes), isFeature);
  return SelectOp::create(builder, loc, embedded.getType(), isFeature, taken, embedded);
}

LogicalResult mlir::tpc::frontend::attachEmbedding(ModuleOp decoder, ModuleOp embedding,
                                                   ModuleOp encoder,
                                                   std::optional<int64_t> imageToken) {
  auto main = decoder.lookupSymbol<func::FuncOp>("main");
  std::optional<unsigned> embeds = findInput(main, kEmbedded);
  if (!embeds)
    return decoder.emitError() << "--embedding: the decoder has no input '" << kEmbedded << "'";
  auto input = cast<RankedTensorType>(main.getArgumentTypes()[*embeds]);
  if (embedding.lookupSymbol<func::FuncOp>("main").getNumResults() == 0)
    return embedding.emitError("--embedding: the file has no output");
  FailureOr<Attached> tokens =
      insertPart(decoder, embedding, "--embedding", "", {{input, 0}}, {*embeds},
                 "the decoder's input '" + Twine(kEmbedded) + "'");
  if (failed(tokens))
    return failure();
  Value ids = tokens->inputs.empty() ? Value() : tokens->inputs[0];
  SmallVector<SymExpr> sizes = getSizes(tokens->results[0]);
  if (tokens->inputs.size() != 1 || !isa<IntegerType>(getElementTypeOrSelf(ids)) ||
      sizes.size() != 3 || !llvm::equal(getSizes(ids), ArrayRef(sizes).drop_back()))
    return embedding.emitError() << "--embedding: expected one input, token ids [batch, tokens], "
                                    "and an output [batch, tokens, hidden]";
  Value embedded = tokens->results[0];
  if (encoder) {
    Type output = encoder.lookupSymbol<func::FuncOp>("main").getResultTypes().empty()
                      ? Type()
                      : encoder.lookupSymbol<func::FuncOp>("main").getResultTypes()[0];
    if (!output || !isa<RankedTensorType>(output) || getSizes(output).size() != 3)
      return encoder.emitError() << "--encoder: its first output must be features of images, "
                                    "[images, image tokens, hidden]";
    // The number of features is the encoder's own.
    SmallVector<SymExpr> wanted = sizes;
    wanted[1] = getSizes(output)[1];
    if (!wanted[1].isConstant())
      wanted[1] = SymExpr::symbol("image_tokens");
    Operation *last = embedded.getDefiningOp();
    FailureOr<Attached> images = insertPart(
        decoder, encoder, "--encoder", kPrefix,
        {{makeTensorType(getElementTypeOrSelf(embedded), wanted), 0}}, {}, "an embedded token");
    if (failed(images))
      return failure();
    OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
    // The embedding's table has no rows for negative ids.
    Value valid =
        MaxOp::create(builder, ids.getLoc(), ids.getType(), ids, createIds(builder, ids, 0));
    ids.replaceAllUsesExcept(valid, valid.getDefiningOp());
    builder.setInsertionPointAfter(last);
    embedded = placeFeatures(builder, ids, embedded, images->results[0]);
    if (imageToken)
      decoder->setAttr(kSourceTokenAttr, builder.getI64IntegerAttr(*imageToken));
  }
  main.getArgument(*embeds).replaceAllUsesWith(embedded);
  (void)main.eraseArgument(*embeds);
  return success();
}
