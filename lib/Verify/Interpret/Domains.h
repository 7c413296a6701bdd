//===- Domains.h - Domains of values ----------------------------*- C++ -*-===//
//
// Some ops are not defined for all numbers: an index must be in bounds, and a divisor must not be
// zero. Random inputs are chosen such that all ops are defined. For this, requirements on operands
// are propagated backward to the inputs, through ops whose results consist of operand elements or
// are linear in them:
//
//   %1 = tpc.add %ids, 2            %ids from -10 to 5
//   %2 = tpc.reshape %1             %1 from -8 to 7
//   %3 = tpc.embedding %table, %2   table with eight rows: %2 from -8 to 7
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_DOMAINS_H
#define TPC_LIB_VERIFY_INTERPRET_DOMAINS_H

#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// The numbers from `lowest` to `highest`.
struct Domain {
  double lowest = -INFINITY, highest = INFINITY;

  bool isAll() const { return lowest == -INFINITY && highest == INFINITY; }
  bool isFinite() const { return std::isfinite(lowest) && std::isfinite(highest); }
  Domain intersect(Domain other) const {
    return {std::max(lowest, other.lowest), std::min(highest, other.highest)};
  }
  Domain operator+(double x) const { return {lowest + x, highest + x}; }
  Domain operator-() const { return {-highest, -lowest}; }
  /// Returns all values of an integer type.
  static Domain ofType(IntegerType type) {
    bool noSign = isUnsigned(type);
    unsigned bits = type.getWidth();
    return {noSign ? 0 : -std::ldexp(1, bits - 1), std::ldexp(1, noSign ? bits : bits - 1) - 1};
  }
  /// Returns valid indices of a dimension of n elements. Negative indices are relative to the end.
  static Domain ofIndices(int64_t n) { return {-double(n), double(n) - 1}; }
};

/// Domains of a function's values, derived from the requirements of their users
/// (DomainOpInterface).
class Domains {
public:
  explicit Domains(World &world) : world(world) {}
  /// Propagates domains to the arguments. Error: an op without a domain model.
  LogicalResult run(func::FuncOp main) { return runBlock(main.front()); }

  // For op models.
  World &getWorld() { return world; }
  Domain get(Value value) const { return domains.lookup(value); }
  /// Intersects the domain of `value` with `domain`. If the intersection is empty, the domain is
  /// unchanged, and some op will have an invalid operand.
  void narrow(Value value, Domain domain);
  LogicalResult runCall(func::CallOp call);

private:
  LogicalResult runBlock(Block &block);

  World &world;
  DenseMap<Value, Domain> domains;
  int depth = 0;
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_DOMAINS_H
