//===- IndexAnalysis.cpp - Elements of op results by index ----------------===//

#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Index/Splats.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Kind = IndexExpr::Kind;

// Beyond these an element is left as it is: masks are small programs, and
// files are not trusted.
static constexpr unsigned kMaxDepth = 256;
static constexpr unsigned kMaxSize = 400;
static constexpr size_t kMaxElements = 20000;

IndexExpr IndexAnalysis::opaque(Value v, ArrayRef<IndexExpr> where) {
  IndexExpr element = IndexExpr::element(v, where);
  if (isa<FloatType>(elementTypeOf(v)) || elementTypeOf(v).isInteger(1))
    return element;
  auto [it, isNew] =
      elementNames.insert({element.str(), "_e" + std::to_string(elementNames.size())});
  if (isNew)
    elements.insert({it->second, element});
  return IndexExpr::integer(SymExpr::symbol(it->second));
}

IndexExpr IndexAnalysis::at(Value v, ArrayRef<IndexExpr> where) {
  if (depth >= kMaxDepth || cache.size() >= kMaxElements)
    return opaque(v, where);
  std::string key = IndexExpr::element(v, where).str();
  auto it = cache.find(key);
  if (it != cache.end())
    return it->second;
  ++depth;
  IndexExpr result = compute(v, where);
  --depth;
  if (!result || result.getSize() > kMaxSize)
    result = opaque(v, where);
  cache.insert({key, result});
  return result;
}

IndexExpr IndexAnalysis::atBroadcast(Value v) {
  SmallVector<SymExpr> sizes = getSizes(v);
  assert(sizes.size() <= indices.size());
  SmallVector<IndexExpr> where;
  for (auto [i, size] : llvm::enumerate(sizes))
    where.push_back(size.isConstant(1) ? IndexExpr::integer(0)
                                       : indices[indices.size() - sizes.size() + i]);
  return at(v, where);
}

IndexExpr IndexAnalysis::mapLeaves(const IndexExpr &e,
                                   llvm::function_ref<IndexExpr(const IndexExpr &)> f) {
  if (e.getKind() != Kind::Select)
    return f(e);
  IndexExpr a = mapLeaves(e.getArgs()[1], f), b = mapLeaves(e.getArgs()[2], f);
  if (!a || !b || a.getSize() + b.getSize() > kMaxSize)
    return {};
  return select(e.getArgs()[0], a, b);
}

//===----------------------------------------------------------------------===//
// Ops. Each gives a null expression where it has no answer.
//===----------------------------------------------------------------------===//

IndexExpr IndexAnalysis::compute(Value v, ArrayRef<IndexExpr> where) {
  Operation *op = v.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return {};
  SmallVector<SymExpr> sizes = getSizes(v);
  SmallVector<IndexExpr> inner(where);

  if (auto constant = dyn_cast<ConstantOp>(op))
    return constantAt(constant, where);
  if (auto size = dyn_cast<SizeOp>(op)) {
    auto expr = SymExpr::parse(size.getExpr().str());
    return expr && !isFloatTensor(v) ? IndexExpr::integer(*expr) : IndexExpr();
  }
  if (auto iota = dyn_cast<IotaOp>(op))
    return where[iota.getDim()];
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (auto [i, p] : llvm::enumerate(transpose.getPermutation()))
      inner[p] = where[i];
    return at(transpose.getOperand(), inner);
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapeAt(reshape, where);
  if (auto slice = dyn_cast<SliceOp>(op)) {
    auto start = SymExpr::parse(slice.getStart().str());
    const IndexExpr &index = where[slice.getDim()];
    if (!start || !index.isInteger())
      return {};
    inner[slice.getDim()] =
        IndexExpr::integer(*start + index.getPolynomial() * SymExpr(slice.getStep()));
    return at(slice.getOperand(), inner);
  }
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concatAt(concat, where);
  if (auto gather = dyn_cast<GatherOp>(op))
    return gatherAt(gather, where);
  if (auto gather = dyn_cast<GatherNDOp>(op))
    return gatherNDAt(gather, where);
  if (auto cumSum = dyn_cast<CumSumOp>(op))
    return cumSumAt(cumSum, where);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduceAt(reduce, where);
  if (auto trilu = dyn_cast<TriluOp>(op))
    return triluAt(trilu, where);
  if (!isa<ExpandOp, ScalarOpInterface>(op))
    return {};

  // Operands broadcast, aligned at the last dimension.
  SmallVector<IndexExpr> operands;
  for (Value operand : op->getOperands()) {
    SmallVector<SymExpr> from = getSizes(operand);
    SmallVector<IndexExpr> position;
    for (auto [i, size] : llvm::enumerate(from))
      position.push_back(size.isConstant(1) ? IndexExpr::integer(0)
                                            : where[where.size() - from.size() + i]);
    operands.push_back(at(operand, position));
  }
  return isa<ExpandOp>(op) ? operands[0] : scalarOp(op, operands);
}

// Both shapes are cut into the shortest runs of dimensions with equal products;
// within a run an index is put together and taken apart again.
IndexExpr IndexAnalysis::reshapeAt(ReshapeOp op, ArrayRef<IndexExpr> where) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  for (const IndexExpr &index : where)
    if (!index.isInteger())
      return {};
  SmallVector<IndexExpr> inner(from.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    SymExpr a(1), b(1);
    auto takeFrom = [&]() { a = a * from[i++]; };
    auto takeTo = [&]() { b = b * to[j++]; };
    if (i < from.size())
      takeFrom();
    if (j < to.size())
      takeTo();
    while (a != b) {
      bool more = i < from.size() && (j == to.size() || b.divideExact(a));
      if (more)
        takeFrom();
      else if (j < to.size())
        takeTo();
      else if (i < from.size())
        takeFrom();
      else
        return {};
    }
    if (i - i0 == 1 && j - j0 == 1) {
      inner[i0] = where[j0];
      continue;
    }
    SymExpr flat(0);
    for (size_t d = j0; d < j; ++d)
      flat = flat * to[d] + where[d].getPolynomial();
    for (size_t d = i; d-- > i0;) {
      if (d == i0) {
        inner[d] = IndexExpr::integer(flat);
        break;
      }
      inner[d] = from[d].isConstant(1) ? IndexExpr::integer(0) : mod(flat, from[d]);
      if (!from[d].isConstant(1))
        flat = floorDiv(flat, from[d]).getPolynomial();
    }
    if (i > i0 && from[i0].isConstant(1))
      inner[i0] = IndexExpr::integer(0);
  }
  return at(op.getOperand(), inner);
}

IndexExpr IndexAnalysis::concatAt(ConcatOp op, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim();
  if (!where[dim].isInteger())
    return {};
  const SymExpr &index = where[dim].getPolynomial();
  // From the last operand to the first, so that conditions nest.
  SmallVector<SymExpr> starts;
  SymExpr start(0);
  for (Value operand : op.getOperands()) {
    starts.push_back(start);
    start = start + getSizes(operand)[dim];
  }
  IndexExpr result;
  for (int i = (int)starts.size() - 1; i >= 0; --i) {
    Value operand = op.getOperands()[i];
    SymExpr size = getSizes(operand)[dim];
    SymExpr local = index - starts[i];
    // Is the index before the end of this operand?
    IndexExpr here = compare(Predicate::LT, local - size);
    if (here.isFalse() || size.isConstant(0))
      continue;
    SmallVector<IndexExpr> inner(where);
    inner[dim] = IndexExpr::integer(size.isConstant(1) ? SymExpr(0) : local);
    IndexExpr element = at(operand, inner);
    result = result ? select(here, element, result) : element;
  }
  return result;
}

IndexExpr IndexAnalysis::wrapIndex(const IndexExpr &e, const SymExpr &n) {
  return mapLeaves(e, [&](const IndexExpr &leaf) -> IndexExpr {
    if (!leaf.isInteger())
      return {};
    if (isNonNegative(leaf.getPolynomial()))
      return leaf;
    if (isNonNegative(-leaf.getPolynomial() - 1))
      return IndexExpr::integer(leaf.getPolynomial() + n);
    return {};
  });
}

IndexExpr IndexAnalysis::gatherAt(GatherOp op, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim(), rank = rankOf(op.getIndices());
  IndexExpr index =
      wrapIndex(at(op.getIndices(), where.slice(dim, rank)), getSizes(op.getData())[dim]);
  if (!index)
    return {};
  return mapLeaves(index, [&](const IndexExpr &leaf) {
    SmallVector<IndexExpr> inner(where.take_front(dim));
    inner.push_back(leaf);
    llvm::append_range(inner, where.drop_front(dim + rank));
    return at(op.getData(), inner);
  });
}

IndexExpr IndexAnalysis::gatherNDAt(GatherNDOp op, ArrayRef<IndexExpr> where) {
  int64_t rank = rankOf(op.getIndices()), batch = op.getBatchDims();
  SmallVector<SymExpr> sizes = getSizes(op.getData());
  auto count = getSizes(op.getIndices()).back().asConstant();
  if (!count)
    return {};
  SmallVector<IndexExpr> inner(where.take_front(batch));
  for (int64_t k = 0; k < *count; ++k) {
    SmallVector<IndexExpr> position(where.take_front(rank - 1));
    position.push_back(IndexExpr::integer(k));
    IndexExpr index = wrapIndex(at(op.getIndices(), position), sizes[batch + k]);
    if (!index || !index.isInteger())
      return {};
    inner.push_back(index);
  }
  llvm::append_range(inner, where.drop_front(rank - 1));
  return at(op.getData(), inner);
}

// The running sum of something that does not vary along the dimension.
IndexExpr IndexAnalysis::cumSumAt(CumSumOp op, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim();
  SymExpr size = getSizes(op.getOperand())[dim];
  if (isFloatTensor(op.getOperand()) || !where[dim].isInteger())
    return {};
  SmallVector<IndexExpr> inner(where);
  inner[dim] = freshIndex(size);
  std::string name = inner[dim].str();
  IndexExpr term = at(op.getOperand(), inner);
  std::set<std::string> symbols;
  collectSymbols(term, symbols);
  if (!term.isInteger() || symbols.count(name))
    return {};
  SymExpr count = where[dim].getPolynomial() + (op.getExclusive() ? 0 : 1);
  if (op.getReverse())
    count = size - where[dim].getPolynomial() - (op.getExclusive() ? 1 : 0);
  return IndexExpr::integer(term.getPolynomial() * count);
}

IndexExpr IndexAnalysis::reduceAt(ReduceOp op, ArrayRef<IndexExpr> where) {
  SmallVector<SymExpr> sizes = getSizes(op.getOperand());
  SmallVector<IndexExpr> inner;
  SmallVector<std::string> names;
  SymExpr count(1);
  size_t next = 0;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (!llvm::is_contained(op.getDims(), (int64_t)i)) {
      inner.push_back(where[next++]);
      continue;
    }
    next += op.getKeepDims();
    count = count * size;
    // The extremum of nothing is not an element.
    if (!isNonNegative(size - 1))
      return {};
    inner.push_back(freshIndex(size));
    names.push_back(inner.back().str());
  }
  IndexExpr term = at(op.getOperand(), inner);
  std::set<std::string> symbols;
  collectSymbols(term, symbols);
  if (llvm::any_of(names, [&](const std::string &name) { return symbols.count(name) != 0; }))
    return {};
  if (op.getFunction() != ReduceFunction::Sum)
    return term;
  if (!term.isInteger() || isFloatTensor(op.getOperand()))
    return {};
  return IndexExpr::integer(term.getPolynomial() * count);
}

IndexExpr IndexAnalysis::triluAt(TriluOp op, ArrayRef<IndexExpr> where) {
  size_t rank = where.size();
  auto k = SymExpr::parse(op.getK().str());
  if (!k || !where[rank - 1].isInteger() || !where[rank - 2].isInteger())
    return {};
  SymExpr difference = where[rank - 1].getPolynomial() - where[rank - 2].getPolynomial() - *k;
  IndexExpr keeps = compare(op.getUpper() ? Predicate::GE : Predicate::LE, difference);
  IndexExpr zero = isFloatTensor(op.getOperand())                ? IndexExpr::number(0)
                   : elementTypeOf(op.getOperand()).isInteger(1) ? IndexExpr::truth(false)
                                                                 : IndexExpr::integer(0);
  return select(keeps, at(op.getOperand(), where), zero);
}

//===----------------------------------------------------------------------===//
// Element-wise ops
//===----------------------------------------------------------------------===//

IndexExpr IndexAnalysis::cast(CastOp op, const IndexExpr &operand) {
  Type from = elementTypeOf(op.getOperand()), to = elementTypeOf(op.getResult());
  if (from == to)
    return operand;
  if (from.isInteger(1)) {
    bool toFloat = isa<FloatType>(to);
    return select(operand, toFloat ? IndexExpr::number(1) : IndexExpr::integer(1),
                  toFloat ? IndexExpr::number(0) : IndexExpr::integer(0));
  }
  return mapLeaves(operand, [&](const IndexExpr &leaf) -> IndexExpr {
    if (auto n = leaf.getConstant()) {
      auto value = evaluateScalar(op, {*n});
      if (!value)
        return {};
      return to.isInteger(1)      ? IndexExpr::truth(*value != 0)
             : isa<FloatType>(to) ? IndexExpr::number(*value)
                                  : IndexExpr::integer((int64_t)*value);
    }
    if (!leaf.isInteger())
      return {};
    if (to.isInteger(1))
      return compare(Predicate::NE, leaf.getPolynomial());
    // A narrower integer could wrap; indices and sizes fit 32 bits.
    if (to.isInteger(32) || to.isInteger(64) || to.isF32() || to.isF64())
      return leaf;
    return {};
  });
}

/// Whether n + e is n for each value that integers of 64 bits give e: where masks add the least
/// number of a type to what hides a key already. |e| < 2^93 here, half a unit in the last place of
/// n more than that.
static bool absorbs(double n, const SymExpr &e, Type type) {
  ArrayRef<SymExpr::Term> terms = e.getTerms();
  auto isSmall = [](const SymExpr::Term &term) {
    return term.atoms.size() <= 1 && std::abs(term.coefficient) < (1 << 20);
  };
  if (e.isOverflow() || terms.size() > 1024 || !llvm::all_of(terms, isSmall))
    return false;
  return (type.isF32() && std::abs(n) >= 0x1p118) || (type.isF64() && std::abs(n) >= 0x1p147);
}

IndexExpr IndexAnalysis::arithmetic(Operation *op, const IndexExpr &a, const IndexExpr &b) {
  auto x = a.getConstant(), y = b.getConstant();
  Type element = elementTypeOf(op->getResult(0));
  if (x && y) {
    auto value = evaluateScalar(op, {*x, *y});
    if (!value)
      return {};
    return element.isInteger(1)      ? IndexExpr::truth(*value != 0)
           : isa<FloatType>(element) ? IndexExpr::number(*value)
                                     : IndexExpr::integer((int64_t)*value);
  }
  if (y && a.isInteger() && isa<AddOp>(op) && absorbs(*y, a.getPolynomial(), element))
    return b;
  if (x && b.isInteger() && isa<AddOp, SubOp>(op) && absorbs(*x, b.getPolynomial(), element))
    return a;
  // Whole numbers may be mixed into polynomials.
  auto polynomial = [](const IndexExpr &e) -> std::optional<SymExpr> {
    if (e.isInteger())
      return e.getPolynomial();
    if (auto n = e.getConstant(); n && *n == std::trunc(*n) && std::abs(*n) < 1e9)
      return SymExpr((int64_t)*n);
    return std::nullopt;
  };
  auto p = polynomial(a), q = polynomial(b);
  if (!p || !q)
    return {};
  if (isa<AddOp>(op))
    return IndexExpr::integer(*p + *q);
  if (isa<SubOp>(op))
    return IndexExpr::integer(*p - *q);
  if (isa<MulOp>(op))
    return IndexExpr::integer(*p * *q);
  if (isa<DivOp>(op) && !isa<FloatType>(element)) // truncation is floor where nothing is negative
    return isNonNegative(*p) && isNonNegative(*q - 1) ? floorDiv(*p, *q) : IndexExpr();
  if (isa<ModOp>(op) && !isa<FloatType>(element))
    return isNonNegative(*q - 1) ? mod(*p, *q) : IndexExpr();
  if (isa<MaxOp, MinOp>(op)) {
    bool greater = isAtMost(*q, *p), less = isAtMost(*p, *q);
    if (greater || less)
      return IndexExpr::integer(greater == isa<MaxOp>(op) ? *p : *q);
    return {};
  }
  if (auto cmp = dyn_cast<CmpOp>(op))
    return compare(cmp.getPredicate(), *p - *q);
  return {};
}

IndexExpr IndexAnalysis::scalarOp(Operation *op, ArrayRef<IndexExpr> operands) {
  if (auto castOp = dyn_cast<CastOp>(op))
    return cast(castOp, operands[0]);
  if (isa<AndOp>(op))
    return conjunction(operands);
  if (isa<OrOp>(op))
    return disjunction(operands);
  if (isa<NotOp>(op))
    return negation(operands[0]);
  if (isa<SelectOp>(op))
    return select(operands[0], operands[1], operands[2]);
  bool truth = operands.size() == 2 && elementTypeOf(op->getOperand(0)).isInteger(1);
  if (truth) { // comparison of truth values
    auto cmp = dyn_cast<CmpOp>(op);
    bool differ = isa<XorOp>(op) || (cmp && cmp.getPredicate() == Predicate::NE);
    if (!differ && !(cmp && cmp.getPredicate() == Predicate::EQ))
      return {};
    IndexExpr e = select(operands[0], differ ? negation(operands[1]) : operands[1],
                         differ ? operands[1] : negation(operands[1]));
    return e;
  }
  if (operands.size() == 1)
    return mapLeaves(operands[0], [&](const IndexExpr &leaf) -> IndexExpr {
      if (isa<NegOp>(op) && leaf.isInteger())
        return IndexExpr::integer(-leaf.getPolynomial());
      auto n = leaf.getConstant();
      auto value = n ? evaluateScalar(op, {*n}) : std::nullopt;
      if (!value)
        return {};
      Type element = elementTypeOf(op->getResult(0));
      return element.isInteger(1)      ? IndexExpr::truth(*value != 0)
             : isa<FloatType>(element) ? IndexExpr::number(*value)
                                       : IndexExpr::integer((int64_t)*value);
    });
  if (operands.size() != 2)
    return {};
  return mapLeaves(operands[0], [&](const IndexExpr &a) {
    return mapLeaves(operands[1], [&](const IndexExpr &b) { return arithmetic(op, a, b); });
  });
}
