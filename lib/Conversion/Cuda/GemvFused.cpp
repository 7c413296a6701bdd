//===- GemvFused.cpp - Norms and activations of matrix-vector kernels -----===//
//
// A block computes the statistics of whole rows of x while its first accesses to w are in flight.
// It writes the normalized elements that it multiplies to shared memory, rounded to the element
// type like the result of an unfused norm. The order of sums depends on k only.
//
// A block of a gated matmul computes as many columns of the first half of w as of the second.
// Threads exchange the sums of both halves through shared memory.
//
//===----------------------------------------------------------------------===//

#include "GemvEmitter.h"
#include "Threads.h"

#include "tpc/Dialect/Arithmetic.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::gemv;

//===----------------------------------------------------------------------===//
// Norm
//===----------------------------------------------------------------------===//

GemvEmitter::Values GemvEmitter::loadEither(Value pointer, Value isWide, Value first) {
  Type f = b.getF32Type();
  auto narrow = [&] { return unpack(loadWords(at(pointer, element, first))); };
  if (element.isF32())
    return narrow();
  return branch(
      compare(Predicate::ne, isWide, i32(0)), SmallVector<Type>(vector, f),
      [&] {
        Values values;
        Value from = at(pointer, f, first);
        for (int64_t i = 0; i < vector; i += 4)
          llvm::append_range(values, unpack(loadWords(at(from, f, i)), TPC_F32));
        return values;
      },
      narrow);
}

GemvEmitter::Values GemvEmitter::sumRows(StringRef name,
                                         function_ref<Value(int64_t row, Value x)> f) {
  Type single = b.getF32Type();
  const int64_t m = variant.m;
  Values sums = loop(thread, div(k, vector), i32(kThreads), Values(m, f32(0)),
                     [&](Value chunk, ValueRange now) {
                       Values after(now);
                       for (int64_t i = 0; i < m; ++i) {
                         Value first = add(mul(wide(k), i), wide(mul(chunk, vector)));
                         for (Value value : loadEither(x, isWideX, first))
                           after[i] = fadd(after[i], f(i, value));
                       }
                       return after;
                     });
  // Sums of warps: [warp][m].
  Value shared = getShared(name, single, kWarps * m);
  for (Value &sum : sums)
    sum = addLanes(sum, kWarp / 2, 1);
  branch(is(lane, 0), [&] {
    for (int64_t i = 0; i < m; ++i)
      storeMany(at(at(shared, single, mul(warp, m)), single, i), {sums[i]});
  });
  barrier();
  for (int64_t i = 0; i < m; ++i) {
    sums[i] = load(at(shared, single, i), single);
    for (int64_t other = 1; other < kWarps; ++other)
      sums[i] = fadd(sums[i], load(at(shared, single, other * m + i), single));
  }
  return sums;
}

void GemvEmitter::stage(Value begin, Value end) {
  Type f = b.getF32Type();
  const int64_t m = variant.m;
  staged = getDynamicShared();
  firstStaged = mul(begin, kRowsOfChunk);
  rowStaged = sub(mul(end, kRowsOfChunk), firstStaged);
  Values none(2 * m, f32(0));
  // Means, and inverse roots of variances.
  Values statistics = branch(
      is(norm, TPC_NORM_NONE), SmallVector<Type>(2 * m, f), [&] { return none; },
      [&] {
        Value length = arith::SIToFPOp::create(b, loc, f, k);
        Values zeros(m, f32(0));
        Values means = branch(
            is(norm, TPC_NORM_LAYER), SmallVector<Type>(m, f),
            [&] {
              Values sums = sumRows("means", [](int64_t, Value value) { return value; });
              for (Value &sum : sums)
                sum = fdiv(sum, length);
              return sums;
            },
            [&] { return zeros; });
        Values squares = sumRows("squares", [&](int64_t row, Value value) {
          Value distance = fsub(value, means[row]);
          return fmul(distance, distance);
        });
        Value small = arith::BitcastOp::create(b, loc, f, epsilon);
        for (Value sum : squares)
          means.push_back(
              fdiv(f32(1), math::SqrtOp::create(b, loc, fadd(fdiv(sum, length), small))));
        return means;
      });
  Value first = div(firstStaged, vector), last = div(mul(end, kRowsOfChunk), vector);
  loop(add(first, thread), last, i32(kThreads), [&](Value chunk) {
    Value column = mul(chunk, vector);
    SmallVector<Type> types(vector, f);
    Values ones(vector, f32(1)), zeros(vector, f32(0));
    auto loadIfAny = [&](Value pointer, const Values &otherwise) {
      return branch(
          isNull(pointer), types, [&] { return otherwise; },
          [&] { return loadEither(pointer, isWideScale, column); });
    };
    Values scales = loadIfAny(scale, ones), shifts = loadIfAny(shift, zeros);
    for (int64_t i = 0; i < m; ++i) {
      Values values = loadEither(x, isWideX, add(mul(wide(k), i), wide(column)));
      Values normalized = branch(
          is(norm, TPC_NORM_NONE), types, [&] { return values; },
          [&] {
            Values changed;
            for (int64_t j = 0; j < vector; ++j) {
              Value value = fmul(fsub(values[j], statistics[i]), statistics[m + i]);
              value = fmul(value, scales[j]);
              changed.push_back(value);
            }
            return changed;
          });
      normalized = branch(
          isNull(shift), types, [&] { return normalized; },
          [&] {
            Values shifted;
            for (int64_t j = 0; j < vector; ++j)
              shifted.push_back(fadd(normalized[j], shifts[j]));
            return shifted;
          });
      for (Value &value : normalized)
        value = fromF32(value, element);
      storeMany(at(staged, element, add(mul(rowStaged, i), sub(column, firstStaged))), normalized);
    }
  });
  barrier();
}

//===----------------------------------------------------------------------===//
// Activation
//===----------------------------------------------------------------------===//

Value GemvEmitter::activate(Value x) {
  Arithmetic a(b, loc, b.getF32Type());
  auto ifActivation = [&](int32_t kind, function_ref<Value()> then,
                          function_ref<Value()> otherwise) {
    return branch(
        is(activation, kind), {b.getF32Type()}, [&] { return Values{then()}; },
        [&] { return Values{otherwise()}; })[0];
  };
  return ifActivation(
      TPC_EPILOGUE_SILU, [&] { return ::tpc::silu<Arithmetic, Value>(a, x); },
      [&] {
        return ifActivation(
            TPC_EPILOGUE_GELU_TANH, [&] { return ::tpc::geluTanh<Arithmetic, Value>(a, x); },
            [&] {
              return ifActivation(
                  TPC_EPILOGUE_GELU_ERF, [&] { return ::tpc::geluErf<Arithmetic, Value>(a, x); },
                  // NaN remains NaN.
                  [&] {
                    Value isLow =
                        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, f32(0));
                    return select(isLow, f32(0), x);
                  });
            });
      });
}

std::pair<Value, Value> GemvEmitter::getColumn(Value range, Value columnOfBlock) {
  const int64_t columns = getColumns(variant.element);
  Value plainColumn = add(mul(range, columns), columnOfBlock);
  if (!variant.fused)
    return {plainColumn, less(plainColumn, n)};
  Value half = div(n, 2);
  Value inHalf = add(mul(range, columns / 2), rem(columnOfBlock, columns / 2));
  Value isGated = compare(Predicate::ne, gated, i32(0));
  Value gatedColumn = add(inHalf, mul(div(columnOfBlock, columns / 2), half));
  return {select(isGated, gatedColumn, plainColumn),
          select(isGated, less(inHalf, half), less(plainColumn, n))};
}

void GemvEmitter::storeActivated(Value range, Value index, Value sum) {
  Type f = b.getF32Type();
  const int64_t columns = getColumns(variant.element), results = variant.m * columns;
  Value row = div(index, columns), columnOfBlock = rem(index, columns);
  auto [outColumn, exists] = getColumn(range, columnOfBlock);
  Value isResult = both(less(thread, i32(results)), exists);
  Value column = select(isResult, outColumn, i32(0));
  Value value =
      withResultType(f, [&](Type type) { return Values{addIfAny(bias, type, column, sum)}; })[0];
  // In a gated matmul, the matching column of the other half is columns / 2 further.
  Value shared = getShared("gates", f, kThreads);
  storeMany(at(shared, f, thread), {value});
  barrier();
  Value gate = load(at(shared, f, rem(add(thread, columns / 2), kThreads)), f);
  Value isGated = compare(Predicate::ne, gated, i32(0));
  Value result = activate(value);
  result = select(isGated, fmul(result, gate), result);
  Value isFirst =
      both(isResult, less(columnOfBlock, select(isGated, i32(columns / 2), i32(columns))));
  branch(isFirst, [&] {
    Value to = add(mul(wide(row), wide(outRow)), wide(outColumn));
    withResultType({}, [&](Type type) {
      storeMany(at(out, type, to), {fromF32(result, type)});
      return Values();
    });
  });
}
