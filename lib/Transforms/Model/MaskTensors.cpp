//===- MaskTensors.cpp - Parts of masks as tensors ------------------------===//

#include "MaskTensors.h"
#include "Constants.h"
#include "Movement.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Kind = IndexExpr::Kind;

Value MaskTensors::constant(Type type, double number) {
  return createScalar(builder, loc, type, number);
}

//===----------------------------------------------------------------------===//
// Functions of batch and key as tensors
//===----------------------------------------------------------------------===//

/// Returns an element of a tensor at [b, j] (possibly with dimensions of size 1) as a tensor [b,
/// j].
Value MaskTensors::keyElement(const IndexExpr &element) {
  Value v = element.getTensor();
  SmallVector<SymExpr> shape{SymExpr(1), SymExpr(1)};
  SymExpr key = SymExpr::symbol(IndexAnalysis::indexName(sizes.size() - 1));
  SymExpr batchIndex = SymExpr::symbol(IndexAnalysis::indexName(0));
  int next = 0;
  for (auto [d, index] : llvm::enumerate(element.getArgs())) {
    SymExpr size = getSizes(v)[d];
    if (!index.isInteger())
      return {};
    const SymExpr &p = index.getPolynomial();
    if (size.isConstant(1))
      continue;
    if (p == batchIndex && next == 0 && sizes.size() > 2 && size == batch()) {
      shape[0] = size;
      next = 1;
      continue;
    }
    SymExpr start = p - key;
    auto bound = start.lowerBound();
    std::set<std::string> symbols;
    start.collectSymbols(symbols);
    if (next > 1 || !bound || *bound < 0 ||
        llvm::any_of(symbols, [](const std::string &s) { return s[0] == '_'; }))
      return {};
    v = createSlice(builder, loc, v, d, start, sizes.back());
    shape[1] = sizes.back();
    next = 2;
  }
  v = createReshape(builder, loc, v, shape);
  return createExpand(builder, loc, v, {batch(), sizes.back()});
}

Value MaskTensors::keyInteger(const SymExpr &e) {
  Type type = builder.getI64Type();
  RankedTensorType full = makeTensorType(type, {batch(), sizes.back()});
  std::string keyName = IndexAnalysis::indexName(sizes.size() - 1);
  Value sum;
  for (const SymExpr::Term &term : e.getTerms()) {
    Value product;
    if (term.coefficient != 1 || term.atoms.empty())
      product = constant(type, (double)term.coefficient);
    for (const SymExpr::Atom &atom : term.atoms) {
      Value v;
      if (atom.kind != SymExpr::AtomKind::Symbol || std::abs((double)term.coefficient) > 1e15)
        return {};
      if (atom.name == keyName || (atom.name == IndexAnalysis::indexName(0) && sizes.size() > 2))
        v = IotaOp::create(builder, loc, full, atom.name == keyName ? 1 : 0);
      else if (const IndexExpr *element = analysis.getElement(atom.name)) {
        v = keyElement(*element);
        if (v && elementTypeOf(v) != type)
          v = CastOp::create(builder, loc, full, v);
      } else
        v = SizeOp::create(builder, loc, RankedTensorType::get({}, type),
                           SymExpr::symbol(atom.name));
      if (!v)
        return {};
      product = product ? (Value)MulOp::create(builder, loc, product, v) : v;
    }
    sum = sum ? (Value)AddOp::create(builder, loc, sum, product) : product;
  }
  if (!sum)
    sum = constant(type, 0);
  return createExpand(builder, loc, sum, getSizes(full));
}

Value MaskTensors::getKeyMask(const IndexExpr &e) {
  RankedTensorType full = makeTensorType(builder.getI1Type(), {batch(), sizes.back()});
  switch (e.getKind()) {
  case Kind::Truth:
    return createSplat(builder, loc, full, e.isTrue());
  case Kind::Element: {
    Value v = elementTypeOf(e.getTensor()).isInteger(1) ? keyElement(e) : Value();
    return v && e.isNegated() ? (Value)NotOp::create(builder, loc, v) : v;
  }
  case Kind::And:
  case Kind::Or: {
    Value all;
    for (const IndexExpr &arg : e.getArgs()) {
      Value v = getKeyMask(arg);
      if (!v)
        return {};
      if (!all)
        all = v;
      else if (e.getKind() == Kind::And)
        all = AndOp::create(builder, loc, all, v);
      else
        all = OrOp::create(builder, loc, all, v);
    }
    return all;
  }
  case Kind::Compare: {
    // A comparison with zero is a conversion to boolean.
    const SymExpr &p = e.getPolynomial();
    if (e.getPredicate() == Predicate::NE)
      if (const IndexExpr *element = analysis.getElement(p.str()))
        if (Value v = keyElement(*element))
          return CastOp::create(builder, loc, full, v);
    Value v = keyInteger(p);
    return v ? (Value)CmpOp::create(builder, loc, e.getPredicate(), v,
                                    constant(builder.getI64Type(), 0))
             : Value();
  }
  default:
    return {};
  }
}

//===----------------------------------------------------------------------===//
// Slopes
//===----------------------------------------------------------------------===//

/// Returns the start index in each dimension of a tensor with one element per head, and the head
/// dimension (-1: one element for all). Returns nothing if the element depends on other indices as
/// well.
std::optional<SmallVector<SymExpr>> MaskTensors::findHeadElement(const IndexExpr &e,
                                                                 int64_t &headDim) {
  headDim = -1;
  SmallVector<SymExpr> starts;
  for (auto [d, index] : llvm::enumerate(e.getArgs())) {
    if (!index.isInteger())
      return std::nullopt;
    SymExpr start = index.getPolynomial();
    auto linear = IndexAnalysis::linearIn(start, IndexAnalysis::indexName(1));
    if (linear && linear->first.isConstant(1) && headDim < 0) {
      headDim = d;
      start = linear->second;
    }
    if (!start.isConstant() || !analysis.isNonNegative(start))
      return std::nullopt;
    starts.push_back(start);
  }
  return starts;
}

Value MaskTensors::headElement(const IndexExpr &element) {
  int64_t headDim;
  SmallVector<SymExpr> starts = *findHeadElement(element, headDim);
  SymExpr heads = sizes[1];
  Value v = element.getTensor();
  for (auto [d, start] : llvm::enumerate(starts)) {
    SymExpr taken = (int64_t)d == headDim ? heads : SymExpr(1);
    if (getSizes(v)[d] != taken)
      v = createSlice(builder, loc, v, d, start, taken);
  }
  v = createReshape(builder, loc, v, {headDim < 0 ? SymExpr(1) : heads});
  return createExpand(builder, loc, v, {heads});
}

bool MaskTensors::isSlope(const IndexExpr &e) {
  // Linear in the key's index with a constant slope, plus a term without the key's index.
  std::string key = IndexAnalysis::indexName(sizes.size() - 1);
  auto linear = IndexAnalysis::linearIn(e.getPolynomial(), key);
  if (sizes.size() != 4 || !linear || !linear->first.isConstant() || linear->first.isConstant(0))
    return false;
  std::set<std::string> symbols;
  analysis.collectSymbols(IndexExpr::integer(linear->second), symbols);
  int64_t headDim;
  return !symbols.count(key) && llvm::all_of(e.getArgs(), [&](const IndexExpr &element) {
    return findHeadElement(element, headDim).has_value();
  });
}

Value MaskTensors::getSlopes(const IndexExpr &e, Type element) {
  auto linear =
      IndexAnalysis::linearIn(e.getPolynomial(), IndexAnalysis::indexName(sizes.size() - 1));
  double number = e.getNumber() * (double)*linear->first.asConstant();
  Value slopes;
  for (const IndexExpr &arg : e.getArgs()) {
    Value v = headElement(arg);
    slopes = slopes ? (Value)MulOp::create(builder, loc, slopes, v) : v;
  }
  if (!slopes)
    return createSplat(builder, loc, makeTensorType(element, {sizes[1]}), number);
  return number == 1
             ? slopes
             : (Value)MulOp::create(builder, loc, slopes, constant(elementTypeOf(slopes), number));
}
