//===- SequenceTactic.cpp - Tokens over tp --------------------------------===//
//
// Between a row-parallel product and the next column-parallel one, every rank
// of tp would do the same work on the same [tokens, hidden] values. This tactic
// places these values on parts of the tokens instead. Nothing else changes: what
// was unreduced is then reduced into parts (reduce-scatter for all-reduce), and a
// column-parallel product needs whole tokens (all-gather).
//
// The choice is made for each op: those in which tokens are one parallel factor and
// tp splits nothing else begin as placed; then ops leave again
//
//  (a) whose operands nobody reduced or placed (slicing them is free) but whose
//      results are needed whole: they would only add an all-gather;
//  (b) whose results are all needed whole and take longer to gather than the operands
//      (LinkModel.h), as of several ops that share one (a parallel residual with two norms
//      gathers once);
//  (c) that compute a number per token of sums that are numbers per token, as of a norm over what
//      tp splits, if all that they make is needed whole: there is no work to share, and one
//      all-reduce is less than a reduce-scatter and a gather.
//
// Each step removes an op, so it ends.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class SequenceTactic {
public:
  SequenceTactic(Plan &plan)
      : plan(plan), symbols(getNominalSymbols(plan.module)), links(plan.module) {}
  LogicalResult run();

private:
  void findTokens();
  std::optional<unsigned> getTokenFactor(Operation *op);
  std::optional<unsigned> getTokenDim(Value value);
  bool isUnreduced(Value value);
  bool passesUnreduced(Operation *op);
  bool computePassesUnreduced(Operation *op);
  bool isPlaced(Value value);
  void placeArguments();
  void collectUsers(Value value, bool &placed, bool &whole);
  void findGrounded();
  bool isGrounded(Value value);
  SmallVector<Value> getPlacedOperands(Operation *op, unsigned factor);
  bool isOnlyUsedWhole(Operation *op);
  bool isPerToken(Value value);
  bool comesFromNumbers(Operation *op, unsigned factor);
  bool shouldLeave(Operation *op, unsigned factor);
  Value getReturned(OpResult callResult);
  SmallVector<Value> getCallOperands(BlockArgument argument);
  double getBytes(Value value);
  double getGatherSeconds(Value value);
  double getSecondsToBeWhole(Value value, unsigned depth = 0);

  Plan &plan;
  Symbols symbols;
  LinkModel links;
  SmallVector<FactorClasses::Classes> tokens;
  DenseSet<Operation *> grounded;
  DenseMap<Operation *, bool> passing;
};

/// Tokens are what row-parallel results have before their last dimension. Other reductions (the
/// maximum of a token's logits) have no such dimension.
void SequenceTactic::findTokens() {
  for (Operation *op : plan.getOps())
    for (Value result : op->getResults()) {
      if (!isa<MatmulOp, EmbeddingOp>(op) || !isUnreduced(result))
        continue;
      int64_t rank = cast<RankedTensorType>(result.getType()).getRank();
      if (rank == 0)
        continue;
      FactorClasses::Classes list = plan.classes.getClasses(result, std::max<int64_t>(rank - 2, 0));
      if (!list.empty() && !plan.hasAxis(list, "tp") && !llvm::is_contained(tokens, list))
        tokens.push_back(list);
    }
}

bool SequenceTactic::isUnreduced(Value value) {
  return plan.isUnreduced(value, "tp") ||
         (value.getDefiningOp() && passesUnreduced(value.getDefiningOp()));
}

/// Whether `op` works on partial sums (adds two of them, say): they are reduced, once,
/// after it. The same conditions as in tpc-insert-reshards. Nothing that it depends on changes
/// here, and each op is looked at once: what is added to itself again and again has exponentially
/// many paths.
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
         llvm::any_of(plan.classes.getRule(op).linear, [&](const ShardingRule::Linear &l) {
           return ArrayRef<int>(l.operands) == ArrayRef<int>(unreduced);
         });
}

/// The factor that would be split in `op`, if it can work on a part of the tokens.
std::optional<unsigned> SequenceTactic::getTokenFactor(Operation *op) {
  if (isa<ParameterOp, ConstantOp, SizeOp>(op) || op->getNumResults() == 0 || passesUnreduced(op))
    return std::nullopt;
  const ShardingRule &rule = plan.classes.getRule(op);
  std::optional<unsigned> found;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    FactorClasses::Classes list = plan.classes.getFactorClasses(op, factor);
    if (plan.hasAxis(list, "tp", Plan::getPlace(op)))
      return std::nullopt;
    FactorKind kind = rule.factors[factor].kind;
    if (!found && (kind == FactorKind::Parallel || kind == FactorKind::Permuted) &&
        llvm::is_contained(tokens, list))
      found = factor;
  }
  if (!found)
    return std::nullopt;
  // Parts of tokens that are whole here are no parts of what each replica has elsewhere.
  for (int cls : plan.classes.getFactorClasses(op, *found))
    if (plan.getAxes(cls, Plan::getPlace(op)).size() != plan.getAxes(cls).size())
      return std::nullopt;
  // It must be a dimension of its own in every result and operand that has it.
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
    if (llvm::is_contained(tokens, plan.classes.getClasses(value, dim)))
      return dim;
  return std::nullopt;
}

double SequenceTactic::getBytes(Value value) { return estimateBytes(value, symbols); }

double SequenceTactic::getGatherSeconds(Value value) {
  auto tp = StringAttr::get(plan.module.getContext(), "tp");
  return links.getSeconds(::tpc::Transfer::AllGather, tp, getBytes(value));
}

Value SequenceTactic::getReturned(OpResult result) {
  auto call = dyn_cast<func::CallOp>(result.getOwner());
  if (!call)
    return {};
  auto callee = plan.module.lookupSymbol<func::FuncOp>(call.getCallee());
  return callee.front().getTerminator()->getOperand(result.getResultNumber());
}

SmallVector<Value> SequenceTactic::getCallOperands(BlockArgument argument) {
  SmallVector<Value> operands;
  auto callee = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  plan.module.walk([&](func::CallOp call) {
    if (call.getCallee() == callee.getName())
      operands.push_back(call.getOperand(argument.getArgNumber()));
  });
  return operands;
}

bool SequenceTactic::isPlaced(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    if (Value returned = getReturned(result))
      return isPlaced(returned);
    return plan.tokenFactor.contains(result.getOwner());
  }
  return plan.tokenArguments.contains(value);
}

/// An argument of a layer is placed if some user of it is.
void SequenceTactic::placeArguments() {
  plan.tokenArguments.clear();
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto function : plan.module.getOps<func::FuncOp>()) {
      if (function.getName() == "main" || function.isExternal())
        continue;
      for (BlockArgument argument : function.getArguments()) {
        bool placed = false, whole = false;
        if (plan.tokenArguments.contains(argument) || !getTokenDim(argument))
          continue;
        for (OpOperand &use : argument.getUses()) {
          Operation *user = use.getOwner();
          if (auto call = dyn_cast<func::CallOp>(user)) {
            auto callee = plan.module.lookupSymbol<func::FuncOp>(call.getCallee());
            placed |= plan.tokenArguments.contains(callee.getArgument(use.getOperandNumber()));
          } else {
            placed |= plan.tokenFactor.contains(user);
          }
        }
        (void)whole;
        if (placed) {
          plan.tokenArguments[argument] = *getTokenDim(argument);
          changed = true;
        }
      }
    }
  }
}

/// Who uses `value`: ops that are placed, ops that need whole tokens.
void SequenceTactic::collectUsers(Value value, bool &placed, bool &whole) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<func::CallOp>(user)) {
      auto callee = plan.module.lookupSymbol<func::FuncOp>(call.getCallee());
      bool is = plan.tokenArguments.contains(callee.getArgument(use.getOperandNumber()));
      (is ? placed : whole) = true;
    } else if (isa<func::ReturnOp>(user)) {
      auto function = cast<func::FuncOp>(user->getParentOp());
      if (function.getName() == "main") {
        placed = true; // outputs stay where they arise
        continue;
      }
      plan.module.walk([&](func::CallOp call) {
        if (call.getCallee() == function.getName())
          collectUsers(call.getResult(use.getOperandNumber()), placed, whole);
      });
    } else {
      (plan.tokenFactor.contains(user) ? placed : whole) = true;
    }
  }
}

bool SequenceTactic::isGrounded(Value value) {
  if (isUnreduced(value))
    return true;
  if (auto result = dyn_cast<OpResult>(value)) {
    if (Value returned = getReturned(result))
      return isGrounded(returned);
    return grounded.contains(result.getOwner());
  }
  auto argument = cast<BlockArgument>(value);
  if (!plan.tokenArguments.contains(argument))
    return false;
  // A layer's first argument comes from the layer before as well: look at
  // calls without following the chain of layers around.
  return llvm::any_of(getCallOperands(argument), [&](Value operand) {
    if (isUnreduced(operand))
      return true;
    auto result = dyn_cast<OpResult>(operand);
    if (!result)
      return false;
    if (Value returned = getReturned(result))
      return isUnreduced(returned) ||
             (returned.getDefiningOp() && grounded.contains(returned.getDefiningOp()));
    return grounded.contains(result.getOwner());
  });
}

/// Placed ops whose operands come, directly or through placed ops, from a reduction.
void SequenceTactic::findGrounded() {
  grounded.clear();
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto [op, factor] : plan.tokenFactor) {
      if (grounded.contains(op))
        continue;
      const ShardingRule &rule = plan.classes.getRule(op);
      for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
        bool has = llvm::any_of(dims, [f = int(factor)](const ShardingRule::Dim &dim) {
          return llvm::is_contained(dim, f);
        });
        if (has && isGrounded(operand)) {
          grounded.insert(op);
          changed = true;
          break;
        }
      }
    }
  }
}

/// Operands that a placed op has in parts only because it, or their producer, is placed.
SmallVector<Value> SequenceTactic::getPlacedOperands(Operation *op, unsigned factor) {
  SmallVector<Value> values;
  const ShardingRule &rule = plan.classes.getRule(op);
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    bool has = llvm::any_of(
        dims, [&](const ShardingRule::Dim &dim) { return llvm::is_contained(dim, int(factor)); });
    if (has && (isPlaced(operand) || isUnreduced(operand)))
      values.push_back(operand);
  }
  return values;
}

bool SequenceTactic::isOnlyUsedWhole(Operation *op) {
  bool placed = false, whole = false;
  for (Value result : op->getResults())
    collectUsers(result, placed, whole);
  return whole && !placed;
}

/// Whether all dimensions but that of tokens have one element.
bool SequenceTactic::isPerToken(Value value) {
  auto dim = getTokenDim(value);
  if (!dim)
    return false;
  for (auto [i, size] : llvm::enumerate(getSizes(value)))
    if (i != *dim && !size.isConstant(1))
      return false;
  return true;
}

/// Whether what `op` has in parts are sums of a number per token that nobody else reads, directly
/// or through other ops of that kind.
bool SequenceTactic::comesFromNumbers(Operation *op, unsigned factor) {
  SmallVector<Value> operands = getPlacedOperands(op, factor);
  return !operands.empty() && llvm::all_of(operands, [&](Value operand) {
    if (!operand.hasOneUse() || !isPerToken(operand))
      return false;
    if (isUnreduced(operand))
      return true;
    auto it = plan.tokenFactor.find(operand.getDefiningOp());
    return it != plan.tokenFactor.end() && comesFromNumbers(it->first, it->second);
  });
}

/// Estimated seconds to have all tokens of what is in parts: it is gathered, or, if nobody else
/// reads it, what it is computed from.
double SequenceTactic::getSecondsToBeWhole(Value value, unsigned depth) {
  bool placed = false, whole = false;
  collectUsers(value, placed, whole);
  if (whole)
    return 0;
  double seconds = getGatherSeconds(value);
  auto it = plan.tokenFactor.find(value.getDefiningOp());
  if (it == plan.tokenFactor.end() || !value.hasOneUse() || it->first->getNumResults() != 1 ||
      depth == 8)
    return seconds;
  double before = 0;
  for (Value operand : getPlacedOperands(it->first, it->second))
    before += getSecondsToBeWhole(operand, depth + 1);
  return std::min(seconds, before);
}

bool SequenceTactic::shouldLeave(Operation *op, unsigned factor) {
  bool placed = false, whole = false;
  double out = 0;
  for (Value result : op->getResults()) {
    collectUsers(result, placed, whole);
    out += getGatherSeconds(result);
  }
  if (!whole)
    return false;
  if (!grounded.contains(op))
    return true;
  if (placed)
    return false;
  if (llvm::all_of(op->getResults(), [&](Value v) { return isPerToken(v); }) &&
      comesFromNumbers(op, factor))
    return true;
  // What would have to be gathered instead.
  SmallVector<Value> operands = getPlacedOperands(op, factor);
  double in = 0;
  for (Value operand : operands)
    in += getSecondsToBeWhole(operand);
  // Others that could use the same gathered operand.
  if (operands.size() == 1)
    for (Operation *user : operands[0].getUsers()) {
      auto other = plan.tokenFactor.find(user);
      if (user != op && other != plan.tokenFactor.end() && isOnlyUsedWhole(user) &&
          getPlacedOperands(user, other->second).size() == 1)
        for (Value result : user->getResults())
          out += getGatherSeconds(result);
    }
  // A shift of all tokens needs no communication of its own.
  return plan.getPermuted(op, factor).empty() ? out > in : out >= in;
}

LogicalResult SequenceTactic::run() {
  int64_t parts = plan.spec.grid.size(::tpc::Axis::TP);
  if (!plan.spec.sequenceParallel || parts == 1)
    return success();
  findTokens();
  for (Operation *op : plan.getOps())
    if (auto factor = getTokenFactor(op))
      plan.tokenFactor[op] = *factor;

  bool changed = true;
  while (changed) {
    changed = false;
    placeArguments();
    findGrounded();
    for (auto [op, factor] : plan.tokenFactor)
      if (shouldLeave(op, factor)) {
        plan.tokenFactor.erase(op);
        changed = true;
        break;
      }
  }
  if (plan.tokenFactor.empty())
    return success();

  TacticRecord record{"sp"};
  for (const FactorClasses::Classes &list : tokens) {
    ::tpc::SymExpr size(1);
    for (int cls : list)
      size = size * plan.classes.getSize(cls);
    int64_t count = llvm::count_if(plan.tokenFactor, [&](auto &entry) {
      return plan.classes.getFactorClasses(entry.first, entry.second) == list;
    });
    if (count == 0)
      continue;
    record.splits.push_back(
        "tokens " + size.str() + " over tp " + std::to_string(parts) +
        " between row-parallel and column-parallel products: " + std::to_string(count) + " ops");
  }
  auto claim = [&](Value value) {
    record.claims.push_back({value,
                             nullptr,
                             {StringAttr::get(plan.module.getContext(), "tp")},
                             "products that tp splits need all tokens"});
  };
  for (auto [op, factor] : plan.tokenFactor) {
    if (!plan.getPermuted(op, factor).empty())
      plan.claimPermutation(op, "tp", record);
    llvm::for_each(op->getResults(), claim);
  }
  for (auto [argument, dim] : plan.tokenArguments)
    claim(argument);
  plan.records.push_back(std::move(record));
  return success();
}

} // namespace

LogicalResult mlir::tpc::applySequenceTactic(Plan &plan) { return SequenceTactic(plan).run(); }
