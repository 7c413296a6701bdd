//===- ShardingRule.h - Sharding rules of ops as einsums --------*- C++ -*-===//
//
// A sharding rule is an einsum over factors. The rule of `matmul` of [m, k] by [k, n] is
//
//   factors  m: parallel, k: reduction (sum), n: parallel
//   operands ([m], [k]), ([k], [n])          results ([m], [n])
//
// Dimensions may be products of factors. The rule of the reshape [b * s, 40] -> [b, s, 5, 8] is
//
//   factors  b, s, h = 5, d = 8: parallel
//   operands ([b, s], [h, d])                results ([b], [s], [h], [d])
//
// The rows of an embedding table are a reduction factor that occurs only in that operand: a rank
// with a shard of the rows returns zero for other ids.
//
// An axis that splits a factor splits it in all operands and results. If it splits a reduction
// factor, the results are unreduced over the axis. An `Unsplittable` factor (the dimension of a
// softmax) must not be split. A `Permuted` factor (the dimension of a cyclic shift) consists of
// runs of consecutive elements, and the op permutes elements within runs; if a run is split, the op
// is a collective-permute. Operands may be unreduced over an axis if they are exactly the operands
// of one entry of `linear`; then the results are unreduced over the axis too.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_INTERFACES_SHARDINGRULE_H
#define TPC_INTERFACES_SHARDINGRULE_H

#include "mlir/IR/OpDefinition.h"
#include "tpc/Support/SymExpr.h"

namespace mlir::tpc {

enum class FactorKind {
  Parallel,
  ReductionSum,
  ReductionMax,
  ReductionMin,
  Permuted,
  Unsplittable
};

struct ShardingRule {
  struct Factor {
    ::tpc::SymExpr size;
    FactorKind kind;
    /// Length of the runs of a permuted factor. Elements stay within their run.
    std::optional<::tpc::SymExpr> run = std::nullopt;
  };
  /// Factor indices of one dimension, major to minor. Empty for a broadcast dimension of size 1.
  using Dim = SmallVector<int, 2>;
  using Dims = SmallVector<Dim, 4>;
  struct Linear {
    SmallVector<int, 2> operands;
    /// Whether the op has no arithmetic, so that it commutes with max and min as well as with sum.
    bool movesOnly = false;
  };

  SmallVector<Factor> factors;
  SmallVector<Dims> operands; // one entry for each operand
  SmallVector<Dims> results;
  SmallVector<Linear> linear;

  int addFactor(const ::tpc::SymExpr &size, FactorKind kind = FactorKind::Parallel) {
    factors.push_back({size, kind, std::nullopt});
    return factors.size() - 1;
  }
};

/// Checks operand and result types of `op` against its rule. A factor has the same axes in all
/// operands and results; unsplittable factors have none; no axis occurs twice; local and global
/// types are not mixed. Results are unreduced over exactly the axes that split a reduction factor
/// or over which a linear operand is unreduced. Called by the interface's verifier.
LogicalResult verifyDistribution(Operation *op);

} // namespace mlir::tpc

#include "tpc/Interfaces/ShardingRuleInterfaces.h.inc"

#endif // TPC_INTERFACES_SHARDINGRULE_H
