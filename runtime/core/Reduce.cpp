//===- Reduce.cpp - Reduction of the members' tensors ---------------------===//
//
// All transports use one set of kernels, so that results have the same bits everywhere. The
// compiler vectorizes the loops, which are bound by cache traffic, not arithmetic.
//
//===----------------------------------------------------------------------===//

#include "core/Reduce.h"
#include "core/Half.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tpc::rt {

namespace {

struct Sum {
  template <typename T> static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
// Same semantics as kernels (arith.maximumf): NaN propagates, and 0 exceeds -0. The result is
// therefore independent of the order of operands.
template <typename T> bool isNegative(T x) {
  if constexpr (std::is_integral_v<T>)
    return x < 0;
  else
    return std::signbit(x);
}
struct Max {
  template <typename T> static T apply(T a, T b) {
    return a > b || a != a || (a == b && !isNegative(a)) ? a : b;
  }
};
struct Min {
  template <typename T> static T apply(T a, T b) {
    return a < b || a != a || (a == b && isNegative(a)) ? a : b;
  }
};

/// `out` may be `a` or `b`.
template <typename T, typename Op> void combine(T *out, const T *a, const T *b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = Op::apply(a[i], b[i]);
}

template <typename T, typename Op>
void reduceTyped(void *out, const void *const *in, int members, int64_t count) {
  // A block of partial results stays in the L1 cache, and `out` is written only after every input
  // of the block was read.
  constexpr int64_t block = 8192 / sizeof(T);
  alignas(64) T partial[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    auto at = [&](int member) { return static_cast<const T *>(in[member]) + begin; };
    T *to = static_cast<T *>(out) + begin;
    if (members == 1) {
      std::memmove(to, at(0), size * sizeof(T));
      continue;
    }
    const T *left = at(0);
    for (int member = 1; member < members; ++member) {
      T *next = member + 1 == members ? to : partial;
      combine<T, Op>(next, left, at(member), size);
      left = next;
    }
  }
}

/// 16-bit floats: in f32, rounded once.
template <float (*widen)(uint16_t), uint16_t (*narrow)(float), typename Op>
void reduceHalves(void *out, const void *const *in, int members, int64_t count) {
  constexpr int64_t block = 2048;
  alignas(64) float partial[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    auto at = [&](int member) { return static_cast<const uint16_t *>(in[member]) + begin; };
    uint16_t *to = static_cast<uint16_t *>(out) + begin;
    if (members == 1) {
      std::memmove(to, at(0), size * sizeof *to);
      continue;
    }
    for (int64_t i = 0; i < size; ++i)
      partial[i] = widen(at(0)[i]);
    for (int member = 1; member < members; ++member)
      for (int64_t i = 0; i < size; ++i)
        partial[i] = Op::apply(partial[i], widen(at(member)[i]));
    for (int64_t i = 0; i < size; ++i)
      to[i] = narrow(partial[i]);
  }
}

template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void reduceHalvesWith(tpc_reduction reduction, void *out, const void *const *in, int members,
                      int64_t count) {
  switch (reduction) {
  case TPC_SUM:
    return reduceHalves<widen, narrow, Sum>(out, in, members, count);
  case TPC_MAX:
    return reduceHalves<widen, narrow, Max>(out, in, members, count);
  case TPC_MIN:
    return reduceHalves<widen, narrow, Min>(out, in, members, count);
  }
}

template <typename T>
void reduceWith(tpc_reduction reduction, void *out, const void *const *in, int members,
                int64_t count) {
  switch (reduction) {
  case TPC_SUM:
    return reduceTyped<T, Sum>(out, in, members, count);
  case TPC_MAX:
    return reduceTyped<T, Max>(out, in, members, count);
  case TPC_MIN:
    return reduceTyped<T, Min>(out, in, members, count);
  }
}

} // namespace

bool canReduce(int32_t dtype, int32_t reduction) {
  return (dtype == TPC_F32 || dtype == TPC_F64 || dtype == TPC_F16 || dtype == TPC_BF16 ||
          dtype == TPC_I32 || dtype == TPC_I64) &&
         (reduction == TPC_SUM || reduction == TPC_MAX || reduction == TPC_MIN);
}

void reduce(tpc_dtype dtype, tpc_reduction reduction, void *out, const void *const *in, int members,
            int64_t count) {
  switch (dtype) {
  case TPC_F32:
    return reduceWith<float>(reduction, out, in, members, count);
  case TPC_F64:
    return reduceWith<double>(reduction, out, in, members, count);
  case TPC_F16:
    return reduceHalvesWith<halfToFloat, floatToHalf>(reduction, out, in, members, count);
  case TPC_BF16:
    return reduceHalvesWith<bfloatToFloat, floatToBfloat>(reduction, out, in, members, count);
  case TPC_I32:
    return reduceWith<int32_t>(reduction, out, in, members, count);
  case TPC_I64:
    return reduceWith<int64_t>(reduction, out, in, members, count);
  default:
    return; // canReduce has rejected it
  }
}

} // namespace tpc::rt
