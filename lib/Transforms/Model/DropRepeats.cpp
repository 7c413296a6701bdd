//===- DropRepeats.cpp - Removal of repeated elements ---------------------===//
//
// Some models repeat each head of keys for its group of query heads early, before other ops (Falcon
// with groups: before a rotary embedding):
//
//     [b, s, 2, 1, d] -> expand [b, s, 2, 4, d] -> reshape [b, s, 8, d] -> cos, sin, halves -> keys
//
// The ops after the expand process heads independently, that is, heads are a parallel factor of
// their sharding rules. All ops from the result back to the expand are cloned with one head per
// group.
//
//===----------------------------------------------------------------------===//

#include "DropRepeats.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Maximum length of a chain; input files may be adversarial.
constexpr unsigned kMaxDepth = 64;

class Dropper {
public:
  explicit Dropper(const SymExpr &count) : count(count) {}

  Value drop(Value v, int64_t dim, unsigned depth = 0) {
    auto it = done.find({v, dim});
    if (it != done.end())
      return it->second;
    Value result = depth < kMaxDepth ? compute(v, dim, depth) : Value();
    return done[{v, dim}] = result;
  }

private:
  Value compute(Value v, int64_t dim, unsigned depth) {
    if (!v.getDefiningOp())
      return {};
    Movement m = Movement::of(v, Movement::Expands);
    Movement::Dim once = withoutRepeats(m, m.dims[dim]);
    if (once.size() < m.dims[dim].size() && m.dimSize(once) == count) {
      m.dims[dim] = once;
      OpBuilder builder(v.getDefiningOp());
      return m.build(builder, v.getLoc());
    }
    return cloneWithoutRepeats(v.getDefiningOp(), dim, depth);
  }

  /// Clones the op, with one element per run of repeats in its operands and result.
  Value cloneWithoutRepeats(Operation *op, int64_t dim, unsigned depth) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || op->getNumResults() != 1 || op->getNumRegions() != 0)
      return {};
    ShardingRule rule = ruled.getShardingRule();
    const ShardingRule::Dim &factors = rule.results[0][dim];
    if (factors.size() != 1 || rule.factors[factors[0]].kind != FactorKind::Parallel)
      return {};
    IRMapping mapping;
    bool any = false;
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      for (auto [i, list] : llvm::enumerate(dims)) {
        if (!llvm::is_contained(list, factors[0]))
          continue;
        Value without = list.size() == 1 ? drop(operand, i, depth + 1) : Value();
        Value other = mapping.lookupOrNull(operand);
        if (!without || (other && other != without))
          return {};
        mapping.map(operand, without);
        any = true;
      }
    if (!any)
      return {};
    OpBuilder builder(op);
    Operation *made = builder.clone(*op, mapping);
    SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
    sizes[dim] = count;
    made->getResult(0).setType(makeTensorType(elementTypeOf(op->getResult(0)), sizes));
    return made->getResult(0);
  }

  SymExpr count;
  DenseMap<std::pair<Value, int64_t>, Value> done;
};

} // namespace

Movement::Dim mlir::tpc::withoutRepeats(const Movement &m, Movement::Dim dim) {
  while (!dim.empty() && m.factors[dim.back()].broadcast)
    dim.pop_back();
  return dim;
}

Value mlir::tpc::dropRepeats(Value v, int64_t dim, const SymExpr &count) {
  return Dropper(count).drop(v, dim);
}
