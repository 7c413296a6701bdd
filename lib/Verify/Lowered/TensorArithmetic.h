//===- TensorArithmetic.h - Integer arithmetic of tensors -------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_TENSORARITHMETIC_H
#define TPC_LIB_VERIFY_LOWERED_TENSORARITHMETIC_H

#include "../Buffers/PartSizes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace mlir::tpc::lowered {

/// Summary of the integer arithmetic of a tensor function.
class TensorArithmetic {
public:
  using SymExpr = ::tpc::SymExpr;

  explicit TensorArithmetic(func::FuncOp tensors) : parts(MeshAttr::lookup(tensors)) {
    tensors.walk([&](Operation *op) { addOp(op); });
  }

  bool isUniform(const SymExpr &value) const { return uniform.count(key(value)) > 0; }
  /// Returns whether elements of some tensor are indices into a dimension of this global or local
  /// size.
  bool indexes(const SymExpr &size) const { return indexed.count(key(size)) > 0; }
  /// Returns whether an op of a kernel (on integers, on booleans, or a comparison of floats) has a
  /// counterpart in the tensor function.
  bool has(Operation *op) const;

  /// Whether indices are divided.
  bool divides = false;
  /// Whether the function has cumulative sums; reductions of integers; casts of integers to floats;
  /// selections of integers by an index.
  bool accumulates = false, reduces = false, makesFloats = false, chooses = false;
  /// Whether positions are elements of a tensor (tpc.iota); whether rows are looked up, or added by
  /// tpc.scatter_add.
  bool hasPositions = false, looksUp = false, scatters = false;
  /// Whether packed numbers are unpacked, by shifts that depend on the position.
  bool unpacks = false;
  /// Whether uniform integers are divided or compared; whether uniform floats are computed.
  bool combinesUniform = false, computesFloats = false;

private:
  std::string key(const SymExpr &value) const { return parts.normalize(value).str(); }
  void addOp(Operation *op);
  void addUniform(Operation *op);
  void addIndexed(Operation *op);
  void addUniformFloat(Operation *op);

  PartSizes parts;
  std::set<std::string> uniform = {"-1", "0", "1"}, indexed = {"0", "1"};
  DenseMap<Value, SymExpr> values;
  DenseSet<Value> floats; // uniform floats
  /// Kinds of ops on integers, of ops with float operands, and of all ops.
  DenseSet<TypeID> integer, onFloats, all;
  /// Whether floats are compared, with each other or with zero.
  bool comparesFloats = false;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_TENSORARITHMETIC_H
