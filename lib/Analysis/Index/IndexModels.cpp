//===- IndexModels.cpp - Index models of ops ------------------------------===//

#include "IndexOp.h"

#include "tpc/Analysis/Index/Splats.h"
#include "tpc/Dialect/AttachModels.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include <cmath>

#include "IndexOp.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::indexing;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

static IndexExpr getElement(ConstantOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  return a.constantAt(op, where);
}

static IndexExpr getElement(SizeOp op, IndexAnalysis &, ArrayRef<IndexExpr>) {
  return isFloatTensor(op.getResult()) ? IndexExpr() : IndexExpr::integer(op.getExpr());
}

static IndexExpr getElement(IotaOp op, IndexAnalysis &, ArrayRef<IndexExpr> where) {
  return where[op.getDim()];
}

//===----------------------------------------------------------------------===//
// Movements
//===----------------------------------------------------------------------===//

/// Returns the element of `operand` that broadcasts to `where`, aligned at the last dimension.
static IndexExpr getBroadcast(Value operand, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  SmallVector<SymExpr> from = getSizes(operand);
  SmallVector<IndexExpr> position;
  for (auto [i, size] : llvm::enumerate(from))
    position.push_back(size.isConstant(1) ? IndexExpr::integer(0)
                                          : where[where.size() - from.size() + i]);
  return a.at(operand, position);
}

static IndexExpr getElement(ExpandOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  return getBroadcast(op.getOperand(), a, where);
}

static IndexExpr getElement(TransposeOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  SmallVector<IndexExpr> inner(where);
  for (auto [i, p] : llvm::enumerate(op.getPermutation()))
    inner[p] = where[i];
  return a.at(op.getOperand(), inner);
}

static IndexExpr getElement(SliceOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  SmallVector<IndexExpr> inner(where);
  const IndexExpr &index = where[op.getDim()];
  if (!index.isInteger())
    return {};
  inner[op.getDim()] =
      IndexExpr::integer(op.getStart() + index.getPolynomial() * SymExpr(op.getStep()));
  return a.at(op.getOperand(), inner);
}

/// Divides both shapes into the shortest groups of dimensions with equal products, and linearizes
/// and delinearizes the index within each group.
static IndexExpr getElement(ReshapeOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  for (const IndexExpr &index : where)
    if (!index.isInteger())
      return {};
  SmallVector<IndexExpr> inner(from.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    SymExpr m(1), n(1);
    auto takeFrom = [&]() { m = m * from[i++]; };
    auto takeTo = [&]() { n = n * to[j++]; };
    if (i < from.size())
      takeFrom();
    if (j < to.size())
      takeTo();
    while (m != n) {
      bool needsFrom = i < from.size() && (j == to.size() || n.divideExact(m));
      if (needsFrom)
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
      inner[d] = from[d].isConstant(1) ? IndexExpr::integer(0) : a.mod(flat, from[d]);
      if (!from[d].isConstant(1))
        flat = a.floorDiv(flat, from[d]).getPolynomial();
    }
    if (i > i0 && from[i0].isConstant(1))
      inner[i0] = IndexExpr::integer(0);
  }
  return a.at(op.getOperand(), inner);
}

static IndexExpr getElement(ConcatOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim();
  if (!where[dim].isInteger())
    return {};
  const SymExpr &index = where[dim].getPolynomial();
  // Builds the selects from the last operand to the first.
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
    // Condition: the index is before the end of this operand.
    IndexExpr here = a.compare(Predicate::LT, local - size);
    if (here.isFalse() || size.isConstant(0))
      continue;
    SmallVector<IndexExpr> inner(where);
    inner[dim] = IndexExpr::integer(size.isConstant(1) ? SymExpr(0) : local);
    IndexExpr element = a.at(operand, inner);
    result = result ? a.select(here, element, result) : element;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

/// Maps an index in [-n, n) to [0, n).
static IndexExpr wrapIndex(IndexAnalysis &a, const IndexExpr &e, const SymExpr &n) {
  return a.mapLeaves(e, [&](const IndexExpr &leaf) -> IndexExpr {
    if (!leaf.isInteger())
      return {};
    if (a.isNonNegative(leaf.getPolynomial()))
      return leaf;
    if (a.isNonNegative(-leaf.getPolynomial() - 1))
      return IndexExpr::integer(leaf.getPolynomial() + n);
    return {};
  });
}

static IndexExpr getElement(GatherOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim(), rank = rankOf(op.getIndices());
  IndexExpr index =
      wrapIndex(a, a.at(op.getIndices(), where.slice(dim, rank)), getSizes(op.getData())[dim]);
  if (!index)
    return {};
  return a.mapLeaves(index, [&](const IndexExpr &leaf) {
    SmallVector<IndexExpr> inner(where.take_front(dim));
    inner.push_back(leaf);
    llvm::append_range(inner, where.drop_front(dim + rank));
    return a.at(op.getData(), inner);
  });
}

static IndexExpr getElement(GatherNDOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  int64_t rank = rankOf(op.getIndices()), batch = op.getBatchDims();
  SmallVector<SymExpr> sizes = getSizes(op.getData());
  auto count = getSizes(op.getIndices()).back().asConstant();
  if (!count)
    return {};
  SmallVector<IndexExpr> inner(where.take_front(batch));
  for (int64_t k = 0; k < *count; ++k) {
    SmallVector<IndexExpr> position(where.take_front(rank - 1));
    position.push_back(IndexExpr::integer(k));
    IndexExpr index = wrapIndex(a, a.at(op.getIndices(), position), sizes[batch + k]);
    if (!index || !index.isInteger())
      return {};
    inner.push_back(index);
  }
  llvm::append_range(inner, where.drop_front(rank - 1));
  return a.at(op.getData(), inner);
}

//===----------------------------------------------------------------------===//
// Sums and triangles
//===----------------------------------------------------------------------===//

/// Supports only operands that are constant along the dimension.
static IndexExpr getElement(CumSumOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  int64_t dim = op.getDim();
  SymExpr size = getSizes(op.getOperand())[dim];
  if (!where[dim].isInteger())
    return {};
  SmallVector<IndexExpr> inner(where);
  inner[dim] = a.freshIndex(size);
  std::string name = inner[dim].str();
  IndexExpr term = a.at(op.getOperand(), inner);
  std::set<std::string> symbols;
  a.collectSymbols(term, symbols);
  if (symbols.count(name))
    return {};
  // Sums of floats are exact only for integral values.
  if (isFloatTensor(op.getOperand())) {
    auto number = term.getConstant();
    if (!number || *number != std::trunc(*number) || std::abs(*number) > 1)
      return {};
    term = IndexExpr::integer(SymExpr((int64_t)*number));
  }
  if (!term.isInteger())
    return {};
  SymExpr count = where[dim].getPolynomial() + (op.getExclusive() ? 0 : 1);
  if (op.getReverse())
    count = size - where[dim].getPolynomial() - (op.getExclusive() ? 1 : 0);
  SymExpr sum = term.getPolynomial() * count;
  Type element = elementTypeOf(op.getResult());
  return element.isF16() || element.isBF16() ? IndexExpr::scaled({}, 1, sum)
                                             : IndexExpr::integer(sum);
}

static IndexExpr getElement(ReduceOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
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
    // The extremum of an empty dimension is not an element.
    if (op.getFunction() != ReduceFunction::Sum && !a.isNonNegative(size - 1))
      return {};
    inner.push_back(a.freshIndex(size));
    names.push_back(inner.back().str());
  }
  IndexExpr term = a.at(op.getOperand(), inner);
  std::set<std::string> symbols;
  a.collectSymbols(term, symbols);
  if (llvm::any_of(names, [&](const std::string &name) { return symbols.count(name) != 0; }))
    return {};
  if (op.getFunction() != ReduceFunction::Sum)
    return term;
  if (!term.isInteger() || isFloatTensor(op.getOperand()))
    return {};
  SymExpr sum = term.getPolynomial() * count;
  Type element = elementTypeOf(op.getResult());
  return element.isF16() || element.isBF16() ? IndexExpr::scaled({}, 1, sum)
                                             : IndexExpr::integer(sum);
}

static IndexExpr getElement(TriluOp op, IndexAnalysis &a, ArrayRef<IndexExpr> where) {
  size_t rank = where.size();
  if (!where[rank - 1].isInteger() || !where[rank - 2].isInteger())
    return {};
  SymExpr difference =
      where[rank - 1].getPolynomial() - where[rank - 2].getPolynomial() - op.getK();
  IndexExpr keeps = a.compare(op.getUpper() ? Predicate::GE : Predicate::LE, difference);
  IndexExpr zero = isFloatTensor(op.getOperand())                ? IndexExpr::number(0)
                   : elementTypeOf(op.getOperand()).isInteger(1) ? IndexExpr::truth(false)
                                                                 : IndexExpr::integer(0);
  return a.select(keeps, a.at(op.getOperand(), where), zero);
}

namespace {
template <typename OpT> struct IndexModel : IndexOpInterface::ExternalModel<IndexModel<OpT>, OpT> {
  IndexExpr getElementAt(Operation *op, IndexAnalysis &analysis, ArrayRef<IndexExpr> where) const {
    return getElement(cast<OpT>(op), analysis, where);
  }
};

/// Applies an element-wise op to the elements of the operands (IndexScalars.cpp).
template <typename OpT>
struct ScalarIndex : IndexOpInterface::ExternalModel<ScalarIndex<OpT>, OpT> {
  IndexExpr getElementAt(Operation *op, IndexAnalysis &analysis, ArrayRef<IndexExpr> where) const {
    SmallVector<IndexExpr> operands;
    for (Value operand : op->getOperands())
      operands.push_back(getBroadcast(operand, analysis, where));
    return ofElements(cast<OpT>(op), analysis, operands);
  }
};

/// Model of ops without a closed form: their elements are opaque.
template <typename OpT>
struct OpaqueIndex : IndexOpInterface::ExternalModel<OpaqueIndex<OpT>, OpT> {
  IndexExpr getElementAt(Operation *, IndexAnalysis &, ArrayRef<IndexExpr>) const { return {}; }
};
} // namespace

void mlir::tpc::registerIndexModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachModels<IndexModel, ConstantOp, SizeOp, IotaOp, ExpandOp, TransposeOp, SliceOp, ReshapeOp,
                 ConcatOp, GatherOp, GatherNDOp, CumSumOp, ReduceOp, TriluOp>(context);
    attachToScalarOps<ScalarIndex>(context);
    attachModels<OpaqueIndex, ParameterOp, MatmulOp, DequantizeOp, MoeOp, AttentionOp,
                 AttentionGradOp, LayerNormOp, RmsNormOp, SoftmaxOp, EmbeddingOp, ScatterAddOp,
                 RotaryOp, RollOp, AppendOp>(context);
  });
}

SmallVector<CoverageColumn> mlir::tpc::getIndexCoverage() {
  return {{"index",
           "its elements as functions of their indices, for masks and positions "
           "(`IndexOpInterface`)",
           {{"yes", TypeID::get<IndexOpInterface>()}}}};
}
