//===- EvaluateRows.cpp - Evaluation of ops on rows -----------------------===//

#include "Models.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
static Result<A> evaluateNorm(Evaluation<A> &e, const APFloat &epsilon, bool center) {
  const Data<A> &x = *e.operands[0];
  int64_t n = x.shape.empty() ? 1 : x.shape.back();
  for (const Data<A> *vector : e.operands.drop_front())
    if (vector->shape != Shape({n}))
      return e.fail() << "a row on a rank has " << n
                      << " elements, but its scale or bias has another number";
  Data<A> out = x;
  for (size_t begin = 0; n > 0 && begin < out.data.size(); begin += n) {
    MutableArrayRef<typename A::Element> row(&out.data[begin], n);
    A::normalize(row, epsilon.convertToDouble(), center);
    for (int64_t i = 0; i < n; ++i) {
      row[i] = A::multiply(row[i], e.operands[1]->data[i]);
      row[i] = e.operands.size() > 2 ? A::add(row[i], e.operands[2]->data[i]) : row[i];
    }
  }
  return out;
}

namespace {
struct LayerNormEvaluation : EvaluationModel<LayerNormEvaluation, LayerNormOp> {
  template <typename A> static Result<A> evaluate(LayerNormOp op, Evaluation<A> &e) {
    return evaluateNorm(e, op.getEpsilon(), /*center=*/true);
  }
};

struct RmsNormEvaluation : EvaluationModel<RmsNormEvaluation, RmsNormOp> {
  template <typename A> static Result<A> evaluate(RmsNormOp op, Evaluation<A> &e) {
    return evaluateNorm(e, op.getEpsilon(), /*center=*/false);
  }
};

struct ReduceEvaluation : EvaluationModel<ReduceEvaluation, ReduceOp> {
  template <typename A> static Result<A> evaluate(ReduceOp op, Evaluation<A> &e) {
    const Data<A> &in = *e.operands[0];
    ReduceFunction function = op.getFunction();
    Shape reduced = in.shape;
    int64_t count = 1;
    for (int64_t d : op.getDims()) {
      count *= reduced[d];
      reduced[d] = 1;
    }
    // The maximum (minimum) of no elements is the smallest (largest) number.
    Data<A> out(reduced, function == ReduceFunction::Max   ? A::lowest()
                         : function == ReduceFunction::Min ? A::largest()
                                                           : typename A::Element(0));
    size_t next = 0;
    forEachIndex(in.shape, [&](ArrayRef<int64_t> index) {
      typename A::Element x = in.data[next++], &y = out.data[linearizeBroadcast(index, reduced)];
      // NaN propagates.
      if (function == ReduceFunction::Max)
        y = A::less(y, x) || x != x ? x : y;
      else if (function == ReduceFunction::Min)
        y = A::less(x, y) || x != x ? x : y;
      else
        y = A::add(y, x);
    });
    if (function == ReduceFunction::Mean)
      for (typename A::Element &y : out.data)
        y = A::multiply(y, A::inverse(count));
    if (int64_t(out.data.size()) != countElements(e.shape))
      return e.fail() << "the result's shape on a rank is not that of the reduced operand";
    out.shape = e.shape;
    return out;
  }
};

struct RotaryEvaluation : EvaluationModel<RotaryEvaluation, RotaryOp> {
  template <typename A> static Result<A> evaluate(RotaryOp op, Evaluation<A> &e) {
    const Data<A> &x = *e.operands[0], &cos = *e.operands[1], &sin = *e.operands[2];
    int64_t half = cos.shape[2];
    for (const Data<A> *table : {&cos, &sin})
      if (table->shape[1] != x.shape[1] || table->shape[2] != half || 2 * half > x.shape[3] ||
          (table->shape[0] != 1 && table->shape[0] != x.shape[0]))
        return e.fail() << "the shapes of the tables do not match the operand on a rank";
    Data<A> out = x;
    forEachIndex({x.shape[0], x.shape[1], x.shape[2], half}, [&](ArrayRef<int64_t> index) {
      int64_t i = index[3], row = linearize(index.drop_back(), x.shape) * x.shape[3];
      int64_t first = row + (op.getInterleaved() ? 2 * i : i),
              second = first + (op.getInterleaved() ? 1 : half);
      int64_t position[] = {index[0], index[1], i};
      typename A::Element c = cos.data[linearizeBroadcast(position, cos.shape)];
      typename A::Element w = sin.data[linearizeBroadcast(position, sin.shape)];
      out.data[first] =
          A::add(A::multiply(x.data[first], c), A::negate(A::multiply(x.data[second], w)));
      out.data[second] = A::add(A::multiply(x.data[second], c), A::multiply(x.data[first], w));
    });
    return out;
  }
};

struct SoftmaxEvaluation : EvaluationModel<SoftmaxEvaluation, SoftmaxOp> {
  template <typename A> static Result<A> evaluate(SoftmaxOp op, Evaluation<A> &e) {
    std::vector<char> all(e.operands[0]->shape[op.getDim()], true);
    return e.mapLines(op.getDim(), [&](MutableArrayRef<typename A::Element> line) {
      A::softmax(line, all, /*uniform=*/false);
    });
  }
};

struct CumSumEvaluation : EvaluationModel<CumSumEvaluation, CumSumOp> {
  template <typename A> static Result<A> evaluate(CumSumOp op, Evaluation<A> &e) {
    return e.mapLines(op.getDim(), [&](MutableArrayRef<typename A::Element> line) {
      if (op.getReverse())
        std::reverse(line.begin(), line.end());
      typename A::Element sum = 0;
      for (auto &x : line) {
        typename A::Element next = A::add(sum, x);
        x = op.getExclusive() ? sum : next;
        sum = next;
      }
      if (op.getReverse())
        std::reverse(line.begin(), line.end());
    });
  }
};
} // namespace

void interpret::attachRowEvaluations(MLIRContext *context) {
  LayerNormOp::attachInterface<LayerNormEvaluation>(*context);
  RmsNormOp::attachInterface<RmsNormEvaluation>(*context);
  ReduceOp::attachInterface<ReduceEvaluation>(*context);
  RotaryOp::attachInterface<RotaryEvaluation>(*context);
  SoftmaxOp::attachInterface<SoftmaxEvaluation>(*context);
  CumSumOp::attachInterface<CumSumEvaluation>(*context);
}
