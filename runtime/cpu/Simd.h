//===- Simd.h - vectors of TPC_LANES floats, and functions of them --------===//
//
// Included by files that are compiled for several instruction sets, each of which defines TPC_LANES
// and TPC_ISA (a namespace). Nothing of the standard library is used here: its inline functions
// would be merged with those of other files by the linker, and then run on machines without the
// instruction set.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_SIMD_H
#define TPC_RT_CPU_SIMD_H

#include <stdint.h>

namespace tpc::rt::TPC_ISA {

constexpr int lanes = TPC_LANES;
typedef float Vec __attribute__((vector_size(TPC_LANES * 4)));
typedef int32_t IntVec __attribute__((vector_size(TPC_LANES * 4)));
typedef float UnalignedVec __attribute__((vector_size(TPC_LANES * 4), aligned(4)));

#define TPC_INLINE __attribute__((always_inline)) inline

TPC_INLINE Vec load(const float *p) { return *reinterpret_cast<const UnalignedVec *>(p); }
TPC_INLINE void store(float *p, Vec v) { *reinterpret_cast<UnalignedVec *>(p) = v; }
TPC_INLINE Vec splat(float x) { return x - Vec{}; } // not x + 0: that turns -0 into 0
TPC_INLINE IntVec bitsOf(Vec v) { return reinterpret_cast<IntVec &>(v); }
TPC_INLINE Vec floatOf(IntVec v) { return reinterpret_cast<Vec &>(v); }
TPC_INLINE Vec select(IntVec mask, Vec a, Vec b) {
  return floatOf((mask & bitsOf(a)) | (~mask & bitsOf(b)));
}
TPC_INLINE Vec absolute(Vec v) { return floatOf(bitsOf(v) & 0x7fffffff); }
TPC_INLINE Vec withSignOf(Vec magnitude, Vec sign) {
  return floatOf((bitsOf(magnitude) & 0x7fffffff) | (bitsOf(sign) & (int32_t)0x80000000));
}

// a0 b0 a1 b1 …: of the first halves, and of the second.
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

/// Relative error below 2e-7; 0 below -87.3, infinity above 88.7; NaN stays.
TPC_INLINE Vec exp(Vec x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer, which is left in the
  // low bits.
  const Vec magic = splat(12582912.0f);
  // Clamped so that 2^n stays normal. Written so that NaN passes.
  Vec c = select(x < -87.3f, splat(-87.3f), x);
  c = select(c > 88.7f, splat(88.7f), c);
  Vec shifted = c * 1.44269504f + magic;
  Vec n = shifted - magic;
  Vec r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Vec p = splat(1.394113976e-03f);
  p = p * r + 8.363192509e-03f;
  p = p * r + 4.166637496e-02f;
  p = p * r + 1.666657690e-01f;
  p = p * r + 5.000000027e-01f;
  p = p * (r * r) + r + 1.0f;
  // n may be 128: scale by 2^(n-1) and 2.
  IntVec exponent = (bitsOf(shifted) - bitsOf(magic) + 126) << 23;
  Vec result = p * floatOf(exponent) * 2.0f;
  result = select(x < -87.3f, Vec{}, result);
  return select(x > 88.7f, splat(__builtin_inff()), result);
}

/// Absolute error below 2e-7.
TPC_INLINE Vec erf(Vec x) {
  Vec a = absolute(x), t = x * x;
  Vec s = splat(-5.660153017e-04f);
  s = s * t + 4.924788958e-03f;
  s = s * t + -2.671770692e-02f;
  s = s * t + 1.128041159e-01f;
  s = s * t + -3.761235568e-01f;
  s = s * t + 1.128379129e+00f;
  // erfc(a) = exp(-a R(a)); R is fitted up to 4, where erfc is 1.5e-8.
  Vec b = select(a > 4.0f, splat(4.0f), a);
  Vec r = splat(-2.106740010e-04f);
  r = r * b + 3.187305126e-03f;
  r = r * b + -2.280000032e-02f;
  r = r * b + 1.051192319e-01f;
  r = r * b + 6.358285318e-01f;
  r = r * b + 1.128481109e+00f;
  Vec large = withSignOf(1.0f - exp(-b * r), x);
  return select(a < 1.0f, s * x, large);
}

/// Absolute error below 2e-7; small arguments keep their relative accuracy.
TPC_INLINE Vec tanh(Vec x) {
  Vec t = x * x;
  Vec small = x + x * t * (-1.0f / 3 + t * (2.0f / 15 + t * (-17.0f / 315 + t * (62.0f / 2835))));
  Vec large = 1.0f - 2.0f / (exp(2.0f * absolute(x)) + 1.0f);
  return select(absolute(x) < 0.25f, small, withSignOf(large, x));
}

// The compiler's kernels have the same formulas (GeluOp, SiluOp and ReluOp in lib/Dialect), so that
// it makes no difference to special values where an activation is computed.

/// x / (1 + exp(-x)).
TPC_INLINE Vec silu(Vec x) { return x / (1.0f + exp(-x)); }

TPC_INLINE Vec geluErf(Vec x) { return 0.5f * x * (1.0f + erf(x * 0.70710678f)); }

/// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
TPC_INLINE Vec geluTanh(Vec x) {
  Vec u = x * (1.59576912f + 0.0713548163f * (x * x)); // 2u
  return x / (1.0f + exp(-u));
}

/// -0 and NaN stay.
TPC_INLINE Vec relu(Vec x) { return select(x < 0.0f, Vec{}, x); }

} // namespace tpc::rt::TPC_ISA

#endif // TPC_RT_CPU_SIMD_H
