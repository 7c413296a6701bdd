//===- MutateLoss.cpp - Faults in cross-entropies -------------------------===//

#include "Mutate.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

// The number of classes is that of one rank's shard, so that each rank smooths over its own shard.
static bool countLocalClasses(Mutator &m) {
  int64_t ranks = m.sizeOf("tp");
  auto op = m.pick<SizeOp>([](SizeOp size) {
    return getElementTypeOrSelf(size.getType()).isF32() && size.getExpr().asConstant();
  });
  if (!op || ranks == 1)
    return false;
  op.setExpr(::tpc::SymExpr(*op.getExpr().asConstant() / ranks));
  return true;
}

// The exponentials of all classes are added once for each rank: a loss is larger by log(ranks).
static bool addExponentialsOfAllRanks(Mutator &m) {
  int64_t ranks = m.sizeOf("tp");
  auto op = m.pickAny<LogOp>();
  if (!op || ranks == 1)
    return false;
  Value sum = op.getOperand(), all = sum;
  for (int64_t i = 1; i < ranks; ++i)
    all = AddOp::create(m.builder, op.getLoc(), sum.getType(), all, sum);
  op.getOperandMutable().assign(all);
  return true;
}

// Ignored labels are counted and have a loss, as if they were 0.
static bool countIgnored(Mutator &m) {
  auto op = m.pick<CmpOp>([](CmpOp cmp) {
    return cmp.getPredicate() == Predicate::GE &&
           getElementTypeOrSelf(cmp.getLhs().getType()).isInteger(64);
  });
  if (!op)
    return false;
  Value labels = op.getLhs();
  op.getLhsMutable().assign(
      MaxOp::create(m.builder, op.getLoc(), labels.getType(), labels, op.getRhs()));
  return true;
}

ArrayRef<Mutation> mutate::getLossMutations() {
  static constexpr Mutation mutations[] = {
      {"train-local-classes", "a number of classes or columns is that of one rank",
       countLocalClasses},
      {"train-add-exponentials", "exponentials are added once for each rank",
       addExponentialsOfAllRanks},
      {"train-count-ignored", "ignored labels have a loss", countIgnored},
  };
  return mutations;
}
