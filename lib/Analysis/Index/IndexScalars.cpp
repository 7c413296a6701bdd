//===- IndexScalars.cpp - Index models of element-wise ops ----------------===//

#include "IndexOp.h"

#include "tpc/Analysis/Index/Splats.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Operands = ArrayRef<IndexExpr>;

/// Returns a constant of an element type.
static IndexExpr makeConstant(Type element, double value) {
  return element.isInteger(1)      ? IndexExpr::truth(value != 0)
         : isa<FloatType>(element) ? IndexExpr::number(value)
                                   : IndexExpr::integer((int64_t)value);
}

/// Folds an op with constant operands; null if an operand is not constant.
static IndexExpr fold(Operation *op, Operands operands) {
  SmallVector<double> x;
  for (const IndexExpr &operand : operands) {
    auto n = operand.getConstant();
    if (!n)
      return {};
    x.push_back(*n);
  }
  auto value = evaluateScalar(op, x);
  return value ? makeConstant(elementTypeOf(op->getResult(0)), *value) : IndexExpr();
}

/// Returns the polynomial of an Integer, or of a Number with an integral value.
static std::optional<SymExpr> getPolynomial(const IndexExpr &e) {
  if (e.isInteger())
    return e.getPolynomial();
  if (auto n = e.getConstant(); n && *n == std::trunc(*n) && std::abs(*n) < 1e9)
    return SymExpr((int64_t)*n);
  return std::nullopt;
}

static bool areTruths(Operation *op) { return elementTypeOf(op->getOperand(0)).isInteger(1); }

/// Combines each leaf of one operand with each leaf of the other operand: folds constants, and
/// calls `of` for other pairs.
static IndexExpr forLeaves(Operation *op, IndexAnalysis &a, Operands operands,
                           llvm::function_ref<IndexExpr(const IndexExpr &, const IndexExpr &)> of) {
  if (areTruths(op))
    return {};
  return a.mapLeaves(operands[0], [&](const IndexExpr &x) {
    return a.mapLeaves(operands[1], [&](const IndexExpr &y) {
      return x.getConstant() && y.getConstant() ? fold(op, {x, y}) : of(x, y);
    });
  });
}

/// Like forLeaves, but calls `of` only for pairs of polynomials.
static IndexExpr
forPolynomials(Operation *op, IndexAnalysis &a, Operands operands,
               llvm::function_ref<IndexExpr(const SymExpr &, const SymExpr &)> of) {
  return forLeaves(op, a, operands, [&](const IndexExpr &x, const IndexExpr &y) {
    auto p = getPolynomial(x), q = getPolynomial(y);
    return p && q ? of(*p, *q) : IndexExpr();
  });
}

/// Folds leaves that are constants.
static IndexExpr foldConstants(Operation *op, IndexAnalysis &a, Operands operands) {
  return forLeaves(op, a, operands, [](auto &, auto &) { return IndexExpr(); });
}

//===----------------------------------------------------------------------===//
// Models of ops that support more than constants
//===----------------------------------------------------------------------===//

IndexExpr indexing::ofElements(ScalarOpInterface op, IndexAnalysis &a, Operands operands) {
  if (operands.size() == 1)
    return a.mapLeaves(operands[0], [&](const IndexExpr &x) { return fold(op, x); });
  return operands.size() == 2 ? foldConstants(op, a, operands) : IndexExpr();
}

IndexExpr indexing::ofElements(CastOp op, IndexAnalysis &a, Operands operands) {
  const IndexExpr &operand = operands[0];
  Type from = elementTypeOf(op.getOperand()), to = elementTypeOf(op.getResult());
  if (from == to)
    return operand;
  if (from.isInteger(1)) {
    bool toFloat = isa<FloatType>(to);
    return a.select(operand, toFloat ? IndexExpr::number(1) : IndexExpr::integer(1),
                    toFloat ? IndexExpr::number(0) : IndexExpr::integer(0));
  }
  return a.mapLeaves(operand, [&](const IndexExpr &leaf) -> IndexExpr {
    if (leaf.getConstant())
      return fold(op, leaf);
    bool isScaled = leaf.getKind() == IndexExpr::Kind::Scaled;
    if (isScaled && isa<FloatType>(to))
      return leaf;
    if (!leaf.isInteger())
      return {};
    // The result is Scaled and not Integer, because a 16-bit float rounds positions.
    if (to.isF16() || to.isBF16())
      return IndexExpr::scaled({}, 1, leaf.getPolynomial());
    if (to.isInteger(1))
      return a.compare(Predicate::NE, leaf.getPolynomial());
    // Casts to narrower integers could wrap around; indices and sizes fit into 32 bits.
    if (to.isInteger(32) || to.isInteger(64) || to.isF32() || to.isF64())
      return leaf;
    return {};
  });
}

/// The low bits of an integer are its remainder by a power of two, also if it is negative.
IndexExpr indexing::ofElements(AndOp op, IndexAnalysis &a, Operands operands) {
  if (areTruths(op))
    return a.conjunction(operands);
  return forPolynomials(op, a, operands, [&](const SymExpr &p, const SymExpr &q) {
    for (auto [x, mask] : {std::pair(p, q), std::pair(q, p)})
      if (auto bits = mask.asConstant(); bits && llvm::isMask_64(*bits) && *bits < INT32_MAX)
        return a.mod(x, SymExpr(*bits + 1));
    return IndexExpr();
  });
}

IndexExpr indexing::ofElements(OrOp op, IndexAnalysis &a, Operands operands) {
  return areTruths(op) ? a.disjunction(operands) : foldConstants(op, a, operands);
}

IndexExpr indexing::ofElements(NotOp, IndexAnalysis &a, Operands operands) {
  return a.negation(operands[0]);
}

IndexExpr indexing::ofElements(SelectOp, IndexAnalysis &a, Operands operands) {
  return a.select(operands[0], operands[1], operands[2]);
}

/// Compares boolean operands.
static IndexExpr compareTruths(IndexAnalysis &a, Operands operands, bool differ) {
  IndexExpr negated = a.negation(operands[1]);
  return a.select(operands[0], differ ? negated : operands[1], differ ? operands[1] : negated);
}

IndexExpr indexing::ofElements(XorOp op, IndexAnalysis &a, Operands operands) {
  return areTruths(op) ? compareTruths(a, operands, /*differ=*/true)
                       : foldConstants(op, a, operands);
}

IndexExpr indexing::ofElements(CmpOp op, IndexAnalysis &a, Operands operands) {
  Predicate predicate = op.getPredicate();
  if (areTruths(op))
    return predicate == Predicate::EQ || predicate == Predicate::NE
               ? compareTruths(a, operands, predicate == Predicate::NE)
               : IndexExpr();
  return forPolynomials(op, a, operands, [&](const SymExpr &p, const SymExpr &q) {
    return a.compare(predicate, p - q);
  });
}

IndexExpr indexing::ofElements(NegOp op, IndexAnalysis &a, Operands operands) {
  return a.mapLeaves(operands[0], [&](const IndexExpr &x) {
    if (x.getKind() == IndexExpr::Kind::Scaled)
      return IndexExpr::scaled(x.getArgs(), x.getNumber(), -x.getPolynomial());
    return x.isInteger() ? IndexExpr::integer(-x.getPolynomial()) : fold(op, x);
  });
}

IndexExpr indexing::ofElements(AbsOp op, IndexAnalysis &a, Operands operands) {
  return a.mapLeaves(operands[0], [&](const IndexExpr &x) {
    bool isScaled = x.getKind() == IndexExpr::Kind::Scaled;
    if (!x.isInteger() && !(isScaled && x.getArgs().empty()))
      return fold(op, x);
    // |p| is |-p|. Subtracts the last index, so that a causal mask excludes the second case.
    SymExpr p = x.getPolynomial();
    for (unsigned dim = a.getIndices().size(); dim-- > 0;)
      if (auto linear = IndexAnalysis::linearIn(p, IndexAnalysis::indexName(dim));
          linear && !linear->first.isConstant(0)) {
        if (linear->first.isConstant(1))
          p = -p;
        break;
      }
    auto make = [&](const SymExpr &e) {
      return isScaled ? IndexExpr::scaled({}, std::abs(x.getNumber()), e) : IndexExpr::integer(e);
    };
    return a.select(a.compare(Predicate::GE, p), make(p), make(-p));
  });
}

/// Adds or subtracts (`sign`) two values that are polynomials times the same factors. Null if they
/// have another form.
static IndexExpr combine(const IndexExpr &x, const IndexExpr &y, int64_t sign) {
  auto p = getPolynomial(x), q = getPolynomial(y);
  if (p && q)
    return IndexExpr::integer(*p + SymExpr(sign) * *q);
  auto isScaled = [](const IndexExpr &e) { return e.getKind() == IndexExpr::Kind::Scaled; };
  if (isScaled(x) && isScaled(y) && x.getNumber() == y.getNumber() &&
      llvm::equal(x.getArgs(), y.getArgs()))
    return IndexExpr::scaled(x.getArgs(), x.getNumber(),
                             x.getPolynomial() + SymExpr(sign) * y.getPolynomial());
  // Positions that are rounded to 16 bits
  auto isPosition = [&](const IndexExpr &e) {
    return isScaled(e) && e.getArgs().empty() && e.getNumber() == 1;
  };
  if (isPosition(x) && q)
    return IndexExpr::scaled({}, 1, x.getPolynomial() + SymExpr(sign) * *q);
  if (p && isPosition(y))
    return IndexExpr::scaled({}, 1, *p + SymExpr(sign) * y.getPolynomial());
  return {};
}

/// Whether n + e rounds to n for all 64-bit values of the symbols in e. Exporters add the minimum
/// of a type to mask entries that already mask a key. With at most 2^10 terms and coefficients
/// below 2^20, |e| is less than 2^93, which must be less than half a unit in the last place of n.
static bool absorbs(double n, const SymExpr &e, Type type) {
  ArrayRef<SymExpr::Term> terms = e.getTerms();
  auto isSmall = [](const SymExpr::Term &term) {
    return term.atoms.size() <= 1 && std::abs(term.coefficient) < (1 << 20);
  };
  if (e.isOverflow() || terms.size() > 1024 || !llvm::all_of(terms, isSmall))
    return false;
  return (type.isF32() && std::abs(n) >= 0x1p118) || (type.isF64() && std::abs(n) >= 0x1p147);
}

IndexExpr indexing::ofElements(AddOp op, IndexAnalysis &a, Operands operands) {
  Type element = elementTypeOf(op.getResult());
  return forLeaves(op, a, operands, [&](const IndexExpr &x, const IndexExpr &y) -> IndexExpr {
    if (auto n = y.getConstant(); n && x.isInteger() && absorbs(*n, x.getPolynomial(), element))
      return y;
    if (auto n = x.getConstant(); n && y.isInteger() && absorbs(*n, y.getPolynomial(), element))
      return x;
    return combine(x, y, 1);
  });
}

IndexExpr indexing::ofElements(SubOp op, IndexAnalysis &a, Operands operands) {
  Type element = elementTypeOf(op.getResult());
  return forLeaves(op, a, operands, [&](const IndexExpr &x, const IndexExpr &y) -> IndexExpr {
    if (auto n = x.getConstant(); n && y.isInteger() && absorbs(*n, y.getPolynomial(), element))
      return x;
    return combine(x, y, -1);
  });
}

/// Multiplies floats in factored form: at most one non-constant polynomial, a number, and elements.
/// Null if the product has another form.
static IndexExpr multiply(const IndexExpr &x, const IndexExpr &y) {
  SymExpr polynomial(1);
  double number = 1;
  SmallVector<IndexExpr> elements;
  bool scales = false;
  for (const IndexExpr &factor : {x, y}) {
    if (auto n = factor.getConstant()) {
      number *= *n;
    } else if (factor.getKind() == IndexExpr::Kind::Element) {
      elements.push_back(factor);
    } else if ((factor.isInteger() || factor.getKind() == IndexExpr::Kind::Scaled) && !scales) {
      scales = true;
      polynomial = factor.getPolynomial();
      if (factor.isInteger())
        continue;
      number *= factor.getNumber();
      llvm::append_range(elements, factor.getArgs());
    } else {
      return {};
    }
  }
  return scales && std::isfinite(number) ? IndexExpr::scaled(elements, number, polynomial)
                                         : IndexExpr();
}

IndexExpr indexing::ofElements(MulOp op, IndexAnalysis &a, Operands operands) {
  bool floats = isFloatTensor(op.getResult());
  return forLeaves(op, a, operands, [&](const IndexExpr &x, const IndexExpr &y) {
    auto p = getPolynomial(x), q = getPolynomial(y);
    return p && q ? IndexExpr::integer(*p * *q) : floats ? multiply(x, y) : IndexExpr();
  });
}

/// Truncating division equals floor division for non-negative operands.
IndexExpr indexing::ofElements(DivOp op, IndexAnalysis &a, Operands operands) {
  bool floats = isFloatTensor(op.getResult());
  return forPolynomials(op, a, operands, [&](const SymExpr &p, const SymExpr &q) {
    return !floats && a.isNonNegative(p) && a.isNonNegative(q - 1) ? a.floorDiv(p, q) : IndexExpr();
  });
}

IndexExpr indexing::ofElements(ModOp op, IndexAnalysis &a, Operands operands) {
  bool floats = isFloatTensor(op.getResult());
  return forPolynomials(op, a, operands, [&](const SymExpr &p, const SymExpr &q) {
    return !floats && a.isNonNegative(q - 1) ? a.mod(p, q) : IndexExpr();
  });
}

static IndexExpr getExtremum(Operation *op, IndexAnalysis &a, Operands operands, bool largest) {
  return forPolynomials(op, a, operands, [&](const SymExpr &p, const SymExpr &q) {
    bool greater = a.isAtMost(q, p), less = a.isAtMost(p, q);
    return greater || less ? IndexExpr::integer(greater == largest ? p : q) : IndexExpr();
  });
}

IndexExpr indexing::ofElements(MaxOp op, IndexAnalysis &a, Operands operands) {
  return getExtremum(op, a, operands, /*largest=*/true);
}

IndexExpr indexing::ofElements(MinOp op, IndexAnalysis &a, Operands operands) {
  return getExtremum(op, a, operands, /*largest=*/false);
}
