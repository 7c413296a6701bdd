//===- KernelBuilder.h - Builder of kernel IR -------------------*- C++ -*-===//
//
// A kernel is a private function of tensors with the attribute `tpc.kernel = k`: its results share
// their first k dimensions, the rows. It becomes a tpc_kernel.func of the same name. The builder
// iterates over the rows. For each row, in program order, ops build the values that elements of the
// row share; then results are computed element by element and stored:
//
//   rows (%row):
//     mean, rstd = folds over x[row, *] ...              layer_norm's buildRow
//     elements (%j): y[row, j] = (x[row, j] - mean) ...   its buildElement
//
// Elements of values that are not results are computed where they are needed, and cached while
// their index is the same.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_KERNELS_KERNELBUILDER_H
#define TPC_LIB_CONVERSION_KERNELS_KERNELBUILDER_H

#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Dialect/LocalIndex.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace mlir::tpc {

/// Returns the type of an element in registers: signless, i1 for booleans.
Type getScalarType(Type tensor);
/// Returns the type that an op computes an element in: f32 for 16-bit floats, else the scalar type.
Type getComputeType(Type tensor);

class KernelBuilder : private IndexArithmetic<Value> {
public:
  KernelBuilder(func::FuncOp source, OpBuilder at) : source(source), b(at) {}

  /// Builds the kernel at the insertion point of the given builder.
  kernel::FuncOp build();

  //===--- interface for ops ----------------------------------------------===//

  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  GridAttr getGrid() const { return grid; }

  /// Returns the value of a size, computed at the beginning of the kernel.
  Value size(const ::tpc::SymExpr &expr) override;
  /// Returns a constant that is not a size.
  Value constant(int64_t value);
  /// Returns the sizes of a tensor in this rank's memory.
  ArrayRef<::tpc::SymExpr> sizesOf(Value tensor);
  /// Returns a scalar constant of any element type.
  Value scalar(Type type, double value);

  /// Returns the element of a tensor of the kernel at an index.
  Value element(Value tensor, ValueRange index);

  /// Runs `build` once for a key and index, while the values are visible.
  SmallVector<Value> remember(Operation *op, ValueRange index,
                              function_ref<SmallVector<Value>()> build);

  /// for iv in [lb, ub), in order, with a carried value.
  Value loop(Value lb, Value ub, Value init, function_ref<Value(Value iv, Value carried)> body);
  Value ifElse(Value condition, Type type, function_ref<Value()> then,
               function_ref<Value()> otherwise);
  /// Makes the step fail if `inside` is false: `index` is not one of `size` that `lookup` finds.
  /// The kernel continues; the failure is reported at the end of the step.
  void reportUnless(Value inside, Operation *lookup, Value index, Value size);

  /// Index arithmetic at the current insertion point.
  Value add(Value x, Value y) override;
  Value sub(Value x, Value y) override;
  Value mul(Value x, Value y) override;
  Value quotient(Value x, Value y) override;
  Value remainder(Value x, Value y) override;
  Value less(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  /// Row-major: the linear index of an element, and its inverse.
  Value linearize(ValueRange index, ArrayRef<::tpc::SymExpr> sizes);
  SmallVector<Value> delinearize(Value linear, ArrayRef<::tpc::SymExpr> sizes);

  /// Returns the index in the whole dimension for an index in this rank's shard.
  Value globalIndex(DimAttr dim, Value local);
  /// Returns the index in this rank's shard for an index in the whole dimension. `inside` receives
  /// whether the index is in the shard; null: always.
  Value localIndex(DimAttr dim, Value global, Value *inside = nullptr);

  //===--- arithmetic on numbers ------------------------------------------===//
  //
  // No operation of a kernel carries fast-math flags. The result of an op depends only on the op
  // and its operands, whatever it is fused with, and IEEE 754 defines it to the bit: a cast rounds,
  // x - y of equal products is 0, the sign of zero and NaN are preserved. Explicit ops replace the
  // flags:
  //
  // * the order of sums (reassoc): tpc_kernel.fold leaves it to the device;
  // * a * b + c in one rounding (contract): approximations use math.fma;
  // * 16-bit numbers: an op computes in f32 and rounds its result once.

  /// Returns an element in the type that an op computes in: f32 for 16-bit floats.
  Value wide(Value tensor, ValueRange index);
  /// Rounds to the element type of a tensor.
  Value narrow(Value v, Type tensor);
  /// Returns x + y of integers or floats.
  Value plus(Value x, Value y);
  /// Combines term(indices) of a type over an iteration space; see tpc_kernel.fold.
  Value fold(kernel::FoldKind kind, Type type, ArrayRef<::tpc::SymExpr> sizes, bool adjacent,
             function_ref<Value(ValueRange)> term);
  /// Combines term(index), in the type of `wide`, over these dimensions (ascending) of a tensor;
  /// completes `index`.
  Value fold(kernel::FoldKind kind, Value tensor, ArrayRef<int64_t> dims,
             SmallVectorImpl<Value> &index, function_ref<Value(ValueRange)> term);

private:
  friend class Scope;
  using Key = std::pair<void *, SmallVector<void *, 4>>;

  void findRowOps();
  void buildRow(ValueRange row);
  void store(Value tensor, ValueRange row);
  bool isRow(Value tensor, ValueRange index) const;
  void insertBarriers(Block &row);

  func::FuncOp source;
  GridAttr grid;
  OpBuilder b;
  OpBuilder entry = b; // before the rows
  Location loc = source.getLoc();
  int64_t rowRank = 0;
  SmallVector<Value> currentRow;
  DenseSet<Operation *> rowOps;

  std::map<std::string, Value> sizeValues;
  std::map<int64_t, Value> constants;
  DenseMap<Value, Value> memory; // operands; stored results
  DenseMap<Value, SmallVector<::tpc::SymExpr>> tensorSizes;
  llvm::SmallPtrSet<void *, 8> stored;                  // results already stored in this row
  std::vector<std::map<Key, SmallVector<Value>>> known; // innermost last
};

/// Scope of values from `remember`: those of a loop or a branch are not visible after it.
class Scope {
public:
  explicit Scope(KernelBuilder &e) : e(e) { e.known.emplace_back(); }
  ~Scope() { e.known.pop_back(); }

private:
  KernelBuilder &e;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELS_KERNELBUILDER_H
