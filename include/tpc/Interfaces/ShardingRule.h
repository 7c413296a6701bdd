//===- ShardingRule.h - Relation between an op's dimensions -----*- C++ -*-===//
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
// The table of an embedding has a reduction factor that occurs only in that operand: a rank with
// some of the rows contributes zero for all other ids.
//
// An axis that splits a parallel factor splits it wherever it occurs. An axis that splits a
// reduction factor leaves the results unreduced over that axis. A `Whole` factor (a softmax's
// dimension) must not be split. Along a `Permuted` factor (a cyclic shift's dimension) elements are
// permuted within runs at its minor end; if a run is split, the op is a collective-permute. An
// operand may be unreduced over an axis if the op is linear: for one entry of `linear`, exactly the
// operands in it are unreduced over the axis, and then the results are too.
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
    /// Permuted factor: the length of a run. Elements stay within their run.
    std::optional<::tpc::SymExpr> run = std::nullopt;
  };
  /// Factor indices of one dimension, major to minor. Empty: the dimension has size 1 and
  /// broadcasts.
  using Dim = SmallVector<int, 2>;
  using Dims = SmallVector<Dim, 4>;
  struct Linear {
    SmallVector<int, 2> operands;
    /// The op moves values without arithmetic, so max and min are preserved as well as sum.
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

/// Checks operand and result types of `op` against its rule: a factor has the same axes wherever it
/// occurs, whole factors are whole, results are unreduced exactly where a reduction is split or a
/// linear operand is unreduced, no axis occurs twice, and local and global types are not mixed.
/// Called by the interface's verifier.
LogicalResult verifyDistribution(Operation *op);

} // namespace mlir::tpc

#include "tpc/Interfaces/ShardingRuleInterfaces.h.inc"

#endif // TPC_INTERFACES_SHARDINGRULE_H
