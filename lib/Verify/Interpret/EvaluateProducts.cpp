//===- EvaluateProducts.cpp - Products and attention on one rank ----------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A> auto Evaluation<A>::evaluateMatmul() -> Result {
  const Value &a = *operands[0], &b = *operands[1];
  const Value *bias = operands.size() > 2 ? operands[2] : nullptr;
  unsigned inner = a.shape.size() == 1 ? 1 : 2;
  int64_t k = a.shape.back(), n = b.shape.back(), m = inner == 1 ? 1 : a.shape.end()[-2];
  ArrayRef<int64_t> batch = ArrayRef(shape).drop_back(inner);
  ArrayRef<int64_t> left = ArrayRef(a.shape).drop_back(inner);
  ArrayRef<int64_t> right = ArrayRef(b.shape).drop_back(2);
  if (b.shape.end()[-2] != k || shape.back() != n || (inner == 2 && shape.end()[-2] != m) ||
      (bias && bias->shape.back() != n) || !broadcasts(left, batch) || !broadcasts(right, batch))
    return fail() << "the factors on a rank do not fit";
  Value out(shape);
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

template <typename A> auto Evaluation<A>::evaluateAttention(AttentionOp attention) -> Result {
  const Value &q = *operands[0], &k = *operands[1], &v = *operands[2];
  unsigned next = 3;
  const Value *keyMask = attention.getKeyMask() ? operands[next++] : nullptr;
  const Value *mask = attention.getMask() ? operands[next++] : nullptr;
  const Value *bias = attention.getBias() ? operands[next++] : nullptr;
  ArrayRef<int64_t> queries = getPart(attention.getQ()).indices[1];
  ArrayRef<int64_t> keys = getPart(attention.getK()).indices[1];
  int64_t offset = world.getSizes().evaluate(attention.getCausalOffset());
  Element scale = A::fromNumber(attention.getScale().convertToDouble());
  double limit = attention.getSoftcap().convertToDouble();
  int64_t sk = k.shape[1], d = q.shape[3], dv = v.shape[3];
  // As on a rank: its own heads in groups.
  int64_t heads = q.shape[2], kvHeads = k.shape[2];
  int64_t full[] = {q.shape[0], heads, q.shape[1], sk};
  auto covers = [&](const Value *t) { return !t || broadcasts(t->shape, full); };
  if (k.shape[0] != q.shape[0] || v.shape[0] != q.shape[0] || v.shape[1] != sk ||
      v.shape[2] != kvHeads || k.shape[3] != d || (heads > 0 && kvHeads == 0) ||
      (kvHeads > 0 && heads % kvHeads != 0) ||
      shape != Shape({q.shape[0], q.shape[1], heads, dv}) ||
      (keyMask && keyMask->shape != Shape({q.shape[0], sk})) || !covers(mask) || !covers(bias))
    return fail() << "the parts on a rank do not fit";
  int64_t group = kvHeads > 0 ? heads / kvHeads : 1;
  Value out(shape);
  std::vector<Element> row(sk);
  std::vector<char> visible(sk);
  bool uniform = attention.getMaskedRow() == MaskedRow::Uniform;
  forEachIndex({q.shape[0], q.shape[1], heads}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], i = index[1], h = index[2], kv = h / std::max<int64_t>(1, group);
    const Element *query = &q.data[linearize({b, i, h, 0}, q.shape)];
    for (int64_t j = 0; j < sk; ++j) {
      int64_t place[] = {b, h, i, j};
      visible[j] = !(attention.getCausal() && keys[j] > queries[i] + offset) &&
                   !(keyMask && keyMask->data[b * sk + j] == 0) &&
                   !(mask && mask->data[linearizeBroadcast(place, mask->shape)] == 0);
      if (!visible[j])
        continue;
      typename A::Sum sum;
      const Element *key = &k.data[linearize({b, j, kv, 0}, k.shape)];
      for (int64_t x = 0; x < d; ++x)
        sum.add(query[x], key[x]);
      row[j] = A::cap(A::multiply(sum.get(), scale), limit);
      if (bias)
        row[j] = A::add(row[j], bias->data[linearizeBroadcast(place, bias->shape)]);
      visible[j] = !A::hides(row[j]);
    }
    A::softmax(row, visible, uniform);
    for (int64_t x = 0; x < dv; ++x) {
      typename A::Sum sum;
      for (int64_t j = 0; j < sk; ++j)
        sum.add(row[j], v.data[linearize({b, j, kv, x}, v.shape)]);
      out.data[linearize({b, i, h, x}, shape)] = sum.get();
    }
  });
  return out;
}

template <typename A> auto Evaluation<A>::runProduct() -> std::optional<Result> {
  if (isa<MatmulOp>(op))
    return evaluateMatmul();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return evaluateAttention(attention);
  return std::nullopt;
}

template std::optional<Evaluation<Doubles>::Result> Evaluation<Doubles>::runProduct();
template std::optional<Evaluation<Field>::Result> Evaluation<Field>::runProduct();
