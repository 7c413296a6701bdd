//===- ThreadEmitter.h - Emitter of thread code in LLVM ---------*- C++ -*-===//
//
// Helpers for handwritten kernels, which are not lowered from kernel IR. Scalars are in `arith`,
// memory and blocks in the LLVM dialect. CSE merges equal constants.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_THREADEMITTER_H
#define TPC_LIB_CONVERSION_CUDA_THREADEMITTER_H

#include "tpc/Conversion/Device/BlockEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::tpc::cuda {

class ThreadEmitter : protected BlockEmitter {
protected:
  using Values = SmallVector<Value>;
  using Predicate = arith::CmpIPredicate;

  using BlockEmitter::BlockEmitter;

  //===--- kernels ----------------------------------------------------------===//

  /// Creates an entry point, and sets the insertion point to its body. Its parameters are pointers
  /// to global memory, then 32-bit integers.
  LLVM::LLVMFuncOp beginKernel(StringRef name, unsigned pointers, unsigned threads,
                               unsigned integers = 0);
  void endKernel();
  /// Returns dynamic shared memory of floats; a launch determines its size.
  Value getDynamicShared();

  //===--- control ----------------------------------------------------------===//

  /// for i = lb; i < ub; i += step, with carried values.
  Values loop(Value lb, Value ub, Value step, ValueRange init, LoopBody body) {
    return emitLoop(lb, ub, step, init, body);
  }
  void loop(Value lb, Value ub, Value step, function_ref<void(Value)> body);
  using BlockEmitter::branch;
  void branch(Value condition, function_ref<void()> then);
  void barrier() { NVVM::BarrierOp::create(b, loc); }

  //===--- integers ---------------------------------------------------------===//

  Value i32(int64_t value);
  Value i64(int64_t value);
  Value numberLike(Value x, int64_t value) {
    return x.getType().isInteger(64) ? i64(value) : i32(value);
  }
  Value wide(Value x); // to 64 bits, signed
  Value narrow(Value x);
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, numberLike(x, y)) : x; }
  Value mul(Value x, int64_t y) { return y == 1 ? x : mul(x, numberLike(x, y)); }
  /// For nonnegative numbers.
  Value div(Value x, Value y) { return arith::DivUIOp::create(b, loc, x, y); }
  Value rem(Value x, Value y) { return arith::RemUIOp::create(b, loc, x, y); }
  Value div(Value x, int64_t y) { return y == 1 ? x : div(x, numberLike(x, y)); }
  Value rem(Value x, int64_t y) { return rem(x, numberLike(x, y)); }
  Value ceilDiv(Value x, int64_t y) { return div(add(x, y - 1), y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value compare(Predicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value both(Value x, Value y) { return !x ? y : !y ? x : arith::AndIOp::create(b, loc, x, y); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }

  //===--- floats of 32 bits ------------------------------------------------===//

  Value f32(double value);
  Value fadd(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value fsub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value fmul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value fdiv(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z);
  /// Returns the operand that is not NaN, if one is NaN.
  Value fmax(Value x, Value y) { return arith::MaxNumFOp::create(b, loc, x, y); }
  Value equals(Value x, Value y) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y);
  }
  /// Returns exp(x) for x <= 0 and NaN, bit-identical to tpc-approximate-math.
  Value expOfNegative(Value x);
  Value tanh(Value x);
  Value toF32(Value x);
  Value fromF32(Value x, Type type);

  //===--- memory -----------------------------------------------------------===//

  Value at(Value pointer, Type type, Value index);
  Value at(Value pointer, Type type, int64_t index);
  /// Accesses `count` adjacent elements at once.
  Values loadMany(Value pointer, Type type, unsigned count);
  void storeMany(Value pointer, ArrayRef<Value> values);
  Value load(Value pointer, Type type) { return loadMany(pointer, type, 1)[0]; }
  /// Loads 16 bytes of elements.
  Value loadWords(Value pointer);
  /// Returns 16 bytes of f32, f16 or bf16 elements in f32.
  Values unpack(Value words, int32_t dtype);
  /// Returns the type of TPC_F32, TPC_F16 or TPC_BF16.
  Type getType(int32_t dtype);
};

/// Returns the name of TPC_F32, TPC_F16 or TPC_BF16.
StringRef getTypeName(int32_t dtype);

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_THREADEMITTER_H
