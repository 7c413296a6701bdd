//===- Experts.cpp - Kernels of mixtures of experts -----------------------===//
//
// A warp computes one row of an expert's matrix for all tokens that select the expert, in sequence.
// It reads the row only if there is such a token, so a step reads the weights of selected experts.
// Lanes read adjacent elements, 16 bytes at a time if rows are aligned; sums are added by shuffles,
// in an order that depends on sizes and alignment only. Weights of 16 bits are widened in
// registers.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Cuda/Experts.h"

#include "ExpertEmitter.h"
#include "Threads.h"
#include "tpc/Dialect/Arithmetic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::gemv;

void ExpertEmitter::begin(const Twine &name, ArrayRef<Value *> pointers,
                          ArrayRef<Value *> integers) {
  LLVM::LLVMFuncOp kernel = beginKernel(name.str(), pointers.size(), kThreads, integers.size());
  SmallVector<Value *> parameters(pointers);
  llvm::append_range(parameters, integers);
  for (auto [value, argument] : llvm::zip_equal(parameters, kernel.getArguments()))
    *value = argument;
  createWait(b, loc);
  thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  lane = rem(thread, kWarp);
  globalWarp = add(mul(block, kWarps), div(thread, kWarp));
}

Value ExpertEmitter::areAligned(ValueRange pointers, Value count) {
  Value bits = i64(0);
  for (Value pointer : pointers)
    bits = arith::OrIOp::create(b, loc, bits,
                                LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), pointer));
  return both(compare(Predicate::eq, rem(bits, kAccessBytes), i64(0)),
              compare(Predicate::eq, rem(count, vector), i32(0)));
}

Value ExpertEmitter::multiplyChunks(Value x, Value w, Value chunks) {
  auto loadW = [&](Value chunk) { return loadWords(at(w, element, mul(wide(chunk), vector))); };
  auto multiplyChunk = [&](Value words, Value chunk, Value sum) {
    Value from = at(x, b.getF32Type(), mul(wide(chunk), vector));
    Values xs;
    for (int64_t i = 0; i < vector; i += 4)
      llvm::append_range(xs, loadMany(at(from, b.getF32Type(), i), b.getF32Type(), 4));
    for (auto [xi, wi] : llvm::zip_equal(xs, unpack(words, dtype)))
      sum = fma(xi, wi, sum);
    return sum;
  };
  constexpr int64_t atOnce = kLoads / 2;
  Value batches = div(chunks, atOnce * kWarp);
  Value sum = loop(i32(0), batches, i32(1), {f32(0)}, [&](Value batch, ValueRange now) {
    Values words, places;
    for (int64_t i = 0; i < atOnce; ++i) {
      places.push_back(add(add(mul(batch, atOnce * kWarp), lane), i * kWarp));
      words.push_back(loadW(places.back()));
    }
    Value after = now[0];
    for (auto [word, place] : llvm::zip_equal(words, places))
      after = multiplyChunk(word, place, after);
    return Values{after};
  })[0];
  Value rest = add(mul(batches, atOnce * kWarp), lane);
  return loop(rest, chunks, i32(kWarp), {sum}, [&](Value chunk, ValueRange now) {
    return Values{multiplyChunk(loadW(chunk), chunk, now[0])};
  })[0];
}

Value ExpertEmitter::multiply(Value x, Value xAt, Value w, Value wAt, Value count) {
  Value xRow = at(x, b.getF32Type(), xAt), wRow = at(w, element, wAt);
  Value sum = choose(
      isAligned, [&] { return multiplyChunks(xRow, wRow, div(count, vector)); },
      [&] {
        return loop(lane, count, i32(kWarp), {f32(0)}, [&](Value i, ValueRange now) {
          Value wi = toF32(load(at(wRow, element, wide(i)), element));
          return Values{fma(loadFloat(xRow, wide(i)), wi, now[0])};
        })[0];
      });
  for (int32_t bit = kWarp / 2; bit >= 1; bit /= 2)
    sum = fadd(sum, createShuffle(b, loc, sum, bit));
  return sum;
}

Value ExpertEmitter::activate(Value z, Value alpha, Value activation) {
  Arithmetic a(b, loc, b.getF32Type());
  auto when = [&](int32_t kind, function_ref<Value()> then, function_ref<Value()> otherwise) {
    return choose(compare(Predicate::eq, activation, i32(kind)), then, otherwise);
  };
  return when(
      TPC_EPILOGUE_SILU, [&] { return ::tpc::gated<Arithmetic, Value>(a, z, fmul(alpha, z)); },
      [&] {
        return when(
            TPC_EPILOGUE_GELU_TANH, [&] { return ::tpc::geluTanh<Arithmetic, Value>(a, z); },
            [&] {
              return when(
                  TPC_EPILOGUE_GELU_ERF, [&] { return ::tpc::geluErf<Arithmetic, Value>(a, z); },
                  [&] {
                    Value isRelu = compare(Predicate::eq, activation, i32(TPC_EPILOGUE_RELU));
                    return select(isRelu, ::tpc::relu<Arithmetic, Value>(a, z), z);
                  });
            });
      });
}

Value ExpertEmitter::clamp(Value z, Value limit, bool isTwoSided) {
  auto isLess = [&](Value x, Value y) { // false for NaN, which remains
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y);
  };
  Value isOn = isLess(f32(0), limit);
  Value result = select(both(isOn, isLess(limit, z)), limit, z);
  if (!isTwoSided)
    return result;
  Value low = fsub(f32(0), limit);
  return select(both(isOn, isLess(z, low)), low, result);
}

void ExpertEmitter::emitInner() {
  Value x, up, upBias, gate, gateBias, h, hidden, alpha, beta, limit, activation;
  begin("tpc_experts_inner_" + getTypeName(dtype),
        {&x, &routing, &up, &upBias, &gate, &gateBias, &h},
        {&tokens, &hidden, &experts, &all, &first, &inner, &alpha, &beta, &limit, &activation});
  // A null gate is aligned.
  isAligned = areAligned({x, up, gate}, hidden);
  branch(less(globalWarp, mul(experts, inner)), [&] {
    Value expert = div(globalWarp, inner);
    Value row = mul(wide(globalWarp), wide(hidden));
    loop(i32(0), tokens, i32(1), [&](Value token) {
      branch(isSelected(routingOf(token, expert)), [&] {
        Value xAt = mul(wide(token), wide(hidden));
        Value u = addBias(upBias, wide(globalWarp), multiply(x, xAt, up, row, hidden));
        Value result = choose(
            isSet(gate),
            [&] {
              Value v = addBias(gateBias, wide(globalWarp), multiply(x, xAt, gate, row, hidden));
              Value cut = number(limit);
              v = activate(clamp(v, cut, false), number(alpha), activation);
              return fmul(v, fadd(clamp(u, cut, true), number(beta)));
            },
            [&] { return activate(u, number(alpha), activation); });
        branch(compare(Predicate::eq, lane, i32(0)), [&] {
          Value to = add(mul(wide(token), wide(mul(experts, inner))), wide(globalWarp));
          storeMany(at(h, b.getF32Type(), to), {result});
        });
      });
    });
  });
  endKernel();
}

void ExpertEmitter::emitOutputs() {
  Value h, down, out, outputs, isAdded;
  begin("tpc_experts_outputs_" + getTypeName(dtype), {&h, &routing, &down, &out},
        {&tokens, &experts, &all, &first, &inner, &outputs, &isAdded});
  isAligned = areAligned({h, down}, inner);
  branch(less(globalWarp, mul(tokens, outputs)), [&] {
    Value token = div(globalWarp, outputs), output = rem(globalWarp, outputs);
    Value before = choose(
        compare(Predicate::ne, isAdded, i32(0)), [&] { return loadFloat(out, wide(globalWarp)); },
        [&] { return f32(0); });
    Value total = loop(i32(0), experts, i32(1), {before}, [&](Value expert, ValueRange now) {
      Value weight = routingOf(token, expert);
      return Values{choose(
          isSelected(weight),
          [&] {
            Value hAt = mul(add(mul(wide(token), wide(experts)), wide(expert)), wide(inner));
            Value row = mul(add(mul(wide(expert), wide(outputs)), wide(output)), wide(inner));
            return fma(weight, multiply(h, hAt, down, row, inner), now[0]);
          },
          [&] { return Value(now[0]); })};
    })[0];
    branch(compare(Predicate::eq, lane, i32(0)),
           [&] { storeMany(at(out, b.getF32Type(), wide(globalWarp)), {total}); });
  });
  endKernel();
}

void cuda::makeExpertKernels(ModuleOp kernels) {
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16}) {
    ExpertEmitter emitter(kernels, dtype);
    emitter.emitInner();
    emitter.emitOutputs();
    emitter.emitGrouped();
  }
  ExpertEmitter emitter(kernels, TPC_F32);
  emitter.emitRows();
  emitter.emitCombine();
}
