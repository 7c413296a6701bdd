//===- Loss.cpp - Cross-entropy and its cotangent -------------------------===//

#include "Loss.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Returns 1 for labels [rows, 1] that are not negative, and 0 for others.
static Value markValid(GradientBuilder &b, Value labels, Type element) {
  Value isValid = CmpOp::create(b.getBuilder(), b.getLoc(), Predicate::GE, labels, b.integer(0));
  return b.toFloat(isValid, element);
}

static Value sumAll(GradientBuilder &b, Value v) {
  return ReduceOp::create(b.getBuilder(), b.getLoc(), ReduceFunction::Sum, v,
                          ArrayRef<int64_t>{0, 1}, /*keep_dims=*/false);
}

Value mlir::tpc::countLabels(GradientBuilder &b, Value labels, Type element) {
  SymExpr rows = product(getSizes(labels));
  labels = b.reshape(b.reshape(labels, {rows}), {rows, SymExpr(1)});
  Value count = sumAll(b, markValid(b, labels, element));
  return MaxOp::create(b.getBuilder(), b.getLoc(), count, b.number(1));
}

/// Returns the target probabilities [rows, vocabulary]: 1 - smoothing for the label, plus smoothing
/// divided by the size of the whole vocabulary for each class.
static Value buildTargets(GradientBuilder &b, Value isLabel, Type element, double smoothing) {
  if (smoothing == 0)
    return b.toFloat(isLabel, element);
  Value uniform = b.div(b.number(smoothing), b.size(getSizes(isLabel)[1]));
  return b.select(isLabel, b.add(uniform, b.number(1 - smoothing)), uniform);
}

Value mlir::tpc::buildCrossEntropy(GradientBuilder &b, Value logits, Value labels, Value count,
                                   const CrossEntropy &settings) {
  OpBuilder &builder = b.getBuilder();
  SmallVector<SymExpr> sizes = getSizes(logits);
  Type element = elementTypeOf(logits), integers = elementTypeOf(labels);
  labels = b.reshape(labels, {sizes[0], SymExpr(1)});
  Value columns =
      IotaOp::create(builder, b.getLoc(), makeTensorType(integers, {SymExpr(1), sizes[1]}), 1);
  Value isLabel = CmpOp::create(builder, b.getLoc(), Predicate::EQ, columns, labels);
  Value valid = markValid(b, labels, element);

  const int64_t classes[] = {1}; // the dimension of the vocabulary
  Value maximum = ReduceOp::create(builder, b.getLoc(), ReduceFunction::Max, logits, classes, true);
  Value shifted = b.sub(logits, maximum);
  Value sum = b.sumKeep(b.apply<ExpOp>(shifted), classes);
  Value targets = buildTargets(b, isLabel, element, settings.smoothing);
  // Without smoothing, infinite logits of other classes must not be multiplied by 0.
  Value targetLogits =
      settings.smoothing == 0 ? b.select(isLabel, logits, b.number(0)) : b.mul(logits, targets);
  Value targetLogit = b.sumKeep(targetLogits, classes);
  Value logSum = b.add(b.apply<LogOp>(sum), maximum);
  Value losses = b.sub(logSum, targetLogit);
  if (settings.zLoss != 0)
    losses = b.add(losses, b.mul(b.mul(logSum, logSum), settings.zLoss));
  losses = b.mul(valid, losses);

  Value weight = b.div(valid, count);
  if (settings.scale)
    weight = b.mul(weight, settings.scale);
  // Probabilities are computed from the logits again, so that only logits and their cotangent have
  // a column for each class.
  Value p = b.apply<ExpOp>(b.sub(logits, logSum));
  if (settings.zLoss != 0)
    p = b.mul(p, b.add(b.mul(logSum, 2 * settings.zLoss), b.number(1)));
  b.accumulate(logits, b.mul(b.sub(p, targets), weight));
  return b.div(sumAll(b, losses), count);
}
