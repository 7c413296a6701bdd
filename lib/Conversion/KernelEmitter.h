//===- KernelEmitter.h - Code of one kernel ---------------------*- C++ -*-===//
//
// A kernel is a private function of tensors that carries `tpc.kernel = k`: its
// results share their first k dimensions, the rows. It becomes
//
//   void kernel(const int64_t *env, tpc_status *status, void *const *operands,
//               int64_t lo, int64_t hi)
//
// with operands = pointers to the operands, pointers to the results. The
// emitter walks over rows; for each row, in program order, ops build what a
// row shares, and results are computed element by element and stored:
//
//   for row in [lo, min(hi, rows))
//     mean, rstd = ... loops over x[row, *] ...       layer_norm's buildRow
//     for j: y[row, j] = (x[row, j] - mean) * rstd ...  its buildElement
//
// Elements of values that are not results are computed where they are needed,
// and remembered for as long as their index means the same.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_KERNELEMITTER_H
#define TPC_LIB_CONVERSION_KERNELEMITTER_H

#include "HostEmitter.h"
#include "LocalIndex.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
class KernelEmitter;
} // namespace mlir::tpc

#include "tpc/Interfaces/KernelInterfaces.h.inc"

namespace mlir::tpc {

/// The type that an element has in registers: signless, i1 for booleans.
Type getScalarType(Type tensor);
/// The type that an op computes an element in: f32 for floats of 16 bits, else the scalar type.
Type getComputeType(Type tensor);

class KernelEmitter : private IndexArithmetic {
public:
  KernelEmitter(func::FuncOp source, HostModule &host) : source(source), host(host) {}

  /// Emits the kernel beside its source, under the same name.
  LogicalResult emit();

  //===--- for ops --------------------------------------------------------===//

  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  /// Sizes, computed once at the kernel's beginning.
  SizeEmitter &sizes() { return *sizeEmitter; }
  ArrayRef<Value> sizesOf(Value tensor);
  Value constant(int64_t value) { return sizes().constant(value); }
  /// A scalar constant of any element type.
  Value scalar(Type type, double value);

  /// The element of a tensor of the kernel at an index.
  Value element(Value tensor, ValueRange index);

  /// Runs `build` once for a key and index, as far as the values are visible.
  SmallVector<Value> remember(Operation *op, ValueRange index,
                              function_ref<SmallVector<Value>()> build);

  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;
  /// for iv in [lb, ub) with loop-carried values.
  SmallVector<Value> loop(Value lb, Value ub, ValueRange init, LoopBody body, bool unroll = false);
  /// Nested loops over the given dimensions of a space of these sizes; `index`
  /// is completed and passed on.
  SmallVector<Value> loops(ArrayRef<Value> sizes, ArrayRef<int64_t> dims,
                           SmallVectorImpl<Value> &index, ValueRange init,
                           function_ref<SmallVector<Value>(ValueRange index, ValueRange)> body,
                           bool unroll = false);
  Value ifElse(Value condition, Type type, function_ref<Value()> then,
               function_ref<Value()> otherwise);
  /// Where `inside` is false, notes in the step's status that `index` is not one of `size`
  /// that `lookup` finds. The step fails when it ends, not here: goes on in both cases.
  void reportUnless(Value inside, Operation *lookup, Value index, Value size);

  /// Arithmetic on indices, at the current place.
  Value add(Value x, Value y) override;
  Value sub(Value x, Value y) override;
  Value mul(Value x, Value y) override;
  Value quotient(Value x, Value y) override;
  Value remainder(Value x, Value y) override;
  Value less(Value x, Value y);
  /// Row-major: index of an element, and back.
  Value linearize(ValueRange index, ArrayRef<Value> sizes);
  SmallVector<Value> delinearize(Value linear, ArrayRef<Value> sizes);

  /// The index in the whole dimension of an index in this rank's part.
  Value globalIndex(DimAttr dim, Value local);
  /// The index in this rank's part of an index in the whole dimension, and, if asked for, whether
  /// it is there.
  Value localIndex(DimAttr dim, Value global, Value *inside = nullptr);

  //===--- arithmetic on numbers ------------------------------------------===//
  //
  // No operation of a kernel carries fast-math flags. What an op gives is a matter of the op and
  // its operands alone, whatever it is fused with, and IEEE 754 says it to the bit: a cast rounds,
  // x - y of equal products is 0, the sign of zero and NaN are what they are. What flags would have
  // been good for is written out:
  //
  // * the order of sums (reassoc): `fold` combines in lanes, which is an order like any other;
  // * a * b + c in one rounding (contract): math.fma where an approximation is made of it;
  // * numbers of 16 bits: an op computes in f32 and rounds once, as its result.

  /// An element in the type that an op computes in: f32 for floats of 16 bits.
  Value wide(Value tensor, ValueRange index);
  /// Rounds to the element type of a tensor.
  Value narrow(Value v, Type tensor);
  /// x + y of integers or floats.
  Value plus(Value x, Value y);
  /// term(index), in the type of `wide`, combined over these dimensions (ascending) of a space;
  /// `index` is completed. Where the last dimension is one of them, floats are combined in 32
  /// lanes: index i of it in lane i mod 32, ascending, and at the end the lanes by halves of what
  /// is left (8 and 16 apart, then 4, 2, 1). Everything else is combined in ascending order.
  /// `neutral` does not change what it is combined with; `combine` is also called with vectors.
  Value fold(Type tensor, ArrayRef<Value> sizes, ArrayRef<int64_t> dims,
             SmallVectorImpl<Value> &index, Attribute init, Attribute neutral,
             function_ref<Value(Value, Value)> combine, function_ref<Value(ValueRange)> term);
  /// The sum.
  Value sum(Type tensor, ArrayRef<Value> sizes, ArrayRef<int64_t> dims,
            SmallVectorImpl<Value> &index, function_ref<Value(ValueRange)> term);

private:
  friend class Scope;
  using Key = std::pair<void *, SmallVector<void *, 4>>;

  void findRowOps();
  void emitRow(ValueRange row);
  void store(Value tensor, ValueRange row);
  bool isRow(Value tensor, ValueRange index) const;
  Value load(Value pointer, Value tensor, ValueRange index, bool invariant);
  Value address(Value pointer, Type type, Value linear);

  func::FuncOp source;
  HostModule &host;
  LLVM::LLVMFuncOp target;
  Value status;
  OpBuilder b{source.getContext()};
  Location loc = source.getLoc();
  std::unique_ptr<SizeEmitter> sizeEmitter;
  int64_t rowRank = 0;
  SmallVector<Value> currentRow;
  DenseSet<Operation *> rowOps;

  DenseMap<Value, Value> pointers; // operands; results that are stored
  DenseMap<Value, SmallVector<Value>> tensorSizes;
  llvm::SmallPtrSet<void *, 8> stored;                   // results already stored in this row
  std::vector<std::map<Key, SmallVector<Value>>> memory; // innermost last
  LLVM::AccessGroupAttr group;                           // of the innermost loop
};

/// What is remembered inside a loop or a branch is not visible behind it.
class Scope {
public:
  explicit Scope(KernelEmitter &e) : e(e) { e.memory.emplace_back(); }
  ~Scope() { e.memory.pop_back(); }

private:
  KernelEmitter &e;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_KERNELEMITTER_H
