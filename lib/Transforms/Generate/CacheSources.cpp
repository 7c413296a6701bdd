//===- CacheSources.cpp - Caches of values computed from a source ---------===//
//
// Keys and values of cross-attention depend only on a source, such as the states of an encoder.
// The step that brings the source appends them to caches. Later steps bring no source tokens, so
// values computed from the source have size 0; these steps only read the caches.
//
// If all sources have n tokens, a sequence brings s sources of n tokens, where s is 0 or 1: the
// batch of all values that are computed from the source becomes batch * s.
//
//===----------------------------------------------------------------------===//

#include "../Model/Movement.h"
#include "Caches.h"
#include "FeatureLookups.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/SourceToken.h"
#include "tpc/Transforms/Generate/Passes.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_CACHESOURCES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SmallVector<GatherNDOp> mlir::tpc::findFeatureLookups(func::FuncOp main, StringRef tokens) {
  SmallVector<GatherNDOp> found;
  if (!main->getParentOp()->hasAttr(kSourceTokenAttr))
    return found;
  // Whether a value is computed from inputs other than tokens and caches.
  auto isOfSource = [&](Value value) {
    SmallVector<Value> open{value};
    DenseSet<Value> seen;
    bool hasInput = false;
    while (!open.empty()) {
      Value next = open.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(next)) {
        std::set<std::string> symbols;
        for (const SymExpr &size : getSizes(argument))
          size.collectSymbols(symbols);
        if (symbols.count(tokens.str()) || getCache(main.getArgAttrDict(argument.getArgNumber())))
          return false;
        hasInput = true;
      } else {
        llvm::append_range(open, next.getDefiningOp()->getOperands());
      }
    }
    return hasInput;
  };
  for (auto op : main.getOps<GatherNDOp>())
    if (SmallVector<SymExpr> indices = getSizes(op.getIndices());
        op.getBatchDims() == 1 && indices.size() == 3 && indices[2].isConstant(1) &&
        getSymbolName(indices[1]) == tokens.str() && getSizes(op.getData()).size() == 3 &&
        isOfSource(op.getData()))
      found.push_back(op);
  return found;
}

namespace {
struct CacheSources : public mlir::tpc::impl::CacheSourcesBase<CacheSources> {
  /// Returns true for attention of the step's tokens to keys that no cache contains.
  bool isCross(AttentionOp op) const {
    std::set<std::string> queries, keys;
    getSizes(op.getQ())[1].collectSymbols(queries);
    getSizes(op.getK())[1].collectSymbols(keys);
    return queries.count(step.tokens) && !keys.count(step.capacity) &&
           !(step.windowed && keys.count(step.windowed->capacity));
  }

  /// Checks the number of tokens of the source that an op reads.
  LogicalResult checkTokens(Operation *op, const SymExpr &keys) {
    std::optional<std::string> symbol = getSymbolName(keys);
    std::optional<int64_t> each = keys.asConstant();
    if (!symbol && !(each && *each > 0))
      return emitNodeError(op) << "attends to a source of " << keys.str()
                               << " tokens: the number must be a symbol or a constant. Export the "
                                  "model with dynamic axes";
    if (source.tokens.empty()) {
      source.each = each;
      source.tokens = each ? makeSymbol(collectSymbols(getOperation()), "sources") : *symbol;
      tokens = keys;
    }
    if (tokens != keys)
      return emitNodeError(op) << "attends to a source of " << keys.str()
                               << " tokens, other attention ops to one of " << tokens.str();
    return success();
  }

  LogicalResult check(AttentionOp op) {
    if (failed(checkTokens(op, getSizes(op.getK())[1])))
      return failure();
    if (op.getCausal() || op.getWindow() || op.getSlopes() || op.getMask() || op.getBias() ||
        op.getKeyMask())
      return emitNodeError(op)
             << "hides tokens of the source by a mask, a bias or causality, which "
                "generation does not support";
    if (getSizes(op.getK())[0] != getSizes(lengths)[0])
      return emitNodeError(op) << "attends to " << getSizes(op.getK())[0].str()
                               << " sources, not to one for each sequence";
    return success();
  }

  /// Returns keys or values of the sources that sequences bring in a step (possibly none). Clones
  /// all ops that compute `value`, and retypes inputs.
  FailureOr<Value> bring(Value value, Operation *user) {
    std::string batch = *getSymbolName(getSizes(lengths)[0]);
    std::map<std::string, SymExpr> values = {
        {batch, SymExpr::symbol(batch) * SymExpr::symbol(source.tokens)}};
    AttrTypeReplacer replacer;
    // Results are not visited again, because they contain the symbol as well.
    replacer.addReplacement([&](RankedTensorType type) {
      SmallVector<SymExpr> sizes = getSizes(type);
      for (SymExpr &size : sizes)
        size = size.substitute(values);
      return std::pair<Type, WalkResult>(makeTensorType(type.getElementType(), sizes),
                                         WalkResult::skip());
    });
    replacer.addReplacement([&](SymExprAttr attribute) {
      return std::pair<Attribute, WalkResult>(
          SymExprAttr::get(attribute.getContext(), attribute.getExpr().substitute(values)),
          WalkResult::skip());
    });
    SmallVector<Value> open{value};
    DenseSet<Operation *> cone;
    while (!open.empty()) {
      Value next = open.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(next)) {
        std::set<std::string> symbols;
        for (const SymExpr &size : getSizes(argument))
          size.collectSymbols(symbols);
        bool isInput = !brought.contains(argument);
        if (isInput && (symbols.count(step.tokens) || symbols.count(step.capacity)))
          return emitNodeError(user) << "has keys that depend on tokens of the step", failure();
        if (isInput && symbols.count(batch))
          argument.setType(replacer.replace(argument.getType()));
        brought.map(argument, argument);
      } else if (cone.insert(next.getDefiningOp()).second) {
        llvm::append_range(open, next.getDefiningOp()->getOperands());
      }
    }
    for (Operation &op : main.front()) {
      if (!cone.contains(&op) || brought.contains(op.getResult(0)))
        continue;
      OpBuilder builder(&op);
      Operation *made = builder.clone(op, brought);
      replacer.recursivelyReplaceElementsIn(made, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                            /*replaceTypes=*/true);
      brought.map(op.getResults(), made->getResults());
    }
    SmallVector<SymExpr> sizes = getSizes(value);
    sizes[1] = source.getTokens();
    OpBuilder builder(&getContext());
    Value made = brought.lookup(value);
    builder.setInsertionPointAfterValue(made);
    return createReshape(builder, value.getLoc(), made, sizes);
  }

  /// Appends keys or values [batch, tokens, heads, size] of the source to a cache. Returns the
  /// cache's contents, [batch, capacity, heads, size].
  Value append(Value fresh, StringRef kind) {
    Value &known = appended[fresh];
    if (known)
      return known;
    Location loc = fresh.getLoc();
    SmallVector<SymExpr> sizes = getSizes(fresh);
    auto type = makeTensorType(elementTypeOf(fresh),
                               {sizes[0], sizes[2], SymExpr::symbol(source.capacity), sizes[3]});
    CachePort port = addCache(*table, main, ("source_" + kind + Twine(layer)).str(), type, type);
    OpBuilder builder(fresh.getContext());
    builder.setInsertionPointAfterValue(fresh);
    Value headsFirst = createTranspose(builder, loc, fresh, {0, 2, 1, 3});
    Value all = AppendOp::create(builder, loc, type, port.argument, headsFirst, lengths);
    addCacheResult(main, all, port.attributes);
    return appended[fresh] = createTranspose(builder, loc, all, {0, 2, 1, 3});
  }

  /// Replaces attention by attention to the caches. The tokens of a query head become query heads
  /// of one query, whose position is that of the last source token: it sees all source tokens, and
  /// entries of the caches that were never written are not read.
  void readCaches(AttentionOp op, Value keys, Value values) {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    SmallVector<SymExpr> q = getSizes(op.getQ()); // batch, tokens, heads, size
    SymExpr size = getSizes(op.getV())[3];
    Value byHeads = createTranspose(builder, loc, op.getQ(), {0, 2, 1, 3});
    Value query = createReshape(builder, loc, byHeads, {q[0], SymExpr(1), q[2] * q[1], q[3]});
    auto made = cast<AttentionOp>(builder.clone(*op));
    made.getQMutable().assign(query);
    made.getKMutable().assign(keys);
    made.getVMutable().assign(values);
    made.getLengthsMutable().assign(lengths);
    made.setCausal(true);
    made.setCausalOffsetAttr(SymExprAttr::get(&getContext(), source.getTokens() - SymExpr(1)));
    made.getResult().setType(
        makeTensorType(elementTypeOf(op.getResult()), {q[0], SymExpr(1), q[2] * q[1], size}));
    Value result = createReshape(builder, loc, made.getResult(), {q[0], q[2], q[1], size});
    op.replaceAllUsesWith(createTranspose(builder, loc, result, {0, 2, 1, 3}));
    op.erase();
  }

  /// Replaces a lookup of features [batch, tokens, hidden] by a lookup in a cache of them. A
  /// sequence brings all its features to an empty cache, so that row k of the cache is feature k.
  LogicalResult cacheFeatures(GatherNDOp op) {
    FailureOr<Value> features = op.getData();
    if (source.each && failed(features = bring(*features, op)))
      return failure();
    OpBuilder builder(op);
    builder.setInsertionPointAfterValue(*features);
    SmallVector<SymExpr> sizes = getSizes(*features), taken = getSizes(op.getResult());
    Value rows =
        createReshape(builder, op.getLoc(), *features, {sizes[0], sizes[1], SymExpr(1), sizes[2]});
    Value all = append(rows, "f");
    builder.setInsertionPoint(op);
    Value result = GatherNDOp::create(
        builder, op.getLoc(),
        makeTensorType(elementTypeOf(op.getResult()), {taken[0], taken[1], SymExpr(1), taken[2]}),
        all, op.getIndices(), 1);
    op.replaceAllUsesWith(createReshape(builder, op.getLoc(), result, taken));
    op.erase();
    return success();
  }

  /// Removes the constraint that there is a source token: later steps bring none.
  void dropMinimum() {
    auto list = getOperation()->getAttrOfType<ArrayAttr>(kConstraintsAttr);
    if (!list)
      return;
    SmallVector<Attribute> kept;
    for (auto entry : list.getAsRange<DictionaryAttr>()) {
      auto minimum = entry.getAs<IntegerAttr>("min");
      if (entry.get("max") || !minimum || minimum.getInt() != 1 ||
          entry.getAs<SymExprAttr>("expr").getExpr() != SymExpr::symbol(source.tokens))
        kept.push_back(entry);
    }
    getOperation()->setAttr(kConstraintsAttr, ArrayAttr::get(&getContext(), kept));
  }

  LogicalResult run() {
    SmallVector<AttentionOp> cross;
    for (auto op : main.getOps<AttentionOp>())
      if (isCross(op))
        cross.push_back(op);
    SmallVector<GatherNDOp> lookups = findFeatureLookups(main, step.tokens);
    if (cross.empty() && lookups.empty())
      return success();
    unsigned at = main.getNumArguments();
    while (at > 0 && getCache(main.getArgAttrDict(at - 1)))
      --at;
    std::set<std::string> names;
    Value other;
    for (BlockArgument argument : main.getArguments())
      if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr)) {
        names.insert(name.str());
        if (name.getValue() == step.lengths)
          other = argument;
      }
    source.lengths = makeSymbol(names, "source_lengths");
    Builder builder(&getContext());
    (void)main.insertArgument(at, other.getType(),
                              builder.getDictionaryAttr(builder.getNamedAttr(
                                  kNameAttr, builder.getStringAttr(source.lengths))),
                              main.getLoc());
    lengths = main.getArgument(at);
    for (AttentionOp op : cross)
      if (failed(check(op)))
        return failure();
    for (GatherNDOp op : lookups)
      if (failed(checkTokens(op, getSizes(op.getData())[1])))
        return failure();
    source.capacity = makeSymbol(collectSymbols(getOperation()), "source_capacity");
    SmallVector<std::pair<Value, Value>> fresh;
    for (AttentionOp op : cross) {
      FailureOr<Value> keys = op.getK(), values = op.getV();
      if (source.each && (failed(keys = bring(*keys, op)) || failed(values = bring(*values, op))))
        return failure();
      fresh.emplace_back(*keys, *values);
    }
    for (auto [op, both] : llvm::zip(cross, fresh)) {
      readCaches(op, append(both.first, "k"), append(both.second, "v"));
      ++layer;
    }
    for (GatherNDOp op : lookups) {
      if (failed(cacheFeatures(op)))
        return failure();
      ++layer;
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    main.setType(FunctionType::get(&getContext(), main.front().getArgumentTypes(),
                                   main.front().getTerminator()->getOperandTypes()));
    source.attachTo(getOperation());
    dropMinimum();
    return success();
  }

  void runOnOperation() override {
    appended.clear();
    brought.clear();
    source = {};
    layer = 0;
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto preallocated = PreallocatedStep::lookup(getOperation());
    if (!main || main.isExternal() || !preallocated || SourceCaches::lookup(getOperation()))
      return;
    step = *preallocated;
    table.emplace(getOperation());
    if (failed(run()))
      signalPassFailure();
  }

  func::FuncOp main;
  PreallocatedStep step;
  SourceCaches source;
  SymExpr tokens;    // number of tokens of a source
  IRMapping brought; // from values of one source per sequence to values of the brought sources
  std::optional<SymbolTable> table;
  Value lengths; // numbers of source tokens in the caches
  DenseMap<Value, Value> appended;
  unsigned layer = 0;
};
} // namespace
