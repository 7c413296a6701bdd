//===- SizeEmitter.h - Sizes and coordinates at run time --------*- C++ -*-===//
//
// Generated functions take a pointer to `env`: the values of the program's
// symbols, this rank's coordinate on each axis of the grid, and the current
// micro-batch. Here symbolic sizes and distributions become arithmetic on it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_ENV_SIZEEMITTER_H
#define TPC_CONVERSION_ENV_SIZEEMITTER_H

#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc {

/// Which value stands where in `env`.
struct EnvLayout {
  SmallVector<std::string> symbols;
  GridAttr grid; // null: no grid, one rank

  /// The layout of a module: its symbols are those of the inputs' sizes, in
  /// order of appearance. Fails with a message where a type of the module has
  /// a symbol that no input has, or a symbol has the name of a coordinate.
  static FailureOr<EnvLayout> get(ModuleOp module);

  ArrayRef<StringAttr> axes() const;
  unsigned size() const { return symbols.size() + axes().size() + 1; }
  unsigned microBatchIndex() const { return size() - 1; }
  std::optional<unsigned> symbolIndex(StringRef symbol) const;
  std::optional<unsigned> axisIndex(StringRef axis) const;
  int64_t axisSize(StringRef axis) const;
};

/// Emits size arithmetic at one place, which must dominate all uses (the entry
/// block), and each expression once.
class SizeEmitter {
public:
  /// `builder` stands at that place; it is copied.
  SizeEmitter(const OpBuilder &builder, Location loc, const EnvLayout &layout, Value env)
      : b(builder), loc(loc), layout(layout), env(env) {}

  Value constant(int64_t value);
  /// The value of a size expression, over symbols and this rank's coordinates (RankSizes.h).
  Value expr(const ::tpc::SymExpr &e);

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value max(Value a, Value b);
  Value min(Value a, Value b);
  Value floorDiv(Value a, Value b);
  Value product(ValueRange values);

  Value coordinate(StringRef axis) { return expr(getCoordinate(axis, layout.grid)); }
  /// Size of this rank's part of n elements on an axis.
  Value shardSize(Value n, StringAttr axis);
  /// See RankSizes.h.
  Value localSize(FactorAttr factor, std::optional<unsigned> axes = {}) {
    return expr(getLocalSize(factor, layout.grid, axes));
  }
  Value begin(FactorAttr factor) { return expr(getBegin(factor, layout.grid)); }
  Value factorsSize(DimAttr dim) { return expr(getFactorsSize(dim, layout.grid)); }
  Value localSize(DimAttr dim, std::optional<unsigned> productAxes = {}) {
    return expr(getLocalSize(dim, layout.grid, productAxes));
  }

  /// Sizes of a tensor as it lies in this rank's memory.
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
  std::map<int64_t, Value> constants; // any value: DenseMap keeps two for itself
  DenseMap<unsigned, Value> loaded;
  std::map<std::string, Value> exprs;
  std::map<std::tuple<char, void *, void *>, Value> binaries;
};

/// The constant that an i64 value is, if it is one.
std::optional<int64_t> asConstant(Value value);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_ENV_SIZEEMITTER_H
