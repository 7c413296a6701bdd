//===- GemvEmitter.h - Emitter of matrix-vector kernels ---------*- C++ -*-===//
//
// Gemv.cpp emits the loops over w, GemvFused.cpp the norm and the activation of fused kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_GEMVEMITTER_H
#define TPC_LIB_CONVERSION_CUDA_GEMVEMITTER_H

#include "ThreadEmitter.h"
#include "tpc/Conversion/Cuda/Gemv.h"

namespace mlir::tpc::cuda {

class GemvEmitter : ThreadEmitter {
public:
  GemvEmitter(ModuleOp module, const GemvVariant &variant);
  void emit();

private:
  void emitColumns();
  void emitRows();

  using ThreadEmitter::unpack;
  Values unpack(Value words) { return unpack(words, variant.element); }
  /// Loads `count` adjacent elements of a row of x.
  Values loadX(int64_t row, Value column, int64_t count);

  /// Adds the products of a chunk of w with x.
  Values multiplyChunk(ValueRange words, Value chunk, ValueRange sums);
  /// Adds over the lanes whose numbers differ only in the bits between the masks `low` and `high`,
  /// both included.
  Value addLanes(Value sum, int32_t high, int32_t low);
  /// Adds the partial sums of all splits of k for one range of columns: `split` of `splits`, and
  /// `range` of `ranges`, are those of this block. Contains barriers, so all threads of the block
  /// must execute it. Calls `finish` in the last block only.
  void joinSplits(Value range, Value ranges, Value splits, Value split, Value index, Value sum,
                  function_ref<void(Value)> finish);
  /// Adds residual and bias, and stores the result.
  void store(Value row, Value column, Value sum);
  void storeAs(Type type, Value index, Value column, Value sum);
  /// Returns before + pointer[index], or `before` if the pointer is null.
  Value addIfAny(Value pointer, Type type, Value index, Value before);
  /// Emits `body` for the type of the result: the element type, or f32. `types` are those of the
  /// values that it returns.
  Values withResultType(TypeRange types, function_ref<Values(Type)> body);
  Value isNull(Value pointer) {
    Value null = LLVM::ZeroOp::create(b, loc, pointer.getType());
    return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, pointer, null);
  }
  Value is(Value number, int64_t value) { return compare(Predicate::eq, number, i32(value)); }
  /// Returns static shared memory.
  Value getShared(StringRef name, Type type, int64_t count);

  //===--- fused kernels ----------------------------------------------------===//

  /// Normalizes x, and writes columns [begin, end) of its rows to shared memory, in chunks of
  /// kRowsOfChunk. Contains barriers.
  void stage(Value begin, Value end);
  /// Loads 16 bytes' worth of elements of an operand that is f32 or has the element type.
  Values loadEither(Value pointer, Value isWide, Value first);
  /// Adds f(x) over each row of x. All threads get the sums.
  Values sumRows(StringRef name, function_ref<Value(int64_t row, Value x)> f);
  Value activate(Value x);
  /// Returns the column of w and of the bias for column `columnOfBlock` of the block with this
  /// range, and whether it exists.
  std::pair<Value, Value> getColumn(Value range, Value columnOfBlock);
  /// Adds the bias to a block's results, applies the activation, and stores them: `index` is the
  /// result of this thread. Contains barriers.
  void storeActivated(Value range, Value index, Value sum);

  ModuleOp module;
  const GemvVariant &variant;
  const int64_t vector;
  Type element;
  Value w, x, out, bias, residual, partials, counters, k, n, chunksOfSplit, isWide, wRow, outRow;
  Value scale, shift, norm, isWideX, isWideScale, epsilon, activation, gated;
  // Fused kernels: x in shared memory, its first column, and its row length.
  Value staged, firstStaged, rowStaged;
  Value thread, lane, warp, block;
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_GEMVEMITTER_H
