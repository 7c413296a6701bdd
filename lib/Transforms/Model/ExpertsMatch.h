//===- ExpertsMatch.h - Formula of mixtures of experts ----------*- C++ -*-===//
//
// The parts of a mixture of experts that all forms of exporters have in common: two or three
// projections, an activation, limits, and the replacement by tpc.moe.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_EXPERTSMATCH_H
#define TPC_LIB_TRANSFORMS_MODEL_EXPERTSMATCH_H

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Experts.h"

namespace mlir::tpc {

Value peelReshapes(Value v);

/// Weights of the experts, [experts, n, k], and a bias [experts, n], both restricted to a slice of
/// n (`start`, `size`, `step`). n are the columns of the result, k those of the input.
struct Projection {
  Value weight, bias, input; // input: the other operand of the matmul
  bool isTransposed = false; // weight is [experts, k, n]
  ::tpc::SymExpr start = ::tpc::SymExpr(0), size = ::tpc::SymExpr(0);
  int64_t step = 1;
  SmallVector<Location, 1> locs = {}; // of the matmuls
};

/// Experts around the sum of their results.
class ExpertsMatch {
public:
  explicit ExpertsMatch(Operation *sum) : sum(sum) {}
  virtual ~ExpertsMatch() = default;

protected:
  using SymExpr = ::tpc::SymExpr;

  /// Returns the projection of which `v` is a slice of the columns.
  virtual std::optional<Projection> getProjection(Value v) = 0;
  /// Returns whether `v` is the operand of the experts, and sets `x`.
  virtual bool matchRows(Value v) = 0;

  /// Matches the operand of the last matmul; sets the activation, `up` and `gate`.
  bool matchInner(Value v);
  /// Replaces the sum by tpc.moe of `rows`, reshaped to [tokens, hidden], and routing [tokens,
  /// experts]. `k`: experts per token.
  void replaceBy(OpBuilder &b, Value rows, Value routing, int64_t k);

  Operation *sum; // of the experts' results
  SymExpr tokens = SymExpr(0);
  Value x;
  Projection down, up;
  std::optional<Projection> gate;
  ExpertActivation activation = ExpertActivation::Identity;
  double alpha = 1, beta = 0, limit = 0;

private:
  bool matchGated(Value activated, Value other);
  bool matchActivation(Value v, Value &argument);
  Value getWeight(OpBuilder &b, const Projection &p);
  Value getBias(OpBuilder &b, const Projection &p);
};

/// Replaces experts that are all computed for each token (RaiseDenseExperts.cpp). Returns whether
/// `sum` is the sum of their results.
bool raiseDenseExperts(ReduceOp sum);

/// Replaces a chain of sums of experts that have weights of their own (RaiseSeparateExperts.cpp).
/// Returns whether all operands of the chain are experts; warns if they cannot be replaced.
bool raiseSeparateExperts(AddOp sum);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_EXPERTSMATCH_H
