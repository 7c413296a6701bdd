//===- Cost.h - Cost of ops on one rank -------------------------*- C++ -*-===//
//
// Roofline estimates from sharding rules and local sizes. The time of an op is the maximum of its
// arithmetic time (points of the rule's iteration space on this rank, times operations per point)
// and its memory time (bytes of operands and results). LinkModel.h estimates the time of
// collectives. Arithmetic and memory rates are those of one GPU in single precision, on the machine
// of the default links. Decisions depend only on ratios of costs. Costs are those of the rank with
// coordinate 0 on each axis, which has the largest shard of every value.
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_COST_H
#define TPC_ANALYSIS_COST_H

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/CoverageColumn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

struct Cost {
  double seconds = 0;
  double flops = 0;
  double traffic = 0;      // bytes read and written
  double communicated = 0; // bytes
  double weightBytes = 0;  // resident parameters

  Cost &operator+=(const Cost &o);
};

/// Returns one parameter op for each copy of a weight in the memory of a rank. Ops with equal views
/// and distributions share a copy. A language-model head that is the transpose of the embedding
/// table shares the table's copy if both have the same split.
SmallVector<ParameterOp> getDistinctParameters(ArrayRef<Operation *> parameters);

class CostModel {
public:
  static constexpr double flopsPerSecond = 6e13;
  static constexpr double memoryBytesPerSecond = 3e12;

  explicit CostModel(ModuleOp module);

  /// Returns the bytes of a value on this rank.
  double getBytes(Type type) const;
  /// Emits an error for the first op of the module without a cost model.
  LogicalResult check() const;
  /// Returns the cost of one op; for a call, the cost of the callee's ops. The memory of a
  /// parameter is counted at its definition, its traffic at its uses.
  Cost getCost(Operation *op);
  /// Returns the seconds for sending a value to the next stage.
  double getSendSeconds(Type type) const;
  /// Returns the seconds for writing a value to memory and reading it again.
  double getStoreLoadSeconds(Type type) const { return 2 * getBytes(type) / memoryBytesPerSecond; }

  // Used by the cost models of ops.
  Cost getCallCost(func::CallOp call);
  Cost getCollectiveCost(CollectiveOpInterface op) const;
  /// Returns the cost of a compute op. `read`: operands that are read completely; `fraction`:
  /// fraction of the iteration space that is computed.
  Cost getComputeCost(ShardingRuleOpInterface op, ValueRange read, double fraction = 1) const;
  /// Returns the nominal value of a size.
  double getNominal(const ::tpc::SymExpr &size) const { return double(evaluateOr1(size, symbols)); }

private:
  double getPoints(ShardingRuleOpInterface op) const;

  ModuleOp module;
  MeshAttr grid;
  LinkModel links;
  Symbols symbols;
  std::map<std::string, int64_t> coordinates; // all 0
  DenseMap<Operation *, Cost> functions;
};

/// Attaches cost models to ops.
void registerCostModels(DialectRegistry &registry);
SmallVector<CoverageColumn> getCostCoverage();

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_COST_H
