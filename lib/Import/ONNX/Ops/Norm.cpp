//===- Norm.cpp - LayerNormalization, RMSNormalization, and variants ------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Reads the scale or bias of a norm, with one element per element of the normalized dimensions.
static Value normVector(Node &n, unsigned i, ArrayRef<SymExpr> normalized) {
  Value v = n.operand(i);
  if (!v)
    return {};
  SymExpr size = product(normalized);
  // If the vector has the normalized size, the reshape below removes leading dimensions of size 1.
  if (product(n.in(i).shape) != size && product(n.in(i).shape).isConstant()) {
    // A single number or a repeating vector broadcasts.
    FailureOr<Sizes> sizes = n.broadcast(n.in(i).shape, normalized);
    if (failed(sizes))
      return {};
    v = n.expand(v, *sizes);
  }
  return n.reshape(v, {size});
}

/// Sets mean and inverse deviation over the last dimension, which some exporters keep as outputs.
static LogicalResult setStatistics(Node &n, Value x, double epsilon, ArrayRef<SymExpr> sizes,
                                   std::optional<unsigned> meanOutput, unsigned inverseOutput) {
  bool needsMean = meanOutput && n.isUsed(*meanOutput);
  if (!needsMean && !n.isUsed(inverseOutput))
    return success();
  int64_t last = rankOf(x) - 1;
  if (meanOutput) {
    Value mean = n.reduce(ReduceFunction::Mean, x, {last}, /*keep=*/true);
    if (failed(n.set(*meanOutput, n.wrap(n.reshape(mean, sizes)))))
      return failure();
    x = n.binary<SubOp>(x, mean);
  }
  Value variance = n.reduce(ReduceFunction::Mean, n.binary<MulOp>(x, x), {last}, /*keep=*/true);
  Value inverse = n.unary<RsqrtOp>(n.binary<AddOp>(variance, n.scalar(epsilon, x)));
  return n.set(inverseOutput, n.wrap(n.reshape(inverse, sizes)));
}

template <bool rms> static LogicalResult importNorm(Node &n) {
  if (failed(n.expectInputs(2, rms ? 2 : 3)) || failed(n.expectFloat(0)))
    return failure();
  const Tensor &x = n.in(0);
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", -1), x.rank());
  double epsilon = n.getFloat("epsilon", 1e-5);
  n.ignore("stash_type");
  if (failed(axis) || n.failed())
    return failure();
  for (unsigned i = 1; i < n.numInputs(); ++i)
    if (n.has(i) && n.in(i).element != x.element)
      return n.error() << "normalizes " << x.element << " by a vector of " << n.in(i).element
                       << "; the types must be the same";
  ArrayRef<SymExpr> normalized = ArrayRef(x.shape).drop_front(*axis);
  // Several normalized dimensions become one.
  Sizes flat(x.shape.begin(), x.shape.begin() + *axis);
  flat.push_back(product(normalized));
  Value v = n.reshape(n.operand(0), flat), scale = normVector(n, 1, normalized);
  Value bias = n.has(2) ? normVector(n, 2, normalized) : Value();
  if (n.failed())
    return failure();
  Sizes ones(x.shape.begin(), x.shape.begin() + *axis);
  ones.append(normalized.size(), SymExpr(1));
  if (failed(
          setStatistics(n, v, epsilon, ones, rms ? std::nullopt : std::optional(1u), rms ? 1 : 2)))
    return failure();
  Value y = rms ? n.rmsNorm(v, scale, epsilon) : n.layerNorm(v, scale, bias, epsilon);
  return n.result(n.reshape(y, x.shape));
}

/// Imports SkipLayerNormalization: the sum input + skip (+ bias), an optional output, and its norm.
template <bool rms> static LogicalResult importSkipNorm(Node &n) {
  // Inputs: input, skip, gamma, (beta,) bias.
  if (failed(n.expectInputs(3, rms ? 4 : 5)) || failed(n.expectFloat(0)))
    return failure();
  double epsilon = n.getFloat("epsilon", 1e-12);
  if (n.in(0).rank() < 1)
    return n.error() << "normalizes a scalar";
  for (unsigned i : {1, 2})
    if (failed(n.expectUnused(i, "statistics")))
      return failure();
  unsigned biasInput = rms ? 3 : 4;
  Value sum = n.binary<AddOp>(n.operand(0), n.operand(1));
  if (n.has(biasInput))
    sum = n.binary<AddOp>(sum, n.operand(biasInput));
  if (!sum)
    return failure();
  ArrayRef<SymExpr> width = ArrayRef(n.in(0).shape).take_back(1);
  Value scale = normVector(n, 2, width);
  Value beta = !rms && n.has(3) ? normVector(n, 3, width) : Value();
  if (n.failed())
    return failure();
  if (n.isUsed(3) && failed(n.set(3, n.wrap(sum))))
    return failure();
  return n.result(rms ? n.rmsNorm(sum, scale, epsilon) : n.layerNorm(sum, scale, beta, epsilon));
}

void mlir::tpc::frontend::addNormOps(OpTable &t) {
  // PyTorch 1.5 writes LayerNormalization in ai.onnx for any operator set. ONNX Runtime does so
  // with SimplifiedLayerNormalization.
  t.add("LayerNormalization", {1, 17}, importNorm<false>,
        "scale and bias have the element type of the input");
  t.add("SimplifiedLayerNormalization", {1}, importNorm<true>,
        "scale has the element type of the input");
  t.add("RMSNormalization", {23}, importNorm<true>, "scale has the element type of the input");
  t.addMicrosoft("LayerNormalization", importNorm<false>,
                 "scale and bias have the element type of the input");
  t.addMicrosoft("SimplifiedLayerNormalization", importNorm<true>,
                 "scale has the element type of the input");
  t.addMicrosoft("SkipLayerNormalization", importSkipNorm<false>,
                 "outputs mean and inv_std_var unused");
  t.addMicrosoft("SkipSimplifiedLayerNormalization", importSkipNorm<true>,
                 "outputs mean and inv_std_var unused");
}
