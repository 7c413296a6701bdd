//===- KeepLastToken.cpp - Logits of each sequence's last token -----------===//
//
// Restricts values that only outputs use to the last token. Traversing from an output to its
// producers, each op that computes tokens independently is cloned for one token per sequence:
// [batch * sequence, 768] becomes [batch, 768]. The traversal ends at values that are needed for
// all tokens, because cached keys or values depend on them. The last token of these values is
// looked up.
//
//   logits <- head <- norm <- add <- mlp <- .. <- attention <- q <- matmul <- norm of x: looked up
//                             add <- x: looked up             <- k, v: of all tokens
//
// In the last layer, only the first norm and the keys and values are computed for all tokens.
//
//===----------------------------------------------------------------------===//

#include "../Model/Movement.h"
#include "Caches.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_KEEPLASTTOKEN
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct KeepLastToken : public mlir::tpc::impl::KeepLastTokenBase<KeepLastToken> {
  static bool contains(const SymExpr &size, const std::string &symbol) {
    std::set<std::string> symbols;
    size.collectSymbols(symbols);
    return symbols.count(symbol) != 0;
  }
  bool hasTokens(Value v) const {
    return isa<RankedTensorType>(v.getType()) &&
           llvm::any_of(getSizes(v), [&](const SymExpr &s) { return contains(s, step.tokens); });
  }
  /// Returns the sizes with one token per sequence.
  SmallVector<SymExpr> withOneToken(ArrayRef<SymExpr> sizes) const {
    return llvm::map_to_vector(
        sizes, [&](const SymExpr &s) { return s.substitute({{step.tokens, SymExpr(1)}}); });
  }

  /// Collects all ops that caches depend on.
  void collectCacheOps(ArrayRef<Value> cached) {
    SmallVector<Value> work(cached);
    while (!work.empty())
      if (Operation *op = work.pop_back_val().getDefiningOp(); op && cacheOps.insert(op).second)
        llvm::append_range(work, op->getOperands());
  }

  Value makeLastIndex(OpBuilder &builder, Location loc, ArrayRef<SymExpr> sizes) {
    auto scalar = RankedTensorType::get({}, elementTypeOf(counts));
    Value one = SizeOp::create(builder, loc, scalar, SymExpr(1));
    // The index is -1 for a sequence without new tokens, whose output is arbitrary.
    Value last = SubOp::create(builder, loc, counts.getType(), counts, one);
    return createReshape(builder, loc, last, sizes);
  }

  /// Looks up the last token of each sequence in a value of all tokens.
  FailureOr<Value> lookUp(Value v, Operation *user) {
    Value &known = lookedUp[v];
    if (known)
      return known;
    SmallVector<SymExpr> sizes = getSizes(v);
    SymExpr batch = getSizes(counts)[0], tokens = SymExpr::symbol(step.tokens);
    Operation *op = v.getDefiningOp();
    OpBuilder builder(user->getContext());
    if (op)
      builder.setInsertionPointAfter(op);
    else
      builder.setInsertionPointToStart(&main.front());
    Location loc = v.getLoc();
    SmallVector<unsigned> dims;
    for (auto [i, size] : llvm::enumerate(sizes))
      if (contains(size, step.tokens))
        dims.push_back(i);
    unsigned dim = dims.front();
    bool merged = sizes[dim] == batch * tokens && dim == 0;
    bool apart = sizes[dim] == tokens && dim > 0 && sizes[0] == batch;
    if (dims.size() != 1 || (!merged && !apart))
      return emitNodeError(op ? op : user)
                 << "has a layout in which the last token of each sequence cannot be looked up: "
                    "keep the logits of all tokens (tpc-keep-last-token is optional)",
             failure();
    // Moves batch and tokens to the front: [batch, sequence, ..].
    Value data = v;
    SmallVector<int64_t> permutation = {0, dim}, back(sizes.size());
    if (merged) {
      SmallVector<SymExpr> unmerged = {batch, tokens};
      unmerged.append(sizes.begin() + 1, sizes.end());
      data = createReshape(builder, loc, v, unmerged);
    } else {
      for (unsigned i = 1; i < sizes.size(); ++i)
        if (i != dim)
          permutation.push_back(i);
      data = createTranspose(builder, loc, v, permutation);
    }
    Value index = makeLastIndex(builder, loc, {batch, SymExpr(1), SymExpr(1)});
    Value last = GatherNDOp::create(builder, loc, data, index, uint64_t(1)); // [batch, 1, ..]
    if (!merged) {
      for (auto [i, from] : llvm::enumerate(permutation))
        back[from] = i;
      last = createTranspose(builder, loc, last, back);
    }
    return lookedUp[v] = createReshape(builder, loc, last, withOneToken(sizes));
  }

  /// Returns the value for the last token of each sequence.
  FailureOr<Value> takeLast(Value v, Operation *user) {
    if (!hasTokens(v))
      return v;
    if (Value known = made.lookup(v))
      return known;
    Operation *op = v.getDefiningOp();
    if (!op || cacheOps.count(op))
      return lookUp(v, user);
    auto computes = dyn_cast<ShardingRuleOpInterface>(op);
    if (!computes || op->getNumResults() != 1)
      return emitNodeError(op) << "has no sharding rule, so its last token cannot be derived",
             failure();
    for (const ShardingRule::Factor &factor : computes.getShardingRule().factors)
      if (factor.kind != FactorKind::Parallel && contains(factor.size, step.tokens))
        return emitNodeError(op) << "does not compute each token independently", failure();
    if (op->getNumOperands() == 0)
      return lookUp(v, user);
    auto attention = dyn_cast<AttentionOp>(op);
    // All tokens of cross-attention see the same keys (tpc-cache-sources).
    bool isCross = attention && !contains(getSizes(attention.getQ())[1], step.tokens);
    if (attention && !isCross && (attention.getMask() || !attention.getLengths()))
      return emitNodeError(op) << "has queries whose positions do not follow the cache lengths",
             failure();
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      // Only the query and the bias of attention have new tokens; its keys are those of the cache.
      bool isBias = attention && operand == attention.getBias() && hasTokens(operand);
      FailureOr<Value> last = isBias ? lookUp(operand, op) : takeLast(operand, op);
      if (failed(last))
        return failure();
      mapping.map(operand, *last);
    }
    OpBuilder builder(op);
    Operation *copy = builder.clone(*op, mapping);
    copy->getResult(0).setType(makeTensorType(elementTypeOf(v), withOneToken(getSizes(v))));
    if (attention && !isCross) {
      // The query is at the position of the last real token.
      builder.setInsertionPoint(copy);
      auto own = cast<AttentionOp>(copy);
      Value lengths = attention.getLengths();
      Value end = makeLastIndex(builder, op->getLoc(), {getSizes(counts)[0]});
      own.getLengthsMutable().assign(
          AddOp::create(builder, op->getLoc(), lengths.getType(), lengths, end));
    }
    return made[v] = copy->getResult(0);
  }

  LogicalResult run() {
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr); name && name == step.counts)
        counts = main.getArgument(i);
    if (!counts)
      return main.emitError() << "has no input '" << step.counts << "'";
    Operation *end = main.front().getTerminator();
    SmallVector<Value> cached;
    SmallVector<unsigned> outputs;
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (getCache(main.getResultAttrDict(i)))
        cached.push_back(end->getOperand(i));
      else if (hasTokens(end->getOperand(i)))
        outputs.push_back(i);
    collectCacheOps(cached);
    for (unsigned i : outputs) {
      Value all = end->getOperand(i);
      FailureOr<Value> last = takeLast(all, end);
      if (failed(last))
        return failure();
      // [batch, 1, vocabulary] becomes [batch, vocabulary].
      SmallVector<SymExpr> sizes;
      for (const SymExpr &size : getSizes(all))
        if (size != SymExpr::symbol(step.tokens))
          sizes.push_back(size.substitute({{step.tokens, SymExpr(1)}}));
      OpBuilder builder(end);
      end->setOperand(i, createReshape(builder, all.getLoc(), *last, sizes));
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    main.setType(
        FunctionType::get(&getContext(), main.front().getArgumentTypes(), end->getOperandTypes()));
    step.last = true;
    step.attachTo(getOperation());
    return success();
  }

  void runOnOperation() override {
    cacheOps.clear();
    made.clear();
    lookedUp.clear();
    counts = {};
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto preallocated = PreallocatedStep::lookup(getOperation());
    if (!main || main.isExternal() || !preallocated || preallocated->last)
      return;
    step = *preallocated;
    if (failed(run()))
      signalPassFailure();
  }

  func::FuncOp main;
  PreallocatedStep step;
  Value counts;
  DenseSet<Operation *> cacheOps; // ops that caches depend on
  DenseMap<Value, Value> made, lookedUp;
};
} // namespace
