//===- EvaluateSources.cpp - Evaluation of ops without operands -----------===//

#include "Inputs.h"
#include "Models.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

/// Calls `visit` with the index in the weight file of each element of a shard, in row-major order.
/// Returns the shard's shape.
static Shape forEachElement(World &world, ViewAttr view, Type type, const Coordinates &at,
                            function_ref<void(int64_t)> visit) {
  SmallVector<::tpc::SymExpr> sizes = getSizes(type);
  // The offset of an element in the weight file is a sum over its dimensions.
  const RankSlice &part = world.getSlice(type, at);
  SmallVector<std::vector<int64_t>> offsets;
  for (auto [d, list] : llvm::enumerate(part.indices)) {
    std::vector<int64_t> &ofDim = offsets.emplace_back();
    int64_t n = sizes[d].asConstant().value_or(1);
    auto factors = view.getFactors(d);
    for (int64_t i : list) {
      int64_t rest = world.getSizes().spread(i, n), element = 0;
      for (StridedFactorAttr factor : llvm::reverse(factors)) {
        int64_t size = std::max<int64_t>(1, factor.getSize());
        element += rest % size * factor.getStride();
        rest /= size;
      }
      ofDim.push_back(element);
    }
  }
  forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
    int64_t element = view.getOffset();
    for (size_t d = 0; d < index.size(); ++d)
      element += offsets[d][index[d]];
    visit(element);
  });
  return part.shape;
}

/// Returns the random direction at an element of a weight, independent of the element's value.
static double directionAt(uint64_t key, int64_t element) {
  return Doubles::random(~key, uint64_t(element));
}

template <typename A>
FailureOr<Data<A>> interpret::drawParameter(World &world, StringRef name, ViewAttr view, Type type,
                                            const Coordinates &at) {
  const World::Weight &weight = world.getWeight(name);
  if (!weight.op)
    return failure();
  RankedTensorType whole = WeightOp(weight.op).getType();
  if (!view)
    view = ViewAttr::getDense(type.getContext(), whole.getShape());
  // Size of the dimension that a matmul by this weight reduces.
  int64_t rank = whole.getRank();
  int64_t fanIn =
      rank < 2 ? 0 : std::max<int64_t>(1, world.getSizes().evaluate(whole.getDimSize(rank - 2)));
  double gain = world.getGain(name), change = world.changes ? world.changes->lookup(name) : 0;
  auto byte = dyn_cast<IntegerType>(whole.getElementType());
  bool isByte = byte && byte.getWidth() == 8; // quantized weights: any bit pattern
  Data<A> out;
  out.shape = forEachElement(world, view, type, at, [&](int64_t element) {
    if (isByte) {
      out.data.push_back(
          A::fromInteger(int64_t(hash(weight.key, element) % 256) - (isUnsigned(byte) ? 0 : 128)));
      return;
    }
    out.data.push_back(A::makeWeight(weight.key, element, fanIn, gain));
    if constexpr (std::is_same_v<A, Doubles>)
      out.data.back() *= 1 + change * directionAt(weight.key, element);
  });
  return out;
}

FailureOr<Tensor<double>> interpret::drawDirection(World &world, StringRef name, ViewAttr view,
                                                   Type type, const Coordinates &at) {
  const World::Weight &weight = world.getWeight(name);
  if (!weight.op)
    return failure();
  if (!view)
    view = ViewAttr::getDense(type.getContext(), WeightOp(weight.op).getType().getShape());
  Tensor<double> out;
  out.shape = forEachElement(world, view, type, at, [&](int64_t element) {
    out.data.push_back(directionAt(weight.key, element));
  });
  return out;
}
template FailureOr<Data<Doubles>> interpret::drawParameter<Doubles>(World &, StringRef, ViewAttr,
                                                                    Type, const Coordinates &);

namespace {
struct ParameterEvaluation : EvaluationModel<ParameterEvaluation, ParameterOp> {
  template <typename A> static Result<A> evaluate(ParameterOp op, Evaluation<A> &e) {
    auto drawn = drawParameter<A>(e.world, op.getWeight(), op.getViewAttr(), op.getType(), e.at);
    if (failed(drawn))
      return e.fail() << "there is no weight @" << op.getWeight();
    return drawn;
  }
};

struct ConstantEvaluation : EvaluationModel<ConstantEvaluation, ConstantOp> {
  template <typename A> static Result<A> evaluate(ConstantOp op, Evaluation<A> &e) {
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!dense)
      return e.fail() << "its value cannot be read";
    const Indices &indices = e.getSlice(op.getResult()).indices;
    ArrayRef<int64_t> original = dense.getType().getShape();
    bool floats = isa<FloatType>(dense.getElementType());
    bool hasNoSign = isUnsigned(dense.getElementType());
    auto get = [&](int64_t i) -> typename A::Element {
      if (!floats) {
        APInt x = dense.getValues<APInt>()[i];
        return A::fromInteger(hasNoSign ? x.getZExtValue() : x.getSExtValue());
      }
      return A::fromNumber(dense.getValues<APFloat>()[i].convertToDouble());
    };
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      int64_t element = 0;
      for (auto [d, i] : llvm::enumerate(index))
        element = element * original[d] + e.world.getSizes().spread(indices[d][i], original[d]);
      out.data[next++] = get(element);
    });
    return out;
  }
};

struct SizeEvaluation : EvaluationModel<SizeEvaluation, SizeOp> {
  template <typename A> static Result<A> evaluate(SizeOp op, Evaluation<A> &e) {
    int64_t size = e.world.getSizes().evaluate(op.getExpr());
    return Data<A>(e.shape, A::fromInteger(size));
  }
};

struct IotaEvaluation : EvaluationModel<IotaEvaluation, IotaOp> {
  template <typename A> static Result<A> evaluate(IotaOp op, Evaluation<A> &e) {
    const Indices &indices = e.getSlice(op.getResult()).indices;
    int64_t dim = op.getDim();
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      out.data[next++] = A::fromInteger(indices[dim][index[dim]]);
    });
    return out;
  }
};
} // namespace

void interpret::attachSourceEvaluations(MLIRContext *context) {
  ParameterOp::attachInterface<ParameterEvaluation>(*context);
  ConstantOp::attachInterface<ConstantEvaluation>(*context);
  SizeOp::attachInterface<SizeEvaluation>(*context);
  IotaOp::attachInterface<IotaEvaluation>(*context);
}
