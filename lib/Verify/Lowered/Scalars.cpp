//===- Scalars.cpp - Interpreter of arith and math on scalars -------------===//
//
// Floats of all types are computed in doubles; `Rounder` rounds results. Integers wrap around at
// the width of their type.
//
//===----------------------------------------------------------------------===//

#include "RunKernel.h"

#include "tpc/Dialect/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

static unsigned widthOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

/// Wraps a value to its type, sign-extended; booleans are 0 and 1.
static int64_t wrap(uint64_t value, unsigned width) {
  return width == 1 ? int64_t(value & 1) : llvm::SignExtend64(value, width);
}
static uint64_t asUnsigned(int64_t value, unsigned width) {
  return width == 64 ? uint64_t(value) : uint64_t(value) & llvm::maskTrailingOnes<uint64_t>(width);
}

static double maximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}

Scalar lowered::getScalar(Attribute number) {
  Scalar value;
  if (auto real = dyn_cast<FloatAttr>(number)) {
    value.f = real.getValueAsDouble();
  } else {
    llvm::APInt x = cast<IntegerAttr>(number).getValue();
    value.i = wrap(x.getZExtValue(), x.getBitWidth());
  }
  return value;
}

void KernelRun::failUnspecified(Operation *op, Scalar value, StringRef role) {
  fail(value.conversion, explainUnspecified(value) + ", and " + role + " of '" +
                             op->getName().getStringRef() + "' depends on it");
}

bool ScalarOp::propagate(KernelRun &run) const {
  std::vector<Scalar> &at = run.registers;
  at[result].conversion = nullptr;
  if (isa<arith::SelectOp>(op)) {
    if (at[operands[0]].isUnspecified())
      at[result] = at[operands[0]];
    return at[result].isUnspecified();
  }
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp>(op))
    run.expectSpecified(op, at[operands[1]], "the divisor");
  for (unsigned operand : operands)
    if (at[operand].isUnspecified()) {
      at[result] = at[operand];
      return true;
    }
  return false;
}

Scalar lowered::combine(kernel::FoldKind kind, bool isFloat, Scalar x, Scalar y) {
  using K = kernel::FoldKind;
  switch (kind) {
  case K::Sum:
    if (isFloat)
      x.f += y.f;
    else
      x.i = int64_t(uint64_t(x.i) + uint64_t(y.i));
    return x;
  case K::Max:
  case K::Min:
    if (isFloat && (std::isnan(x.f) || std::isnan(y.f)))
      x.f = NAN;
    else if (isFloat)
      x.f = kind == K::Max ? std::max(x.f, y.f) : std::min(x.f, y.f);
    else
      x.i = kind == K::Max ? std::max(x.i, y.i) : std::min(x.i, y.i);
    return x;
  // Sign extension preserves the order of unsigned numbers.
  case K::UMax:
    x.i = uint64_t(x.i) > uint64_t(y.i) ? x.i : y.i;
    return x;
  case K::UMin:
    x.i = uint64_t(x.i) < uint64_t(y.i) ? x.i : y.i;
    return x;
  case K::MaxNum:
    x.f = std::fmax(x.f, y.f);
    return x;
  }
  llvm_unreachable("all kinds are listed");
}

Rounder::Rounder(Operation *op, Type type, bool isCast) : op(op), type(type), isCast(isCast) {
  // These ops return an operand, or its negation, and are exact.
  bool isExact =
      isa<arith::SelectOp, arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
          arith::MinNumFOp, arith::ConstantOp, math::AbsFOp, arith::ExtFOp>(op);
  auto fold = dyn_cast<kernel::FoldOp>(op);
  isExact |= fold && fold.getKind() != kernel::FoldKind::Sum;
  bool isFloat = isa<FloatType>(type) && !isExact;
  isWide = isFloat && type.getIntOrFloatBitWidth() > 16;
  narrows = isFloat && (!isWide || isa<arith::TruncFOp>(op));
}

namespace {
/// Builds steps from functions of scalars.
struct Build {
  Operation *op;
  ArrayRef<unsigned> in;
  unsigned out;
  unsigned width = 64; // of the first operand if it is an integer

  using Maybe = std::optional<Step>;

  template <typename F> Maybe f1(F f) const {
    return [a = in[0], r = out, f](KernelRun &run) { run.registers[r].f = f(run.registers[a].f); };
  }
  template <typename F> Maybe f2(F f) const {
    return [a = in[0], b = in[1], r = out, f](KernelRun &run) {
      run.registers[r].f = f(run.registers[a].f, run.registers[b].f);
    };
  }
  /// Function of signed integers.
  template <typename F> Maybe s2(F f) const {
    return [a = in[0], b = in[1], r = out, w = width, f](KernelRun &run) {
      run.registers[r].i = wrap(uint64_t(f(run.registers[a].i, run.registers[b].i)), w);
    };
  }
  /// Function of unsigned integers.
  template <typename F> Maybe u2(F f) const {
    return [a = in[0], b = in[1], r = out, w = width, f](KernelRun &run) {
      run.registers[r].i =
          wrap(f(asUnsigned(run.registers[a].i, w), asUnsigned(run.registers[b].i, w)), w);
    };
  }
  /// Predicate of unsigned integers.
  template <typename F> Maybe p2(F f) const {
    return [a = in[0], b = in[1], r = out, w = width, f](KernelRun &run) {
      run.registers[r].i = f(asUnsigned(run.registers[a].i, w), asUnsigned(run.registers[b].i, w));
    };
  }
  /// A quotient. Undefined quotients are errors.
  template <typename F> Maybe divide(bool isSigned, F f) const {
    return [op = op, a = in[0], b = in[1], r = out, w = width, isSigned, f](KernelRun &run) {
      int64_t x = run.registers[a].i, y = run.registers[b].i;
      if (y == 0 || (isSigned && y == -1 && x == wrap(uint64_t(1) << (w - 1), w))) {
        run.fail(op, "divides " + Twine(x) + " by " + Twine(y));
        run.registers[r].i = 0;
        return;
      }
      run.registers[r].i = isSigned ? wrap(uint64_t(f(x, y)), w)
                                    : wrap(uint64_t(f(asUnsigned(x, w), asUnsigned(y, w))), w);
    };
  }
  template <typename F> Maybe toFloat(F f) const {
    return [a = in[0], r = out, f](KernelRun &run) { run.registers[r].f = f(run.registers[a]); };
  }
  template <typename F> Maybe convert(F f) const {
    return [a = in[0], r = out, f](KernelRun &run) { run.registers[r] = f(run.registers[a]); };
  }

  Maybe compare(arith::CmpFPredicate predicate) const;
  Maybe compare(arith::CmpIPredicate predicate) const;
  Maybe toInteger(bool isSigned) const;
};
} // namespace

std::optional<Step> Build::compare(arith::CmpFPredicate predicate) const {
  using P = arith::CmpFPredicate;
  auto bits = [&]() -> unsigned { // less, equal, greater, unordered
    switch (predicate) {
    case P::AlwaysFalse:
      return 0;
    case P::OEQ:
      return 2;
    case P::OGT:
      return 4;
    case P::OGE:
      return 6;
    case P::OLT:
      return 1;
    case P::OLE:
      return 3;
    case P::ONE:
      return 5;
    case P::ORD:
      return 7;
    case P::UEQ:
      return 10;
    case P::UGT:
      return 12;
    case P::UGE:
      return 14;
    case P::ULT:
      return 9;
    case P::ULE:
      return 11;
    case P::UNE:
      return 13;
    case P::UNO:
      return 8;
    case P::AlwaysTrue:
      return 15;
    }
    llvm_unreachable("all predicates are listed");
  }();
  return [a = in[0], b = in[1], r = out, bits](KernelRun &run) {
    double x = run.registers[a].f, y = run.registers[b].f;
    unsigned is = x < y ? 1 : x == y ? 2 : x > y ? 4 : 8;
    run.registers[r].i = (bits & is) != 0;
  };
}

std::optional<Step> Build::compare(arith::CmpIPredicate predicate) const {
  using P = arith::CmpIPredicate;
  auto less = [w = width](uint64_t x, uint64_t y) {
    return w == 1 ? x > y : wrap(x, w) < wrap(y, w); // as a signed number, true is -1
  };
  switch (predicate) {
  case P::eq:
    return p2([](uint64_t x, uint64_t y) { return x == y; });
  case P::ne:
    return p2([](uint64_t x, uint64_t y) { return x != y; });
  case P::slt:
    return p2(less);
  case P::sge:
    return p2([less](uint64_t x, uint64_t y) { return !less(x, y); });
  case P::sgt:
    return p2([less](uint64_t x, uint64_t y) { return less(y, x); });
  case P::sle:
    return p2([less](uint64_t x, uint64_t y) { return !less(y, x); });
  case P::ult:
    return p2([](uint64_t x, uint64_t y) { return x < y; });
  case P::ule:
    return p2([](uint64_t x, uint64_t y) { return x <= y; });
  case P::ugt:
    return p2([](uint64_t x, uint64_t y) { return x > y; });
  case P::uge:
    return p2([](uint64_t x, uint64_t y) { return x >= y; });
  }
  llvm_unreachable("all predicates are listed");
}

std::optional<Step> Build::toInteger(bool isSigned) const {
  unsigned to = widthOf(op->getResult(0).getType());
  return [op = op, a = in[0], r = out, to, isSigned](KernelRun &run) {
    double x = std::trunc(run.registers[a].f);
    double lowest = isSigned ? -std::ldexp(1.0, int(to) - 1) : 0;
    double above = std::ldexp(1.0, int(to) - (isSigned ? 1 : 0));
    Scalar &result = run.registers[r];
    result.conversion = nullptr;
    if (!(x >= lowest && x < above)) {
      result.f = run.registers[a].f;
      result.conversion = op;
      return;
    }
    result.i = isSigned ? wrap(uint64_t(int64_t(x)), to) : wrap(uint64_t(x), to);
  };
}

std::optional<Step> lowered::compileScalar(Operation *op, ArrayRef<unsigned> operands,
                                           unsigned result) {
  using Maybe = std::optional<Step>;
  using u64 = uint64_t;
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndexOrFloat())
    return std::nullopt;
  Build b{op, operands, result};
  Type from = op->getNumOperands() ? op->getOperand(0).getType() : Type();
  if (from && from.isIntOrIndex())
    b.width = widthOf(from);
  Type to = op->getResult(0).getType();
  unsigned toWidth = to.isIntOrIndex() ? widthOf(to) : 0;

  return llvm::TypeSwitch<Operation *, Maybe>(op)
      .Case([&](arith::ConstantOp constant) -> Maybe {
        if (!isa<FloatAttr, IntegerAttr>(constant.getValue()))
          return std::nullopt;
        Scalar value = getScalar(constant.getValue());
        return [value, r = result](KernelRun &run) { run.registers[r] = value; };
      })
      .Case([&](arith::SelectOp) -> Maybe {
        return [c = operands[0], x = operands[1], y = operands[2], r = result](KernelRun &run) {
          run.registers[r] = run.registers[run.registers[c].i ? x : y];
        };
      })
      // Floats.
      .Case([&](arith::AddFOp) { return b.f2([](double x, double y) { return x + y; }); })
      .Case([&](arith::SubFOp) { return b.f2([](double x, double y) { return x - y; }); })
      .Case([&](arith::MulFOp) { return b.f2([](double x, double y) { return x * y; }); })
      .Case([&](arith::DivFOp) { return b.f2([](double x, double y) { return x / y; }); })
      .Case([&](arith::RemFOp) { return b.f2([](double x, double y) { return std::fmod(x, y); }); })
      .Case([&](arith::NegFOp) { return b.f1([](double x) { return -x; }); })
      .Case([&](arith::MaximumFOp) { return b.f2(maximum); })
      .Case([&](arith::MinimumFOp) {
        return b.f2([](double x, double y) { return -maximum(-x, -y); });
      })
      .Case([&](arith::MaxNumFOp) {
        return b.f2([](double x, double y) { return std::fmax(x, y); });
      })
      .Case([&](arith::MinNumFOp) {
        return b.f2([](double x, double y) { return std::fmin(x, y); });
      })
      .Case([&](arith::CmpFOp cmp) { return b.compare(cmp.getPredicate()); })
      .Case([&](math::ExpOp) { return b.f1([](double x) { return std::exp(x); }); })
      .Case([&](math::LogOp) { return b.f1([](double x) { return std::log(x); }); })
      .Case([&](math::SqrtOp) { return b.f1([](double x) { return std::sqrt(x); }); })
      .Case([&](math::RsqrtOp) { return b.f1([](double x) { return 1 / std::sqrt(x); }); })
      .Case([&](math::SinOp) { return b.f1([](double x) { return std::sin(x); }); })
      .Case([&](math::CosOp) { return b.f1([](double x) { return std::cos(x); }); })
      .Case([&](math::TanhOp) { return b.f1([](double x) { return std::tanh(x); }); })
      .Case([&](math::ErfOp) { return b.f1([](double x) { return std::erf(x); }); })
      .Case([&](math::AbsFOp) { return b.f1([](double x) { return std::fabs(x); }); })
      .Case([&](math::FloorOp) { return b.f1([](double x) { return std::floor(x); }); })
      .Case([&](math::CeilOp) { return b.f1([](double x) { return std::ceil(x); }); })
      .Case([&](math::TruncOp) { return b.f1([](double x) { return std::trunc(x); }); })
      .Case([&](math::RoundEvenOp) { return b.f1([](double x) { return std::nearbyint(x); }); })
      .Case([&](math::PowFOp) { return b.f2([](double x, double y) { return std::pow(x, y); }); })
      .Case([&](math::FmaOp) -> Maybe {
        return [x = operands[0], y = operands[1], z = operands[2], r = result](KernelRun &run) {
          auto &at = run.registers;
          at[r].f = std::fma(at[x].f, at[y].f, at[z].f);
        };
      })
      // Integers.
      .Case([&](arith::AddIOp) { return b.u2([](u64 x, u64 y) { return x + y; }); })
      .Case([&](arith::SubIOp) { return b.u2([](u64 x, u64 y) { return x - y; }); })
      .Case([&](arith::MulIOp) { return b.u2([](u64 x, u64 y) { return x * y; }); })
      .Case([&](arith::AndIOp) { return b.u2([](u64 x, u64 y) { return x & y; }); })
      .Case([&](arith::OrIOp) { return b.u2([](u64 x, u64 y) { return x | y; }); })
      .Case([&](arith::XOrIOp) { return b.u2([](u64 x, u64 y) { return x ^ y; }); })
      .Case([&](arith::ShRUIOp) { return b.u2([](u64 x, u64 y) { return y < 64 ? x >> y : 0; }); })
      .Case(
          [&](arith::MaxSIOp) { return b.s2([](int64_t x, int64_t y) { return std::max(x, y); }); })
      .Case(
          [&](arith::MinSIOp) { return b.s2([](int64_t x, int64_t y) { return std::min(x, y); }); })
      .Case([&](arith::MaxUIOp) { return b.u2([](u64 x, u64 y) { return std::max(x, y); }); })
      .Case([&](arith::MinUIOp) { return b.u2([](u64 x, u64 y) { return std::min(x, y); }); })
      .Case([&](arith::DivSIOp) { return b.divide(true, [](auto x, auto y) { return x / y; }); })
      .Case([&](arith::DivUIOp) { return b.divide(false, [](auto x, auto y) { return x / y; }); })
      .Case([&](arith::RemSIOp) { return b.divide(true, [](auto x, auto y) { return x % y; }); })
      .Case([&](arith::RemUIOp) { return b.divide(false, [](auto x, auto y) { return x % y; }); })
      .Case([&](arith::FloorDivSIOp) {
        return b.divide(true,
                        [](auto x, auto y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); });
      })
      .Case([&](math::AbsIOp) -> Maybe {
        return b.convert([w = b.width](Scalar x) {
          x.i = wrap(u64(x.i < 0 ? -u64(x.i) : u64(x.i)), w);
          return x;
        });
      })
      .Case([&](arith::CmpIOp cmp) { return b.compare(cmp.getPredicate()); })
      // Conversions. Signed integers are sign-extended already.
      .Case([&](arith::IndexCastOp) -> Maybe {
        return b.convert([w = b.width, toWidth](Scalar x) {
          x.i = wrap(w == 1 ? -u64(x.i) : u64(x.i), toWidth);
          return x;
        });
      })
      .Case([&](arith::ExtSIOp) -> Maybe {
        return b.convert([w = b.width, toWidth](Scalar x) {
          x.i = wrap(w == 1 ? -u64(x.i) : u64(x.i), toWidth);
          return x;
        });
      })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp, arith::TruncIOp>([&](auto) -> Maybe {
        return b.convert([w = b.width, toWidth](Scalar x) {
          x.i = wrap(asUnsigned(x.i, w), toWidth);
          return x;
        });
      })
      .Case([&](arith::SIToFPOp) {
        return b.toFloat([w = b.width](Scalar x) { return w == 1 ? -double(x.i) : double(x.i); });
      })
      .Case([&](arith::UIToFPOp) {
        return b.toFloat([w = b.width](Scalar x) { return double(asUnsigned(x.i, w)); });
      })
      .Case([&](arith::FPToSIOp) { return b.toInteger(true); })
      .Case([&](arith::FPToUIOp) { return b.toInteger(false); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return b.toFloat([](Scalar x) { return x.f; }); })
      .Default([](Operation *) { return std::nullopt; });
}
