//===- EvaluateSources.cpp - Weights and constants on one rank ------------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

/// An element of a weight is a random function of its place in the file. Sizes that are made small
/// take elements from all over the large ones, so that views of different order differ.
template <typename A> auto Evaluation<A>::evaluateParameter(ParameterOp parameter) -> Result {
  const World::Weight &weight = world.getWeight(parameter.getWeight());
  if (!weight.op)
    return fail() << "there is no weight @" << parameter.getWeight();
  RankedTensorType type = WeightOp(weight.op).getType();
  ViewAttr view = parameter.getViewAttr() ? parameter.getViewAttr() : parameter.getViewOrDense();
  SmallVector<::tpc::SymExpr> sizes = getSizes(parameter.getResult());
  // Places are sums over dimensions.
  SmallVector<std::vector<int64_t>> offsets;
  for (auto [d, list] : llvm::enumerate(getPart(parameter.getResult()).indices)) {
    std::vector<int64_t> &own = offsets.emplace_back();
    int64_t n = sizes[d].asConstant().value_or(1);
    auto factors = view.getFactors(d);
    for (int64_t i : list) {
      int64_t rest = world.getSizes().spread(i, n), element = 0;
      for (StridedFactorAttr factor : llvm::reverse(factors)) {
        int64_t size = std::max<int64_t>(1, factor.getSize());
        element += rest % size * factor.getStride();
        rest /= size;
      }
      own.push_back(element);
    }
  }
  Value out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t element = view.getOffset();
    for (size_t d = 0; d < index.size(); ++d)
      element += offsets[d][index[d]];
    out.data[next++] = A::makeWeight(weight.key, element, type);
  });
  return out;
}

template <typename A> auto Evaluation<A>::evaluateConstant(ConstantOp constant) -> Result {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense)
    return fail() << "its value cannot be read";
  const Indices &indices = getPart(constant.getResult()).indices;
  ArrayRef<int64_t> original = dense.getType().getShape();
  bool floats = isa<FloatType>(dense.getElementType());
  auto get = [&](int64_t i) -> Element {
    if (!floats) {
      APInt x = dense.getValues<APInt>()[i];
      return A::fromInteger(x.getBitWidth() == 1 ? x.getZExtValue() : x.getSExtValue());
    }
    APFloat x = dense.getValues<APFloat>()[i];
    bool lossy;
    x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return A::fromNumber(x.convertToDouble());
  };
  Value out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t element = 0;
    for (auto [d, i] : llvm::enumerate(index))
      element = element * original[d] + world.getSizes().spread(indices[d][i], original[d]);
    out.data[next++] = get(element);
  });
  return out;
}

template <typename A> auto Evaluation<A>::runSource() -> std::optional<Result> {
  if (auto parameter = dyn_cast<ParameterOp>(op))
    return evaluateParameter(parameter);
  if (auto constant = dyn_cast<ConstantOp>(op))
    return evaluateConstant(constant);
  if (auto size = dyn_cast<SizeOp>(op))
    return Result(Value(shape, A::fromInteger(world.getSizes().evaluate(size.getExpr()))));
  if (auto iota = dyn_cast<IotaOp>(op)) {
    const Indices &indices = getPart(iota.getResult()).indices;
    int64_t dim = iota.getDim();
    Value out(shape);
    size_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      out.data[next++] = A::fromInteger(indices[dim][index[dim]]);
    });
    return Result(std::move(out));
  }
  return std::nullopt;
}

template std::optional<Evaluation<Doubles>::Result> Evaluation<Doubles>::runSource();
template std::optional<Evaluation<Field>::Result> Evaluation<Field>::runSource();
