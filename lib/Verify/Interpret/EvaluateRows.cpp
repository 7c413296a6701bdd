//===- EvaluateRows.cpp - Norms, sums and their like on one rank ----------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
auto Evaluation<A>::mapLines(int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f)
    -> Value {
  Value out = *operands[0];
  int64_t n = out.shape[dim], inner = countElements(ArrayRef(out.shape).drop_front(dim + 1));
  int64_t outer = countElements(ArrayRef(out.shape).take_front(dim));
  std::vector<Element> line(n);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      auto at = [&](int64_t x) -> Element & { return out.data[(o * n + x) * inner + i]; };
      for (int64_t x = 0; x < n; ++x)
        line[x] = at(x);
      f(line);
      for (int64_t x = 0; x < n; ++x)
        at(x) = line[x];
    }
  return out;
}

template <typename A> auto Evaluation<A>::evaluateNorm(double epsilon, bool center) -> Result {
  const Value &x = *operands[0];
  int64_t n = x.shape.empty() ? 1 : x.shape.back();
  for (const Value *row : operands.drop_front())
    if (row->shape != Shape({n}))
      return fail() << "a row on a rank has " << n << " elements, its scale another number";
  Value out = x;
  for (size_t begin = 0; n > 0 && begin < out.data.size(); begin += n) {
    MutableArrayRef<Element> row(&out.data[begin], n);
    A::normalize(row, epsilon, center);
    for (int64_t i = 0; i < n; ++i) {
      row[i] = A::multiply(row[i], operands[1]->data[i]);
      row[i] = operands.size() > 2 ? A::add(row[i], operands[2]->data[i]) : row[i];
    }
  }
  return out;
}

template <typename A> auto Evaluation<A>::evaluateReduce(ReduceOp reduce) -> Result {
  const Value &in = *operands[0];
  ReduceFunction function = reduce.getFunction();
  Shape kept = in.shape;
  int64_t count = 1;
  for (int64_t d : reduce.getDims()) {
    count *= kept[d];
    kept[d] = 1;
  }
  // Nothing is the least (largest) of all numbers.
  Value out(kept, function == ReduceFunction::Max   ? A::least()
                  : function == ReduceFunction::Min ? A::largest()
                                                    : Element(0));
  size_t next = 0;
  forEachIndex(in.shape, [&](ArrayRef<int64_t> index) {
    Element x = in.data[next++], &y = out.data[linearizeBroadcast(index, kept)];
    if (function == ReduceFunction::Max)
      y = A::less(y, x) ? x : y;
    else if (function == ReduceFunction::Min)
      y = A::less(x, y) ? x : y;
    else
      y = A::add(y, x);
  });
  if (function == ReduceFunction::Mean)
    for (Element &y : out.data)
      y = A::multiply(y, A::inverse(count));
  if (int64_t(out.data.size()) != countElements(shape))
    return fail() << "the parts on a rank do not fit";
  out.shape = shape;
  return out;
}

template <typename A> auto Evaluation<A>::evaluateRotary(bool interleaved) -> Result {
  const Value &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  int64_t half = cos.shape[2];
  for (const Value *table : {&cos, &sin})
    if (table->shape[1] != x.shape[1] || table->shape[2] != half || 2 * half > x.shape[3] ||
        (table->shape[0] != 1 && table->shape[0] != x.shape[0]))
      return fail() << "the tables on a rank do not fit";
  Value out = x;
  forEachIndex({x.shape[0], x.shape[1], x.shape[2], half}, [&](ArrayRef<int64_t> index) {
    int64_t i = index[3], row = linearize(index.drop_back(), x.shape) * x.shape[3];
    int64_t first = row + (interleaved ? 2 * i : i), second = first + (interleaved ? 1 : half);
    int64_t place[] = {index[0], index[1], i};
    Element c = cos.data[linearizeBroadcast(place, cos.shape)];
    Element w = sin.data[linearizeBroadcast(place, sin.shape)];
    out.data[first] =
        A::add(A::multiply(x.data[first], c), A::negate(A::multiply(x.data[second], w)));
    out.data[second] = A::add(A::multiply(x.data[second], c), A::multiply(x.data[first], w));
  });
  return out;
}

template <typename A> auto Evaluation<A>::runRow() -> std::optional<Result> {
  if (auto norm = dyn_cast<LayerNormOp>(op))
    return evaluateNorm(norm.getEpsilon().convertToDouble(), true);
  if (auto norm = dyn_cast<RmsNormOp>(op))
    return evaluateNorm(norm.getEpsilon().convertToDouble(), false);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return evaluateReduce(reduce);
  if (auto rotary = dyn_cast<RotaryOp>(op))
    return evaluateRotary(rotary.getInterleaved());
  if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
    std::vector<char> all(operands[0]->shape[softmax.getDim()], true);
    return Result(mapLines(softmax.getDim(),
                           [&](MutableArrayRef<Element> line) { A::softmax(line, all, false); }));
  }
  if (auto cumsum = dyn_cast<CumSumOp>(op))
    return Result(mapLines(cumsum.getDim(), [&](MutableArrayRef<Element> line) {
      if (cumsum.getReverse())
        std::reverse(line.begin(), line.end());
      Element sum = 0;
      for (Element &x : line) {
        Element next = A::add(sum, x);
        x = cumsum.getExclusive() ? sum : next;
        sum = next;
      }
      if (cumsum.getReverse())
        std::reverse(line.begin(), line.end());
    }));
  return std::nullopt;
}

template std::optional<Evaluation<Doubles>::Result> Evaluation<Doubles>::runRow();
template std::optional<Evaluation<Field>::Result> Evaluation<Field>::runRow();
