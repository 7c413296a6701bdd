//===- PreallocateCaches.cpp - Step on preallocated caches ----------------===//
//
// The pass makes three changes, in this order. Values computed from the number of past tokens
// become values per sequence (RowPositions.h). New tokens are appended instead of concatenated.
// Types get the capacity in place of past and new tokens. tpc-verify-generation checks the result:
// it compares the two steps.
//
//===----------------------------------------------------------------------===//

#include "RowPositions.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PREALLOCATECACHES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct PreallocateCaches : public mlir::tpc::impl::PreallocateCachesBase<PreallocateCaches> {
  bool isPast(const SymExpr &e) const {
    std::set<std::string> symbols;
    e.collectSymbols(symbols);
    return symbols.count(step.past) != 0;
  }
  bool isPast(Type type) const {
    return isa<RankedTensorType>(type) &&
           llvm::any_of(getSizes(type), [&](const SymExpr &s) { return isPast(s); });
  }

  /// Returns the type with the capacity in place of `filled`, the number of past tokens or of past
  /// and new ones.
  RankedTensorType withCapacity(Type type, const SymExpr &filled) const {
    SmallVector<SymExpr> sizes = getSizes(type);
    SymExpr past = SymExpr::symbol(preallocated.capacity) - (filled - SymExpr::symbol(step.past));
    for (SymExpr &size : sizes)
      size = size.substitute({{step.past, past}});
    return makeTensorType(cast<RankedTensorType>(type).getElementType(), sizes);
  }

  /// Retypes values that are computed from the positions of past and new tokens, such as a bias of
  /// attention.
  void retypePositions(Value value) {
    if (!isPast(value.getType()))
      return;
    value.setType(
        withCapacity(value.getType(), SymExpr::symbol(step.past) + SymExpr::symbol(step.tokens)));
    for (Operation *user : value.getUsers())
      if (!isa<AttentionOp>(user))
        for (Value result : user->getResults())
          retypePositions(result);
  }

  /// Retypes values with past and new tokens: keys and values, through view ops and casts, up to
  /// attention.
  LogicalResult retype(Value value) {
    value.setType(
        withCapacity(value.getType(), SymExpr::symbol(step.past) + SymExpr::symbol(step.tokens)));
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user) ||
          (isa<AttentionOp>(user) && (use.getOperandNumber() == 1 || use.getOperandNumber() == 2)))
        continue;
      if (!isa<TransposeOp, ReshapeOp, ExpandOp, CastOp>(user))
        return emitNodeError(user)
               << "uses a cache in another way than as keys or values of attention";
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
             << " in another way than to append new tokens to it";
    SymExpr tokens = getSizes(concat.getOperands()[1])[CacheOp::tokenDim];
    if (getSymbolName(tokens) != step.tokens)
      return emitNodeError(concat)
             << "appends " << tokens.str() << " tokens to a cache, not " << step.tokens;
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

  /// Adds an input in front of the caches.
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

  /// Rewrites constraints on past and new tokens as constraints on the capacity. Adds those of
  /// position tables that the existing constraints do not imply.
  LogicalResult moveConstraints(ArrayRef<Attribute> ofTables) {
    SmallVector<Attribute> all;
    SymExpr past = SymExpr::symbol(preallocated.capacity) - SymExpr::symbol(step.tokens);
    if (auto list = getOperation()->getAttrOfType<ArrayAttr>(kConstraintsAttr))
      for (auto entry : list.getAsRange<DictionaryAttr>()) {
        NamedAttrList fields(entry);
        SymExpr expr = entry.getAs<SymExprAttr>("expr").getExpr();
        // Drops a lower bound that holds for every past, because a step has at least one token.
        auto lower = entry.getAs<IntegerAttr>("min");
        SymExpr tokens = SymExpr::symbol(step.tokens);
        auto lowerBound = expr.substitute({{step.tokens, tokens + SymExpr(1)}}).lowerBound();
        if (isPast(expr) && !entry.get("max") && lower && lowerBound &&
            *lowerBound >= lower.getInt())
          continue;
        SymExpr moved = expr.substitute({{step.past, past}});
        std::set<std::string> symbols;
        moved.collectSymbols(symbols);
        // A bound on `past` alone bounds the capacity, because no past is longer than the capacity.
        SymExpr offset = expr - SymExpr::symbol(step.past);
        if (symbols.count(step.tokens) && offset.isConstant() &&
            (!lower || lower.getInt() <= *offset.asConstant())) {
          moved = SymExpr::symbol(preallocated.capacity) + offset;
          symbols.clear();
        }
        if (isPast(expr) && symbols.count(step.tokens))
          return main.emitError() << "needs " << expr.str() << " within bounds ("
                                  << entry.getAs<StringAttr>("why")
                                  << "), which is not supported for sequences with different past "
                                     "lengths";
        fields.set("expr", SymExprAttr::get(&getContext(), moved));
        all.push_back(fields.getDictionary(&getContext()));
      }
    auto isImplied = [&](DictionaryAttr entry) {
      return llvm::any_of(all, [&](Attribute other) {
        auto known = cast<DictionaryAttr>(other);
        auto isTight = [&](StringRef bound, auto atLeastAsTight) {
          auto wanted = entry.getAs<IntegerAttr>(bound), has = known.getAs<IntegerAttr>(bound);
          return !wanted || (has && atLeastAsTight(has.getInt(), wanted.getInt()));
        };
        return known.get("expr") == entry.get("expr") && isTight("max", std::less_equal<>()) &&
               isTight("min", std::greater_equal<>());
      });
    };
    for (Attribute entry : ofTables)
      if (!isImplied(cast<DictionaryAttr>(entry)))
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
      emitNodeError(op) << "depends on the number of past tokens in a way that is not supported "
                           "for sequences with different past lengths";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
    for (auto [i, type] : llvm::enumerate(main.getArgumentTypes()))
      if (isPast(type))
        return main.emitError() << "argument " << i << ", " << type
                                << ", has past tokens in its type";
    return success();
  }

  LogicalResult run() {
    unsigned first = main.getNumArguments();
    SmallVector<unsigned> caches;
    SymExpr batch(1);
    for (unsigned i = main.getNumArguments(); i-- > 0;)
      if (FlatSymbolRefAttr name = getCache(main.getArgAttrDict(i))) {
        auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(main, name);
        preallocated.capacity = *getSymbolName(getSizes(cache.getType())[CacheOp::tokenDim]);
        batch = getSizes(cache.getType())[0];
        caches.push_back(i);
        first = i;
      }
    if (caches.empty())
      return main.emitError("has no caches to preallocate");
    preallocated.lengths = makeName("lengths");
    preallocated.counts = makeName("counts");
    Value lengths = addInput(first, preallocated.lengths, batch);
    addInput(first + 1, preallocated.counts, batch);
    for (auto op : main.getOps<IotaOp>())
      retypePositions(op.getResult());
    RowPositions positions(main, step, preallocated, lengths);
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
    preallocated.attachTo(getOperation());
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
    preallocated = PreallocatedStep{step.tokens, "", "", ""};
    if (failed(run()))
      signalPassFailure();
  }

  func::FuncOp main;
  StepSymbols step;
  PreallocatedStep preallocated;
};
} // namespace
