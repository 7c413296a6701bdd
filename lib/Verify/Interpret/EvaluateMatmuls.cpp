//===- EvaluateMatmuls.cpp - Evaluation of matmuls and experts ------------===//

#include "Models.h"

#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
struct MatmulEvaluation : EvaluationModel<MatmulEvaluation, MatmulOp> {
  template <typename A> static Result<A> evaluate(MatmulOp op, Evaluation<A> &e) {
    const Data<A> &a = *e.operands[0], &b = *e.operands[1];
    const Data<A> *bias = e.operands.size() > 2 ? e.operands[2] : nullptr;
    unsigned inner = a.shape.size() == 1 ? 1 : 2;
    int64_t k = a.shape.back(), n = b.shape.back(), m = inner == 1 ? 1 : a.shape.end()[-2];
    ArrayRef<int64_t> batch = ArrayRef(e.shape).drop_back(inner);
    ArrayRef<int64_t> left = ArrayRef(a.shape).drop_back(inner);
    ArrayRef<int64_t> right = ArrayRef(b.shape).drop_back(2);
    if (b.shape.end()[-2] != k || e.shape.back() != n || (inner == 2 && e.shape.end()[-2] != m) ||
        (bias && bias->shape.back() != n) || !broadcasts(left, batch) || !broadcasts(right, batch))
      return e.fail() << "the matmul operands on a rank do not match";
    Data<A> out(e.shape);
    forEachIndex(batch, [&](ArrayRef<int64_t> index) {
      int64_t pa = linearizeBroadcast(index, left) * m * k;
      int64_t pb = linearizeBroadcast(index, right) * k * n;
      int64_t po = linearize(index, batch) * m * n;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          typename A::Sum sum;
          for (int64_t x = 0; x < k; ++x)
            sum.add(a.data[pa + i * k + x], b.data[pb + x * n + j]);
          out.data[po + i * n + j] = bias ? A::add(sum.get(), bias->data[j]) : sum.get();
        }
    });
    return out;
  }
  double countWork(Operation *op, llvm::function_ref<double(DimAttr)> count) const {
    return count(getDist(cast<MatmulOp>(op).getLhs()).getDims().back());
  }
};

/// Packed integers are exact in both arithmetic domains.
struct DequantizeEvaluation : EvaluationModel<DequantizeEvaluation, DequantizeOp> {
  template <typename A> static Result<A> evaluate(DequantizeOp op, Evaluation<A> &e) {
    const Data<A> &packed = *e.operands[0], &scale = *e.operands[1];
    const Data<A> *zero = op.getZero() ? e.operands[2] : nullptr;
    auto covers = [&](const Data<A> *t) { return !t || broadcasts(t->shape, e.shape); };
    if (packed.shape != Shape(ArrayRef(e.shape).drop_back()) || !covers(&scale) || !covers(zero))
      return e.fail() << "the shapes of the operands do not match on a rank";
    int64_t bits = op.getBits(), range = int64_t(1) << bits;
    bool isSigned = !isUnsigned(op.getPacked().getType());
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      int64_t byte = A::toInteger(packed.data[linearize(index.drop_back(), packed.shape)]) & 255;
      int64_t q = byte / (int64_t(1) << (bits * index.back())) % range;
      if (isSigned && q >= range / 2)
        q -= range;
      typename A::Element offset = zero ? zero->data[linearizeBroadcast(index, zero->shape)]
                                        : A::fromInteger(int64_t(op.getZeroPoint()));
      out.data[next++] = A::multiply(A::add(A::fromInteger(q), A::negate(offset)),
                                     scale.data[linearizeBroadcast(index, scale.shape)]);
    });
    return out;
  }
};

double getActivated(MoeOp op, double z) {
  switch (op.getActivation()) {
  case ExpertActivation::Identity:
    return z;
  case ExpertActivation::GeluErf:
    return 0.5 * z * (1 + std::erf(z / std::sqrt(2.0)));
  case ExpertActivation::GeluTanh:
    return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
  case ExpertActivation::Silu:
    return z / (1 + std::exp(-op.getAlpha().convertToDouble() * z));
  case ExpertActivation::Relu:
    return z > 0 || std::isnan(z) ? z : 0;
  }
  llvm_unreachable("all activations are listed");
}

/// One element of the inner dimension, from x · up and x · gate.
double getInner(MoeOp op, double u, double v) {
  if (!op.getGate())
    return getActivated(op, u);
  if (double limit = op.getLimit().convertToDouble(); limit != 0) {
    v = v > limit ? limit : v;
    u = u > limit ? limit : u < -limit ? -limit : u;
  }
  return getActivated(op, v) * (u + op.getBeta().convertToDouble());
}

/// Over the field, the function of u and v is a hash.
uint64_t getInner(MoeOp op, uint64_t u, uint64_t v) {
  std::string text;
  llvm::raw_string_ostream(text) << "inner " << stringifyExpertActivation(op.getActivation());
  for (const APFloat &number : {op.getAlpha(), op.getBeta(), op.getLimit()})
    llvm::raw_string_ostream(text) << " " << number.convertToDouble();
  uint64_t key = hashText(text);
  return op.getGate() ? hash(key, Field::add(u, hash(key, v))) : hash(key, u);
}

/// A rank computes the terms of its experts, whose columns of the routing it finds by their global
/// indices.
struct MoeEvaluation : EvaluationModel<MoeEvaluation, MoeOp> {
  template <typename A> static Result<A> evaluate(MoeOp op, Evaluation<A> &e) {
    auto get = [&](Value v) -> const Data<A> * {
      for (auto [operand, data] : llvm::zip(op->getOperands(), e.operands))
        if (operand == v)
          return data;
      return nullptr;
    };
    const Data<A> &x = *get(op.getX()), &routing = *get(op.getRouting()), &up = *get(op.getUp());
    const Data<A> &down = *get(op.getDown());
    const Data<A> *gate = get(op.getGate()), *upBias = get(op.getUpBias()),
                  *gateBias = get(op.getGateBias());
    int64_t tokens = x.shape[0], hidden = x.shape[1], all = routing.shape[1];
    int64_t experts = up.shape[0], inner = up.shape[1], outputs = down.shape[1];
    ArrayRef<std::vector<int64_t>> owned = e.getSlice(op.getUp()).indices;
    Shape bias{experts, inner};
    auto fits = [](const Data<A> *data, ArrayRef<int64_t> shape) {
      return !data || ArrayRef<int64_t>(data->shape) == shape;
    };
    if (routing.shape[0] != tokens || e.shape != Shape{tokens, outputs} || up.shape[2] != hidden ||
        !fits(&down, {experts, outputs, inner}) || !fits(gate, up.shape) || !fits(upBias, bias) ||
        !fits(gateBias, bias) || owned[0] != e.getSlice(op.getDown()).indices[0] ||
        (gate && owned[0] != e.getSlice(op.getGate()).indices[0]) ||
        owned[1] != e.getSlice(op.getDown()).indices[2] ||
        all != e.world.getWholeShape(op.getUp().getType())[0])
      return e.fail() << "the experts' operands on a rank do not match";
    Data<A> out(e.shape);
    auto project = [&](const Data<A> *w, const Data<A> *b, int64_t t, int64_t row) {
      typename A::Sum sum;
      for (int64_t h = 0; h < hidden; ++h)
        sum.add(x.data[t * hidden + h], w->data[row * hidden + h]);
      return b ? A::add(sum.get(), b->data[row]) : sum.get();
    };
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t i = 0; i < experts; ++i) {
        typename A::Element weight = routing.data[t * all + owned[0][i]];
        if (weight == typename A::Element(0))
          continue;
        std::vector<typename A::Element> h(inner);
        for (int64_t f = 0; f < inner; ++f) {
          int64_t row = i * inner + f;
          h[f] = getInner(op, project(&up, upBias, t, row),
                          gate ? project(gate, gateBias, t, row) : typename A::Element(0));
        }
        for (int64_t o = 0; o < outputs; ++o) {
          typename A::Sum sum;
          for (int64_t f = 0; f < inner; ++f)
            sum.add(h[f], down.data[(i * outputs + o) * inner + f]);
          out.data[t * outputs + o] =
              A::add(out.data[t * outputs + o], A::multiply(weight, sum.get()));
        }
      }
    return out;
  }
  double countWork(Operation *base, llvm::function_ref<double(DimAttr)> count) const {
    ArrayRef<DimAttr> up = getDist(cast<MoeOp>(base).getUp()).getDims();
    return 3 * count(up[0]) * count(up[1]);
  }
};
} // namespace

void interpret::attachProductEvaluations(MLIRContext *context) {
  MatmulOp::attachInterface<MatmulEvaluation>(*context);
  DequantizeOp::attachInterface<DequantizeEvaluation>(*context);
  MoeOp::attachInterface<MoeEvaluation>(*context);
}
