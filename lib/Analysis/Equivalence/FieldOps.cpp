//===- FieldOps.cpp - Model ops over a prime field ------------------------===//

#include "FieldEvaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

Tensor::Tensor(ArrayRef<int64_t> s, Element value) : shape(s.begin(), s.end()) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  data.assign(count, value);
}

void equivalence::forEachIndex(ArrayRef<int64_t> shape,
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

int64_t equivalence::linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t at = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    at = at * size + i;
  return at;
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

FailureOr<Tensor> Evaluation::matmul() {
  const Tensor &a = *operands[0], &b = *operands[1];
  const Tensor *bias = operands.size() > 2 ? operands[2] : nullptr;
  unsigned inner = a.shape.size() == 1 ? 1 : 2;
  int64_t k = a.shape.back(), n = b.shape.back(), m = inner == 1 ? 1 : a.shape.end()[-2];
  ArrayRef<int64_t> batch = ArrayRef(shape).drop_back(inner);
  auto fits = [&](ArrayRef<int64_t> own) {
    if (own.size() > batch.size())
      return false;
    for (auto [x, y] : llvm::zip(own, batch.take_back(own.size())))
      if (x != 1 && x != y)
        return false;
    return true;
  };
  if (b.shape.end()[-2] != k || shape.back() != n || (inner == 2 && shape.end()[-2] != m) ||
      (bias && bias->shape.back() != n) || !fits(ArrayRef(a.shape).drop_back(inner)) ||
      !fits(ArrayRef(b.shape).drop_back(2)))
    return fail() << "the factors on a rank do not fit";
  auto base = [](ArrayRef<int64_t> index, ArrayRef<int64_t> own) {
    int64_t place = 0;
    for (auto [i, size] : llvm::zip(index.take_back(own.size()), own))
      place = place * size + (size == 1 ? 0 : i);
    return place;
  };
  Tensor out(shape);
  forEachIndex(batch, [&](ArrayRef<int64_t> index) {
    int64_t pa = base(index, ArrayRef(a.shape).drop_back(inner)) * m * k;
    int64_t pb = base(index, ArrayRef(b.shape).drop_back(2)) * k * n;
    int64_t po = linearize(index, batch) * m * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        Accumulator sum;
        for (int64_t x = 0; x < k; ++x)
          sum.add(a.data[pa + i * k + x], b.data[pb + x * n + j]);
        out.data[po + i * n + j] = bias ? addMod(sum.get(), bias->data[j]) : sum.get();
      }
  });
  return out;
}

/// Weights are hashes of the scores, over their sum hashed; a key that is not visible has none.
FailureOr<Tensor> Evaluation::attention(AttentionOp attention) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  unsigned next = 3;
  const Tensor *keyMask = attention.getKeyMask() ? operands[next++] : nullptr;
  const Tensor *mask = attention.getMask() ? operands[next++] : nullptr;
  const Tensor *bias = attention.getBias() ? operands[next++] : nullptr;
  Indices queries = getIndices(attention.getQ()), keys = getIndices(attention.getK());
  int64_t offset = evaluate(attention.getCausalOffset());
  uint64_t key = hashText("attention");
  Element scale = hashDouble(key + 1, attention.getScale().convertToDouble());
  uint64_t weightKey = hashDouble(key + 2, attention.getSoftcap().convertToDouble());
  int64_t sk = k.shape[1], d = q.shape[3], dv = v.shape[3];
  // As on a rank: its own heads in groups.
  int64_t heads = q.shape[2], kvHeads = k.shape[2];
  auto covers = [&](const Tensor &t) {
    int64_t full[] = {q.shape[0], heads, q.shape[1], sk};
    for (auto [own, size] : llvm::zip(t.shape, full))
      if (own != 1 && own != size)
        return false;
    return true;
  };
  if (k.shape[0] != q.shape[0] || v.shape[0] != q.shape[0] || v.shape[1] != sk ||
      v.shape[2] != kvHeads || k.shape[3] != d || (heads > 0 && kvHeads == 0) ||
      (kvHeads > 0 && heads % kvHeads != 0) ||
      shape != Shape({q.shape[0], q.shape[1], heads, dv}) ||
      (keyMask && keyMask->shape != Shape({q.shape[0], sk})) || (mask && !covers(*mask)) ||
      (bias && !covers(*bias)))
    return fail() << "the parts on a rank do not fit";
  int64_t group = kvHeads > 0 ? heads / kvHeads : 1;
  auto broadcast = [](const Tensor &t, ArrayRef<int64_t> index) {
    int64_t place = 0;
    for (auto [i, size] : llvm::zip(index, t.shape))
      place = place * size + (size == 1 ? 0 : i);
    return t.data[place];
  };
  Tensor out(shape);
  forEachIndex({q.shape[0], q.shape[1], heads}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], i = index[1], h = index[2], kv = h / std::max<int64_t>(1, group);
    std::vector<Element> weights(sk, 0);
    bool any = false;
    for (int64_t j = 0; j < sk; ++j) {
      int64_t place[] = {b, h, i, j};
      if ((attention.getCausal() && keys[1][j] > queries[1][i] + offset) ||
          (keyMask && keyMask->data[b * sk + j] == 0) || (mask && broadcast(*mask, place) == 0))
        continue;
      Accumulator sum;
      for (int64_t x = 0; x < d; ++x)
        sum.add(q.data[((b * q.shape[1] + i) * heads + h) * d + x],
                k.data[((b * sk + j) * kvHeads + kv) * d + x]);
      Element score = multiply(sum.get(), scale);
      if (bias)
        score = addMod(score, broadcast(*bias, place));
      weights[j] = hash(weightKey, score);
      any = true;
    }
    if (!any && attention.getMaskedRow() == MaskedRow::Uniform)
      std::fill(weights.begin(), weights.end(), 1);
    Element total = 0;
    for (Element weight : weights)
      total = addMod(total, weight);
    Element inverse = hash(key + 3, total);
    for (int64_t x = 0; x < dv; ++x) {
      Accumulator sum;
      for (int64_t j = 0; j < sk; ++j)
        sum.add(weights[j], v.data[((b * sk + j) * kvHeads + kv) * dv + x]);
      out.data[linearize({b, i, h, x}, shape)] = multiply(sum.get(), inverse);
    }
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Zero for rows that this rank does not have, and for ids of no row.
FailureOr<Tensor> Evaluation::embedding() {
  const Tensor &table = *operands[0], &ids = *operands[1];
  std::vector<int64_t> rows = getIndices(op->getOperand(0))[0];
  int64_t count = context.getWholeShape(op->getOperand(0).getType())[0];
  int64_t width = table.shape[1];
  std::map<int64_t, int64_t> places;
  for (auto [i, row] : llvm::enumerate(rows))
    places[row] = i;
  Tensor out(shape);
  if (out.data.size() != ids.data.size() * width)
    return fail() << "the ids on a rank do not fit the result";
  for (size_t i = 0; i < ids.data.size(); ++i) {
    int64_t id = toInteger(ids.data[i]);
    auto it = places.find(id < 0 ? id + count : id);
    if (it != places.end())
      std::copy_n(table.data.begin() + it->second * width, width, out.data.begin() + i * width);
  }
  return out;
}

/// Dimensions of a gather's data that are looked up: of which this rank may have a part.
struct Evaluation::Lookup {
  Lookup(Evaluation &e, int64_t first, int64_t count) {
    Value data = e.op->getOperand(0);
    Indices indices = e.getIndices(data);
    Shape whole = e.context.getWholeShape(data.getType());
    for (int64_t d = first; d < first + count; ++d) {
      sizes.push_back(whole[d]);
      places.emplace_back();
      for (auto [i, index] : llvm::enumerate(indices[d]))
        places.back()[index] = i;
    }
    // Parts are added: zero, and for what is nowhere too.
    missing = isa<FloatType>(getElementTypeOrSelf(data)) ? 0 : nowhere;
  }
  std::optional<int64_t> find(size_t dim, int64_t index) const {
    auto it = places[dim].find(index < 0 ? index + sizes[dim] : index);
    return it == places[dim].end() ? std::nullopt : std::optional<int64_t>(it->second);
  }
  Element missing;

private:
  SmallVector<std::map<int64_t, int64_t>> places;
  Shape sizes;
};

FailureOr<Tensor> Evaluation::gather(int64_t dim) {
  const Tensor &data = *operands[0], &indices = *operands[1];
  int64_t rank = indices.shape.size();
  Shape expected(data.shape.begin(), data.shape.begin() + dim);
  expected.append(indices.shape);
  expected.append(data.shape.begin() + dim + 1, data.shape.end());
  if (expected != shape)
    return fail() << "the parts on a rank do not fit";
  Lookup lookup(*this, dim, 1);
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t i = toInteger(indices.data[linearize(index.slice(dim, rank), indices.shape)]);
    Shape place(index.take_front(dim));
    auto found = lookup.find(0, i);
    place.push_back(found.value_or(0));
    place.append(index.begin() + dim + rank, index.end());
    out.data[next++] = found ? data.data[linearize(place, data.shape)] : lookup.missing;
  });
  return out;
}

FailureOr<Tensor> Evaluation::gatherND(int64_t batch) {
  const Tensor &data = *operands[0], &indices = *operands[1];
  size_t rank = indices.shape.size(), k = indices.shape.back();
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.append(data.shape.begin() + batch + k, data.shape.end());
  if (expected != shape)
    return fail() << "the parts on a rank do not fit";
  Lookup lookup(*this, batch, k);
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Shape place(index.take_front(batch));
    bool inside = true;
    Shape tuple(index.take_front(rank - 1));
    tuple.push_back(0);
    for (size_t i = 0; i < k; ++i) {
      tuple.back() = i;
      int64_t x = toInteger(indices.data[linearize(tuple, indices.shape)]);
      auto found = lookup.find(i, x);
      inside &= found.has_value();
      place.push_back(found.value_or(0));
    }
    place.append(index.begin() + rank - 1, index.end());
    out.data[next++] = inside ? data.data[linearize(place, data.shape)] : lookup.missing;
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Moving
//===----------------------------------------------------------------------===//

FailureOr<Tensor> Evaluation::move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from) {
  const Tensor &in = *operands[0];
  Tensor out(shape);
  size_t next = 0;
  bool outside = false;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Shape place(in.shape.size(), 0);
    from(index, place);
    for (auto [i, size] : llvm::zip(place, in.shape))
      if (i < 0 || i >= size)
        outside = true;
    out.data[next++] = outside ? nowhere : in.data[linearize(place, in.shape)];
  });
  if (outside)
    return fail() << "it reads outside of the part that a rank has";
  return out;
}

FailureOr<Tensor> Evaluation::slice(SliceOp slice) {
  int64_t dim = slice.getDim(), start = evaluate(slice.getStart());
  auto n = getSizes(slice.getOperand())[dim].asConstant();
  if (n && start > 0)
    if (auto e = ::tpc::SymExpr::parse(slice.getStart().str()); e && e->isConstant())
      start = context.sizes.scale(*e->asConstant(), *n);
  int64_t step = slice.getStep();
  return move([&](ArrayRef<int64_t> index, Shape &from) {
    from.assign(index.begin(), index.end());
    from[dim] = start + index[dim] * step;
  });
}

FailureOr<Tensor> Evaluation::concat(int64_t dim) {
  Tensor out(shape, nowhere);
  int64_t begin = 0;
  for (const Tensor *operand : operands) {
    Shape end = operand->shape;
    end[dim] += begin;
    for (auto [d, size] : llvm::enumerate(end))
      if (int64_t(d) == dim ? size > shape[d] : size != shape[d])
        return fail() << "the parts on a rank do not fit";
    size_t next = 0;
    forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
      Shape place(index);
      place[dim] += begin;
      out.data[linearize(place, shape)] = operand->data[next++];
    });
    begin += operand->shape[dim];
  }
  return out;
}

FailureOr<Tensor> Evaluation::trilu(TriluOp trilu) {
  int64_t k = evaluate(trilu.getK());
  Tensor out = *operands[0];
  size_t next = 0;
  forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
    int64_t distance = index.back() - index[index.size() - 2];
    Element &x = out.data[next++];
    if (trilu.getUpper() ? distance < k : distance > k)
      x = 0;
  });
  return out;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// An element of a weight is a hash of its place in the file. Small sizes take elements from all
/// over the large ones, so that views of different order differ.
FailureOr<Tensor> Evaluation::parameter(ParameterOp parameter) {
  WeightOp weight = parameter.getWeightOp();
  if (!weight)
    return fail() << "there is no weight @" << parameter.getWeight();
  std::string text;
  llvm::raw_string_ostream(text) << parameter.getWeight() << " " << weight.getFile() << " "
                                 << weight.getOffset() << " " << weight.getType();
  uint64_t key = hashText(text);
  ViewAttr view = parameter.getViewOrDense();
  Indices indices = getIndices(parameter.getResult());
  SmallVector<::tpc::SymExpr> sizes = getSizes(parameter.getResult());
  // Places are sums over dimensions.
  SmallVector<std::vector<int64_t>> offsets;
  for (auto [d, list] : llvm::enumerate(indices)) {
    std::vector<int64_t> own;
    int64_t n = sizes[d].asConstant().value_or(1);
    auto factors = view.getFactors(d);
    for (int64_t i : list) {
      int64_t rest = context.sizes.spread(i, n), element = 0;
      for (StridedFactorAttr factor : llvm::reverse(factors)) {
        int64_t size = std::max<int64_t>(1, factor.getSize());
        element += rest % size * factor.getStride();
        rest /= size;
      }
      own.push_back(element);
    }
    offsets.push_back(std::move(own));
  }
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t element = view.getOffset();
    for (auto [d, i] : llvm::enumerate(index))
      element += offsets[d][i];
    out.data[next++] = hash(key, fromInteger(element));
  });
  return out;
}

/// Integers are themselves, other numbers hashes of themselves but for zero.
FailureOr<Tensor> Evaluation::constant(ConstantOp constant) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense)
    return fail() << "its value cannot be read";
  Indices indices = getIndices(constant.getResult());
  ArrayRef<int64_t> original = dense.getType().getShape();
  bool floats = isa<FloatType>(dense.getElementType());
  auto get = [&](int64_t i) -> Element {
    if (!floats) {
      APInt x = dense.getValues<APInt>()[i];
      return x.getBitWidth() == 1 ? x.getZExtValue() : fromInteger(x.getSExtValue());
    }
    APFloat x = dense.getValues<APFloat>()[i];
    bool lossy;
    x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    double value = x.convertToDouble();
    return value == 0 ? 0 : hashDouble(hashText("constant"), value);
  };
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t element = 0;
    for (auto [d, i] : llvm::enumerate(index))
      element = element * original[d] + context.sizes.spread(indices[d][i], original[d]);
    out.data[next++] = get(element);
  });
  return out;
}

FailureOr<Tensor> Evaluation::run() {
  if (auto elements = evaluateElements(op, operands, shape))
    return std::move(*elements);
  return llvm::TypeSwitch<Operation *, FailureOr<Tensor>>(op)
      .Case([&](MatmulOp) { return matmul(); })
      .Case([&](AttentionOp a) { return attention(a); })
      .Case([&](LayerNormOp n) { return norm(n.getEpsilon().convertToDouble(), true); })
      .Case([&](RmsNormOp n) { return norm(n.getEpsilon().convertToDouble(), false); })
      .Case([&](SoftmaxOp s) { return softmax(s.getDim()); })
      .Case([&](CumSumOp c) { return cumsum(c); })
      .Case([&](ReduceOp r) { return reduce(r); })
      .Case([&](RotaryOp r) { return rotary(r.getInterleaved()); })
      .Case([&](EmbeddingOp) { return embedding(); })
      .Case([&](GatherOp g) { return gather(g.getDim()); })
      .Case([&](GatherNDOp g) { return gatherND(g.getBatchDims()); })
      .Case([&](ConcatOp c) { return concat(c.getDim()); })
      .Case([&](ParameterOp p) { return parameter(p); })
      .Case([&](ConstantOp c) { return constant(c); })
      .Case([&](SliceOp s) { return slice(s); })
      .Case([&](TriluOp t) { return trilu(t); })
      .Case([&](SizeOp s) { return Tensor(shape, fromInteger(evaluate(s.getExpr()))); })
      .Case([&](ReshapeOp) -> FailureOr<Tensor> {
        Tensor out = *operands[0];
        if (out.data.size() != Tensor(shape).data.size())
          return fail() << "a rank has " << out.data.size() << " elements for another shape";
        out.shape = shape;
        return out;
      })
      .Case([&](ReshardOp) { return *operands[0]; })
      .Case([&](IotaOp iota) {
        Tensor out(shape);
        Indices indices = getIndices(iota.getResult());
        size_t next = 0;
        forEachIndex(shape, [&](ArrayRef<int64_t> index) {
          out.data[next++] = fromInteger(indices[iota.getDim()][index[iota.getDim()]]);
        });
        return out;
      })
      .Case([&](TransposeOp t) {
        return move([&](ArrayRef<int64_t> index, Shape &from) {
          for (auto [i, p] : llvm::enumerate(t.getPermutation()))
            from[p] = index[i];
        });
      })
      .Case([&](ExpandOp) {
        return move([&](ArrayRef<int64_t> index, Shape &from) {
          index = index.take_back(from.size());
          for (size_t i = 0; i < from.size(); ++i)
            from[i] = operands[0]->shape[i] == 1 ? 0 : index[i];
        });
      })
      .Default([&](Operation *) -> FailureOr<Tensor> {
        return fail() << "the verifier does not know what it computes";
      });
}

FailureOr<Tensor> equivalence::evaluateInField(Operation *op, ArrayRef<const Tensor *> operands,
                                               const FieldContext &context, const Coordinates &at) {
  return Evaluation(op, operands, context, at).run();
}
