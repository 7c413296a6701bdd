//===- EvaluateOps.cpp - Model ops on paper -------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::evaluator;
using Operands = ArrayRef<const Tensor *>;

Tensor::Tensor(ArrayRef<int64_t> s, double value) : shape(s.begin(), s.end()) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  data.assign(count, value);
}

void evaluator::forEachIndex(ArrayRef<int64_t> shape,
                             llvm::function_ref<void(ArrayRef<int64_t>)> f) {
  if (llvm::is_contained(shape, 0))
    return;
  Shape index(shape.size(), 0);
  while (true) {
    f(index);
    int64_t d = int64_t(shape.size()) - 1;
    for (; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
    if (d < 0)
      return;
  }
}

int64_t evaluator::linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t at = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    at = at * size + i;
  return at;
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

static Tensor matmul(Operands operands, ArrayRef<int64_t> shape) {
  const Tensor &a = *operands[0], &b = *operands[1];
  const Tensor *bias = operands.size() > 2 ? operands[2] : nullptr;
  bool vector = a.shape.size() == 1;
  int64_t k = a.shape.back(), n = b.shape.back(), m = vector ? 1 : a.shape[a.shape.size() - 2];
  Tensor out(shape);
  ArrayRef<int64_t> batch = ArrayRef(shape).drop_back(vector ? 1 : 2);
  auto base = [](ArrayRef<int64_t> index, ArrayRef<int64_t> own) {
    index = index.take_back(own.size());
    int64_t at = 0;
    for (auto [i, size] : llvm::zip(index, own))
      at = at * size + (size == 1 ? 0 : i);
    return at;
  };
  forEachIndex(batch, [&](ArrayRef<int64_t> index) {
    int64_t pa = base(index, ArrayRef(a.shape).drop_back(vector ? 1 : 2)) * m * k;
    int64_t pb = base(index, ArrayRef(b.shape).drop_back(2)) * k * n;
    int64_t po = linearize(index, batch) * m * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias ? bias->data[j] : 0;
        for (int64_t x = 0; x < k; ++x)
          sum += a.data[pa + i * k + x] * b.data[pb + x * n + j];
        out.data[po + i * n + j] = sum;
      }
  });
  return out;
}

static Tensor attention(AttentionOp op, Operands operands, const Environment &env,
                        const Coordinates &at) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  unsigned next = 3;
  const Tensor *keyMask = op.getKeyMask() ? operands[next++] : nullptr;
  const Tensor *mask = op.getMask() ? operands[next++] : nullptr;
  const Tensor *bias = op.getBias() ? operands[next++] : nullptr;
  Indices queries = env.getIndices(op.getQ().getType(), at);
  Indices keys = env.getIndices(op.getK().getType(), at);
  int64_t group = env.getGlobalShape(op.getQ().getType())[2] /
                  std::max<int64_t>(1, env.getGlobalShape(op.getK().getType())[2]);
  int64_t offset = env.evaluate(op.getCausalOffset());
  double scale = op.getScale().convertToDouble(), softcap = op.getSoftcap().convertToDouble();
  int64_t d = q.shape[3], dv = v.shape[3], sk = k.shape[1];
  Tensor out({q.shape[0], q.shape[1], q.shape[2], dv});
  auto broadcast = [](const Tensor &t, ArrayRef<int64_t> index) {
    int64_t p = 0;
    for (auto [i, size] : llvm::zip(index, t.shape))
      p = p * size + (size == 1 ? 0 : i);
    return t.data[p];
  };
  forEachIndex({q.shape[0], q.shape[1], q.shape[2]}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], i = index[1], h = index[2];
    int64_t kvGlobal = queries[2][h] / group;
    int64_t kv = llvm::find(keys[2], kvGlobal) - keys[2].begin();
    std::vector<double> scores(sk, -INFINITY);
    double top = -INFINITY, total = 0;
    for (int64_t j = 0; j < sk; ++j) {
      Shape place = {b, h, i, j};
      if ((op.getCausal() && keys[1][j] > queries[1][i] + offset) ||
          (keyMask && keyMask->data[b * sk + j] == 0) || (mask && broadcast(*mask, place) == 0))
        continue;
      double sum = 0;
      for (int64_t x = 0; x < d; ++x)
        sum += q.data[linearize({b, i, h, x}, q.shape)] * k.data[linearize({b, j, kv, x}, k.shape)];
      sum *= scale;
      if (softcap != 0)
        sum = softcap * std::tanh(sum / softcap);
      if (bias)
        sum += broadcast(*bias, place);
      scores[j] = sum;
      top = std::max(top, sum);
    }
    bool none = top == -INFINITY;
    for (double &score : scores) {
      if (none)
        score = op.getMaskedRow() == MaskedRow::Uniform ? 1 : 0;
      else
        score = std::exp(score - top);
      total += score;
    }
    for (int64_t x = 0; x < dv; ++x) {
      double sum = 0;
      for (int64_t j = 0; j < sk; ++j)
        if (total != 0)
          sum += scores[j] / total * v.data[linearize({b, j, kv, x}, v.shape)];
      out.data[linearize({b, i, h, x}, out.shape)] = sum;
    }
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static Tensor norm(Operands operands, double epsilon, bool center) {
  const Tensor &x = *operands[0];
  int64_t n = x.shape.back();
  Tensor out = x;
  for (int64_t row = 0; n > 0 && row < x.size() / n; ++row) {
    double *values = &out.data[row * n];
    double mean = 0, variance = 0;
    for (int64_t i = 0; center && i < n; ++i)
      mean += values[i] / n;
    for (int64_t i = 0; i < n; ++i)
      variance += (values[i] - mean) * (values[i] - mean) / n;
    for (int64_t i = 0; i < n; ++i)
      values[i] = (values[i] - mean) / std::sqrt(variance + epsilon) * operands[1]->data[i] +
                  (operands.size() > 2 ? operands[2]->data[i] : 0);
  }
  return out;
}

/// Applies `f` to each line along a dimension.
static Tensor alongDim(const Tensor &in, int64_t dim,
                       llvm::function_ref<void(std::vector<double> &)> f) {
  Tensor out = in;
  Shape outer = in.shape;
  int64_t n = outer[dim];
  outer[dim] = 1;
  forEachIndex(outer, [&](ArrayRef<int64_t> index) {
    Shape at(index);
    std::vector<double> line(n);
    for (int64_t i = 0; i < n; ++i) {
      at[dim] = i;
      line[i] = in.data[linearize(at, in.shape)];
    }
    f(line);
    for (int64_t i = 0; i < n; ++i) {
      at[dim] = i;
      out.data[linearize(at, in.shape)] = line[i];
    }
  });
  return out;
}

static Tensor softmax(SoftmaxOp op, const Tensor &in) {
  return alongDim(in, op.getDim(), [](std::vector<double> &line) {
    double top = -INFINITY, total = 0;
    for (double x : line)
      top = std::max(top, x);
    for (double &x : line)
      total += x = std::exp(x - top);
    for (double &x : line)
      x /= total;
  });
}

static Tensor cumsum(CumSumOp op, const Tensor &in) {
  return alongDim(in, op.getDim(), [&](std::vector<double> &line) {
    if (op.getReverse())
      std::reverse(line.begin(), line.end());
    double sum = 0;
    for (double &x : line) {
      double next = sum + x;
      x = op.getExclusive() ? sum : next;
      sum = next;
    }
    if (op.getReverse())
      std::reverse(line.begin(), line.end());
  });
}

static Tensor reduce(ReduceOp op, const Tensor &in, ArrayRef<int64_t> shape) {
  ReduceFunction function = op.getFunction();
  double start = function == ReduceFunction::Max   ? -INFINITY
                 : function == ReduceFunction::Min ? INFINITY
                                                   : 0;
  Tensor out(shape, start);
  double count = 1;
  for (int64_t dim : op.getDims())
    count *= double(in.shape[dim]);
  forEachIndex(in.shape, [&](ArrayRef<int64_t> index) {
    Shape at;
    for (auto [d, i] : llvm::enumerate(index)) {
      if (!llvm::is_contained(op.getDims(), int64_t(d)))
        at.push_back(i);
      else if (op.getKeepDims())
        at.push_back(0);
    }
    double &sum = out.data[linearize(at, shape)];
    double x = in.data[linearize(index, in.shape)];
    if (function == ReduceFunction::Max)
      sum = std::max(sum, x);
    else if (function == ReduceFunction::Min)
      sum = std::min(sum, x);
    else
      sum += function == ReduceFunction::Mean ? x / count : x;
  });
  return out;
}

static Tensor rotary(RotaryOp op, Operands operands) {
  const Tensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  Tensor out = x;
  int64_t half = cos.shape[2];
  forEachIndex({x.shape[0], x.shape[1], x.shape[2], half}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], s = index[1], h = index[2], i = index[3];
    int64_t first = op.getInterleaved() ? 2 * i : i;
    int64_t second = op.getInterleaved() ? 2 * i + 1 : i + half;
    int64_t at = linearize({cos.shape[0] == 1 ? 0 : b, s, i}, cos.shape);
    int64_t p = linearize({b, s, h, first}, x.shape), q = linearize({b, s, h, second}, x.shape);
    out.data[p] = x.data[p] * cos.data[at] - x.data[q] * sin.data[at];
    out.data[q] = x.data[q] * cos.data[at] + x.data[p] * sin.data[at];
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

/// An op that only moves elements: `from` maps a result's index to the operand's.
static Tensor move(const Tensor &in, ArrayRef<int64_t> shape,
                   llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from) {
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Shape at(in.shape.size(), 0);
    from(index, at);
    out.data[next++] = in.data[linearize(at, in.shape)];
  });
  return out;
}

static Tensor concat(ConcatOp op, Operands operands, ArrayRef<int64_t> shape) {
  Tensor out(shape);
  int64_t dim = op.getDim(), begin = 0;
  for (const Tensor *operand : operands) {
    forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
      Shape at(index);
      at[dim] += begin;
      out.data[linearize(at, shape)] = operand->data[linearize(index, operand->shape)];
    });
    begin += operand->shape[dim];
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

double evaluator::getWeightElement(StringRef name, int64_t element, unsigned rank, int64_t fanIn) {
  uint64_t x = element * 0x9E3779B97F4A7C15ull;
  for (char c : name)
    x = (x ^ uint8_t(c)) * 0x100000001B3ull;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 29;
  double uniform = double(x >> 11) / double(1ull << 52) - 1; // [-1, 1)
  // Vectors are biases and scales: around one third; matrices keep the size of activations.
  return rank < 2 ? 0.3 + 0.3 * uniform
                  : 1.7 * uniform / std::sqrt(double(std::max<int64_t>(1, fanIn)));
}

static Tensor parameter(ParameterOp op, const Environment &env, const Coordinates &at) {
  Indices indices = env.getIndices(op.getType(), at);
  Shape shape = env.getShape(op.getType(), at), global = env.getGlobalShape(op.getType());
  ViewAttr view = op.getViewOrDense();
  auto weight = cast<RankedTensorType>(op.getWeightOp().getType());
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t element = view.getOffset();
    for (unsigned d = 0; d < shape.size(); ++d) {
      int64_t rest = indices[d][index[d]];
      for (StridedFactorAttr factor : llvm::reverse(view.getFactors(d))) {
        element += rest % factor.getSize() * factor.getStride();
        rest /= factor.getSize();
      }
    }
    out.data[next++] =
        getWeightElement(op.getWeight(), element, weight.getRank(),
                         weight.getRank() > 1 ? weight.getDimSize(weight.getRank() - 2) : 1);
  });
  return out;
}

static Tensor constant(ConstantOp op, ArrayRef<int64_t> shape) {
  Tensor out(shape);
  if (auto dense = dyn_cast<DenseElementsAttr>(op.getValue())) {
    size_t next = 0;
    if (isa<FloatType>(dense.getElementType()))
      for (APFloat x : dense.getValues<APFloat>()) {
        bool lossy;
        x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
        out.data[next++] = x.convertToDouble();
      }
    else
      for (APInt x : dense.getValues<APInt>())
        out.data[next++] =
            x.getBitWidth() == 1 ? double(x.getZExtValue()) : double(x.getSExtValue());
  }
  return out;
}

FailureOr<std::vector<Tensor>> evaluator::evaluateOp(Operation *op, Operands operands,
                                                     const Environment &env,
                                                     const Coordinates &at) {
  Shape shape = env.getShape(op->getResult(0).getType(), at);
  if (auto scalar = evaluateScalarOp(op, operands, shape))
    return std::vector<Tensor>{std::move(*scalar)};
  if (auto slice = dyn_cast<SliceOp>(op)) {
    int64_t n = shape[slice.getDim()], first = env.evaluate(slice.getStart());
    int64_t last = first + (n - 1) * int64_t(slice.getStep());
    int64_t size = operands[0]->shape[slice.getDim()];
    if (n > 0 && (std::min(first, last) < 0 || std::max(first, last) >= size))
      return op->emitError() << "takes elements " << first << " to " << last << " of " << size
                             << ": these sizes are not possible";
  }
  if (isa<ReshapeOp>(op) && Tensor(shape).size() != operands[0]->size())
    return op->emitError() << "has " << operands[0]->size() << " elements for another shape";
  std::optional<Tensor> result =
      llvm::TypeSwitch<Operation *, std::optional<Tensor>>(op)
          .Case([&](MatmulOp) { return matmul(operands, shape); })
          .Case([&](AttentionOp a) { return attention(a, operands, env, at); })
          .Case(
              [&](LayerNormOp n) { return norm(operands, n.getEpsilon().convertToDouble(), true); })
          .Case(
              [&](RmsNormOp n) { return norm(operands, n.getEpsilon().convertToDouble(), false); })
          .Case([&](SoftmaxOp s) { return softmax(s, *operands[0]); })
          .Case([&](CumSumOp c) { return cumsum(c, *operands[0]); })
          .Case([&](ReduceOp r) { return reduce(r, *operands[0], shape); })
          .Case([&](RotaryOp r) { return rotary(r, operands); })
          .Case<EmbeddingOp, GatherOp, GatherNDOp>(
              [&](Operation *lookup) { return evaluateLookup(lookup, operands, shape, env, at); })
          .Case([&](ConcatOp c) { return concat(c, operands, shape); })
          .Case([&](ParameterOp p) { return parameter(p, env, at); })
          .Case([&](ConstantOp c) { return constant(c, shape); })
          .Case([&](SizeOp s) { return Tensor(shape, double(env.evaluate(s.getExpr()))); })
          .Case([&](ReshapeOp) {
            Tensor out = *operands[0];
            out.shape = shape;
            return out;
          })
          .Case([&](ReshardOp) { return *operands[0]; })
          .Case([&](IotaOp iota) {
            Tensor out(shape);
            Indices indices = env.getIndices(iota.getType(), at);
            size_t next = 0;
            forEachIndex(shape, [&](ArrayRef<int64_t> index) {
              out.data[next++] = double(indices[iota.getDim()][index[iota.getDim()]]);
            });
            return out;
          })
          .Case([&](TransposeOp t) {
            return move(*operands[0], shape, [&](ArrayRef<int64_t> index, Shape &from) {
              for (auto [i, p] : llvm::enumerate(t.getPermutation()))
                from[p] = index[i];
            });
          })
          .Case([&](ExpandOp) {
            return move(*operands[0], shape, [&](ArrayRef<int64_t> index, Shape &from) {
              index = index.take_back(from.size());
              for (size_t i = 0; i < from.size(); ++i)
                from[i] = operands[0]->shape[i] == 1 ? 0 : index[i];
            });
          })
          .Case([&](SliceOp s) {
            int64_t start = env.evaluate(s.getStart());
            return move(*operands[0], shape, [&](ArrayRef<int64_t> index, Shape &from) {
              from.assign(index.begin(), index.end());
              from[s.getDim()] = start + index[s.getDim()] * int64_t(s.getStep());
            });
          })
          .Case([&](TriluOp t) {
            int64_t k = env.evaluate(t.getK());
            Tensor out = *operands[0];
            size_t next = 0;
            forEachIndex(shape, [&](ArrayRef<int64_t> index) {
              int64_t distance = index.back() - index[index.size() - 2];
              double &x = out.data[next++];
              if (t.getUpper() ? distance < k : distance > k)
                x = 0;
            });
            return out;
          })
          .Default([](Operation *) { return std::nullopt; });
  if (!result)
    return op->emitError() << "the evaluator does not know " << op->getName();
  return std::vector<Tensor>{std::move(*result)};
}
