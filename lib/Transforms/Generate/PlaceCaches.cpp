//===- PlaceCaches.cpp - Whole caches, at lengths that are data -----------===//
//
// Three things change, in this order: what is made of the number of past tokens is made for each
// sequence (RowPositions.h); new tokens are appended, not joined; and types have the capacity where
// they had past and new tokens. Nobody trusts it: tpc-verify-generation compares the two steps.
//
//===----------------------------------------------------------------------===//

#include "RowPositions.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PLACECACHES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct PlaceCaches : public mlir::tpc::impl::PlaceCachesBase<PlaceCaches> {
  bool isPast(const SymExpr &e) const {
    std::set<std::string> symbols;
    e.collectSymbols(symbols);
    return symbols.count(step.past) != 0;
  }
  bool isPast(Type type) const {
    return isa<RankedTensorType>(type) &&
           llvm::any_of(getSizes(type), [&](const SymExpr &s) { return isPast(s); });
  }

  /// The type with room for `capacity` in place of past tokens, or of past and new ones.
  RankedTensorType withCapacity(Type type, const SymExpr &held) const {
    SmallVector<SymExpr> sizes = getSizes(type);
    SymExpr past = SymExpr::symbol(placed.capacity) - (held - SymExpr::symbol(step.past));
    for (SymExpr &size : sizes)
      size = size.substitute({{step.past, past}});
    return makeTensorType(cast<RankedTensorType>(type).getElementType(), sizes);
  }

  /// Values that hold past and new tokens: keys and values, moved, up to attention.
  LogicalResult retype(Value value) {
    value.setType(
        withCapacity(value.getType(), SymExpr::symbol(step.past) + SymExpr::symbol(step.tokens)));
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user) ||
          (isa<AttentionOp>(user) && (use.getOperandNumber() == 1 || use.getOperandNumber() == 2)))
        continue;
      if (!isa<TransposeOp, ReshapeOp, ExpandOp>(user))
        return emitNodeError(user) << "takes a cache otherwise than as keys or values of attention";
      if (isPast(user->getResult(0).getType()) && failed(retype(user->getResult(0))))
        return failure();
    }
    return success();
  }

  LogicalResult append(BlockArgument cache, Value lengths) {
    auto concat = cache.hasOneUse() ? dyn_cast<ConcatOp>(*cache.user_begin()) : ConcatOp();
    if (!concat || concat.getOperands().size() != 2 || concat.getOperands()[0] != cache ||
        concat.getDim() != CacheOp::tokenDim)
      return (cache.use_empty() ? main.emitError() : emitNodeError(*cache.user_begin()))
             << "uses cache " << getCache(main.getArgAttrDict(cache.getArgNumber()))
             << " otherwise than joined with new tokens behind it";
    SymExpr tokens = getSizes(concat.getOperands()[1])[CacheOp::tokenDim];
    if (getSymbolName(tokens) != step.tokens)
      return emitNodeError(concat)
             << "joins a cache with " << tokens.str() << " tokens, not " << step.tokens;
    cache.setType(withCapacity(cache.getType(), SymExpr::symbol(step.past)));
    if (failed(retype(concat.getResult())))
      return failure();
    OpBuilder builder(concat);
    auto made = AppendOp::create(builder, concat.getLoc(), concat.getType(), cache,
                                 concat.getOperands()[1], lengths);
    concat.replaceAllUsesWith(made.getResult());
    concat.erase();
    return success();
  }

  /// Another input, in front of the caches.
  BlockArgument addInput(unsigned at, StringRef name, const SymExpr &batch) {
    Builder builder(&getContext());
    Type type = makeTensorType(builder.getI64Type(), {batch});
    auto attributes =
        builder.getDictionaryAttr({builder.getNamedAttr(kNameAttr, builder.getStringAttr(name))});
    (void)main.insertArgument(at, type, attributes, main.getLoc());
    return main.getArgument(at);
  }

  std::string makeName(StringRef name) {
    std::set<std::string> taken;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (auto other = main.getArgAttrOfType<StringAttr>(i, kNameAttr))
        taken.insert(other.str());
    return makeSymbol(taken, name);
  }

  /// What held for past and new tokens holds for those that a cache has room for.
  LogicalResult moveConstraints(ArrayRef<Attribute> more) {
    SmallVector<Attribute> all;
    SymExpr past = SymExpr::symbol(placed.capacity) - SymExpr::symbol(step.tokens);
    if (auto list = getOperation()->getAttrOfType<ArrayAttr>(kConstraintsAttr))
      for (auto entry : list.getAsRange<DictionaryAttr>()) {
        NamedAttrList fields(entry);
        SymExpr expr = entry.getAs<SymExprAttr>("expr").getExpr();
        // At least one token comes, behind whatever past.
        auto least = entry.getAs<IntegerAttr>("min");
        SymExpr tokens = SymExpr::symbol(step.tokens);
        auto lowest = expr.substitute({{step.tokens, tokens + SymExpr(1)}}).lowerBound();
        if (isPast(expr) && !entry.get("max") && least && lowest && *lowest >= least.getInt())
          continue;
        SymExpr moved = expr.substitute({{step.past, past}});
        std::set<std::string> symbols;
        moved.collectSymbols(symbols);
        // No past is longer than what there is room for: of `past` alone that is asked.
        SymExpr more = expr - SymExpr::symbol(step.past);
        if (symbols.count(step.tokens) && more.isConstant() &&
            (!least || least.getInt() <= *more.asConstant())) {
          moved = SymExpr::symbol(placed.capacity) + more;
          symbols.clear();
        }
        if (isPast(expr) && symbols.count(step.tokens))
          return main.emitError() << "needs " << expr.str() << " within bounds ("
                                  << entry.getAs<StringAttr>("why")
                                  << "): it is not known what that says of sequences with pasts of "
                                     "their own";
        fields.set("expr", SymExprAttr::get(&getContext(), moved));
        all.push_back(fields.getDictionary(&getContext()));
      }
    auto isSaid = [&](DictionaryAttr entry) {
      return llvm::any_of(all, [&](Attribute other) {
        auto known = cast<DictionaryAttr>(other);
        auto says = [&](StringRef bound, auto atLeastAsTight) {
          auto asked = entry.getAs<IntegerAttr>(bound), has = known.getAs<IntegerAttr>(bound);
          return !asked || (has && atLeastAsTight(has.getInt(), asked.getInt()));
        };
        return known.get("expr") == entry.get("expr") && says("max", std::less_equal<>()) &&
               says("min", std::greater_equal<>());
      });
    };
    for (Attribute entry : more)
      if (!isSaid(cast<DictionaryAttr>(entry)))
        all.push_back(entry);
    getOperation()->setAttr(kConstraintsAttr, ArrayAttr::get(&getContext(), all));
    return success();
  }

  LogicalResult checkNoPast() {
    WalkResult walk = main.walk([&](Operation *op) {
      bool found = llvm::any_of(op->getResultTypes(), [&](Type t) { return isPast(t); });
      for (NamedAttribute attribute : op->getAttrs())
        if (auto size = dyn_cast<SymExprAttr>(attribute.getValue()))
          found |= isPast(size.getExpr());
      if (!found)
        return WalkResult::advance();
      emitNodeError(op) << "depends on the number of past tokens in a way that is not known for "
                           "sequences with pasts of their own";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
    for (auto [i, type] : llvm::enumerate(main.getArgumentTypes()))
      if (isPast(type))
        return main.emitError() << "argument " << i << ", " << type << ", is of past tokens";
    return success();
  }

  LogicalResult run() {
    unsigned first = main.getNumArguments();
    SmallVector<unsigned> caches;
    SymExpr batch(1);
    for (unsigned i = main.getNumArguments(); i-- > 0;)
      if (FlatSymbolRefAttr name = getCache(main.getArgAttrDict(i))) {
        auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(main, name);
        placed.capacity = *getSymbolName(getSizes(cache.getType())[CacheOp::tokenDim]);
        batch = getSizes(cache.getType())[0];
        caches.push_back(i);
        first = i;
      }
    if (caches.empty())
      return main.emitError("has no caches to place");
    placed.lengths = makeName("lengths");
    placed.counts = makeName("counts");
    Value lengths = addInput(first, placed.lengths, batch);
    addInput(first + 1, placed.counts, batch);
    RowPositions positions(main, step, placed, lengths);
    if (failed(positions.run()))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    for (unsigned i : llvm::reverse(caches))
      if (failed(append(main.getArgument(i + 2), lengths)))
        return failure();
    main.setType(FunctionType::get(&getContext(), main.front().getArgumentTypes(),
                                   main.front().getTerminator()->getOperandTypes()));
    placed.attachTo(getOperation());
    if (failed(moveConstraints(positions.getConstraints())))
      return failure();
    return checkNoPast();
  }

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto symbols = StepSymbols::lookup(getOperation());
    if (!main || main.isExternal() || !symbols)
      return;
    step = *symbols;
    placed = PlacedStep{step.tokens, "", "", ""};
    if (failed(run()))
      signalPassFailure();
  }

  func::FuncOp main;
  StepSymbols step;
  PlacedStep placed;
};
} // namespace
