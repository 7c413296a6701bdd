//===- Cost.h - Cost of ops on one rank -------------------------*- C++ -*-===//
//
// Estimates from sharding rules and local sizes. An op takes the longer of its arithmetic time
// (points of the rule's iteration space on this rank, times operations per point) and its memory
// time (operands and results). A collective takes the time that the links of its axes determine
// (LinkModel.h). Arithmetic and memory rates are those of one GPU of the nodes with the default
// links, in single precision; only ratios between sections of one model matter. Costs are those of
// the rank with coordinate 0 on each axis, which has the largest shard of everything.
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

/// Returns the parameters of one rank that take memory. Equal uses of a parameter share one copy;
/// so does a language-model head that is the transpose of the embedding's table with the same
/// split.
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
  /// Returns the cost of one op by its model; for a call, the cost of the callee's ops. Parameters
  /// cost memory where they are defined and traffic where they are read.
  Cost getCost(Operation *op);
  /// Returns the seconds for sending a value to the next stage.
  double getSendSeconds(Type type) const;
  /// Returns the seconds for writing a value to memory and reading it again.
  double getStoreLoadSeconds(Type type) const { return 2 * getBytes(type) / memoryBytesPerSecond; }

  // For models of ops.
  Cost getCalled(func::CallOp call);
  Cost getCommunicated(CollectiveOpInterface op) const;
  /// `read`: operands that are read completely; `part`: fraction of the points that is computed.
  Cost getComputed(ShardingRuleOpInterface op, ValueRange read, double part = 1) const;
  /// Returns the nominal value of a size, which estimates use.
  double getNominal(const ::tpc::SymExpr &size) const { return double(evaluateOr1(size, symbols)); }

private:
  double getPoints(ShardingRuleOpInterface op) const;

  ModuleOp module;
  GridAttr grid;
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
