//===- Cost.h - What ops cost on one rank -----------------------*- C++ -*-===//
//
// An estimate from sharding rules and local sizes alone: an op takes the longer of
// its arithmetic (points of the rule's iteration space on this rank, times operations per
// point) and its memory traffic (operands and results); a collective takes what the links of its
// axes say (LinkModel.h). Arithmetic and memory are those of one GPU of the nodes whose links
// are the default, in single precision; what matters are ratios between parts of one model.
// Estimated for the rank with coordinate 0 on each axis, which has the largest part of everything.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_COST_H
#define TPC_ANALYSIS_COST_H

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/OpConcern.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

struct Cost {
  double seconds = 0;
  double flops = 0;
  double traffic = 0;      // bytes read and written
  double communicated = 0; // bytes
  double weightBytes = 0;  // parameters held

  Cost &operator+=(const Cost &o);
};

/// Of parameters that are on one rank, those that take memory: one that is used twice in the same
/// way is held once, and so is a head that is the transpose of the embedding's
/// table, split alike.
SmallVector<ParameterOp> getHeldParameters(ArrayRef<Operation *> parameters);

class CostModel {
public:
  static constexpr double flopsPerSecond = 6e13;
  static constexpr double memoryBytesPerSecond = 3e12;

  explicit CostModel(ModuleOp module);

  /// Bytes of a value on this rank.
  double getBytes(Type type) const;
  /// An error for the first op of the module of which it is not known what it costs.
  LogicalResult check() const;
  /// One op, as its model says; a call costs what its callee's ops cost. Parameters cost memory
  /// where they are defined and traffic where they are read.
  Cost getCost(Operation *op);
  /// Sending a value to the next stage.
  double getSendSeconds(Type type) const;
  /// Writing a value to memory and reading it again.
  double getHoldSeconds(Type type) const { return 2 * getBytes(type) / memoryBytesPerSecond; }

  // For models of ops.
  Cost getCalled(func::CallOp call);
  Cost getCommunicated(CollectiveOpInterface op) const;
  /// `read`: the operands that are read as a whole; `part`: of all points those that are computed.
  Cost getComputed(ShardingRuleOpInterface op, ValueRange read, double part = 1) const;
  /// The value of a size that is estimated with.
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

/// Attaches what ops cost.
void registerCostModels(DialectRegistry &registry);
SmallVector<OpConcern> getCostConcerns();

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_COST_H
