//===- FieldRows.cpp - Norms, sums and their like over a prime field ------===//

#include "FieldEvaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// (x - f(sum of x)) g(sum of x, sum of x^2) scale + bias.
FailureOr<Tensor> Evaluation::norm(double epsilon, bool center) {
  const Tensor &x = *operands[0];
  int64_t n = x.shape.empty() ? 1 : x.shape.back();
  for (const Tensor *row : operands.drop_front())
    if (row->shape != Shape({n}))
      return fail() << "a row on a rank has " << n << " elements, its scale another number";
  Element key = hashDouble(hashText("norm") + center, epsilon);
  Tensor out = x;
  for (size_t begin = 0; n > 0 && begin < out.data.size(); begin += n) {
    Accumulator sum, squares;
    for (int64_t i = 0; i < n; ++i) {
      sum.add(x.data[begin + i], 1);
      squares.add(x.data[begin + i], x.data[begin + i]);
    }
    Element mean = center ? hash(key + 1, sum.get()) : 0;
    Element factor = hash(key + 2, addMod(squares.get(), hash(key + 3, mean)));
    for (int64_t i = 0; i < n; ++i) {
      Element y = multiply(addMod(x.data[begin + i], negate(mean)), factor);
      y = multiply(y, operands[1]->data[i]);
      out.data[begin + i] = operands.size() > 2 ? addMod(y, operands[2]->data[i]) : y;
    }
  }
  return out;
}

void Evaluation::alongDim(Tensor &tensor, int64_t dim,
                          llvm::function_ref<void(MutableArrayRef<Element>)> f) {
  Shape outer = tensor.shape;
  int64_t n = outer[dim];
  outer[dim] = 1;
  std::vector<Element> line(n);
  forEachIndex(outer, [&](ArrayRef<int64_t> index) {
    Shape place(index);
    for (int64_t i = 0; i < n; ++i) {
      place[dim] = i;
      line[i] = tensor.data[linearize(place, tensor.shape)];
    }
    f(line);
    for (int64_t i = 0; i < n; ++i) {
      place[dim] = i;
      tensor.data[linearize(place, tensor.shape)] = line[i];
    }
  });
}

FailureOr<Tensor> Evaluation::softmax(int64_t dim) {
  Tensor out = *operands[0];
  uint64_t key = hashText("softmax");
  alongDim(out, dim, [&](MutableArrayRef<Element> line) {
    Element total = 0;
    for (Element &x : line)
      total = addMod(total, x = hash(key, x));
    for (Element &x : line)
      x = multiply(x, hash(key + 1, total));
  });
  return out;
}

FailureOr<Tensor> Evaluation::cumsum(CumSumOp cumsum) {
  Tensor out = *operands[0];
  alongDim(out, cumsum.getDim(), [&](MutableArrayRef<Element> line) {
    if (cumsum.getReverse())
      std::reverse(line.begin(), line.end());
    Element sum = 0;
    for (Element &x : line) {
      Element next = addMod(sum, x);
      x = cumsum.getExclusive() ? sum : next;
      sum = next;
    }
    if (cumsum.getReverse())
      std::reverse(line.begin(), line.end());
  });
  return out;
}

FailureOr<Tensor> Evaluation::reduce(ReduceOp reduce) {
  const Tensor &in = *operands[0];
  Shape kept = in.shape;
  int64_t count = 1;
  for (int64_t d : reduce.getDims()) {
    count *= kept[d];
    kept[d] = 1;
  }
  Tensor out(kept);
  std::vector<bool> seen(out.data.size());
  size_t next = 0;
  forEachIndex(in.shape, [&](ArrayRef<int64_t> index) {
    Shape place(index);
    for (int64_t d : reduce.getDims())
      place[d] = 0;
    size_t i = linearize(place, kept);
    Element x = in.data[next++], &y = out.data[i];
    bool first = !seen[i];
    seen[i] = true;
    switch (reduce.getFunction()) {
    case ReduceFunction::Sum:
    case ReduceFunction::Mean:
      y = addMod(y, x);
      break;
    case ReduceFunction::Max:
      y = first || toInteger(x) > toInteger(y) ? x : y;
      break;
    case ReduceFunction::Min:
      y = first || toInteger(x) < toInteger(y) ? x : y;
      break;
    }
  });
  if (reduce.getFunction() == ReduceFunction::Mean)
    for (Element &y : out.data)
      y = multiply(y, hash(hashText("mean"), count));
  // Nothing is the least (largest) of all numbers.
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i] && reduce.getFunction() == ReduceFunction::Max)
      out.data[i] = prime / 2 + 1;
    else if (!seen[i] && reduce.getFunction() == ReduceFunction::Min)
      out.data[i] = prime / 2;
  if (out.data.size() != Tensor(shape).data.size())
    return fail() << "the parts on a rank do not fit";
  out.shape = shape;
  return out;
}

FailureOr<Tensor> Evaluation::rotary(bool interleaved) {
  const Tensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  int64_t half = cos.shape[2];
  for (const Tensor *table : {&cos, &sin})
    if (table->shape[1] != x.shape[1] || table->shape[2] != half || 2 * half > x.shape[3] ||
        (table->shape[0] != 1 && table->shape[0] != x.shape[0]))
      return fail() << "the tables on a rank do not fit";
  Tensor out = x;
  forEachIndex({x.shape[0], x.shape[1], x.shape[2], half}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], s = index[1], i = index[3];
    int64_t row = ((b * x.shape[1] + s) * x.shape[2] + index[2]) * x.shape[3];
    int64_t first = row + (interleaved ? 2 * i : i), second = first + (interleaved ? 1 : half);
    auto from = [&](const Tensor &t) {
      return t.data[((t.shape[0] == 1 ? 0 : b) * t.shape[1] + s) * half + i];
    };
    Element c = from(cos), w = from(sin);
    out.data[first] = addMod(multiply(x.data[first], c), negate(multiply(x.data[second], w)));
    out.data[second] = addMod(multiply(x.data[second], c), multiply(x.data[first], w));
  });
  return out;
}
