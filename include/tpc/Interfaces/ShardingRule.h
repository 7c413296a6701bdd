//===- ShardingRule.h - How an op's dimensions are related ------*- C++ -*-===//
//
// An einsum over factors. `matmul` of [m, k] by [k, n] is
//
//   factors  m: parallel, k: reduction (sum), n: parallel
//   operands ([m], [k]), ([k], [n])          results ([m], [n])
//
// A reshape has compound dimensions: [b * s, 40] -> [b, s, 5, 8] is
//
//   factors  b, s, h = 5, d = 8: parallel
//   operands ([b, s], [h, d])                results ([b], [s], [h], [d])
//
// The table of an embedding has a reduction factor that occurs in that operand
// alone: a rank that holds some rows of it adds zero for other ids.
//
// An axis that splits a parallel factor splits it wherever it occurs; one that
// splits a reduction factor leaves the results unreduced over that axis; a
// `Whole` factor (a softmax's dimension) must not be split. Along a `Permuted`
// factor (a cyclic shift's dimension) elements change places, within runs at its
// minor end: split inside of a run, the op is a collective-permute. An operand that is
// unreduced over an axis is allowed where the op is linear: for one entry of
// `linear` exactly the operands in it are unreduced over the axis, and then
// the results are too.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_INTERFACES_SHARDINGRULE_H
#define TPC_INTERFACES_SHARDINGRULE_H

#include "mlir/IR/OpDefinition.h"
#include "tpc/Support/SymExpr.h"

namespace mlir::tpc {

enum class FactorKind { Parallel, ReductionSum, ReductionMax, ReductionMin, Permuted, Whole };

struct ShardingRule {
  struct Factor {
    ::tpc::SymExpr size;
    FactorKind kind;
    /// Of a permuted factor: the elements of a run, in which they stay.
    std::optional<::tpc::SymExpr> run = std::nullopt;
  };
  /// Factor indices of one dimension, major to minor. Empty: the dimension has
  /// size 1 and broadcasts.
  using Dim = SmallVector<int, 2>;
  using Dims = SmallVector<Dim, 4>;
  struct Linear {
    SmallVector<int, 2> operands;
    /// Moves values without arithmetic: max and min pass as well as sum.
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

/// Checks operand and result types of `op` against its rule: the same axes on
/// a factor wherever it occurs, whole factors whole, results unreduced exactly
/// where a reduction is split or a linear operand is unreduced, no axis twice,
/// local and global types not mixed. Used by the interface's verifier.
LogicalResult verifyDistribution(Operation *op);

} // namespace mlir::tpc

#include "tpc/Interfaces/ShardingRuleInterfaces.h.inc"

#endif // TPC_INTERFACES_SHARDINGRULE_H
