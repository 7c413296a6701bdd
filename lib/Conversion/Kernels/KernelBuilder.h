//===- KernelBuilder.h - Builder of kernel IR -------------------*- C++ -*-===//
//
// Converts a kernel, that is, a private tensor function with the attribute `tpc.kernel = k`, to a
// tpc_kernel.func of the same name. The results share their first k dimensions, the rows. The body
// loops over rows. For each row, ops first build the values that all elements of the row share, in
// program order; then results are computed element by element and stored:
//
//   rows (%row):
//     mean, rstd = folds over x[row, *] ...              layer_norm's buildRow
//     elements (%j): y[row, j] = (x[row, j] - mean) ...   its buildElement
//
// Elements of intermediate values are built at their uses, and reused for equal indices.
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
/// Returns the type in which ops compute an element: f32 for 16-bit floats, else the scalar type.
Type getComputeType(Type tensor);

class KernelBuilder : private IndexArithmetic<Value> {
public:
  /// Pairs of a result and of an argument whose memory the result may have.
  using Overwrites = ArrayRef<std::pair<unsigned, BlockArgument>>;

  KernelBuilder(func::FuncOp source, OpBuilder at) : source(source), b(at) {}

  /// Builds the kernel at the insertion point of the given builder. The results of `overwrites` are
  /// computed together, and those are marked (`over`) whose elements need no other element of the
  /// argument.
  kernel::FuncOp build(Overwrites overwrites = {});

  //===--- interface for ops ----------------------------------------------===//

  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  MeshAttr getGrid() const { return grid; }

  /// Returns the value of a size, which is emitted at the beginning of the kernel.
  Value size(const ::tpc::SymExpr &expr) override;
  /// Returns a constant that is not a size.
  Value constant(int64_t value);
  /// Returns the local sizes of a tensor.
  ArrayRef<::tpc::SymExpr> sizesOf(Value tensor);
  /// Returns a scalar constant of any element type.
  Value scalar(Type type, double value);

  /// Returns the element of a tensor at a local index: loads it from memory, or builds it.
  Value element(Value tensor, ValueRange index);

  /// Returns the values that `build` creates for an op and index. Reuses them if an earlier call
  /// created them in a scope around the insertion point.
  SmallVector<Value> remember(Operation *op, ValueRange index,
                              function_ref<SmallVector<Value>()> build);

  /// Builds a sequential loop over iv in [lb, ub) with a loop-carried value.
  Value loop(Value lb, Value ub, Value init, function_ref<Value(Value iv, Value carried)> body);
  Value ifElse(Value condition, Type type, function_ref<Value()> then,
               function_ref<Value()> otherwise);
  /// Builds a tpc_kernel.check: if `inside` is false, the step fails at its end with an error that
  /// `index` is out of bounds of `size` in `lookup`.
  void reportUnless(Value inside, Operation *lookup, Value index, Value size);

  /// Index arithmetic at the current insertion point.
  Value add(Value x, Value y) override;
  Value sub(Value x, Value y) override;
  Value mul(Value x, Value y) override;
  Value quotient(Value x, Value y) override;
  Value remainder(Value x, Value y) override;
  Value less(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  /// Conversions between multi-dimensional and row-major linear indices.
  Value linearize(ValueRange index, ArrayRef<::tpc::SymExpr> sizes);
  SmallVector<Value> delinearize(Value linear, ArrayRef<::tpc::SymExpr> sizes);

  /// Converts a local index (in this rank's shard) to the global index.
  Value globalIndex(DimAttr dim, Value local);
  /// Converts a global index to the local index in this rank's shard. `inside` receives an i1 that
  /// is true if the index is in the shard, or null if it always is.
  Value localIndex(DimAttr dim, Value global, Value *inside = nullptr);

  //===--- arithmetic on numbers ------------------------------------------===//
  //
  // Ops have no fast-math flags. The result of an op depends only on the op and its operands, not
  // on fusion, and is bit-exact as defined by IEEE 754: casts round, x*y - x*y is 0, signed zeros
  // and NaN are preserved. Instead of flags:
  //
  // * the order of sums (reassoc): the target chooses the order of a tpc_kernel.fold;
  // * a * b + c with one rounding (contract): approximations use math.fma;
  // * 16-bit floats: an op computes in f32 and rounds its result once.

  /// Returns an element, widened to getComputeType.
  Value wide(Value tensor, ValueRange index);
  /// Rounds to the element type of a tensor.
  Value narrow(Value v, Type tensor);
  /// Returns x + y of integers or floats.
  Value plus(Value x, Value y);
  /// Builds a tpc_kernel.fold of term(indices) over an iteration space.
  Value fold(kernel::FoldKind kind, Type type, ArrayRef<::tpc::SymExpr> sizes, bool adjacent,
             function_ref<Value(ValueRange)> term);
  /// Builds a fold of term(index), in the type of `wide`, over the dimensions `dims` (ascending) of
  /// a tensor. `index` has the indices of the other dimensions.
  Value fold(kernel::FoldKind kind, Value tensor, ArrayRef<int64_t> dims,
             SmallVectorImpl<Value> &index, function_ref<Value(ValueRange)> term);

private:
  friend class Scope;
  using Key = std::pair<void *, SmallVector<void *, 4>>;

  void findRowOps();
  void buildRow(ValueRange row);
  void store(Value tensor, ValueRange row);
  void storeTogether(ArrayRef<Value> tensors, ValueRange row);
  void markOverwrites(kernel::FuncOp function, Overwrites overwrites);
  bool isRow(Value tensor, ValueRange index) const;
  void insertBarriers(Block &row);

  func::FuncOp source;
  MeshAttr grid;
  OpBuilder b;
  OpBuilder entry = b; // before the rows
  Location loc = source.getLoc();
  int64_t rowRank = 0;
  SmallVector<Value> currentRow;
  SmallVector<::tpc::SymExpr> rowSizes;
  DenseSet<Operation *> rowOps;
  SmallVector<Value> overwriting; // results that are stored together at the end of a row

  std::map<std::string, Value> sizeValues;
  std::map<int64_t, Value> constants;
  DenseMap<Value, Value> memory; // memrefs of operands and results, by tensor
  DenseMap<Value, SmallVector<::tpc::SymExpr>> tensorSizes;
  llvm::SmallPtrSet<void *, 8> stored;                       // results stored so far in this row
  std::vector<std::map<Key, SmallVector<Value>>> remembered; // by scope, innermost last
};

/// Scope of values from `remember`: values of a loop or branch body are not visible after it.
class Scope {
public:
  explicit Scope(KernelBuilder &e) : e(e) { e.remembered.emplace_back(); }
  ~Scope() { e.remembered.pop_back(); }

private:
  KernelBuilder &e;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELS_KERNELBUILDER_H
