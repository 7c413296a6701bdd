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

Value mlir::tpc::buildCrossEntropy(GradientBuilder &b, Value logits, Value labels, Value count) {
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
  Value labelLogit = b.sumKeep(b.select(isLabel, logits, b.number(0)), classes);
  Value logSum = b.add(b.apply<LogOp>(sum), maximum);
  Value losses = b.mul(valid, b.sub(logSum, labelLogit));

  Value weight = b.div(valid, count);
  // Probabilities are computed from the logits again, so that only logits and their cotangent have
  // a column for each class.
  Value p = b.apply<ExpOp>(b.sub(logits, logSum));
  b.accumulate(logits, b.mul(b.sub(p, b.toFloat(isLabel, element)), weight));
  return b.div(sumAll(b, losses), count);
}
