//===- RecognizeCaches.cpp - Recognition of past keys and values ----------===//

#include "../Model/Movement.h"
#include "Caches.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_RECOGNIZECACHES
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// Past keys or values, concatenated with new ones, as an operand of attention.
struct PastConcat {
  ConcatOp concat;
  SymExpr past, tokens;
  Movement fresh; // new ones, in attention's layout
};

bool isFloatCast(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return cast && isFloatTensor(cast.getOperand()) && isFloatTensor(cast.getResult());
}

/// Follows view ops and casts of floats up to a concatenation. Returns the rearrangement, which
/// ignores the casts: exporters store caches in 16 bits and compute attention in f32.
std::optional<Movement> followToConcat(Value operand) {
  SmallVector<Operation *> chain;
  Value base = operand;
  for (Operation *op = base.getDefiningOp(); op && !isa<ConcatOp>(op); op = base.getDefiningOp()) {
    if ((!Movement::isStep(op) && !isFloatCast(op)) || chain.size() == 64)
      return std::nullopt;
    chain.push_back(op);
    base = op->getOperand(0);
  }
  Movement movement = Movement::identity(base);
  for (Operation *op : llvm::reverse(chain))
    if (!isFloatCast(op) && !movement.apply(op))
      return std::nullopt;
  return movement;
}

/// Follows casts of floats, moves and slices back to the value that they read.
Value followCasts(Value v) {
  for (unsigned depth = 0; depth < 64; ++depth) {
    v = Movement::of(v, Movement::Slices).base;
    Operation *op = v.getDefiningOp();
    if (!op || !isFloatCast(op))
      break;
    v = op->getOperand(0);
  }
  return v;
}

/// Returns the concatenation that `operand` reads through view ops and casts, if its first part is
/// an argument.
std::optional<PastConcat> findPastConcat(Value operand) {
  std::optional<Movement> movement = followToConcat(operand);
  auto concat = movement ? movement->base.getDefiningOp<ConcatOp>() : ConcatOp();
  if (!concat || concat.getOperands().size() != 2)
    return std::nullopt;
  Value old = concat.getOperands()[0], fresh = concat.getOperands()[1];
  if (!isa<BlockArgument>(followCasts(old)))
    return std::nullopt;
  int64_t dim = concat.getDim();
  const Movement::Dim &keys = movement->dims[1];
  if (keys.size() != 1 || keys != movement->baseDims[dim] || movement->factors[keys[0]].isSliced())
    return std::nullopt;
  PastConcat found{concat, getSizes(old)[dim], getSizes(fresh)[dim], *movement};
  found.fresh.base = fresh;
  Movement::Factor &factor = found.fresh.factors[keys[0]];
  factor.size = factor.whole = found.tokens;
  return found;
}

struct RecognizeCaches : public mlir::tpc::impl::RecognizeCachesBase<RecognizeCaches> {
  /// Returns true for the cache contents after the step, and for their views and concatenations.
  bool isCacheContents(Value value) const {
    Value base = followCasts(value);
    auto concat = base.getDefiningOp<ConcatOp>();
    return concat && (concats.contains(concat) || llvm::all_of(concat.getOperands(), [&](Value v) {
                        return isCacheContents(v);
                      }));
  }

  /// Checks that each past is extended once. With two different extensions, its contents after the
  /// step would be ambiguous.
  LogicalResult checkOnce(ConcatOp concat) {
    ConcatOp &first = concatOf[concat.getOperands()[0]];
    if (!first)
      first = concat;
    if (first != concat)
      return emitNodeError(concat)
             << "appends new tokens to a past that '" << getSourceName(first.getLoc())
             << "' extends with others: its contents after the step are ambiguous";
    return success();
  }

  LogicalResult checkStep(AttentionOp op, const PastConcat &keys, const PastConcat &values) {
    if (keys.past != values.past || keys.tokens != values.tokens)
      return emitNodeError(op) << "has " << keys.past.str() << " past keys and "
                               << values.past.str() << " past values; the numbers must be equal";
    auto past = getSymbolName(keys.past), tokens = getSymbolName(keys.tokens);
    if (!past || !tokens || past == tokens)
      return emitNodeError(op) << "concatenates " << keys.past.str() << " past tokens with "
                               << keys.tokens.str()
                               << " new ones: both numbers must be distinct symbols, so that a "
                                  "prompt can come first"
                               << (past && tokens ? ""
                                                  : ". The file was exported with fixed sizes: "
                                                    "export the model with dynamic axes");
    if (!step)
      step = StepSymbols{*past, *tokens};
    if (step->past != *past || step->tokens != *tokens)
      return emitNodeError(op) << "has " << *past << " past and " << *tokens
                               << " new tokens, but other attention ops have " << step->past
                               << " and " << step->tokens;
    return checkCausal(op, keys.past, /*allowsBias=*/true);
  }

  /// Removes results that return cache contents, and the arguments that contain past tokens.
  LogicalResult removeOld(func::FuncOp main, unsigned numArguments, unsigned numResults) {
    Operation *end = main.front().getTerminator();
    for (unsigned i = numResults; i-- > 0;) {
      if (!isCacheContents(end->getOperand(i)))
        continue;
      end->eraseOperand(i);
      (void)main.eraseResult(i);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    for (unsigned i = numArguments; i-- > 0;) {
      BlockArgument argument = main.getArgument(i);
      std::set<std::string> symbols;
      for (const SymExpr &size : getSizes(argument))
        size.collectSymbols(symbols);
      if (!symbols.count(step->past))
        continue;
      if (!argument.use_empty())
        return emitNodeError(*argument.user_begin())
               << "uses past tokens of argument " << i
               << " in another way than as keys or values of attention, concatenated with new ones";
      (void)main.eraseArgument(i);
    }
    return success();
  }

  LogicalResult run(func::FuncOp main) {
    struct Found {
      AttentionOp op;
      PastConcat keys, values;
    };
    std::vector<Found> all;
    SmallVector<AttentionOp> others;
    for (auto op : main.getOps<AttentionOp>()) {
      auto keys = findPastConcat(op.getK()), values = findPastConcat(op.getV());
      if (!keys || !values) {
        others.push_back(op);
        continue;
      }
      if (failed(checkOnce(keys->concat)) || failed(checkOnce(values->concat)) ||
          failed(checkStep(op, *keys, *values)))
        return failure();
      concats.insert(keys->concat);
      concats.insert(values->concat);
      all.push_back({op, std::move(*keys), std::move(*values)});
    }
    if (all.empty())
      return success();
    // Attention of an encoder, or to its states, has no past.
    for (AttentionOp op : others)
      for (Value operand : {op.getK(), op.getV()}) {
        std::set<std::string> symbols;
        for (const SymExpr &size : getSizes(operand))
          size.collectSymbols(symbols);
        if (symbols.count(step->past) || symbols.count(step->tokens))
          return emitNodeError(op) << "has no past keys and values, but '"
                                   << getSourceName(all[0].op.getLoc()) << "' has";
      }
    unsigned numArguments = main.getNumArguments(), numResults = main.getNumResults();
    CacheMaker maker(getOperation(), main, *step);
    DenseMap<Operation *, Value> made; // layers may share keys and values
    auto getFresh = [&](PastConcat &joined) {
      Value &fresh = made[joined.concat];
      if (!fresh) {
        OpBuilder builder(joined.concat);
        fresh = joined.fresh.build(builder, joined.concat.getLoc());
      }
      return fresh;
    };
    for (Found &found : all) {
      Value keys = getFresh(found.keys), values = getFresh(found.values);
      maker.attach(found.op, keys, values);
    }
    maker.finish();
    return removeOld(main, numArguments, numResults);
  }

  void runOnOperation() override {
    concats.clear();
    concatOf.clear();
    step.reset();
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || StepSymbols::lookup(getOperation()))
      return;
    if (failed(run(main)))
      signalPassFailure();
  }

  DenseSet<Operation *> concats;      // concatenations of past and new tokens
  DenseMap<Value, ConcatOp> concatOf; // concatenation per past
  std::optional<StepSymbols> step;
};
} // namespace
