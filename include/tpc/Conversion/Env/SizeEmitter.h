//===- SizeEmitter.h - Emission of sizes and coordinates --------*- C++ -*-===//
//
// Generated functions receive a pointer to `env`, an array with the values of the program's
// symbols, this rank's coordinate on each grid axis, and the current micro-batch index. SizeEmitter
// emits the loads and the arithmetic for symbolic sizes and coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_ENV_SIZEEMITTER_H
#define TPC_CONVERSION_ENV_SIZEEMITTER_H

#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc {

/// Indices of values in `env`.
struct EnvLayout {
  SmallVector<std::string> symbols;
  MeshAttr grid; // null: no grid, one rank

  /// Returns the layout for a module. Symbols are those of the inputs' sizes, in order of
  /// appearance. Emits an error if a type in the module has a symbol that occurs in no input, or if
  /// a symbol has the name of a coordinate.
  static FailureOr<EnvLayout> get(ModuleOp module);

  ArrayRef<StringAttr> axes() const;
  unsigned size() const { return symbols.size() + axes().size() + 1; }
  unsigned microBatchSlot() const { return size() - 1; }
  std::optional<unsigned> symbolIndex(StringRef symbol) const;
  std::optional<unsigned> axisIndex(StringRef axis) const;
  int64_t axisSize(StringRef axis) const;
};

/// Emits size arithmetic at one insertion point in the entry block, which dominates all uses. Each
/// expression is emitted once.
class SizeEmitter {
public:
  /// Emits all code at the insertion point of `builder`, which is copied.
  SizeEmitter(const OpBuilder &builder, Location loc, const EnvLayout &layout, Value env)
      : b(builder), loc(loc), layout(layout), env(env) {}

  Value constant(int64_t value);
  /// Returns the value of a size expression over symbols and this rank's coordinates (RankSizes.h).
  Value expr(const ::tpc::SymExpr &e);

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value max(Value a, Value b);
  Value min(Value a, Value b);
  Value floorDiv(Value a, Value b);
  Value product(ValueRange values);

  Value coordinate(StringRef axis) { return expr(getCoordinate(axis, layout.grid)); }
  /// Returns the size of this rank's shard of n elements on an axis.
  Value shardSize(Value n, StringAttr axis);
  /// Emit the results of getLocalSize, getBegin and getFactorsSize of RankSizes.h.
  Value localSize(FactorAttr factor, std::optional<unsigned> axes = {}) {
    return expr(getLocalSize(factor, layout.grid, axes));
  }
  Value begin(FactorAttr factor) { return expr(getBegin(factor, layout.grid)); }
  Value factorsSize(DimAttr dim) { return expr(getFactorsSize(dim, layout.grid)); }
  Value localSize(DimAttr dim, std::optional<unsigned> productAxes = {}) {
    return expr(getLocalSize(dim, layout.grid, productAxes));
  }

  /// Returns the local sizes of a tensor.
  SmallVector<Value> localSizes(Type tensor);
  Value numElements(Type tensor);

  const EnvLayout &getLayout() const { return layout; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }

private:
  Value emit(const ::tpc::SymExpr &e);
  Value binary(char kind, Value a, Value b);
  Value load(unsigned index);

  OpBuilder b;
  Location loc;
  const EnvLayout &layout;
  Value env;
  std::map<int64_t, Value> constants; // std::map, as DenseMap reserves two keys
  DenseMap<unsigned, Value> loaded;
  std::map<std::string, Value> exprs;
  std::map<std::tuple<char, void *, void *>, Value> binaries;
};

/// Returns the value of an i64 constant; nothing if `value` is not a constant.
std::optional<int64_t> asConstant(Value value);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_ENV_SIZEEMITTER_H
