//===- functions.h - Activations and the functions exp, tanh, erf ---------===//
//
// One formula for each function, shared by all implementations: the compiler emits it as IR
// operations, the runtime computes it on vectors of several widths. Each operation is IEEE 754's,
// and multiplications and additions are fused only where written here. The bits therefore depend
// neither on the implementation nor on the processor.
//
// `A` computes with values of a type V:
//   number(double)                                   rounded to V's type
//   neg(x), add(x, y), sub(x, y), mul(x, y), div(x, y)
//   fma(x, y, z)                                     x y + z, rounded once
//   less(x, y)                                       false if x or y is NaN
//   select(condition, x, y)
//   abs(x), withSignOf(magnitude, x)
//   twoTo(y)                                         2^n of f32, where y = n + kTwoTo
//   exp(x), erf(x)                                   for activations
//
//===----------------------------------------------------------------------===//

#ifndef TPC_FUNCTIONS_H
#define TPC_FUNCTIONS_H

namespace tpc {

// Inlined even without optimization: the runtime compiles these functions for several instruction
// sets, and the linker would merge the copies into one.
#define TPC_FUNCTION template <class A, class V> [[gnu::always_inline]] inline V

/// Returns c[0] x^(n-1) + ... + c[n-1].
template <class A, class V, int n>
[[gnu::always_inline]] inline V polynomial(const A &a, V x, const double (&c)[n]) {
  V sum = a.number(c[0]);
  for (int i = 1; i < n; ++i)
    sum = a.fma(sum, x, a.number(c[i]));
  return sum;
}

/// 1.5 * 2^23 plus f32's exponent bias. Adding it to a float rounds the float to an integer n and
/// leaves the exponent bits of 2^n in the low bits.
constexpr double kTwoTo = 12582912 + 127;

constexpr double kMinExponent = -86.98, kMaxExponent = 88.7228317;

/// exp of an f32 between these bounds, or of NaN. Relative error below 2e-7.
TPC_FUNCTION approximateFiniteExp(const A &a, V x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2. ln 2 is split into two terms, the first with few bits. 2^128
  // would overflow, so 2^(n-1) is computed, and the result doubled.
  V shift = a.number(kTwoTo - 1), shifted = a.fma(x, a.number(1.44269504), shift);
  V minusN = a.sub(shift, shifted);
  V r = a.fma(minusN, a.number(0.693359375), x);
  r = a.fma(minusN, a.number(-2.12194440e-4), r);
  V p = polynomial(
      a, r, {1.394113976e-03, 8.363192509e-03, 4.166637496e-02, 1.666657690e-01, 5.000000027e-01});
  p = a.add(a.fma(p, a.mul(r, r), r), a.number(1));
  return a.mul(a.mul(p, a.twoTo(shifted)), a.number(2));
}

/// exp of an f32. Returns 0 where the result would be below 2^-125.5; propagates NaN.
TPC_FUNCTION approximateExp(const A &a, V x) {
  V low = a.number(kMinExponent), high = a.number(kMaxExponent);
  auto isLow = a.less(x, low), isHigh = a.less(high, x);
  V result = approximateFiniteExp(a, a.select(isHigh, high, a.select(isLow, low, x)));
  result = a.select(isLow, a.number(0), result);
  return a.select(isHigh, a.number(__builtin_inf()), result);
}

/// erf of an f32. Relative error below 2e-7; 1 from 4 on.
TPC_FUNCTION approximateErf(const A &a, V x) {
  V size = a.abs(x), one = a.number(1), four = a.number(4), shift = a.number(kTwoTo);
  V small = a.mul(polynomial(a, a.mul(x, x),
                             {-5.63148152e-04, 4.91756782e-03, -2.67113280e-02, 1.12801809e-01,
                              -3.76123263e-01, 1.12837912e+00}),
                  x);
  // For |x| >= 1: 1 - erfc, with erfc(b) = 2^(b R(b)). R is fitted up to 4, where erfc is 1.5e-8.
  V b = a.select(a.less(four, size), four, size);
  V y = a.mul(b, polynomial(a, b,
                            {-2.19554194e-03, 2.54850626e-02, -1.40507997e-01, -9.25501149e-01,
                             -1.62569648e+00}));
  // y = n + r, |r| <= 1/2; the polynomial is -2^r.
  V shifted = a.add(y, shift), r = a.sub(y, a.sub(shifted, shift));
  V minus = polynomial(a, r,
                       {-1.32764677e-03, -9.67554130e-03, -5.55071329e-02, -2.40221197e-01,
                        -6.93146967e-01, -1.00000007e+00});
  V large = a.fma(minus, a.twoTo(shifted), one);
  return a.select(a.less(size, one), small, a.withSignOf(large, x));
}

/// tanh of an f32: Eigen's rational approximation, 1 from 7.998 on. Relative error below 5e-7; -0
/// keeps its sign.
TPC_FUNCTION approximateTanh(const A &a, V x) {
  V size = a.abs(x), limit = a.number(7.99881172180175781);
  V b = a.withSignOf(a.select(a.less(limit, size), limit, size), x), square = a.mul(b, b);
  V p = polynomial(a, square,
                   {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
                    5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04,
                    4.89352455891786e-03});
  V q = polynomial(
      a, square,
      {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
  return a.select(a.less(size, a.number(0.0004)), x, a.div(a.mul(b, p), q));
}

/// x * sigmoid(u).
TPC_FUNCTION gated(const A &a, V x, V u) { return a.div(x, a.add(a.number(1), a.exp(a.neg(u)))); }

TPC_FUNCTION silu(const A &a, V x) { return gated(a, x, x); }

TPC_FUNCTION geluErf(const A &a, V x) {
  V e = a.erf(a.mul(x, a.number(0.70710678118654752)));
  return a.mul(a.mul(x, a.number(0.5)), a.add(e, a.number(1)));
}

/// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
TPC_FUNCTION geluTanh(const A &a, V x) {
  V factor =
      a.fma(a.mul(x, x), a.number(0.071354816272600247), a.number(1.5957691216057308)); // 2u / x
  return gated(a, x, a.mul(x, factor));
}

/// Differs from max(x, 0): propagates NaN and keeps -0, as ONNX Runtime does.
TPC_FUNCTION relu(const A &a, V x) {
  V zero = a.number(0);
  return a.select(a.less(x, zero), zero, x);
}

#undef TPC_FUNCTION

} // namespace tpc

#endif // TPC_FUNCTIONS_H
