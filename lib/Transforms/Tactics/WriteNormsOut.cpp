//===- WriteNormsOut.cpp - Norms over a width that is split ---------------===//
//
// A norm needs its width, and where tensor parallelism splits that, the norm is written out, as two
// passes over the width: a sum for the mean, then a sum of squares of what is left (the second
// alone for an RMS norm):
//
//     mean = sum(x)/n     d = x - mean     y = d · rsqrt(sum(d²)/n + ε) · scale + bias
//
// Each sum is one all-reduce of a number per token. The variance of values that are already
// centred has no cancellation, whatever their mean, as E[x²] - E[x]² would have.
//
// There are two kinds of widths.
//
//   * The residual's, which layers hand on: products sum over it, and others make it again. One
//     dimension leaves it whole; two split it over both axes, as what is on the other side of
//     matrices from what the columns' tactics choose.
//   * Those within a layer: all heads of queries (OLMo 2), the inner width of an MLP. Splitting
//     these is what the columns' tactics are for, so they are asked: on a copy of the module with
//     all such norms written out. Those whose width they split there are written out, the others
//     (of one head's queries, say) stay as they are.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"

#include "tpc/Dialect/Sharding.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Writer {
public:
  Writer(Operation *norm, bool isResidual)
      : isResidual(isResidual), builder(norm), loc(norm->getLoc()), norm(norm),
        x(norm->getOperand(0)), type(cast<RankedTensorType>(x.getType())) {
    SmallVector<::tpc::SymExpr> sizes = getSizes(type);
    n = *sizes.back().asConstant();
    sizes.back() = ::tpc::SymExpr(1);
    rowType = makeTensorType(type.getElementType(), sizes);
  }

  void run() {
    Value d = x;
    if (isa<LayerNormOp>(norm))
      d = SubOp::create(builder, loc, type, x, makeMean(x));
    Value variance = makeMean(MulOp::create(builder, loc, type, d, d));
    double epsilon = norm->getAttrOfType<FloatAttr>("epsilon").getValueAsDouble();
    Value moved = AddOp::create(builder, loc, rowType, variance, makeScalar(epsilon));
    Value factor = RsqrtOp::create(builder, loc, rowType, moved);
    Value y = MulOp::create(builder, loc, type, d, factor);
    y = MulOp::create(builder, loc, type, y, inTypeOf(type, norm->getOperand(1)));
    if (norm->getNumOperands() > 2)
      y = AddOp::create(builder, loc, type, y, inTypeOf(type, norm->getOperand(2)));
    y = inTypeOf(norm->getResult(0).getType(), y);
    // What is said of the norm is said of what it becomes.
    for (StringRef name : {kShardingAttr, kShardingSourceAttr})
      if (Attribute annotation = norm->getAttr(name))
        y.getDefiningOp()->setAttr(name, annotation);
    norm->getResult(0).replaceAllUsesWith(y);
    norm->erase();
  }

private:
  /// A norm of f32 may have parameters and a result of 16 bits.
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

  /// [.., 1]: means over the last dimension.
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

/// Norms that can be written out.
SmallVector<Operation *> findNorms(const Plan &plan) {
  SmallVector<Operation *> norms;
  for (Operation *op : plan.getOps())
    if (isa<NormOpInterface>(op))
      if (auto n = getSizes(op->getOperand(0)).back().asConstant(); n && *n > 0)
        norms.push_back(op);
  return norms;
}

FactorClasses::Classes getWidth(const Plan &plan, Value x) {
  return plan.classes.getClasses(x, getSizes(x).size() - 1);
}

bool intersects(const FactorClasses::Classes &list, const DenseSet<int> &set) {
  return llvm::any_of(list, [&](int cls) { return set.contains(cls); });
}

/// Of `widths`, those within a layer: products make them, and others sum over them, in this order
/// only. What a table makes, or a product that depends on one which has summed over it, is handed
/// on.
DenseSet<int> findInnerWidths(const Plan &plan, const DenseSet<int> &widths) {
  DenseSet<int> made, used, handedOn;
  // The widths that products have summed over to compute a value, in the body of a function.
  DenseMap<Value, llvm::SmallDenseSet<int, 4>> before;
  for (Operation *op : plan.getOps()) {
    llvm::SmallDenseSet<int, 4> sums;
    for (Value operand : op->getOperands())
      if (auto it = before.find(operand); it != before.end())
        sums.insert(it->second.begin(), it->second.end());
    if (plan.getMatrix(op))
      for (auto [index, factor] : llvm::enumerate(plan.classes.getRule(op).factors))
        for (int cls : plan.classes.getFactorClasses(op, index)) {
          if (!widths.contains(cls))
            continue;
          if (factor.kind != FactorKind::Parallel) {
            sums.insert(cls);
            used.insert(cls);
          } else if (isa<EmbeddingOp>(op) || sums.contains(cls)) {
            handedOn.insert(cls);
          } else {
            made.insert(cls);
          }
        }
    if (!sums.empty())
      for (Value value : op->getResults())
        before[value] = sums;
  }
  DenseSet<int> inner;
  for (int cls : made)
    if (used.contains(cls) && !handedOn.contains(cls))
      inner.insert(cls);
  return inner;
}

/// Writes norms out, and says so: the proof of equivalence then knows them by their definition.
void writeOut(ModuleOp module, ArrayRef<Operation *> norms, bool areResidual) {
  for (Operation *norm : norms)
    Writer(norm, areResidual).run();
  if (!norms.empty())
    module->setAttr(kNormsWrittenOutAttr, UnitAttr::get(module.getContext()));
}

/// Of `inner`, those whose width the columns' tactics, or annotations, split where all of them are
/// written out.
SmallVector<Operation *> chooseInner(const Plan &plan, ArrayRef<Operation *> inner,
                                     function_ref<LogicalResult(Plan &)> chooseColumns) {
  IRMapping mapping;
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(plan.module->clone(mapping));
  SmallVector<Operation *> norms;
  SmallVector<Value> operands;
  for (Operation *op : inner) {
    norms.push_back(mapping.lookup(op));
    Value operand = norms.back()->getOperand(0);
    // An operand that is a norm itself will be gone.
    while (isa_and_nonnull<NormOpInterface>(operand.getDefiningOp()))
      operand = operand.getDefiningOp()->getOperand(0);
    operands.push_back(operand);
  }
  writeOut(*copy, norms, false);

  FactorClasses classes(*copy);
  AnnotatedFactors(classes, GridAttr::lookup(*copy)).divide(*copy);
  Plan trial(*copy, plan.spec, classes);
  // What there is to be said is said about the module itself.
  ScopedDiagnosticHandler quiet(plan.module.getContext(), [](Diagnostic &) { return success(); });
  if (failed(chooseColumns(trial)))
    return {};
  SmallVector<Operation *> chosen;
  for (auto [norm, operand] : llvm::zip(inner, operands))
    if (llvm::any_of(getWidth(trial, operand), [&](int cls) {
          // Over replicas weights are in parts, not widths: that is no sum.
          return trial.columns.contains(cls) || trial.hasAxis({cls}, "tp") ||
                 trial.hasAxis({cls}, "tpx") || trial.hasAxis({cls}, "tpy");
        }))
      chosen.push_back(norm);
  return chosen;
}

} // namespace

bool mlir::tpc::writeInnerNormsOut(const Plan &plan,
                                   function_ref<LogicalResult(Plan &)> chooseColumns) {
  SmallVector<Operation *> norms = findNorms(plan), inner;
  DenseSet<int> widths;
  for (Operation *norm : norms)
    widths.insert_range(getWidth(plan, norm->getOperand(0)));
  DenseSet<int> innerWidths = findInnerWidths(plan, widths);
  for (Operation *norm : norms)
    if (intersects(getWidth(plan, norm->getOperand(0)), innerWidths))
      inner.push_back(norm);
  if (!inner.empty())
    inner = chooseInner(plan, inner, chooseColumns);
  writeOut(plan.module, inner, false);
  return !inner.empty();
}

void mlir::tpc::writeResidualNormsOut(const Plan &plan) {
  DenseSet<int> rows;
  for (Operation *op : plan.getOps()) {
    SmallVector<int> list = plan.getRows(op);
    // What else a column's dimension consists of (the size of a head) is no residual.
    if (!list.empty())
      for (unsigned dim = 0; dim < getSizes(plan.getMatrix(op)).size(); ++dim) {
        FactorClasses::Classes side = plan.classes.getClasses(plan.getMatrix(op), dim);
        if (llvm::any_of(side, [&](int cls) { return plan.columns.contains(cls); }))
          llvm::erase_if(list, [&](int cls) { return llvm::is_contained(side, cls); });
      }
    rows.insert_range(list);
  }
  SmallVector<Operation *> residual;
  for (Operation *norm : findNorms(plan))
    if (intersects(getWidth(plan, norm->getOperand(0)), rows))
      residual.push_back(norm);
  writeOut(plan.module, residual, true);
}
