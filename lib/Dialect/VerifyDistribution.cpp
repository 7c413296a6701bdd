//===- VerifyDistribution.cpp - Verification of types by sharding rules ---===//
//
// Checks operand and result types of an op against its sharding rule, see ShardingRule.h.
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

#include "tpc/Dialect/Dist.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

#include "tpc/Interfaces/ElementsInterfaces.cpp.inc"
#include "tpc/Interfaces/ScalarInterfaces.cpp.inc"
#include "tpc/Interfaces/ShardingRuleInterfaces.cpp.inc"

std::optional<ReductionKind> mlir::tpc::getReduction(FactorKind kind) {
  switch (kind) {
  case FactorKind::ReductionSum:
    return ReductionKind::Sum;
  case FactorKind::ReductionMax:
    return ReductionKind::Max;
  case FactorKind::ReductionMin:
    return ReductionKind::Min;
  case FactorKind::Parallel:
  case FactorKind::Permuted:
  case FactorKind::Unsplittable:
    break;
  }
  return std::nullopt;
}

namespace {
class Checker {
public:
  Checker(Operation *op, ShardingRule rule) : op(op), rule(std::move(rule)) {}

  LogicalResult run() {
    if (rule.operands.size() != op->getNumOperands() || rule.results.size() != op->getNumResults())
      return op->emitOpError("has a sharding rule for a different number of operands or results");
    if (failed(checkScope()))
      return failure();
    factorSplits.resize(rule.factors.size());
    splitSources.resize(rule.factors.size());
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (failed(collect("operand " + std::to_string(i), operand, rule.operands[i])))
        return failure();
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (failed(collect("result " + std::to_string(i), result, rule.results[i])))
        return failure();
    return checkUnreduced();
  }

private:
  static bool hasDist(Value v) {
    return isa_and_present<DistAttr>(cast<RankedTensorType>(v.getType()).getEncoding());
  }

  LogicalResult checkScope() {
    Value local, global;
    auto look = [&](Value v) {
      if (hasDist(v))
        (getDist(v).getLocal() ? local : global) = v;
    };
    llvm::for_each(op->getOperands(), look);
    llvm::for_each(op->getResults(), look);
    if (local && global)
      return op->emitOpError() << "mixes the local value of type " << local.getType()
                               << " with the global one of type " << global.getType();
    return success();
  }

  std::string sizeOf(int factor) { return rule.factors[factor].size.str(); }

  static std::string axesText(DimAttr dim) {
    std::string text = "{";
    for (StringAttr axis : dim.getAllAxes())
      text += (text.size() > 1 ? ", " : "") + axis.getValue().str();
    return text + "}";
  }

  LogicalResult collect(const std::string &what, Value value, const ShardingRule::Dims &dims) {
    DistAttr dist = getDist(value);
    if (dims.size() != dist.getDims().size())
      return op->emitOpError() << what << " must have the rank that the sharding rule has for it";
    for (auto [d, dim] : llvm::enumerate(dist.getDims())) {
      SmallVector<SymExpr> sizes;
      for (int f : dims[d])
        sizes.push_back(rule.factors[f].size);
      if (sizes.empty()) {
        if (dim.isSharded())
          return op->emitOpError() << what << " broadcasts in dimension " << d
                                   << ", which must not be split over " << axesText(dim);
        continue;
      }
      auto parts = splitDim(dim, sizes);
      if (!parts)
        return op->emitOpError() << what << " is split in dimension " << d << " over "
                                 << axesText(dim) << " in a way that its factors do not allow";
      for (auto [f, part] : llvm::zip(dims[d], *parts)) {
        if (rule.factors[f].kind == FactorKind::Unsplittable && part.isSharded())
          return op->emitOpError()
                 << "needs dimension " << d << " of " << what << " (size " << sizeOf(f)
                 << ") unsplit, but it is split over " << axesText(part);
        if (!factorSplits[f]) {
          factorSplits[f] = part;
          splitSources[f] = what;
        } else if (factorSplits[f] != part) {
          return op->emitOpError() << "splits the factor of size " << sizeOf(f) << " over "
                                   << axesText(factorSplits[f]) << " in " << splitSources[f]
                                   << ", but over " << axesText(part) << " in " << what;
        }
      }
    }
    return success();
  }

  // Checks the unreduced axes of the results, and their reduction kinds. A result must be unreduced
  // over exactly these axes: those that split a reduction factor, and those over which linear
  // operands are unreduced. An axis in both sets is an error.
  LogicalResult checkUnreduced() {
    llvm::StringMap<ReductionKind> expected;
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (auto kind = getReduction(factor.kind); kind && factorSplits[f])
        for (StringAttr axis : factorSplits[f].getAllAxes())
          expected[axis.getValue()] = *kind;

    llvm::StringMap<SmallVector<int>> unreduced;
    llvm::StringMap<ReductionKind> kinds;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      PartialAttr partial = getDist(operand).getPartial();
      if (!partial)
        continue;
      for (StringAttr axis : partial.getAxes()) {
        unreduced[axis.getValue()].push_back(i);
        auto [it, first] = kinds.try_emplace(axis.getValue(), partial.getKind());
        if (!first && it->second != partial.getKind())
          return op->emitOpError() << "mixes values that reduce differently "
                                      "over '"
                                   << axis.getValue() << "'";
      }
    }
    for (auto &entry : unreduced) {
      StringRef axis = entry.getKey();
      ReductionKind kind = kinds.lookup(axis);
      if (expected.count(axis))
        return op->emitOpError() << "reduces over '" << axis << "', but operand " << entry.second[0]
                                 << " is still unreduced over it";
      bool linear = llvm::any_of(rule.linear, [&](const auto &l) {
        return ArrayRef<int>(l.operands) == ArrayRef<int>(entry.second) &&
               (l.movesOnly || kind == ReductionKind::Sum);
      });
      if (!linear)
        return op->emitOpError() << "is not linear in operand " << entry.second[0]
                                 << ", which is unreduced (" << stringifyReductionKind(kind)
                                 << ") over '" << axis << "': reduce it first";
      expected[axis] = kind;
    }

    for (Value result : op->getResults()) {
      DistAttr dist = getDist(result);
      for (auto &entry : expected)
        if (!dist.isUnreducedOver(entry.getKey()) || dist.getPartial().getKind() != entry.second)
          return op->emitOpError()
                 << "leaves its result unreduced (" << stringifyReductionKind(entry.second)
                 << ") over '" << entry.getKey() << "', but the result type is not";
      for (StringAttr axis : dist.getPartialAxes())
        if (!expected.count(axis.getValue()))
          return op->emitOpError()
                 << "has a result type that is unreduced over '" << axis.getValue()
                 << "', but neither a split reduction nor an operand causes that";
    }
    return success();
  }

  Operation *op;
  ShardingRule rule;
  // By factor: its split, and the operand or result that determined the split, for errors.
  SmallVector<DimAttr> factorSplits;
  SmallVector<std::string> splitSources;
};
} // namespace

LogicalResult mlir::tpc::verifyDistribution(Operation *op) {
  // A program without distribution has nothing to check.
  auto distributed = [](Value v) {
    auto tensor = dyn_cast<RankedTensorType>(v.getType());
    auto dist = tensor ? dyn_cast_if_present<DistAttr>(tensor.getEncoding()) : DistAttr();
    return dist && (dist.isSharded() || dist.getPartial() || dist.getLocal());
  };
  if (llvm::none_of(op->getOperands(), distributed) && llvm::none_of(op->getResults(), distributed))
    return success();
  // A rule can be computed only if the op's attributes are valid (dimensions, permutations), which
  // type inference checks.
  if (auto typed = dyn_cast<InferTypeOpInterface>(op)) {
    SmallVector<Type> types;
    if (failed(typed.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                      op->getDiscardableAttrDictionary(),
                                      op->getPropertiesStorage(), op->getRegions(), types)))
      return failure();
  }
  // Some ops with an attribute `dim` do not need it for type inference (softmax, iota).
  if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
    if (failed(checkDim(op, op->getNumOperands() ? op->getOperand(0) : op->getResult(0),
                        dim.getInt(), "dim")))
      return failure();
  return Checker(op, cast<ShardingRuleOpInterface>(op).getShardingRule()).run();
}
