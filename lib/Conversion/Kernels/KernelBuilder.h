//===- KernelBuilder.h - The IR of one kernel -------------------*- C++ -*-===//
//
// A kernel is a private function of tensors that carries `tpc.kernel = k`: its
// results share their first k dimensions, the rows. It becomes a tpc_kernel.func
// of the same name. The builder goes over the rows; for each row, in program
// order, ops build what a row shares, and results are computed element by
// element and stored:
//
//   rows (%row):
//     mean, rstd = folds over x[row, *] ...              layer_norm's buildRow
//     elements (%j): y[row, j] = (x[row, j] - mean) ...   its buildElement
//
// Elements of values that are not results are computed where they are needed,
// and remembered for as long as their index means the same.
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

/// The type that an element has in registers: signless, i1 for booleans.
Type getScalarType(Type tensor);
/// The type that an op computes an element in: f32 for floats of 16 bits, else the scalar type.
Type getComputeType(Type tensor);

class KernelBuilder : private IndexArithmetic<Value> {
public:
  KernelBuilder(func::FuncOp source, OpBuilder at) : source(source), b(at) {}

  /// Builds the kernel where the given builder stands.
  kernel::FuncOp build();

  //===--- for ops --------------------------------------------------------===//

  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  GridAttr getGrid() const { return grid; }

  /// The value of a size, at the kernel's beginning.
  Value size(const ::tpc::SymExpr &expr) override;
  /// A number that no size is.
  Value constant(int64_t value);
  /// Sizes of a tensor as it lies in this rank's memory.
  ArrayRef<::tpc::SymExpr> sizesOf(Value tensor);
  /// A scalar constant of any element type.
  Value scalar(Type type, double value);

  /// The element of a tensor of the kernel at an index.
  Value element(Value tensor, ValueRange index);

  /// Runs `build` once for a key and index, as far as the values are visible.
  SmallVector<Value> remember(Operation *op, ValueRange index,
                              function_ref<SmallVector<Value>()> build);

  /// for iv in [lb, ub), one after the other, with a value that is carried.
  Value loop(Value lb, Value ub, Value init, function_ref<Value(Value iv, Value carried)> body);
  Value ifElse(Value condition, Type type, function_ref<Value()> then,
               function_ref<Value()> otherwise);
  /// Where `inside` is false, the step fails: `index` is not one of `size` that `lookup` finds. It
  /// fails when it ends; goes on in both cases.
  void reportUnless(Value inside, Operation *lookup, Value index, Value size);

  /// Arithmetic on indices, at the current place.
  Value add(Value x, Value y) override;
  Value sub(Value x, Value y) override;
  Value mul(Value x, Value y) override;
  Value quotient(Value x, Value y) override;
  Value remainder(Value x, Value y) override;
  Value less(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  /// Row-major: index of an element, and back.
  Value linearize(ValueRange index, ArrayRef<::tpc::SymExpr> sizes);
  SmallVector<Value> delinearize(Value linear, ArrayRef<::tpc::SymExpr> sizes);

  /// The index in the whole dimension of an index in this rank's part.
  Value globalIndex(DimAttr dim, Value local);
  /// The index in this rank's part of an index in the whole dimension, and, if asked for, whether
  /// it is there; null: always.
  Value localIndex(DimAttr dim, Value global, Value *inside = nullptr);

  //===--- arithmetic on numbers ------------------------------------------===//
  //
  // No operation of a kernel carries fast-math flags. What an op gives is a matter of the op and
  // its operands alone, whatever it is fused with, and IEEE 754 says it to the bit: a cast rounds,
  // x - y of equal products is 0, the sign of zero and NaN are what they are. What flags would have
  // been good for is written out:
  //
  // * the order of sums (reassoc): tpc_kernel.fold leaves it to the device;
  // * a * b + c in one rounding (contract): math.fma where an approximation is made of it;
  // * numbers of 16 bits: an op computes in f32 and rounds once, as its result.

  /// An element in the type that an op computes in: f32 for floats of 16 bits.
  Value wide(Value tensor, ValueRange index);
  /// Rounds to the element type of a tensor.
  Value narrow(Value v, Type tensor);
  /// x + y of integers or floats.
  Value plus(Value x, Value y);
  /// term(indices) of a type, combined over a space; see tpc_kernel.fold.
  Value fold(kernel::FoldKind kind, Type type, ArrayRef<::tpc::SymExpr> sizes, bool adjacent,
             function_ref<Value(ValueRange)> term);
  /// term(index), in the type of `wide`, combined over these dimensions (ascending) of a tensor;
  /// `index` is completed.
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
  DenseMap<Value, Value> memory; // operands; results that are stored
  DenseMap<Value, SmallVector<::tpc::SymExpr>> tensorSizes;
  llvm::SmallPtrSet<void *, 8> stored;                  // results already stored in this row
  std::vector<std::map<Key, SmallVector<Value>>> known; // innermost last
};

/// What is remembered inside a loop or a branch is not visible behind it.
class Scope {
public:
  explicit Scope(KernelBuilder &e) : e(e) { e.known.emplace_back(); }
  ~Scope() { e.known.pop_back(); }

private:
  KernelBuilder &e;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELS_KERNELBUILDER_H
