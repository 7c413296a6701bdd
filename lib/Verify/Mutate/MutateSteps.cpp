//===- MutateSteps.cpp - Faults in generation steps -----------------------===//

#include "Mutate.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

static bool contains(const SymExpr &e, const std::string &symbol) {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return symbols.count(symbol) != 0;
}

/// Replaces the number of tokens before the step by a plausible wrong value.
static SymExpr getWrongPast(Mutator &m, const StepSymbols &step, const SymExpr &e) {
  SymExpr past = SymExpr::symbol(step.past), tokens = SymExpr::symbol(step.tokens);
  const SymExpr wrong[] = {0, past + 1, past - 1, tokens, past + tokens, past + past};
  return e.substitute({{step.past, wrong[m.draw(std::size(wrong))]}});
}

static bool movePositions(Mutator &m) {
  auto step = StepSymbols::lookup(m.module);
  auto op = step ? m.pick<SizeOp>([&](SizeOp size) { return contains(size.getExpr(), step->past); })
                 : SizeOp();
  if (!op)
    return false;
  op.setExprAttr(SymExprAttr::get(m.context, getWrongPast(m, *step, op.getExpr())));
  return true;
}
static bool moveQueries(Mutator &m) {
  auto step = StepSymbols::lookup(m.module);
  auto op = step ? m.pick<AttentionOp>(
                       [&](AttentionOp a) { return contains(a.getCausalOffset(), step->past); })
                 : AttentionOp();
  if (!op)
    return false;
  op.setCausalOffsetAttr(SymExprAttr::get(m.context, getWrongPast(m, *step, op.getCausalOffset())));
  return true;
}

static bool seeAll(Mutator &m) {
  auto op = m.pick<AttentionOp>([](AttentionOp a) { return a.getCausal() && !a.getWindow(); });
  if (!op || !StepSymbols::lookup(m.module))
    return false;
  op.setCausal(false);
  return true;
}

/// Returns the op that appends new tokens to a cache.
static ConcatOp pickJoint(Mutator &m) {
  auto step = StepSymbols::lookup(m.module);
  if (!step)
    return {};
  SymExpr past = SymExpr::symbol(step->past);
  return m.pick<ConcatOp>([&](ConcatOp op) {
    return op.getOperands().size() == 2 && op.getDim() == CacheOp::tokenDim &&
           getSizes(op.getOperands()[0])[CacheOp::tokenDim] == past;
  });
}

static bool appendInFront(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  SmallVector<Value> operands = {op.getOperands()[1], op.getOperands()[0]};
  op->setOperands(operands);
  return true;
}

/// Shifts a value by one along a dimension.
static Value shift(Mutator &m, Value value, int64_t dim) {
  return RollOp::create(m.builder, value.getLoc(), value.getType(), value, dim, SymExpr(1),
                        getSizes(value)[dim]);
}

/// Appends new tokens shifted by one position.
static bool appendShifted(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  op->setOperand(1, shift(m, op.getOperands()[1], CacheOp::tokenDim));
  return true;
}

/// Reads the cache of the next sequence or head.
static bool otherSlot(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  int64_t dim = m.draw(2);
  if (getSizes(op.getOperands()[0])[dim].isConstant(1))
    return false;
  op->setOperand(0, shift(m, op.getOperands()[0], dim));
  return true;
}

/// Shifts the cache by one position after the step.
static bool keepShifted(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  m.builder.setInsertionPointAfter(op);
  Value shifted = shift(m, op.getResult(), CacheOp::tokenDim);
  // Attention reads either the original or the shifted cache.
  bool all = m.draw(2);
  op.getResult().replaceUsesWithIf(shifted, [&](OpOperand &use) {
    return use.getOwner() != shifted.getDefiningOp() &&
           (all || use.getOwner()->hasTrait<OpTrait::IsTerminator>());
  });
  return true;
}

/// Stores another value in the cache than attention reads.
static bool keepOther(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  Value fresh = op.getOperands()[1];
  Value other = m.draw(2)
                    ? NegOp::create(m.builder, op.getLoc(), fresh.getType(), fresh).getResult()
                    : m.makeZeros(fresh.getType());
  Value kept = ConcatOp::create(m.builder, op.getLoc(), op.getType(),
                                ValueRange{op.getOperands()[0], other}, op.getDim());
  op.getResult().replaceUsesWithIf(
      kept, [](OpOperand &use) { return use.getOwner()->hasTrait<OpTrait::IsTerminator>(); });
  return true;
}

/// Subtracts the mean over tokens from new keys or values.
static bool subtractMean(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  Value fresh = op.getOperands()[1];
  SmallVector<SymExpr> sizes = getSizes(fresh);
  sizes[CacheOp::tokenDim] = SymExpr(1);
  Location loc = op.getLoc();
  Value mean = ReduceOp::create(m.builder, loc, makeTensorType(elementTypeOf(fresh), sizes),
                                ReduceFunction::Mean, fresh, {int64_t(CacheOp::tokenDim)}, true);
  op->setOperand(1, SubOp::create(m.builder, loc, fresh.getType(), fresh, mean));
  return true;
}

/// Scales new keys or values by the number of tokens.
static bool scaleByLength(Mutator &m) {
  auto op = pickJoint(m);
  if (!op)
    return false;
  auto step = StepSymbols::lookup(m.module);
  Value fresh = op.getOperands()[1];
  Location loc = op.getLoc();
  auto scalar = RankedTensorType::get({}, elementTypeOf(fresh));
  Value length = SizeOp::create(m.builder, loc, scalar,
                                SymExpr::symbol(step->past) + SymExpr::symbol(step->tokens));
  op->setOperand(1, MulOp::create(m.builder, loc, fresh.getType(), fresh, length));
  return true;
}
/// Returns the indices of two arguments, or results, of @main that are caches of one type.
static std::optional<std::pair<unsigned, unsigned>>
pickCaches(Mutator &m, TypeRange types, llvm::function_ref<DictionaryAttr(unsigned)> attributes) {
  SmallVector<std::pair<unsigned, unsigned>> pairs;
  for (unsigned i = 0; i < types.size(); ++i)
    for (unsigned k = i + 1; k < types.size(); ++k)
      if (types[i] == types[k] && getCache(attributes(i)) && getCache(attributes(k)))
        pairs.push_back({i, k});
  if (pairs.empty())
    return std::nullopt;
  return pairs[m.seed % pairs.size()];
}

/// Exchanges two caches after the step.
static bool swapCacheResults(Mutator &m) {
  auto main = m.module.lookupSymbol<func::FuncOp>("main");
  auto pair =
      pickCaches(m, main.getResultTypes(), [&](unsigned i) { return main.getResultAttrDict(i); });
  if (!pair)
    return false;
  Operation *end = main.front().getTerminator();
  Value a = end->getOperand(pair->first), b = end->getOperand(pair->second);
  end->setOperand(pair->first, b);
  end->setOperand(pair->second, a);
  return true;
}

/// Lets the step read one cache instead of another.
static bool readOther(Mutator &m) {
  auto main = m.module.lookupSymbol<func::FuncOp>("main");
  auto pair =
      pickCaches(m, main.getArgumentTypes(), [&](unsigned i) { return main.getArgAttrDict(i); });
  if (!pair)
    return false;
  main.getArgument(pair->first).replaceAllUsesWith(main.getArgument(pair->second));
  return true;
}

ArrayRef<Mutation> mutate::getStepMutations() {
  static constexpr Mutation mutations[] = {
      {"step-positions", "positions use a wrong number of past tokens", movePositions},
      {"step-queries", "queries use a wrong number of past tokens", moveQueries},
      {"step-see-all", "tokens of a step see each other, also later ones", seeAll},
      {"step-front", "new tokens are before old ones", appendInFront},
      {"step-shifted", "new tokens are at each other's positions", appendShifted},
      {"step-slot", "a sequence or a head reads the cache of the next one", otherSlot},
      {"step-keep-shifted", "the cache is shifted by one position after the step", keepShifted},
      {"step-keep-other", "a cache gets another value than attention", keepOther},
      {"step-mean", "the mean over tokens is subtracted from new keys or values", subtractMean},
      {"step-length", "new keys or values are scaled by the number of tokens", scaleByLength},
      {"step-swap-held", "two caches are exchanged after the step", swapCacheResults},
      {"step-read-other", "one cache is read instead of another", readOther},
  };
  return mutations;
}
