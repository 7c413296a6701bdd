//===- Loss.cpp - Losses of classifications -------------------------------===//

#include "Importer.h"
#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Imports the loss of labels [batch, d..] under log-probabilities [batch, classes, d..]. The
/// log-probability of a label is computed as a sum over classes with one non-zero term, because a
/// sum can be split over ranks.
static LogicalResult makeLoss(Node &n, Value logProbs) {
  if (!logProbs)
    return failure();
  const Tensor &labels = n.in(1);
  Sizes sizes = getSizes(logProbs);
  Type element = elementOf(logProbs);
  if (!labels.isInt() || labels.rank() + 1 != (int64_t)sizes.size() || sizes.size() < 2)
    return n.error() << "has scores " << str(sizes) << " and labels " << str(labels.shape) << " of "
                     << labels.element
                     << "; they must be [batch, classes, ..] and integers [batch, ..]";
  std::string reduction = n.getString("reduction", "mean");
  Value ids = n.operand(1);
  if (n.failed())
    return failure();

  // [classes, 1..] and [batch, 1, d..]
  Sizes column(labels.rank(), SymExpr(1)), wide(labels.shape);
  column[0] = sizes[1];
  wide.insert(wide.begin() + 1, SymExpr(1));
  Value classes = IotaOp::create(n.b, n.loc, n.type(labels.element, column), 0);
  Value isLabel = n.compare(Predicate::EQ, n.reshape(ids, wide), classes);
  Value zero = n.constant(element, 0);
  Value loss = n.unary<NegOp>(n.reduce(ReduceFunction::Sum, n.select(isLabel, logProbs, zero), {1},
                                       /*keep=*/false));

  // Weights of classes; 0 for ignored labels.
  Value weight;
  if (n.has(2)) {
    Sizes row = column;
    Value all = n.reshape(n.operand(2), row);
    weight = n.reduce(ReduceFunction::Sum, n.select(isLabel, all, zero), {1}, /*keep=*/false);
  }
  if (n.hasAttribute("ignore_index")) {
    Value ignored = n.size(SymExpr(n.getInt("ignore_index", 0)), labels.element);
    Value one = n.constant(element, 1);
    weight = n.select(n.compare(Predicate::NE, ids, ignored), weight ? weight : one, zero);
  }
  if (weight)
    loss = n.binary<MulOp>(loss, weight);
  if (reduction == "none")
    return n.result(loss);
  if (reduction != "mean" && reduction != "sum")
    return n.error() << "has reduction '" << reduction << "'; it must be none, mean or sum";
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, labels.rank()));
  if (reduction == "mean" && !weight)
    return n.result(n.reduce(ReduceFunction::Mean, loss, all, /*keep=*/false));
  Value sum = n.reduce(ReduceFunction::Sum, loss, all, /*keep=*/false);
  if (reduction == "mean")
    sum = n.binary<DivOp>(sum, n.reduce(ReduceFunction::Sum, weight, all, /*keep=*/false));
  return n.result(sum);
}

static LogicalResult importSoftmaxCrossEntropyLoss(Node &n) {
  if (failed(n.expectInputs(2, 3)) || failed(n.expectFloat(0)))
    return failure();
  if (n.in(0).rank() < 2)
    return n.error() << "needs scores of at least two dimensions, and has " << str(n.in(0).shape);
  Value x = n.operand(0);
  // log(softmax(x)) = x - max - log(sum(exp(x - max)))
  Value shifted = n.binary<SubOp>(x, n.reduce(ReduceFunction::Max, x, {1}, /*keep=*/true));
  Value sum = n.reduce(ReduceFunction::Sum, shifted ? n.unary<ExpOp>(shifted) : Value(), {1},
                       /*keep=*/true);
  Value logProbs = n.binary<SubOp>(shifted, n.unary<LogOp>(sum));
  if (!logProbs)
    return failure();
  if (n.isUsed(1) && failed(n.set(1, n.wrap(logProbs))))
    return failure();
  return makeLoss(n, logProbs);
}

static LogicalResult importNegativeLogLikelihoodLoss(Node &n) {
  if (failed(n.expectInputs(2, 3)) || failed(n.expectFloat(0)))
    return failure();
  return makeLoss(n, n.operand(0));
}

void mlir::tpc::frontend::addLossOps(OpTable &t) {
  t.add("SoftmaxCrossEntropyLoss", {12, 13}, importSoftmaxCrossEntropyLoss);
  t.add("NegativeLogLikelihoodLoss", {12, 13, 22}, importNegativeLogLikelihoodLoss);
}
