//===- Float.cpp - PTX float arithmetic -----------------------------------===//

#include "Float.h"

#include <limits>

using namespace ptx;

static long double nearestEven(long double value) {
  long double below = floorl(value);
  long double rest = value - below;
  if (rest < 0.5L)
    return below;
  if (rest > 0.5L)
    return below + 1;
  return fmodl(below, 2) == 0 ? below : below + 1;
}

long double ptx::roundToInteger(long double value, Rounding rounding) {
  if (std::isnan(value) || std::isinf(value) || value == 0)
    return value;
  long double rounded = 0;
  switch (rounding) {
  case Rounding::Nearest:
  case Rounding::IntNearest:
    rounded = nearestEven(value);
    break;
  case Rounding::Zero:
  case Rounding::IntZero:
    rounded = truncl(value);
    break;
  case Rounding::Down:
  case Rounding::IntDown:
    rounded = floorl(value);
    break;
  case Rounding::Up:
  case Rounding::IntUp:
    rounded = ceill(value);
    break;
  case Rounding::Away:
    rounded = roundl(value);
    break;
  }
  return copysignl(rounded, value);
}

long double ptx::roundTo(long double value, Format format, Rounding rounding) {
  if (std::isnan(value) || std::isinf(value) || value == 0)
    return value;
  int exponent = std::max(ilogbl(value), format.minExponent);
  int shift = format.mantissaBits - exponent;
  long double rounded = ldexpl(roundToInteger(ldexpl(value, shift), rounding), -shift);
  long double largest = ldexpl(2 - ldexpl(1, -format.mantissaBits), format.maxExponent);
  if (fabsl(rounded) <= largest)
    return copysignl(rounded, value);
  bool toInfinity = rounding == Rounding::Nearest || rounding == Rounding::Away ||
                    (rounding == Rounding::Up && value > 0) ||
                    (rounding == Rounding::Down && value < 0);
  return copysignl(toInfinity ? std::numeric_limits<long double>::infinity() : largest, value);
}

float ptx::roundToFloat(long double value, Rounding rounding) {
  return canonical(float(roundTo(value, f32Format, rounding)));
}

static double withSticky(double value, double error) {
  // The error is the exact result minus the value.
  auto bits = std::bit_cast<uint64_t>(value);
  if (error == 0 || std::isnan(error) || !std::isfinite(value) || (bits & 1))
    return value;
  bool outward = (error > 0) == (value > 0);
  return std::bit_cast<double>(outward ? bits + 1 : bits - 1);
}

double ptx::addToOdd(double x, double y) {
  double sum = x + y;
  if (!std::isfinite(sum))
    return sum;
  double part = sum - x;
  double error = (x - (sum - part)) + (y - part);
  return withSticky(sum, error);
}

// The sign of a zero sum depends on the rounding direction: x + -x is -0 if it is downward.
static float signedZero(float result, double x, double y, Rounding rounding) {
  if (result == 0 && x + y == 0 && rounding == Rounding::Down &&
      !(x == 0 && y == 0 && !std::signbit(x) && !std::signbit(y)))
    return -0.0f;
  return result;
}

float ptx::addRounded(float a, float b, Rounding rounding) {
  return signedZero(roundToFloat(addToOdd(a, b), rounding), a, b, rounding);
}

float ptx::mulRounded(float a, float b, Rounding rounding) {
  return roundToFloat(double(a) * double(b), rounding);
}

float ptx::fmaRounded(float a, float b, float c, Rounding rounding) {
  double product = double(a) * double(b);
  return signedZero(roundToFloat(addToOdd(product, c), rounding), product, c, rounding);
}

float ptx::divRounded(float a, float b, Rounding rounding) {
  double quotient = double(a) / double(b);
  if (!std::isfinite(quotient) || b == 0 || std::isinf(b))
    return canonical(float(quotient));
  double rest = std::fma(-quotient, double(b), double(a));
  return roundToFloat(withSticky(quotient, b > 0 ? rest : -rest), rounding);
}

float ptx::sqrtRounded(float a, Rounding rounding) {
  double root = std::sqrt(double(a));
  if (!std::isfinite(root) || root == 0)
    return canonical(float(root));
  return roundToFloat(withSticky(root, std::fma(-root, root, double(a))), rounding);
}
