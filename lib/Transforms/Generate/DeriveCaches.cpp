//===- DeriveCaches.cpp - Addition of KV caches to models -----------------===//
//
// The pass checks that each op computes each token independently: tokens must be a parallel factor
// of the op's sharding rule, and attention must be causal. Only a few ops compute positions of
// tokens; the number of past tokens is added to their results. tpc-verify-generation checks the
// result: it compares the step with the model.
//
//===----------------------------------------------------------------------===//

#include "Caches.h"
#include "KeyExtension.h"

#include "../Model/ExplainAttention.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_DERIVECACHES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static bool contains(const SymExpr &size, const std::string &symbol) {
  std::set<std::string> symbols;
  size.collectSymbols(symbols);
  return symbols.count(symbol) != 0;
}

namespace {
struct DeriveCaches : public mlir::tpc::impl::DeriveCachesBase<DeriveCaches> {
  /// Returns the symbol of the number of tokens, which must be that of keys and of queries.
  std::optional<std::string> findTokens(AttentionOp op) {
    SymExpr queries = getSizes(op.getQ())[1], keys = getSizes(op.getK())[1];
    auto name = getSymbolName(keys);
    if (!name || queries != keys)
      return emitNodeError(op)
                 << "has " << queries.str() << " queries and " << keys.str()
                 << " keys. Without a past, both numbers must be the same symbol. With a past, "
                    "keys and values must be an input concatenated with new ones, with only view "
                    "ops in between",
             std::nullopt;
    return name;
  }

  /// Returns true for cross-attention: all tokens attend to keys of another sequence.
  bool isCross(AttentionOp op) const { return !hasTokens(op.getK()) && !hasTokens(op.getV()); }

  bool hasTokens(Value value) const {
    return isa<RankedTensorType>(value.getType()) &&
           llvm::any_of(getSizes(value), [&](const SymExpr &s) { return contains(s, tokens); });
  }

  /// Adds the number of past tokens to integer positions.
  void movePositions(Value positions) {
    OpBuilder builder(positions.getContext());
    builder.setInsertionPointAfterValue(positions);
    Location loc = positions.getLoc();
    auto scalar = RankedTensorType::get({}, elementTypeOf(positions));
    Value first = SizeOp::create(builder, loc, scalar, SymExpr::symbol(past));
    auto moved = AddOp::create(builder, loc, positions.getType(), positions, first);
    positions.replaceAllUsesExcept(moved, moved);
  }

  /// Returns true if each element is its index along the tokens plus a constant.
  bool isPosition(Value value, int64_t dim) const {
    SmallVector<SymExpr> sizes = getSizes(value);
    IndexAnalysis analysis(sizes);
    IndexExpr element = analysis.at(value, analysis.getIndices());
    return element && element.isInteger() &&
           (element.getPolynomial() - SymExpr::symbol(IndexAnalysis::indexName(dim))).isConstant();
  }

  LogicalResult visit(IotaOp op) {
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    const SymExpr &size = sizes[op.getDim()];
    if (!contains(size, tokens))
      return success();
    if (getSymbolName(size) != tokens)
      return emitNodeError(op) << "counts " << size.str()
                               << " elements, which is not the number of tokens";
    positions.push_back(op.getResult());
    return success();
  }

  LogicalResult visit(CumSumOp op) {
    int64_t dim = op.getDim();
    if (getSymbolName(getSizes(op.getOperand())[dim]) == tokens) {
      if (!isPosition(op.getResult(), dim))
        return emitNodeError(op) << "sums values that are not 1 for each token";
      positions.push_back(op.getResult());
      return success();
    }
    return visitRule(op);
  }

  /// Visits a slice, which may take the rows of a position table.
  LogicalResult visit(SliceOp op) {
    int64_t dim = op.getDim();
    SymExpr from = getSizes(op.getOperand())[dim], taken = getSizes(op.getResult())[dim];
    if (!contains(from, tokens) && getSymbolName(taken) == tokens && op.getStep() == 1 &&
        !hasTokens(op.getOperand())) {
      tables.push_back(op);
      return success();
    }
    return visitRule(op);
  }

  LogicalResult visit(SizeOp op) {
    if (contains(op.getExpr(), tokens) && !getModelUses(op.getResult()).empty())
      return emitNodeError(op) << "uses the number of tokens as a value: keys and values of "
                                  "earlier tokens would change with each new token";
    return success();
  }

  LogicalResult visit(AttentionOp op) {
    if (isCross(op) && !op.getCausal() && !op.getWindow() && !op.getSlopes())
      return visitRule(op);
    auto name = findTokens(op);
    if (!name)
      return failure();
    if (*name != tokens)
      return emitNodeError(op) << "attends to " << *name << " tokens, other attention ops to "
                               << tokens;
    attentions.push_back(op);
    return checkCausal(op, SymExpr(0), /*allowsBias=*/true);
  }

  LogicalResult visitRule(Operation *op) {
    auto computes = dyn_cast<ShardingRuleOpInterface>(op);
    if (!computes)
      return success();
    for (const ShardingRule::Factor &factor : computes.getShardingRule().factors)
      if (factor.kind != FactorKind::Parallel && contains(factor.size, tokens)) {
        InFlightDiagnostic error = emitNodeError(op)
                                   << "does not compute each token independently: its results for "
                                      "earlier tokens would change with each new token";
        if (auto softmax = dyn_cast<SoftmaxOp>(op))
          error << ". It is not a known form of attention: " << explainUnraisedSoftmax(softmax);
        return error;
      }
    return success();
  }

  LogicalResult visit(Operation *op) {
    if (isa<func::ReturnOp, AnnotationOp>(op) || op->use_empty())
      return success();
    if (auto iota = dyn_cast<IotaOp>(op))
      return visit(iota);
    if (auto size = dyn_cast<SizeOp>(op))
      return visit(size);
    auto attention = dyn_cast<AttentionOp>(op);
    if (attention && (!isCross(attention) || attention.getCausal()))
      return visit(attention);
    if (!llvm::any_of(op->getOperands(), [&](Value v) { return hasTokens(v); }) &&
        !llvm::any_of(op->getResults(), [&](Value v) { return hasTokens(v); }))
      return success();
    if (attention)
      return visit(attention);
    if (auto slice = dyn_cast<SliceOp>(op))
      return visit(slice);
    if (auto sum = dyn_cast<CumSumOp>(op))
      return visit(sum);
    return visitRule(op);
  }

  /// Removes outputs whose sizes contain the number of keys of cross-attention, such as the states
  /// of an encoder.
  void dropSourceOutputs(func::FuncOp main) {
    std::set<std::string> symbols;
    for (auto op : main.getOps<AttentionOp>())
      if (hasTokens(op.getQ()) && isCross(op))
        getSizes(op.getK())[1].collectSymbols(symbols);
    Operation *end = main.front().getTerminator();
    for (unsigned i = main.getNumResults(); i-- > 0;)
      if (llvm::any_of(symbols, [&](const std::string &symbol) {
            return llvm::any_of(getSizes(end->getOperand(i)),
                                [&](const SymExpr &size) { return contains(size, symbol); });
          })) {
        end->eraseOperand(i);
        (void)main.eraseResult(i);
      }
  }

  /// Rewrites constraints on all tokens as constraints on past plus new tokens.
  void moveConstraints(ModuleOp module) {
    auto list = module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
    if (!list)
      return;
    std::map<std::string, SymExpr> total = {
        {tokens, SymExpr::symbol(past) + SymExpr::symbol(tokens)}};
    SmallVector<Attribute> moved;
    for (auto entry : list.getAsRange<DictionaryAttr>()) {
      NamedAttrList fields(entry);
      auto size = entry.getAs<SymExprAttr>("expr");
      fields.set("expr", SymExprAttr::get(module.getContext(), size.getExpr().substitute(total)));
      moved.push_back(fields.getDictionary(module.getContext()));
    }
    module->setAttr(kConstraintsAttr, ArrayAttr::get(module.getContext(), moved));
  }

  LogicalResult run(ModuleOp module, func::FuncOp main) {
    auto all = main.getOps<AttentionOp>();
    if (all.empty()) {
      for (auto softmax : main.getOps<SoftmaxOp>())
        return emitNodeError(softmax)
               << "is not part of a known form of attention, and the model has no other attention: "
               << explainUnraisedSoftmax(softmax) << ". Generation needs keys and values to cache";
      return main.emitError("has no attention: generation needs keys and values to cache");
    }
    // Attention of an encoder is not causal.
    auto first = llvm::find_if(all, [](AttentionOp op) { return op.getCausal(); });
    auto name = findTokens(first == all.end() ? *all.begin() : *first);
    if (!name)
      return failure();
    tokens = *name;
    past = makeSymbol(collectSymbols(module), "past");
    dropSourceOutputs(main);
    for (Operation &op : main.front())
      if (failed(visit(&op)))
        return failure();
    KeyExtension keys(SymExpr::symbol(tokens), SymExpr::symbol(past));
    for (AttentionOp op : attentions)
      if (op.getBias()) {
        FailureOr<Value> bias = keys.extend(op.getBias(), 3);
        if (failed(bias))
          return failure();
        op.getBiasMutable().assign(*bias);
      }
    llvm::append_range(positions, keys.getPositions());
    for (Value value : positions)
      movePositions(value);
    for (SliceOp slice : tables)
      slice.setStartAttr(
          SymExprAttr::get(module.getContext(), slice.getStart() + SymExpr::symbol(past)));
    moveConstraints(module);
    CacheMaker maker(module, main, {past, tokens});
    for (AttentionOp op : attentions)
      maker.attach(op, op.getK(), op.getV());
    maker.finish();
    return success();
  }

  void runOnOperation() override {
    positions.clear();
    tables.clear();
    attentions.clear();
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || StepSymbols::lookup(getOperation()))
      return;
    if (failed(run(getOperation(), main)))
      signalPassFailure();
  }

  std::string tokens, past;
  SmallVector<Value> positions;
  SmallVector<SliceOp> tables;
  SmallVector<AttentionOp> attentions;
};
} // namespace
