//===- ExpertEmitter.h - Emitter of kernels of experts ----------*- C++ -*-===//
//
// Experts.cpp emits the kernels for few tokens, GroupedExperts.cpp those for many (tpc/experts.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_EXPERTEMITTER_H
#define TPC_LIB_CONVERSION_CUDA_EXPERTEMITTER_H

#include "TensorCores.h"
#include "tpc/experts.h"

namespace mlir::tpc::cuda {

class ExpertEmitter : TensorCoreEmitter {
public:
  /// `dtype`: that of the matrices.
  ExpertEmitter(ModuleOp module, int32_t dtype)
      : TensorCoreEmitter(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()), module(module),
        dtype(dtype), vector(::tpc::gemv::getVector(dtype)), element(getType(dtype)) {}
  /// h[t, e, f] for tokens that select e.
  void emitInner();
  /// out[t, o], or added to it.
  void emitOutputs();

  //===--- many tokens -------------------------------------------------------===//

  void emitRows();
  void emitGrouped();
  void emitCombine();

private:
  void begin(const Twine &name, ArrayRef<Value *> pointers, ArrayRef<Value *> integers);
  Value loadFloat(Value pointer, Value index) {
    return load(at(pointer, b.getF32Type(), index), b.getF32Type());
  }
  Value loadInteger(Value pointer, Value index) {
    return load(at(pointer, b.getI32Type(), index), b.getI32Type());
  }
  Value number(Value bits) { return arith::BitcastOp::create(b, loc, b.getF32Type(), bits); }
  Value isSet(Value pointer) {
    Value null = LLVM::ZeroOp::create(b, loc, pointer.getType());
    return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, pointer, null);
  }
  Value choose(Value condition, function_ref<Value()> then, function_ref<Value()> otherwise) {
    return branch(
        condition, {b.getF32Type()}, [&] { return Values{then()}; },
        [&] { return Values{otherwise()}; })[0];
  }
  /// Returns the sum of x[i] * w[i] for i < count, in all lanes.
  Value multiply(Value x, Value xAt, Value w, Value wAt, Value count);
  /// Returns whether all rows of `count` elements begin at multiples of 16 bytes.
  Value areAligned(ValueRange pointers, Value count);
  /// Returns the sum of this lane's products in chunks of 16 bytes of w.
  Value multiplyChunks(Value x, Value w, Value chunks);
  Value addBias(Value pointer, Value index, Value sum) {
    return choose(
        isSet(pointer), [&] { return fadd(sum, loadFloat(pointer, index)); }, [&] { return sum; });
  }
  Value activate(Value z, Value alpha, Value activation);
  Value clamp(Value z, Value limit, bool isTwoSided);
  Value routingOf(Value token, Value expert) {
    return loadFloat(routing, add(mul(wide(token), wide(all)), wide(add(first, expert))));
  }
  Value isSelected(Value weight) { // NaN too
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, weight, f32(0));
  }

  //===--- many tokens -------------------------------------------------------===//

  /// Loads the 8 elements of this lane's chunk of a row, in f32. Zeros if `exists` is false.
  Values loadChunk(Value row, int32_t dtype, Value chunk, Value exists);
  /// Returns the products of a warp's rows with its columns, added to `sums`: a lane's chunk of
  /// each of them. Registers: [rows / 16][columns / 8][4].
  Values multiplyTile(ArrayRef<Values> rows, ArrayRef<Values> columns, ValueRange sums);
  Value getTiles();

  ModuleOp module;
  const int32_t dtype;
  const int64_t vector; // elements of w in 16 bytes
  const Type element;
  Value routing, tokens, experts, all, first, inner;
  Value thread, block, lane;
  Value globalWarp; // number of the warp in the grid
  Value isAligned;  // whether rows are read 16 bytes at a time
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_EXPERTEMITTER_H
