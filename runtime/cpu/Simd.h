//===- Simd.h - Vectors of TPC_LANES floats and their functions -----------===//
//
// Included by files that are compiled for several instruction sets, each of which defines TPC_LANES
// and TPC_ISA (a namespace). The standard library is not used: the linker would merge its inline
// functions with those of other files, and then run them on machines without the instruction set.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_SIMD_H
#define TPC_RT_CPU_SIMD_H

#include "tpc/functions.h"
#include <stdint.h>

namespace tpc::rt::TPC_ISA {

constexpr int lanes = TPC_LANES;
typedef float Vec __attribute__((vector_size(TPC_LANES * 4)));
typedef int32_t IntVec __attribute__((vector_size(TPC_LANES * 4)));
typedef float UnalignedVec __attribute__((vector_size(TPC_LANES * 4), aligned(2), may_alias));
typedef uint16_t ShortVec __attribute__((vector_size(TPC_LANES * 2)));
typedef uint16_t UnalignedShortVec __attribute__((vector_size(TPC_LANES * 2), aligned(2)));

#define TPC_INLINE __attribute__((always_inline)) inline

TPC_INLINE Vec load(const float *p) { return *reinterpret_cast<const UnalignedVec *>(p); }
TPC_INLINE void store(float *p, Vec v) { *reinterpret_cast<UnalignedVec *>(p) = v; }
TPC_INLINE Vec splat(float x) { return x - Vec{}; } // not x + 0: that turns -0 into 0
TPC_INLINE IntVec bitsOf(Vec v) { return reinterpret_cast<IntVec &>(v); }
TPC_INLINE Vec floatOf(IntVec v) { return reinterpret_cast<Vec &>(v); }
TPC_INLINE Vec select(IntVec mask, Vec a, Vec b) {
  return floatOf((mask & bitsOf(a)) | (~mask & bitsOf(b)));
}

/// Converts bfloat16 to f32.
TPC_INLINE Vec widenBfloat(ShortVec v) { return floatOf(__builtin_convertvector(v, IntVec) << 16); }
/// Converts IEEE half precision to f32. Signaling NaNs become quiet.
TPC_INLINE Vec widenHalf(ShortVec v) {
#if defined(__F16C__)
  typedef _Float16 HalfVec __attribute__((vector_size(TPC_LANES * 2)));
  return __builtin_convertvector(reinterpret_cast<HalfVec &>(v), Vec);
#else
  // As halfToFloat (core/Half.h): 2^112 scales normal and subnormal numbers.
  IntVec bits = __builtin_convertvector(v, IntVec), rest = bits & 0x7fff;
  IntVec isNan = rest > 0x7c00, scaled = bitsOf(floatOf(rest << 13) * 0x1p112f);
  IntVec special = (rest << 13) | 0x7f800000 | (isNan & 0x400000), isSpecial = rest >= 0x7c00;
  return floatOf(((special & isSpecial) | (scaled & ~isSpecial)) | ((bits & 0x8000) << 16));
#endif
}

// Interleaves halves of two vectors: a0 b0 a1 b1 …, from index i on.
#if TPC_LANES == 4
#define TPC_SHUFFLE(a, b, i) __builtin_shufflevector(a, b, i, 4 + i, i + 1, 5 + i)
#elif TPC_LANES == 8
#define TPC_SHUFFLE(a, b, i)                                                                       \
  __builtin_shufflevector(a, b, i, 8 + i, i + 1, 9 + i, i + 2, 10 + i, i + 3, 11 + i)
#else
#define TPC_SHUFFLE(a, b, i)                                                                       \
  __builtin_shufflevector(a, b, i, 16 + i, i + 1, 17 + i, i + 2, 18 + i, i + 3, 19 + i, i + 4,     \
                          20 + i, i + 5, 21 + i, i + 6, 22 + i, i + 7, 23 + i)
#endif
TPC_INLINE Vec interleaveLow(Vec a, Vec b) { return TPC_SHUFFLE(a, b, 0); }
TPC_INLINE Vec interleaveHigh(Vec a, Vec b) { return TPC_SHUFFLE(a, b, lanes / 2); }

/// x y + z, rounded once.
TPC_INLINE Vec fma(Vec x, Vec y, Vec z) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(x, y, z);
#else
  // In f64 the product is exact. The sum is rounded to odd: its last bit records inexactness, so
  // that rounding to f32 is correct.
  typedef double DoubleVec __attribute__((vector_size(TPC_LANES * 8)));
  typedef int64_t LongVec __attribute__((vector_size(TPC_LANES * 8)));
  DoubleVec p = __builtin_convertvector(x, DoubleVec) * __builtin_convertvector(y, DoubleVec);
  DoubleVec c = __builtin_convertvector(z, DoubleVec), sum = p + c;
  DoubleVec q = sum - p, error = (p - (sum - q)) + (c - q);
  LongVec bits = reinterpret_cast<LongVec &>(sum);
  LongVec isEven = (bits & 1) == 0, isMore = error > 0, isLess = error < 0;
  // Moves the sum toward the exact value: magnitude plus one if the signs of sum and error agree,
  // else minus one.
  LongVec step = (isMore | isLess) & (((isMore ^ (sum < 0)) & 2) - 1);
  bits += step & isEven;
  return __builtin_convertvector(reinterpret_cast<DoubleVec &>(bits), Vec);
#endif
}

/// Operations for functions.h.
struct Arithmetic {
  TPC_INLINE Vec number(double x) const { return splat(static_cast<float>(x)); }
  TPC_INLINE Vec neg(Vec x) const { return -x; }
  TPC_INLINE Vec add(Vec x, Vec y) const { return x + y; }
  TPC_INLINE Vec sub(Vec x, Vec y) const { return x - y; }
  TPC_INLINE Vec mul(Vec x, Vec y) const { return x * y; }
  TPC_INLINE Vec div(Vec x, Vec y) const { return x / y; }
  TPC_INLINE Vec fma(Vec x, Vec y, Vec z) const { return TPC_ISA::fma(x, y, z); }
  TPC_INLINE IntVec less(Vec x, Vec y) const { return x < y; }
  TPC_INLINE Vec select(IntVec mask, Vec x, Vec y) const { return TPC_ISA::select(mask, x, y); }
  TPC_INLINE Vec abs(Vec x) const { return floatOf(bitsOf(x) & 0x7fffffff); }
  TPC_INLINE Vec withSignOf(Vec magnitude, Vec sign) const {
    return floatOf((bitsOf(magnitude) & 0x7fffffff) | (bitsOf(sign) & (int32_t)0x80000000));
  }
  /// Returns 2^n, where x = n + kTwoTo: shifts the low bits of x to the exponent.
  TPC_INLINE Vec twoTo(Vec x) const { return floatOf(bitsOf(x) << 23); }
  TPC_INLINE Vec exp(Vec x) const { return approximateExp(*this, x); }
  TPC_INLINE Vec erf(Vec x) const { return approximateErf(*this, x); }
};

TPC_INLINE Vec exp(Vec x) { return approximateExp(Arithmetic(), x); }
TPC_INLINE Vec tanh(Vec x) { return approximateTanh(Arithmetic(), x); }

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_SIMD_H
