//===- ExpandMath.cpp - Math functions without GPU instructions -----------===//

#include "tpc/Conversion/Cuda/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_EXPANDMATH
#include "tpc/Conversion/Cuda/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Scalar arithmetic at one insertion point.
struct Scalars {
  OpBuilder &b;
  Location loc;
  Type f32 = b.getF32Type(), f64 = b.getF64Type(), i32 = b.getI32Type(), i64 = b.getI64Type();

  Value number(Type type, double x) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, x));
  }
  Value integer(Type type, int64_t x) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, x));
  }
  Value word(uint32_t x) { return integer(i32, static_cast<int32_t>(x)); }
  Value bits(Type type, Value x) { return arith::BitcastOp::create(b, loc, type, x); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, loc, x, y, z); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value compare(arith::CmpFPredicate p, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, p, x, y);
  }
  Value compare(arith::CmpIPredicate p, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, p, x, y);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value invert(Value x) { return arith::XOrIOp::create(b, loc, x, integer(b.getI1Type(), 1)); }
  Value up(Value x, int64_t n) { return arith::ShLIOp::create(b, loc, x, integer(x.getType(), n)); }
  Value down(Value x, int64_t n) {
    return arith::ShRUIOp::create(b, loc, x, integer(x.getType(), n));
  }
  Value plus(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value times(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value wide(Value x) { return arith::ExtUIOp::create(b, loc, i64, x); }
  Value narrow(Value x) { return arith::TruncIOp::create(b, loc, i32, x); }
  Value polynomial(Value x, ArrayRef<double> c) {
    Value sum = number(x.getType(), c[0]);
    for (double next : c.drop_front())
      sum = fma(sum, x, number(x.getType(), next));
    return sum;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// sin and cos
//===----------------------------------------------------------------------===//

/// Fractional digits of 2/pi, after 32 zeros.
static constexpr uint32_t digits[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                      0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};

// |x| = m 2^s with an integer m of 24 bits. In t = |x| 2/pi, multiples of 4 are full turns: digits
// of 2/pi whose products with m 2^s are multiples of 4 are skipped. From the first remaining digit
// on, 96 digits W suffice: no f32 is nearer to a multiple of pi/2 than about 2^-33, and the omitted
// digits are below 2^-70. So t mod 4 is m W mod 2^96, whose two highest bits are the integer part.
//
// sin(|x|) is sin(r), cos(r), -sin(r), -cos(r) for n = 0, 1, 2, 3 mod 4, where t = n + r 2/pi, |r|
// <= pi/4.
static Value expandSinCos(Scalars s, Value x, bool isCos) {
  Value bits = s.bits(s.i32, x), magnitude = s.both(bits, s.word(0x7FFFFFFF));
  Value exponent = s.down(magnitude, 23);
  Value m = s.wide(s.either(s.both(magnitude, s.word(0x7FFFFF)), s.word(0x800000)));
  // Index of the first digit of W in `digits`; numbers below 1/2 are not reduced.
  Value minimum = s.word(126), small = s.compare(arith::CmpIPredicate::ult, exponent, minimum);
  Value firstDigit = s.plus(s.select(small, minimum, exponent), s.word(-120u));
  Value word = s.down(firstDigit, 5), shift = s.both(firstDigit, s.word(31));
  auto digitsFrom = [&](unsigned offset) {
    Value result = s.word(digits[offset + 4]);
    for (unsigned i = 4; i-- > 0;)
      result = s.select(s.compare(arith::CmpIPredicate::eq, word, s.word(i)),
                        s.word(digits[offset + i]), result);
    return result;
  };
  Value z[4], w[3];
  for (unsigned i = 0; i < 4; ++i)
    z[i] = digitsFrom(i);
  for (unsigned i = 0; i < 3; ++i)
    w[i] = s.wide(LLVM::FshlOp::create(s.b, s.loc, s.i32, z[i], z[i + 1], shift));
  Value low = s.times(m, w[2]);
  Value middle = s.plus(s.times(m, w[1]), s.down(low, 32));
  Value high = s.plus(s.times(m, w[0]), s.down(middle, 32));
  Value t = s.either(s.up(high, 32), s.both(middle, s.integer(s.i64, 0xFFFFFFFF)));
  // Rounds to the nearest integer: the first fractional bit is the sign of the rest.
  Value n = s.narrow(s.plus(s.down(t, 62), s.both(s.down(t, 61), s.integer(s.i64, 1))));
  Value rest = arith::SIToFPOp::create(s.b, s.loc, s.f64, s.up(t, 2));
  rest = s.mul(rest, s.number(s.f64, 8.5153039502163873e-20)); // pi/2 2^-64
  Value r = arith::TruncFOp::create(s.b, s.loc, s.f32, rest);
  r = s.select(small, s.bits(s.f32, magnitude), r);
  n = s.select(small, s.word(0), n);
  if (isCos)
    n = s.plus(n, s.word(1));

  Value square = s.mul(r, r);
  Value sine = s.polynomial(square, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = s.fma(s.mul(sine, square), r, r);
  Value cosine = s.polynomial(
      square, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0});
  auto isSet = [&](Value x, uint32_t bit) {
    return s.compare(arith::CmpIPredicate::ne, s.both(x, s.word(bit)), s.word(0));
  };
  Value result = s.select(isSet(n, 1), cosine, sine);
  Value sign = s.up(s.both(n, s.word(2)), 30);
  if (!isCos) // sin(-x) = -sin(x)
    sign = arith::XOrIOp::create(s.b, s.loc, sign, s.both(bits, s.word(0x80000000)));
  result = s.bits(s.f32, arith::XOrIOp::create(s.b, s.loc, s.bits(s.i32, result), sign));
  Value finite = s.compare(arith::CmpIPredicate::ult, exponent, s.word(255));
  return s.select(finite, result, s.sub(x, x));
}

//===----------------------------------------------------------------------===//
// pow
//===----------------------------------------------------------------------===//

// Computes 2^(y log2 |x|) in f64, with an error of about one ulp of f32, then the special cases of
// C's pow for signs, zeros and infinities.
static Value expandPow(Scalars s, Value x, Value y) {
  using P = arith::CmpFPredicate;
  auto d = [&](double value) { return s.number(s.f64, value); };
  auto f = [&](double value) { return s.number(s.f32, value); };
  double inf = std::numeric_limits<double>::infinity();
  Value size = math::AbsFOp::create(s.b, s.loc, x);
  Value wideSize = arith::ExtFOp::create(s.b, s.loc, s.f64, size);
  Value wideY = arith::ExtFOp::create(s.b, s.loc, s.f64, y);

  // |x| = 2^e m, with m between sqrt(1/2) and sqrt(2).
  Value bits = s.bits(s.i64, wideSize);
  Value offset = s.integer(s.i64, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD);
  Value e = s.plus(s.down(s.plus(bits, offset), 52), s.integer(s.i64, -1023));
  Value m = s.bits(s.f64, arith::SubIOp::create(s.b, s.loc, bits, s.up(e, 52)));
  Value q = arith::DivFOp::create(s.b, s.loc, s.sub(m, d(1)), s.add(m, d(1)));
  // log2(m) = 2 / ln 2 atanh(q)
  Value series = s.polynomial(
      s.mul(q, q), {1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3, 1.});
  Value log =
      s.fma(s.mul(q, d(2.8853900817779268)), series, arith::SIToFPOp::create(s.b, s.loc, s.f64, e));
  log = s.select(s.compare(P::OLT, wideSize, d(inf)), log, s.add(wideSize, wideSize));
  log = s.select(s.compare(P::OEQ, wideSize, d(0)), d(-inf), log);

  Value t = s.mul(wideY, log), isNumber = s.compare(P::ORD, t, t);
  Value near = s.select(isNumber, t, d(0));
  near = s.select(s.compare(P::OLT, near, d(-200)), d(-200), near);
  near = s.select(s.compare(P::OLT, d(200), near), d(200), near);
  Value n = math::RoundEvenOp::create(s.b, s.loc, near);
  Value rest = s.mul(s.sub(near, n), d(0.69314718055994531));
  Value power = s.polynomial(rest, {1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24,
                                    1. / 6, 1. / 2, 1., 1.});
  Value scale =
      s.up(s.plus(arith::FPToSIOp::create(s.b, s.loc, s.i64, n), s.integer(s.i64, 1023)), 52);
  Value result = arith::TruncFOp::create(s.b, s.loc, s.f32, s.mul(power, s.bits(s.f64, scale)));
  result = s.select(isNumber, result, arith::TruncFOp::create(s.b, s.loc, s.f32, t));

  auto isInteger = [&](Value v) {
    return s.compare(P::OEQ, math::FloorOp::create(s.b, s.loc, v), v);
  };
  Value isWhole = isInteger(y), isOdd = s.both(isWhole, s.invert(isInteger(s.mul(y, f(0.5)))));
  Value negative = s.compare(arith::CmpIPredicate::slt, s.bits(s.i32, x), s.word(0));
  result = s.select(s.both(negative, isOdd), arith::NegFOp::create(s.b, s.loc, result), result);
  Value root = s.both(s.both(s.compare(P::OLT, x, f(0)), s.compare(P::OLT, size, f(inf))),
                      s.invert(isWhole));
  result = s.select(root, f(std::numeric_limits<double>::quiet_NaN()), result);
  // Holds for NaN too: 1^y and x^0 are 1; so are powers of -1 with an infinite exponent.
  Value isOne = s.either(s.compare(P::OEQ, x, f(1)), s.compare(P::OEQ, y, f(0)));
  Value infinite = s.compare(P::OEQ, math::AbsFOp::create(s.b, s.loc, y), f(inf));
  isOne = s.either(isOne, s.both(infinite, s.compare(P::OEQ, x, f(-1))));
  return s.select(isOne, f(1), result);
}

//===----------------------------------------------------------------------===//
// Remainders
//===----------------------------------------------------------------------===//

// Reduces |x| by |y| in f64, from the largest y 2^52k on, so that quotients are below 2^52. The
// rest is a multiple of the last bit of x or of y 2^52k, and less than y 2^52k. So it has at most
// 24 bits, and no step rounds. A quotient may have been rounded up to an integer; then one y 2^52k
// is added back.
static Value expandRemainder(Scalars s, Value x, Value y) {
  using P = arith::CmpFPredicate;
  auto d = [&](double value) { return s.number(s.f64, value); };
  Value inf = s.number(s.f32, std::numeric_limits<double>::infinity());
  Value sizeX = math::AbsFOp::create(s.b, s.loc, x), sizeY = math::AbsFOp::create(s.b, s.loc, y);
  Value rest = arith::ExtFOp::create(s.b, s.loc, s.f64, sizeX);
  Value divisor = arith::ExtFOp::create(s.b, s.loc, s.f64, sizeY);
  for (int k = 5; k >= 0; --k) { // |x| < 2^128, and y 2^312 is at least 2^163
    Value step = s.mul(divisor, d(std::ldexp(1.0, 52 * k)));
    Value quotient =
        math::FloorOp::create(s.b, s.loc, arith::DivFOp::create(s.b, s.loc, rest, step));
    rest = s.fma(arith::NegFOp::create(s.b, s.loc, quotient), step, rest);
    rest = s.select(s.compare(P::OLT, rest, d(0)), s.add(rest, step), rest);
  }
  Value result = arith::TruncFOp::create(s.b, s.loc, s.f32, rest);
  result = s.select(s.compare(P::OEQ, sizeY, inf), sizeX, result);
  result = math::CopySignOp::create(s.b, s.loc, result, x);
  // The remainder is NaN for NaN operands, infinite x, and y = 0.
  Value exists = s.both(s.both(s.compare(P::OLT, sizeX, inf), s.compare(P::ORD, y, y)),
                        s.compare(P::UNE, sizeY, s.number(s.f32, 0)));
  return s.select(exists, result, s.number(s.f32, std::numeric_limits<double>::quiet_NaN()));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Returns whether GPUs have an exact instruction for the op.
static bool isInstruction(Operation *op) {
  return isa<math::SqrtOp, math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp,
             math::RoundEvenOp, math::CopySignOp, math::FmaOp>(op);
}

static LogicalResult replace(Operation *op, PatternRewriter &rewriter,
                             function_ref<Value(Scalars)> build) {
  if (!op->getResult(0).getType().isF32())
    return failure();
  rewriter.replaceOp(op, build(Scalars{rewriter, op->getLoc()}));
  return success();
}

namespace {
struct ExpandMath : mlir::tpc::impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(+[](math::SinOp op, PatternRewriter &rewriter) {
      return replace(op, rewriter,
                     [&](Scalars s) { return expandSinCos(s, op.getOperand(), /*isCos=*/false); });
    });
    patterns.add(+[](math::CosOp op, PatternRewriter &rewriter) {
      return replace(op, rewriter,
                     [&](Scalars s) { return expandSinCos(s, op.getOperand(), /*isCos=*/true); });
    });
    patterns.add(+[](math::PowFOp op, PatternRewriter &rewriter) {
      return replace(op, rewriter,
                     [&](Scalars s) { return expandPow(s, op.getLhs(), op.getRhs()); });
    });
    patterns.add(+[](arith::RemFOp op, PatternRewriter &rewriter) {
      return replace(op, rewriter,
                     [&](Scalars s) { return expandRemainder(s, op.getLhs(), op.getRhs()); });
    });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    WalkResult walked = getOperation().walk([](Operation *op) {
      bool isMath = isa_and_nonnull<math::MathDialect>(op->getDialect());
      if ((!isMath && !isa<arith::RemFOp>(op)) || isInstruction(op))
        return WalkResult::advance();
      op->emitError() << "'" << op->getName() << "' of " << op->getResult(0).getType()
                      << " has no formula for GPUs; only sin, cos, pow and remf of f32 have one";
      return WalkResult::interrupt();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
