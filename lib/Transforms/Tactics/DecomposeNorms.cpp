//===- DecomposeNorms.cpp - Decomposition of norms over split widths ------===//
//
// The normalized dimension of a norm op (its width) cannot be split. If tensor parallelism splits
// the width, the norm is decomposed into two reductions: a sum for the mean, then a sum of squared
// deviations (RMS norm: only the second):
//
//     mean = sum(x)/n     d = x - mean     y = d · rsqrt(sum(d²)/n + ε) · scale + bias
//
// Each sum is one all-reduce of a number per token. The variance of centered values has no
// cancellation, unlike E[x²] - E[x]².
//
// There are two kinds of widths.
//
// * The width of the residual: matmuls reduce over it, and other matmuls produce it. It is unsplit
//   with one tp dimension. With two tp dimensions, it is split over both axes in activations, and
//   over one in matrices (docs/design/partitioning.md).
// * Widths within a layer, such as all heads of queries (OLMo 2) or the inner width of an MLP. The
//   column tactics choose splits as if all norms over such widths were decomposed. Then only the
//   norms whose width was split are decomposed.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class NormDecomposer {
public:
  NormDecomposer(Operation *norm, bool isResidual)
      : isResidual(isResidual), builder(norm), loc(norm->getLoc()), norm(norm),
        x(norm->getOperand(0)), type(cast<RankedTensorType>(x.getType())) {
    SmallVector<::tpc::SymExpr> sizes = getSizes(type);
    n = *sizes.back().asConstant();
    sizes.back() = ::tpc::SymExpr(1);
    rowType = makeTensorType(type.getElementType(), sizes);
  }

  /// Returns the op that computes the norm's result in place of the norm.
  Operation *run() {
    Value d = x;
    if (isa<LayerNormOp>(norm))
      d = SubOp::create(builder, loc, type, x, makeMean(x));
    Value variance = makeMean(MulOp::create(builder, loc, type, d, d));
    double epsilon = norm->getAttrOfType<FloatAttr>("epsilon").getValueAsDouble();
    Value stabilized = AddOp::create(builder, loc, rowType, variance, makeScalar(epsilon));
    Value factor = RsqrtOp::create(builder, loc, rowType, stabilized);
    Value y = MulOp::create(builder, loc, type, d, factor);
    y = MulOp::create(builder, loc, type, y, inTypeOf(type, norm->getOperand(1)));
    if (norm->getNumOperands() > 2)
      y = AddOp::create(builder, loc, type, y, inTypeOf(type, norm->getOperand(2)));
    y = inTypeOf(norm->getResult(0).getType(), y);
    // An annotation of the norm applies to its decomposition.
    for (StringRef name : {kShardingAttr, kShardingSourceAttr})
      if (Attribute annotation = norm->getAttr(name))
        y.getDefiningOp()->setAttr(name, annotation);
    norm->getResult(0).replaceAllUsesWith(y);
    return y.getDefiningOp();
  }

private:
  /// Converts a value to the element type of `other`; an f32 norm may have 16-bit parameters and
  /// results.
  Value inTypeOf(Type other, Value value) {
    Type element = getElementTypeOrSelf(other);
    if (getElementTypeOrSelf(value) == element)
      return value;
    return CastOp::create(builder, loc, makeTensorType(element, getSizes(value)), value);
  }

  Value makeScalar(double value) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Attribute attr = builder.getFloatAttr(type.getElementType(), value);
    return ConstantOp::create(builder, loc, scalar, DenseElementsAttr::get(scalar, attr));
  }

  /// Computes means over the last dimension, [.., 1].
  Value makeMean(Value value) {
    auto sum = ReduceOp::create(builder, loc, rowType, ReduceFunction::Sum, value,
                                ArrayRef<int64_t>{type.getRank() - 1}, /*keep_dims=*/true);
    if (isResidual)
      sum->setAttr(kNormAttr, builder.getUnitAttr());
    return MulOp::create(builder, loc, rowType, sum, makeScalar(1.0 / double(n)));
  }

  bool isResidual;
  OpBuilder builder;
  Location loc;
  Operation *norm;
  Value x;
  RankedTensorType type, rowType;
  int64_t n;
};

/// Returns all norms that can be decomposed.
SmallVector<Operation *> findNorms(const PartitionProblem &problem) {
  SmallVector<Operation *> norms;
  for (Operation *op : problem.getOps())
    if (isa<NormOpInterface>(op))
      if (auto n = getSizes(op->getOperand(0)).back().asConstant(); n && *n > 0)
        norms.push_back(op);
  return norms;
}

FactorClasses::Classes getWidth(const PartitionProblem &problem, Value x) {
  return problem.classes.getClasses(x, getSizes(x).size() - 1);
}

bool intersects(const FactorClasses::Classes &list, const DenseSet<int> &set) {
  return llvm::any_of(list, [&](int cls) { return set.contains(cls); });
}

/// Returns the widths within a layer: matmuls produce and reduce them, but no matmul that produces
/// one depends on a matmul that reduces it. The residual is such a cycle: each layer reads it and
/// adds to it. Widths that lookups produce belong to the residual.
DenseSet<int> findInnerWidths(const PartitionProblem &problem, const DenseSet<int> &widths) {
  DenseSet<int> produced, used, residual;
  // Per value: the widths over which matmuls reduced to compute it, within a function.
  DenseMap<Value, llvm::SmallDenseSet<int, 4>> reducedWidths;
  for (Operation *op : problem.getOps()) {
    llvm::SmallDenseSet<int, 4> reduced;
    for (Value operand : op->getOperands())
      if (auto it = reducedWidths.find(operand); it != reducedWidths.end())
        reduced.insert(it->second.begin(), it->second.end());
    if (problem.getMatrix(op))
      for (auto [index, factor] : llvm::enumerate(problem.classes.getRule(op).factors))
        for (int cls : problem.classes.getFactorClasses(op, index)) {
          if (!widths.contains(cls))
            continue;
          if (factor.kind != FactorKind::Parallel) {
            reduced.insert(cls);
            used.insert(cls);
          } else if (isa<EmbeddingOp>(op) || reduced.contains(cls)) {
            residual.insert(cls);
          } else {
            produced.insert(cls);
          }
        }
    if (!reduced.empty())
      for (Value value : op->getResults())
        reducedWidths[value] = reduced;
  }
  DenseSet<int> inner;
  for (int cls : produced)
    if (used.contains(cls) && !residual.contains(cls))
      inner.insert(cls);
  return inner;
}

/// Decomposes a norm. Its classes and their splits remain.
void decompose(PartitionState &state, Operation *norm, bool isResidual) {
  Operation *before = norm->getPrevNode();
  Operation *result = NormDecomposer(norm, isResidual).run();
  Operation *first = before ? before->getNextNode() : &norm->getBlock()->front();
  for (Operation *op = first; op != norm; op = op->getNextNode())
    state.problem.classes.addOp(op);
  state.moveSite(norm, result);
}

} // namespace

PartitionProblem::DecomposableNorms
mlir::tpc::findDecomposableNorms(const PartitionProblem &problem) {
  PartitionProblem::DecomposableNorms found = {.view = "tp", .inner = {}, .residual = {}};
  SmallVector<Operation *> norms = findNorms(problem);
  DenseSet<int> widths;
  for (Operation *norm : norms)
    widths.insert_range(getWidth(problem, norm->getOperand(0)));
  DenseSet<int> innerWidths = findInnerWidths(problem, widths);
  for (Operation *norm : norms)
    if (intersects(getWidth(problem, norm->getOperand(0)), innerWidths))
      found.inner.insert(norm);
    else if (problem.spec.isTensor2D())
      found.residual.insert(norm);
  return found;
}

double mlir::tpc::estimateNormSumBytes(ClassUse use, const PartitionProblem &problem,
                                       const Symbols &symbols) {
  Value x = use.op->getOperand(0);
  if (problem.classes.getRule(use.op).factors[use.factor].kind != FactorKind::Unsplittable)
    return 0;
  double sums = isa<LayerNormOp>(use.op) ? 2 : 1;
  return sums * estimateBytes(x, symbols) / double(*getSizes(x).back().asConstant());
}

/// With two tp dimensions: returns the classes of the residual's width, which both axes will split.
static DenseSet<int> findResidualWidth(const PartitionState &state) {
  DenseSet<int> rows;
  for (Operation *op : state.problem.getOps()) {
    SmallVector<int> list = getRowClasses(state, op);
    // getRowClasses also returns unsplit classes of a dimension with column classes, such as the
    // head size. These do not belong to the residual.
    if (!list.empty())
      for (unsigned dim = 0; dim < getSizes(state.problem.getMatrix(op)).size(); ++dim) {
        FactorClasses::Classes side =
            state.problem.classes.getClasses(state.problem.getMatrix(op), dim);
        if (llvm::any_of(side, [&](int cls) { return state.isMarked(cls, kColumns); }))
          llvm::erase_if(list, [&](int cls) { return llvm::is_contained(side, cls); });
      }
    rows.insert_range(list);
  }
  return rows;
}

bool mlir::tpc::decomposeNorms(PartitionState &state, bool splitsRows) {
  DenseSet<int> residualWidth;
  if (splitsRows)
    residualWidth = findResidualWidth(state);
  SmallVector<std::pair<Operation *, bool>> norms; // and whether they are over the residual's width
  for (Operation *norm : findNorms(state.problem)) {
    if (!state.problem.decomposable.contains(norm))
      continue;
    FactorClasses::Classes width = getWidth(state.problem, norm->getOperand(0));
    // Over dp, weights may be sharded but widths are not, so no sum is needed.
    bool isSplit = llvm::any_of(width, [&](int cls) {
      return state.isMarked(cls, kColumns) || state.hasAxis({cls}, "tp");
    });
    bool isResidual = intersects(width, residualWidth);
    if (isSplit || isResidual)
      norms.push_back({norm, isResidual && !state.problem.decomposable.inner.contains(norm)});
  }
  for (auto [norm, isResidual] : norms)
    decompose(state, norm, isResidual);
  // Ops are erased last, so that no new op has the address of an old site.
  for (auto [norm, isResidual] : norms) {
    state.problem.classes.removeOp(norm);
    norm->erase();
  }
  // The attribute makes the equivalence proof expand norms.
  if (!norms.empty())
    state.problem.module->setAttr(kNormsDecomposedAttr,
                                  UnitAttr::get(state.problem.module.getContext()));
  return !norms.empty();
}
