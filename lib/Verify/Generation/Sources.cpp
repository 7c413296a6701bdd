//===- Sources.cpp - Proof of source caches -------------------------------===//

#include "Sources.h"

#include "EmptyCaches.h"
#include "FlatProgram.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
class Sources {
public:
  Sources(func::FuncOp main, const SourceCaches &source)
      : main(main), source(source), tokens(source.getTokens()),
        capacity(SymExpr::symbol(source.capacity)) {}

  LogicalResult prove() {
    for (BlockArgument argument : main.getArguments())
      if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
          name && name.getValue() == source.lengths)
        lengths = argument;
    if (!lengths)
      return main.emitError() << "has no input '" << source.lengths
                              << "', the number of source tokens of each sequence";
    for (BlockArgument argument : main.getArguments())
      if (mentions(argument.getType(), source.capacity) && failed(checkCache(argument)))
        return failure();
    if (failed(checkFlow()) || failed(checkCapacity()))
      return failure();
    for (OpOperand &use : lengths.getUses())
      if (!isAppend(use) && !isReader(use.getOwner()))
        return fail(use.getOwner()) << "uses the number of source tokens in caches in another way "
                                       "than to append to them or to read them";
    return success();
  }

  /// Replaces the contents of caches by what the step appends.
  void drop() {
    for (AttentionOp op : readers) {
      op.getLengthsMutable().clear();
      op.setCausal(false);
      op.setCausalOffsetAttr(SymExprAttr::get(op.getContext(), SymExpr(0)));
    }
    for (auto [append, moved] : contents) {
      OpBuilder builder(append);
      for (TransposeOp transpose : moved) {
        Value fresh = TransposeOp::create(
            builder, transpose.getLoc(),
            makeTensorType(elementTypeOf(append.getFresh()), swapped(getSizes(append.getFresh()))),
            append.getFresh(), transpose.getPermutation());
        transpose.getResult().replaceAllUsesWith(fresh);
        transpose.erase();
      }
    }
    Operation *end = main.front().getTerminator();
    for (unsigned i = main.getNumResults(); i-- > 0;)
      if (mentions(end->getOperand(i).getType(), source.capacity)) {
        end->eraseOperand(i);
        (void)main.eraseResult(i);
      }
    SmallVector<CacheOp> caches;
    for (auto [append, moved] : contents)
      append->erase();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    for (unsigned i = main.getNumArguments(); i-- > 0;) {
      if (main.getArgument(i) != lengths && !mentions(main.getArgumentTypes()[i], source.capacity))
        continue;
      if (FlatSymbolRefAttr cache = getCache(main.getArgAttrDict(i)))
        caches.push_back(SymbolTable::lookupNearestSymbolFrom<CacheOp>(main, cache));
      (void)main.eraseArgument(i);
    }
    for (CacheOp cache : caches)
      if (cache)
        cache.erase();
    main.setType(FunctionType::get(main.getContext(), main.front().getArgumentTypes(),
                                   end->getOperandTypes()));
  }

private:
  static InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
  }
  static bool mentions(const SymExpr &e, const std::string &symbol) {
    std::set<std::string> symbols;
    e.collectSymbols(symbols);
    return symbols.count(symbol) != 0;
  }
  static bool mentions(Type type, const std::string &symbol) {
    return isa<RankedTensorType>(type) && llvm::any_of(getSizes(type), [&](const SymExpr &size) {
             return mentions(size, symbol);
           });
  }
  static bool mentionsInAttributes(Operation *op, const std::string &symbol) {
    return llvm::any_of(op->getAttrs(), [&](NamedAttribute attribute) {
      auto size = dyn_cast<SymExprAttr>(attribute.getValue());
      return size && mentions(size.getExpr(), symbol);
    });
  }
  static SmallVector<SymExpr> swapped(SmallVector<SymExpr> sizes) {
    std::swap(sizes[1], sizes[2]);
    return sizes;
  }
  bool isAppend(OpOperand &use) const {
    auto append = dyn_cast<AppendOp>(use.getOwner());
    return append && &use == &append.getLengthsMutable() && contents.count(append);
  }

  bool isReader(Operation *op) const {
    auto attention = dyn_cast<AttentionOp>(op);
    return attention && readers.contains(attention);
  }

  /// A cache is appended to once, at its lengths, and then returned or read by cross-attention.
  LogicalResult checkCache(BlockArgument cache) {
    FlatSymbolRefAttr name = getCache(main.getArgAttrDict(cache.getArgNumber()));
    auto append = cache.hasOneUse() ? dyn_cast<AppendOp>(*cache.user_begin()) : AppendOp();
    if (!name || !append || append.getCache() != cache || append.getLengths() != lengths ||
        getSizes(cache)[CacheOp::tokenDim] != capacity ||
        getSizes(append.getFresh())[CacheOp::tokenDim] != tokens)
      return main.emitError() << "argument " << cache.getArgNumber()
                              << " has the capacity of source caches, but the source tokens of the "
                                 "step are not appended to it at their lengths";
    SmallVector<TransposeOp> &moved = contents[append];
    for (OpOperand &use : append.getResult().getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        if (getCache(main.getResultAttrDict(use.getOperandNumber())) != name)
          return fail(append) << "is the contents of cache " << name
                              << ", but is returned as another output";
        continue;
      }
      auto transpose = dyn_cast<TransposeOp>(user);
      if (!transpose || !llvm::equal(transpose.getPermutation(), ArrayRef<int64_t>{0, 2, 1, 3}))
        return fail(user) << "reads source cache " << name << " other than as keys or values";
      moved.push_back(transpose);
      for (OpOperand &read : transpose.getResult().getUses()) {
        // Row k of the cache is source token k, because a sequence brings its whole source to an
        // empty cache.
        if (auto lookup = dyn_cast<GatherNDOp>(read.getOwner());
            lookup && read.getOperandNumber() == 0 && lookup.getBatchDims() == 1 &&
            getSizes(lookup.getIndices()).back().isConstant(1))
          continue;
        auto attention = dyn_cast<AttentionOp>(read.getOwner());
        if (!attention || (read.getOperandNumber() != 1 && read.getOperandNumber() != 2))
          return fail(read.getOwner())
                 << "reads source cache " << name << " other than as keys or values";
        if (failed(checkReader(attention)))
          return failure();
      }
    }
    return success();
  }

  /// The only query is at position `lengths` + tokens - 1, so it sees exactly the source tokens in
  /// the caches and those of the step.
  LogicalResult checkReader(AttentionOp op) {
    if (op.getWindow() || op.getSlopes() || op.getMask() || op.getBias() || op.getKeyMask())
      return fail(op) << "reads a source cache, but hides or weights tokens by their positions";
    if (!op.getCausal() || op.getLengths() != lengths || op.getCausalOffset() != tokens - 1 ||
        !getSizes(op.getQ())[1].isConstant(1))
      return fail(op) << "reads a source cache, but does not see exactly the tokens before '"
                      << source.lengths << "' + " << source.tokens;
    for (Value operand : {op.getK(), op.getV()})
      if (getSizes(operand)[1] != capacity)
        return fail(op) << "has keys of a source cache and values of another, or the reverse";
    readers.insert(op);
    return success();
  }

  /// Checks that values computed from the source end as tokens that are appended to source caches.
  LogicalResult checkFlow() {
    DenseSet<Value> sourced;
    for (BlockArgument argument : main.getArguments())
      if (mentions(argument.getType(), source.tokens))
        sourced.insert(argument);
    for (Operation &op : main.front()) {
      // The query of a reader is at the last source token, wherever the source was appended.
      bool isSourced = !isReader(&op) && mentionsInAttributes(&op, source.tokens);
      for (OpOperand &operand : op.getOpOperands()) {
        if (!sourced.contains(operand.get()))
          continue;
        auto append = dyn_cast<AppendOp>(op);
        if (append && contents.count(append) && &operand == &append.getFreshMutable())
          continue;
        if (isa<func::ReturnOp>(op))
          return main.emitError() << "result " << operand.getOperandNumber()
                                  << " is computed from the source, of which later steps have "
                                     "nothing";
        isSourced = true;
      }
      for (Value result : op.getResults())
        if (isSourced || mentions(result.getType(), source.tokens))
          sourced.insert(result);
    }
    return success();
  }

  /// Checks that only the caches depend on the capacity.
  LogicalResult checkCapacity() {
    DenseSet<Operation *> known;
    for (auto &[append, moved] : contents) {
      known.insert(append);
      known.insert_range(moved);
    }
    for (Operation &op : main.front().without_terminator())
      if (!known.contains(&op) && (mentionsInAttributes(&op, source.capacity) ||
                                   llvm::any_of(op.getResultTypes(), [&](Type type) {
                                     return mentions(type, source.capacity);
                                   })))
        return fail(&op) << "depends on the capacity of source caches";
    return success();
  }

  func::FuncOp main;
  const SourceCaches &source;
  SymExpr tokens, capacity;
  BlockArgument lengths;
  llvm::MapVector<AppendOp, SmallVector<TransposeOp>>
      contents; // with the transposes that read them
  SetVector<AttentionOp> readers;
};
} // namespace

LogicalResult mlir::tpc::dropSourceCaches(ModuleOp step, const SourceCaches &source) {
  Sources sources(generation::getMain(step), source);
  if (failed(sources.prove()))
    return failure();
  sources.drop();
  // Each sequence brings its source.
  if (source.each)
    generation::replaceSymbol(generation::getMain(step), source.tokens, 1);
  step->removeAttr(kSourceCachesAttr);
  return success();
}
