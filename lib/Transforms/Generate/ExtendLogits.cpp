//===- ExtendLogits.cpp - Logits of all tokens, not only the last ---------===//
//
// Files may compute the logits of the last token alone: they slice it before the head. Between this
// slice and the output, rows of the batch are independent, so the rows can be all tokens instead.
// Each op is cloned for batch * sequence rows:
//
//   hidden [b, s, 64] -> slice of s - 1 [b, 1, 64] -> head -> [b, 1, 1000]
//   hidden [b, s, 64] -> reshape [b * s, 1, 64]    -> head -> [b * s, 1, 1000] -> [b, s, 1000]
//
// tpc-keep-last-token later computes the logits of each sequence's last token only.
//
//===----------------------------------------------------------------------===//

#include "../Model/Movement.h"
#include "Caches.h"
#include "tpc/Transforms/Generate/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_EXTENDLOGITS
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// If `v` is the index of the largest element in the last dimension, as ArgMax is imported, returns
/// the values that it searches.
Value findSearched(Value v) {
  for (Operation *op = v.getDefiningOp(); op && isa<MovementOpInterface, CastOp>(op);
       op = v.getDefiningOp())
    v = op->getOperand(0);
  auto isOverLast = [](ReduceOp op, ReduceFunction function) {
    return op && op.getFunction() == function && op.getDims().size() == 1 &&
           op.getDims()[0] + 1 == rankOf(op.getOperand());
  };
  auto smallest = v.getDefiningOp<ReduceOp>();
  if (!isOverLast(smallest, ReduceFunction::Min) && !isOverLast(smallest, ReduceFunction::Max))
    return {};
  auto candidates = smallest.getOperand().getDefiningOp<SelectOp>();
  if (!candidates || !candidates.getLhs().getDefiningOp<IotaOp>())
    return {};
  Value found = candidates.getCondition();
  if (auto orNan = found.getDefiningOp<OrOp>())
    found = orNan.getLhs();
  auto equal = found.getDefiningOp<CmpOp>();
  if (!equal || equal.getPredicate() != Predicate::EQ)
    return {};
  auto largest = equal.getRhs().getDefiningOp<ReduceOp>();
  if (!isOverLast(largest, ReduceFunction::Max) || largest.getOperand() != equal.getLhs())
    return {};
  return isFloatTensor(equal.getLhs()) ? equal.getLhs() : Value();
}

struct ExtendLogits : public mlir::tpc::impl::ExtendLogitsBase<ExtendLogits> {
  static bool contains(const SymExpr &size, const SymExpr &symbol) {
    std::set<std::string> symbols;
    size.collectSymbols(symbols);
    return symbols.count(*getSymbolName(symbol)) != 0;
  }
  static bool has(Value v, const SymExpr &symbol) {
    return isa<RankedTensorType>(v.getType()) &&
           llvm::any_of(getSizes(v), [&](const SymExpr &s) { return contains(s, symbol); });
  }

  /// Returns true if the op takes the last token of each sequence, [batch, 1, ..].
  bool takesLast(Operation *op) const {
    auto slice = dyn_cast<SliceOp>(op);
    if (!slice || slice.getDim() != 1)
      return false;
    SmallVector<SymExpr> from = getSizes(slice.getOperand());
    return from[0] == batch && from[1] == tokens && slice.getStart() == tokens - SymExpr(1) &&
           getSizes(slice.getResult())[1].isConstant(1) &&
           llvm::none_of(ArrayRef(from).drop_front(2), [&](const SymExpr &size) {
             return contains(size, batch) || contains(size, tokens);
           });
  }

  /// Returns true if rows of the batch are independent in the op, and the result's sizes do not
  /// depend on the number of tokens.
  bool isRowwise(Operation *op) const {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || op->getNumResults() != 1 || op->getNumRegions() || has(op->getResult(0), tokens))
      return false;
    if (auto slice = dyn_cast<SliceOp>(op);
        slice && (contains(slice.getStart(), batch) || contains(slice.getStart(), tokens)))
      return false;
    return llvm::all_of(ruled.getShardingRule().factors, [&](const ShardingRule::Factor &factor) {
      return factor.kind == FactorKind::Parallel || !contains(factor.size, batch);
    });
  }

  /// Returns true if the elements do not depend on inputs.
  bool isFixed(Value v, unsigned depth = 0) {
    Operation *op = v.getDefiningOp();
    return op && depth < 64 && !has(v, batch) && !has(v, tokens) && !isa<SizeOp>(op) &&
           llvm::all_of(
               op->getOperands(), [&](Value operand) { return isFixed(operand, depth + 1); });
  }

  /// Returns `v` with batch * tokens rows, or null if it is not computed from last tokens by
  /// independent rows.
  Value extend(Value v, unsigned depth = 0) {
    if (isFixed(v))
      return v;
    Value &known = extended[v];
    Operation *op = v.getDefiningOp();
    if (known || !op || depth > 256)
      return known;
    OpBuilder builder(op);
    if (takesLast(op)) {
      SmallVector<SymExpr> sizes = getSizes(v);
      sizes[0] = batch * tokens;
      return extended[v] = createReshape(builder, op->getLoc(), op->getOperand(0), sizes);
    }
    if (!has(v, batch) || !isRowwise(op))
      return {};
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      Value rows = extend(operand, depth + 1);
      if (!rows)
        return {};
      mapping.map(operand, rows);
    }
    Operation *made = builder.clone(*op, mapping);
    SmallVector<SymExpr> sizes = getSizes(v);
    for (SymExpr &size : sizes)
      size = size.substitute({{*getSymbolName(batch), batch * tokens}});
    made->getResult(0).setType(makeTensorType(elementTypeOf(v), sizes));
    return extended[v] = made->getResult(0);
  }

  /// Returns logits [batch, tokens, vocabulary] for an output of the last token or of ids. Returns
  /// null for other outputs.
  Value makeLogits(Value output) {
    bool isIds = !isFloatTensor(output);
    Value logits = isIds ? findSearched(output) : output;
    if (!logits)
      return {};
    SmallVector<SymExpr> sizes = getSizes(logits);
    if (has(logits, tokens))
      return isIds && sizes.size() == 3 ? logits : Value();
    if (sizes.empty() || sizes[0] != batch || sizes.size() < 2)
      return {};
    SmallVector<SymExpr> all{batch, tokens};
    for (const SymExpr &size : ArrayRef(sizes).drop_front().drop_back())
      if (!size.isConstant(1))
        return {};
    all.push_back(sizes.back());
    Value rows = all.back().isConstant() ? extend(logits) : Value();
    if (!rows)
      return {};
    OpBuilder builder(rows.getContext());
    builder.setInsertionPointAfterValue(rows);
    return createReshape(builder, output.getLoc(), rows, all);
  }

  void run(func::FuncOp main) {
    Operation *end = main.front().getTerminator();
    SmallVector<unsigned> candidates;
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      Value output = end->getOperand(i);
      auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
      bool isLogits = name && name.getValue() == "logits";
      if (isFloatTensor(output) && has(output, tokens) && rankOf(output) == 3 &&
          has(output, batch)) {
        SmallVector<SymExpr> sizes = getSizes(output);
        if (isLogits || llvm::count_if(sizes, [](auto &s) { return s.isConstant(); }) == 1)
          return; // has the logits of all tokens already
      }
      if (isLogits)
        candidates.assign(1, i);
      else if (candidates.empty() || !isNamedLogits(main, candidates[0]))
        candidates.push_back(i);
    }
    std::optional<unsigned> chosen;
    Value logits;
    for (unsigned i : candidates)
      if (Value made = makeLogits(end->getOperand(i))) {
        if (chosen)
          return; // several candidates for the logits
        chosen = i;
        logits = made;
      }
    if (!chosen)
      return;
    end->setOperand(*chosen, logits);
    main.setType(
        FunctionType::get(&getContext(), main.front().getArgumentTypes(), end->getOperandTypes()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  static bool isNamedLogits(func::FuncOp main, unsigned output) {
    auto name = main.getResultAttrOfType<StringAttr>(output, kNameAttr);
    return name && name.getValue() == "logits";
  }

  void runOnOperation() override {
    extended.clear();
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || StepSymbols::lookup(getOperation()))
      return;
    for (BlockArgument argument : main.getArguments()) {
      SmallVector<SymExpr> sizes =
          isa<RankedTensorType>(argument.getType()) ? getSizes(argument) : SmallVector<SymExpr>();
      if (!isTokenIds(argument.getType()) || !getSymbolName(sizes[0]) ||
          InputDefaultAttr::lookup(main.getArgAttrDict(argument.getArgNumber())))
        continue;
      batch = sizes[0];
      tokens = sizes[1];
      return run(main);
    }
  }

  SymExpr batch, tokens;
  DenseMap<Value, Value> extended;
};
} // namespace
