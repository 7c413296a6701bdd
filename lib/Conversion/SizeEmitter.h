//===- SizeEmitter.h - Sizes and coordinates at run time --------*- C++ -*-===//
//
// Generated functions take a pointer to `env`: the values of the program's
// symbols, this rank's coordinate on each axis of the grid, and the current
// micro-batch. Here symbolic sizes and distributions become arithmetic on it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_SIZEEMITTER_H
#define TPC_LIB_CONVERSION_SIZEEMITTER_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

/// Which value stands where in `env`.
struct EnvLayout {
  SmallVector<std::string> symbols;
  GridAttr grid; // null: no grid, one rank

  /// The layout of a module: its symbols are those of the inputs' sizes, in
  /// order of appearance. Fails with a message where a type of the module has
  /// a symbol that no input has.
  static FailureOr<EnvLayout> get(ModuleOp module);

  ArrayRef<StringAttr> axes() const;
  unsigned size() const { return symbols.size() + axes().size() + 1; }
  unsigned microBatchIndex() const { return size() - 1; }
  std::optional<unsigned> symbolIndex(StringRef symbol) const;
  std::optional<unsigned> axisIndex(StringRef axis) const;
  int64_t axisSize(StringRef axis) const;
};

/// Arithmetic on sizes and indices.
class IndexArithmetic {
public:
  virtual ~IndexArithmetic() = default;
  virtual Value add(Value x, Value y) = 0;
  virtual Value sub(Value x, Value y) = 0;
  virtual Value mul(Value x, Value y) = 0;
  /// Of values that are not negative.
  virtual Value quotient(Value x, Value y) = 0;
  virtual Value remainder(Value x, Value y) = 0;
};

/// Emits size arithmetic at one place, which must dominate all uses (the entry
/// block), and each expression once.
class SizeEmitter : public IndexArithmetic {
public:
  /// `builder` stands at that place; it is copied.
  SizeEmitter(const OpBuilder &builder, Location loc, const EnvLayout &layout, Value env)
      : b(builder), loc(loc), layout(layout), env(env) {}

  Value constant(int64_t value);
  /// The value of a size expression.
  Value expr(const ::tpc::SymExpr &e);
  /// This rank's coordinate; 0 for axes of size 1.
  Value coordinate(StringRef axis);

  Value add(Value a, Value b) override;
  Value sub(Value a, Value b) override;
  Value mul(Value a, Value b) override;
  Value quotient(Value a, Value b) override { return floorDiv(a, b); }
  Value remainder(Value a, Value b) override;
  Value max(Value a, Value b);
  Value min(Value a, Value b);
  Value floorDiv(Value a, Value b);
  Value product(ValueRange values);

  /// Size and beginning of part `coordinate` of n elements on `axis`.
  Value shardSize(Value n, StringAttr axis);
  Value shardBegin(Value n, StringAttr axis);

  /// A factor's local size, `axes`: as if only the first so many of its axes split it; where its
  /// part begins in the whole factor. For indices of dimensions see LocalIndex.h.
  Value localSize(FactorAttr factor, std::optional<unsigned> axes = {});
  Value begin(FactorAttr factor);
  /// Product of the factors' local sizes, before the split of the product.
  Value factorsSize(DimAttr dim);
  Value localSize(DimAttr dim, std::optional<unsigned> productAxes = {});
  /// Where this rank's part of the product begins in the product of the local
  /// factors.
  Value productBegin(DimAttr dim);

  /// Sizes of a tensor as it lies in this rank's memory.
  SmallVector<Value> localSizes(Type tensor);
  Value numElements(Type tensor);

  const EnvLayout &getLayout() const { return layout; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }

private:
  Value binary(char kind, Value a, Value b);
  Value begin(Value n, ArrayRef<StringAttr> axes);
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
/// Bytes of one element in memory; a boolean takes one.
int64_t elementBytes(Type tensor);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_SIZEEMITTER_H
