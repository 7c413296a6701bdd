//===- Loss.cpp - Cross-entropy and its cotangent -------------------------===//

#include "Loss.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

Value mlir::tpc::buildCrossEntropy(GradientBuilder &b, Value logits, Value labels) {
  OpBuilder &builder = b.getBuilder();
  SmallVector<SymExpr> sizes = getSizes(logits);
  Type element = elementTypeOf(logits), integers = elementTypeOf(labels);
  labels = b.reshape(labels, {sizes[0], SymExpr(1)});
  Value columns =
      IotaOp::create(builder, b.getLoc(), makeTensorType(integers, {SymExpr(1), sizes[1]}), 1);
  auto compare = [&](Predicate predicate, Value x, Value y) -> Value {
    return CmpOp::create(builder, b.getLoc(), predicate, x, y);
  };
  Value isLabel = compare(Predicate::EQ, columns, labels);
  Value valid = b.toFloat(compare(Predicate::GE, labels, b.integer(0)), element);

  const int64_t classes[] = {1}; // the dimension of the vocabulary
  Value maximum = ReduceOp::create(builder, b.getLoc(), ReduceFunction::Max, logits, classes, true);
  Value shifted = b.sub(logits, maximum);
  Value exps = b.apply<ExpOp>(shifted);
  Value sum = b.sumKeep(exps, classes);
  Value labelLogit = b.sumKeep(b.select(isLabel, logits, b.number(0)), classes);
  Value logSum = b.add(b.apply<LogOp>(sum), maximum);
  Value losses = b.mul(valid, b.sub(logSum, labelLogit));

  auto sumAll = [&](Value v) -> Value {
    return ReduceOp::create(builder, b.getLoc(), ReduceFunction::Sum, v, ArrayRef<int64_t>{0, 1},
                            false);
  };
  Value count = MaxOp::create(builder, b.getLoc(), sumAll(valid), b.number(1));
  Value weight = b.div(valid, count);
  b.accumulate(logits, b.mul(b.sub(b.div(exps, sum), b.toFloat(isLabel, element)), weight));
  return b.div(sumAll(losses), count);
}
