//===- SequenceTactic.cpp - Tactic of sequence parallelism ----------------===//
//
// Between a row-parallel matmul and the next column-parallel matmul, computation on [tokens,
// hidden] values would be replicated on all tp ranks. This tactic shards these values along the
// tokens. As a consequence, the results of row-parallel matmuls are reduce-scattered instead of
// all-reduced, and the operands of column-parallel matmuls are all-gathered.
//
// Ops are selected individually. Initially, an op is token-sharded if the tokens are one parallel
// factor and tp splits no other factor. Then ops are removed from the set:
//
// (a) if no operand is reduce-scattered or token-sharded, but all tokens of the results are needed:
//     the split would only add an all-gather;
// (b) if all tokens of all results are needed and gathering the results takes longer than gathering
//     the operands (LinkModel.h); for example, several ops with the same operand (two norms in a
//     parallel residual) need only one all-gather;
// (c) if an op computes one number per token from reduced values with one number per token, as in a
//     norm over a width that tp splits, and all tokens of its results are needed: the computation
//     is negligible, and an all-reduce costs less than a reduce-scatter and an all-gather.
//
// Each step removes an op, so the tactic terminates.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class SequenceTactic {
public:
  SequenceTactic(PartitionState &state)
      : state(state), problem(state.problem), symbols(getNominalSymbols(problem.module)),
        links(problem.module) {}
  LogicalResult run();

private:
  void findTokens();
  std::optional<unsigned> getTokenFactor(Operation *op);
  std::optional<unsigned> getTokenDim(Value value);
  bool isUnreduced(Value value);
  bool passesUnreduced(Operation *op);
  bool computePassesUnreduced(Operation *op);
  bool isTokenSharded(Value value);
  void shardArguments();
  void collectUsers(Value value, bool &sharded, bool &whole);
  void findFedByReductions();
  bool isFedByReduction(Value value);
  SmallVector<Value> getShardedOperands(Operation *op, unsigned factor);
  bool isOnlyUsedWhole(Operation *op);
  bool isPerToken(Value value);
  bool comesFromPerTokenSums(Operation *op, unsigned factor);
  bool shouldLeave(Operation *op, unsigned factor);
  Value getReturned(OpResult callResult);
  SmallVector<Value> getCallOperands(BlockArgument argument);
  double getBytes(Value value);
  double getGatherSeconds(Value value);
  double getSecondsForAllTokens(Value value, unsigned depth = 0);

  PartitionState &state;
  const PartitionProblem &problem;
  Symbols symbols;
  LinkModel links;
  SmallVector<FactorClasses::Classes> tokens;
  DenseSet<Operation *> fedByReductions;
  DenseMap<Operation *, bool> passing;
  /// Token-sharded ops, with the factor that `tokenAxes` split.
  llvm::MapVector<Operation *, unsigned> tokenFactor;
  /// Token-sharded arguments of layer functions, with the dimension that `tokenAxes` split.
  llvm::MapVector<Value, unsigned> tokenArguments;
  SmallVector<StringAttr> tokenAxes;
};

/// Collects the classes of tokens: all dimensions of row-parallel results except the last. Ignores
/// other reductions, such as the maximum of a token's logits.
void SequenceTactic::findTokens() {
  for (Operation *op : problem.getOps())
    for (Value result : op->getResults()) {
      if (!isa<MatmulOp, MoeOp, EmbeddingOp>(op) || !isUnreduced(result))
        continue;
      int64_t rank = cast<RankedTensorType>(result.getType()).getRank();
      if (rank == 0)
        continue;
      FactorClasses::Classes list =
          problem.classes.getClasses(result, std::max<int64_t>(rank - 2, 0));
      if (!list.empty() && !state.hasAxis(list, "tp") && !llvm::is_contained(tokens, list))
        tokens.push_back(list);
    }
}

bool SequenceTactic::isUnreduced(Value value) {
  return state.isUnreduced(value, "tp") ||
         (value.getDefiningOp() && passesUnreduced(value.getDefiningOp()));
}

/// Returns true if `op` propagates partial sums (such as an add of two partial sums), so that only
/// its result is reduced. The conditions equal those of tpc-insert-reshards. The result is cached,
/// because a value that is repeatedly added to itself has exponentially many paths.
bool SequenceTactic::passesUnreduced(Operation *op) {
  if (auto it = passing.find(op); it != passing.end())
    return it->second;
  return passing[op] = computePassesUnreduced(op);
}

bool SequenceTactic::computePassesUnreduced(Operation *op) {
  if (!isa<ShardingRuleOpInterface>(op) || op->getNumResults() != 1)
    return false;
  SmallVector<int, 2> unreduced;
  double in = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isUnreduced(operand))
      continue;
    if (!operand.hasOneUse())
      return false;
    unreduced.push_back(i);
    in += getBytes(operand);
  }
  return !unreduced.empty() && getBytes(op->getResult(0)) <= in &&
         llvm::any_of(problem.classes.getRule(op).linear, [&](const ShardingRule::Linear &l) {
           return ArrayRef<int>(l.operands) == ArrayRef<int>(unreduced);
         });
}

/// Returns the factor of the tokens in `op`; nothing if `op` cannot be token-sharded.
std::optional<unsigned> SequenceTactic::getTokenFactor(Operation *op) {
  if (isa<ParameterOp, ConstantOp, SizeOp>(op) || op->getNumResults() == 0 || passesUnreduced(op))
    return std::nullopt;
  const ShardingRule &rule = problem.classes.getRule(op);
  std::optional<unsigned> found;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    FactorClasses::Classes list = problem.classes.getFactorClasses(op, factor);
    if (state.hasAxis(list, "tp", op))
      return std::nullopt;
    FactorKind kind = rule.factors[factor].kind;
    if (!found && (kind == FactorKind::Parallel || kind == FactorKind::Permuted) &&
        llvm::is_contained(tokens, list))
      found = factor;
  }
  if (!found)
    return std::nullopt;
  // In ops that process all samples, shards of the tokens would not match the shards in other ops.
  for (int cls : problem.classes.getFactorClasses(op, *found))
    if (state.getAxes(cls, op).size() != state.getAxes(cls).size())
      return std::nullopt;
  // The tokens must be a separate dimension in each operand and result with tokens.
  auto fits = [&](const ShardingRule::Dims &dims, bool needed) {
    bool has = false;
    for (const ShardingRule::Dim &dim : dims) {
      if (!llvm::is_contained(dim, int(*found)))
        continue;
      if (dim.size() != 1)
        return false;
      has = true;
    }
    return has || !needed;
  };
  if (!llvm::all_of(rule.results, [&](auto &dims) { return fits(dims, true); }) ||
      !llvm::all_of(rule.operands, [&](auto &dims) { return fits(dims, false); }))
    return std::nullopt;
  return found;
}

std::optional<unsigned> SequenceTactic::getTokenDim(Value value) {
  for (unsigned dim = 0; dim < cast<RankedTensorType>(value.getType()).getRank(); ++dim)
    if (llvm::is_contained(tokens, problem.classes.getClasses(value, dim)))
      return dim;
  return std::nullopt;
}

double SequenceTactic::getBytes(Value value) { return estimateBytes(value, symbols); }

double SequenceTactic::getGatherSeconds(Value value) {
  return links.getSeconds(::tpc::Transfer::AllGather, tokenAxes, getBytes(value));
}

Value SequenceTactic::getReturned(OpResult result) {
  auto call = dyn_cast<func::CallOp>(result.getOwner());
  if (!call)
    return {};
  auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee());
  return callee.front().getTerminator()->getOperand(result.getResultNumber());
}

SmallVector<Value> SequenceTactic::getCallOperands(BlockArgument argument) {
  SmallVector<Value> operands;
  auto callee = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  problem.module.walk([&](func::CallOp call) {
    if (call.getCallee() == callee.getName())
      operands.push_back(call.getOperand(argument.getArgNumber()));
  });
  return operands;
}

bool SequenceTactic::isTokenSharded(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    if (Value returned = getReturned(result))
      return isTokenSharded(returned);
    return tokenFactor.contains(result.getOwner());
  }
  return tokenArguments.contains(value);
}

/// Shards arguments of layers that have a token-sharded user.
void SequenceTactic::shardArguments() {
  tokenArguments.clear();
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto function : problem.module.getOps<func::FuncOp>()) {
      if (function.getName() == "main" || function.isExternal())
        continue;
      for (BlockArgument argument : function.getArguments()) {
        bool sharded = false;
        if (tokenArguments.contains(argument) || !getTokenDim(argument))
          continue;
        for (OpOperand &use : argument.getUses()) {
          Operation *user = use.getOwner();
          if (auto call = dyn_cast<func::CallOp>(user)) {
            auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee());
            sharded |= tokenArguments.contains(callee.getArgument(use.getOperandNumber()));
          } else {
            sharded |= tokenFactor.contains(user);
          }
        }
        if (sharded) {
          tokenArguments[argument] = *getTokenDim(argument);
          changed = true;
        }
      }
    }
  }
}

/// Determines whether `value` has token-sharded users, and users that need all tokens.
void SequenceTactic::collectUsers(Value value, bool &sharded, bool &whole) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee());
      bool readsShard = tokenArguments.contains(callee.getArgument(use.getOperandNumber()));
      (readsShard ? sharded : whole) = true;
    } else if (isa<func::ReturnOp>(user)) {
      auto function = cast<func::FuncOp>(user->getParentOp());
      if (function.getName() == "main") {
        sharded = true; // outputs keep their distribution
        continue;
      }
      problem.module.walk([&](func::CallOp call) {
        if (call.getCallee() == function.getName())
          collectUsers(call.getResult(use.getOperandNumber()), sharded, whole);
      });
    } else {
      (tokenFactor.contains(user) ? sharded : whole) = true;
    }
  }
}

bool SequenceTactic::isFedByReduction(Value value) {
  if (isUnreduced(value))
    return true;
  if (auto result = dyn_cast<OpResult>(value)) {
    if (Value returned = getReturned(result))
      return isFedByReduction(returned);
    return fedByReductions.contains(result.getOwner());
  }
  auto argument = cast<BlockArgument>(value);
  if (!tokenArguments.contains(argument))
    return false;
  // The first argument of a layer may be the result of the previous layer. Calls are visited
  // without following this cycle.
  return llvm::any_of(getCallOperands(argument), [&](Value operand) {
    if (isUnreduced(operand))
      return true;
    auto result = dyn_cast<OpResult>(operand);
    if (!result)
      return false;
    if (Value returned = getReturned(result))
      return isUnreduced(returned) ||
             (returned.getDefiningOp() && fedByReductions.contains(returned.getDefiningOp()));
    return fedByReductions.contains(result.getOwner());
  });
}

/// Finds token-sharded ops with an operand that is reduced, directly or through other token-sharded
/// ops.
void SequenceTactic::findFedByReductions() {
  fedByReductions.clear();
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto [op, factor] : tokenFactor) {
      if (fedByReductions.contains(op))
        continue;
      const ShardingRule &rule = problem.classes.getRule(op);
      for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
        bool has = llvm::any_of(dims, [f = int(factor)](const ShardingRule::Dim &dim) {
          return llvm::is_contained(dim, f);
        });
        if (has && isFedByReduction(operand)) {
          fedByReductions.insert(op);
          changed = true;
          break;
        }
      }
    }
  }
}

/// Returns the operands that are sharded only because the op, or their producer, is token-sharded.
SmallVector<Value> SequenceTactic::getShardedOperands(Operation *op, unsigned factor) {
  SmallVector<Value> values;
  const ShardingRule &rule = problem.classes.getRule(op);
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    bool has = llvm::any_of(
        dims, [&](const ShardingRule::Dim &dim) { return llvm::is_contained(dim, int(factor)); });
    if (has && (isTokenSharded(operand) || isUnreduced(operand)))
      values.push_back(operand);
  }
  return values;
}

bool SequenceTactic::isOnlyUsedWhole(Operation *op) {
  bool sharded = false, whole = false;
  for (Value result : op->getResults())
    collectUsers(result, sharded, whole);
  return whole && !sharded;
}

/// Returns true if all dimensions except tokens have size one.
bool SequenceTactic::isPerToken(Value value) {
  auto dim = getTokenDim(value);
  if (!dim)
    return false;
  for (auto [i, size] : llvm::enumerate(getSizes(value)))
    if (i != *dim && !size.isConstant(1))
      return false;
  return true;
}

/// Returns true if the sharded operands of `op` are reduced values with one number per token and no
/// other readers, directly or through other such ops.
bool SequenceTactic::comesFromPerTokenSums(Operation *op, unsigned factor) {
  SmallVector<Value> operands = getShardedOperands(op, factor);
  return !operands.empty() && llvm::all_of(operands, [&](Value operand) {
    if (!operand.hasOneUse() || !isPerToken(operand))
      return false;
    if (isUnreduced(operand))
      return true;
    auto it = tokenFactor.find(operand.getDefiningOp());
    return it != tokenFactor.end() && comesFromPerTokenSums(it->first, it->second);
  });
}

/// Returns the estimated seconds to make all tokens of a sharded value available, by an all-gather
/// of the value or, if it has no other readers, of the operands of its op.
double SequenceTactic::getSecondsForAllTokens(Value value, unsigned depth) {
  bool sharded = false, whole = false;
  collectUsers(value, sharded, whole);
  if (whole)
    return 0;
  double seconds = getGatherSeconds(value);
  auto it = tokenFactor.find(value.getDefiningOp());
  if (it == tokenFactor.end() || !value.hasOneUse() || it->first->getNumResults() != 1 ||
      depth == 8)
    return seconds;
  double before = 0;
  for (Value operand : getShardedOperands(it->first, it->second))
    before += getSecondsForAllTokens(operand, depth + 1);
  return std::min(seconds, before);
}

bool SequenceTactic::shouldLeave(Operation *op, unsigned factor) {
  bool sharded = false, whole = false;
  double out = 0;
  for (Value result : op->getResults()) {
    collectUsers(result, sharded, whole);
    out += getGatherSeconds(result);
  }
  if (!whole)
    return false;
  if (!fedByReductions.contains(op))
    return true;
  if (sharded)
    return false;
  if (llvm::all_of(op->getResults(), [&](Value v) { return isPerToken(v); }) &&
      comesFromPerTokenSums(op, factor))
    return true;
  // Values that would be gathered instead.
  SmallVector<Value> operands = getShardedOperands(op, factor);
  double in = 0;
  for (Value operand : operands)
    in += getSecondsForAllTokens(operand);
  // Other ops that could read the same gathered operand.
  if (operands.size() == 1)
    for (Operation *user : operands[0].getUsers()) {
      auto other = tokenFactor.find(user);
      if (user != op && other != tokenFactor.end() && isOnlyUsedWhole(user) &&
          getShardedOperands(user, other->second).size() == 1)
        for (Value result : user->getResults())
          out += getGatherSeconds(result);
    }
  // A shift on all tokens needs no communication.
  return problem.getPermuted(op, factor).empty() ? out > in : out >= in;
}

LogicalResult SequenceTactic::run() {
  int64_t parts = problem.spec.grid.size("tp");
  if (!problem.spec.sequenceParallel || parts == 1)
    return success();
  tokenAxes = problem.getAtoms("tp");
  findTokens();
  for (Operation *op : problem.getOps())
    if (auto factor = getTokenFactor(op))
      tokenFactor[op] = *factor;

  bool changed = true;
  while (changed) {
    changed = false;
    shardArguments();
    findFedByReductions();
    for (auto [op, factor] : tokenFactor)
      if (shouldLeave(op, factor)) {
        tokenFactor.erase(op);
        changed = true;
        break;
      }
  }
  if (tokenFactor.empty())
    return success();

  for (const FactorClasses::Classes &list : tokens) {
    ::tpc::SymExpr size(1);
    for (int cls : list)
      size = size * problem.classes.getSize(cls);
    int64_t count = llvm::count_if(tokenFactor, [&](auto &entry) {
      return problem.classes.getFactorClasses(entry.first, entry.second) == list;
    });
    if (count == 0)
      continue;
    state.explain("tokens " + size.str() + " over tp " + std::to_string(parts) +
                  " between row-parallel and column-parallel matmuls: " + std::to_string(count) +
                  " ops");
  }
  auto expectReshards = [&](Value value) {
    state.expect(value, nullptr, tokenAxes, "matmuls that tp splits need all tokens");
  };
  for (auto [op, factor] : tokenFactor) {
    state.place(op, factor, tokenAxes, "tp splits nothing else in this op");
    if (!problem.getPermuted(op, factor).empty())
      state.expectPermutation(op, tokenAxes, "tp");
    llvm::for_each(op->getResults(), expectReshards);
  }
  for (auto [argument, dim] : tokenArguments) {
    state.place(cast<BlockArgument>(argument), dim, tokenAxes, "an op of the layer reads a shard");
    expectReshards(argument);
  }
  return success();
}

} // namespace

LogicalResult mlir::tpc::seedSequence(PartitionState &state) { return SequenceTactic(state).run(); }
