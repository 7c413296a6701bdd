//===- Domains.h - Which numbers values may be ------------------*- C++ -*-===//
//
// Some ops can only be run with some numbers: an index leads into its table, a divisor is not zero.
// Inputs are drawn so that all ops can be run. What an op needs of its operands goes backwards to
// the inputs, as far as ops pass elements on:
//
//   %1 = tpc.add %ids, 2            %ids from -10 to 5
//   %2 = tpc.reshape %1             %1 from -8 to 7
//   %3 = tpc.embedding %table, %2   eight rows: %2 from -8 to 7
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_DOMAINS_H
#define TPC_LIB_VERIFY_INTERPRET_DOMAINS_H

#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// All numbers from `least` to `greatest`.
struct Domain {
  double least = -INFINITY, greatest = INFINITY;

  bool isAll() const { return least == -INFINITY && greatest == INFINITY; }
  bool isFinite() const { return std::isfinite(least) && std::isfinite(greatest); }
  Domain intersect(Domain other) const {
    return {std::max(least, other.least), std::min(greatest, other.greatest)};
  }
  Domain operator+(double x) const { return {least + x, greatest + x}; }
  Domain operator-() const { return {-greatest, -least}; }
  /// All that a type of integers has.
  static Domain ofType(IntegerType type) {
    bool noSign = isUnsigned(type);
    unsigned bits = type.getWidth();
    return {noSign ? 0 : -std::ldexp(1, bits - 1), std::ldexp(1, noSign ? bits : bits - 1) - 1};
  }
  /// Indices of a dimension of n elements; negative ones count from the end.
  static Domain ofIndices(int64_t n) { return {-double(n), double(n) - 1}; }
};

/// The domains of a function's values, by what the ops that use them say (DomainOpInterface).
class Domains {
public:
  explicit Domains(World &world) : world(world) {}
  /// Error: an op that does not say what it can be run with.
  LogicalResult run(func::FuncOp main) { return runBlock(main.front()); }

  // For ops.
  World &getWorld() { return world; }
  Domain get(Value value) const { return domains.lookup(value); }
  /// `value` is in `domain` as well. Where nothing is left it stays as it was: some op will be run
  /// with what it cannot be run with.
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
