//===- EvaluateAttention.cpp - Evaluation of attention and its gradient ---===//

#include "EvaluateAttention.h"
#include "Models.h"

#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
/// Returns whether the window is at least the number of keys, and therefore hides no key.
bool showsAll(Value keyTensor, const ::tpc::SymExpr &size) {
  std::optional<int64_t> keys = getSizes(keyTensor)[1].asConstant(), window = size.asConstant();
  return keys && window && *keys <= *window;
}

/// The scores of one query and one query head.
template <typename A> struct ScoreRow {
  int64_t batch, query, head, kvHead;
  /// Probabilities; the one after those of the keys is that of a sink.
  std::vector<typename A::Element> weights;
  std::vector<char> visible;
  std::vector<typename A::Element> capped; ///< scores after the softcap
};

/// Operands of tpc.attention or tpc.attention_grad on a rank, and the computation of probabilities.
template <typename A, typename OpT> class AttentionRows {
public:
  AttentionRows(OpT op, Evaluation<A> &e)
      : q(*e.operands[0]), k(*e.operands[1]), v(*e.operands[2]), op(op), e(e) {
    unsigned next = 3;
    keyMask = op.getKeyMask() ? e.operands[next++] : nullptr;
    mask = op.getMask() ? e.operands[next++] : nullptr;
    bias = op.getBias() ? e.operands[next++] : nullptr;
    slopes = op.getSlopes() ? e.operands[next++] : nullptr;
    if constexpr (std::is_same_v<OpT, AttentionOp>) {
      sinks = op.getSinks() ? e.operands[next++] : nullptr;
      lengths = op.getLengths() ? e.operands[next++] : nullptr;
    }
    // The kv heads of a rank are those of its query heads.
    heads = q.shape[2];
    kvHeads = k.shape[2];
    keys = k.shape[1];
    group = kvHeads > 0 ? heads / kvHeads : 1;
  }

  bool fits() const {
    int64_t full[] = {q.shape[0], heads, q.shape[1], keys};
    auto covers = [&](const Data<A> *t) { return !t || broadcasts(t->shape, full); };
    return k.shape[0] == q.shape[0] && v.shape[0] == q.shape[0] && v.shape[1] == keys &&
           v.shape[2] == kvHeads && k.shape[3] == q.shape[3] && (heads == 0 || kvHeads > 0) &&
           (kvHeads == 0 || heads % kvHeads == 0) &&
           (!keyMask || keyMask->shape == Shape({q.shape[0], keys})) && covers(mask) &&
           covers(bias) && (!slopes || slopes->shape == Shape({heads})) &&
           (!sinks || sinks->shape == Shape({heads})) &&
           (!lengths || lengths->shape == Shape({q.shape[0]}));
  }
  Shape getResultShape() const { return {q.shape[0], q.shape[1], heads, v.shape[3]}; }

  /// Calls `use` for each query of each head.
  void forEach(llvm::function_ref<void(const ScoreRow<A> &)> use);

  const Data<A> &q, &k, &v;
  int64_t heads, kvHeads, keys, group;

private:
  OpT op;
  Evaluation<A> &e;
  const Data<A> *keyMask = nullptr, *mask = nullptr, *bias = nullptr, *slopes = nullptr,
                *sinks = nullptr, *lengths = nullptr;
};

template <typename A, typename OpT>
void AttentionRows<A, OpT>::forEach(llvm::function_ref<void(const ScoreRow<A> &)> use) {
  ArrayRef<int64_t> queries = e.getSlice(op.getQ()).indices[1];
  ArrayRef<int64_t> positions = e.getSlice(op.getK()).indices[1];
  int64_t offset = e.world.getSizes().evaluate(op.getCausalOffset()), d = q.shape[3];
  std::optional<int64_t> window;
  if (std::optional<::tpc::SymExpr> size = op.getWindow())
    window = e.world.getSizes().evaluateWindow(*size);
  typename A::Element scale = A::fromNumber(op.getScale().convertToDouble());
  double limit = op.getSoftcap().convertToDouble();
  bool uniform = op.getMaskedRow() == MaskedRow::Uniform;
  ScoreRow<A> row;
  row.weights.resize(keys + (sinks ? 1 : 0));
  row.visible.resize(row.weights.size());
  row.capped.resize(keys);
  Facts all, seen;
  Magnitudes magnitudes;
  forEachIndex({q.shape[0], q.shape[1], heads}, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], i = index[1], h = index[2], kv = h / std::max<int64_t>(1, group);
    row.batch = b, row.query = i, row.head = h, row.kvHead = kv;
    int64_t at = queries[i] + offset + (lengths ? A::toInteger(lengths->data[b]) : 0);
    const typename A::Element *query = &q.data[linearize({b, i, h, 0}, q.shape)];
    if (sinks)
      row.visible[keys] = false;
    for (int64_t j = 0; j < keys; ++j) {
      int64_t position[] = {b, h, i, j};
      int64_t distance = positions[j] - at; // relative to the query's position
      bool future = op.getCausal() && distance > 0, old = window && distance <= -*window;
      bool isPadding = keyMask && keyMask->data[b * keys + j] == 0;
      bool isMasked = mask && mask->data[linearizeBroadcast(position, mask->shape)] == 0;
      int hidden = future + old + isPadding + isMasked; // number of reasons
      row.visible[j] = hidden == 0;
      if (hidden == 1) {
        seen.add(Fact::CausalHides, future && distance == 1);
        seen.add(Fact::WindowHides, old && distance == -*window);
        seen.add(Fact::KeyMaskHides, isPadding);
        seen.add(Fact::MaskHides, isMasked);
      }
      if (!row.visible[j])
        continue;
      seen.add(Fact::CausalShows, distance == 0);
      seen.add(Fact::WindowShows, window && distance == 1 - *window);
      seen.add(Fact::KeyMaskShows);
      seen.add(Fact::MaskShows);
      typename A::Sum sum;
      const typename A::Element *key = &k.data[linearize({b, j, kv, 0}, k.shape)];
      for (int64_t x = 0; x < d; ++x)
        sum.add(query[x], key[x]);
      typename A::Element score = A::multiply(sum.get(), scale);
      if (limit != 0)
        magnitudes.ofCap = std::max(magnitudes.ofCap, A::measure(score) / limit);
      row.weights[j] = row.capped[j] = A::cap(score, limit);
      if (bias)
        row.weights[j] =
            A::add(row.weights[j], bias->data[linearizeBroadcast(position, bias->shape)]);
      if (slopes)
        row.weights[j] =
            A::add(row.weights[j], A::multiply(slopes->data[h], A::fromInteger(distance)));
      row.visible[j] = !A::hides(row.weights[j]);
    }
    if (llvm::count(row.visible, char(true)) > 1) {
      all.add(Fact::NotFlat);
      magnitudes.spread = std::max(magnitudes.spread, A::getSpread(row.weights, row.visible));
    }
    if (sinks) {
      row.weights[keys] = sinks->data[h];
      row.visible[keys] = !A::hides(row.weights[keys]);
    }
    A::softmax(row.weights, row.visible, uniform);
    use(row);
  });
  for (auto [has, shows, hides] :
       {std::tuple(op.getCausal(), Fact::CausalShows, Fact::CausalHides),
        std::tuple(window && !showsAll(op.getK(), *op.getWindow()), Fact::WindowShows,
                   Fact::WindowHides),
        std::tuple(keyMask != nullptr, Fact::KeyMaskShows, Fact::KeyMaskHides),
        std::tuple(mask != nullptr, Fact::MaskShows, Fact::MaskHides)}) {
    all.add(shows, has);
    all.add(hides, has);
  }
  all.add(Fact::Capped, limit != 0);
  seen.add(Fact::Capped, magnitudes.ofCap > 0.5); // where tanh is not linear
  seen.add(Fact::NotFlat, magnitudes.spread > 0.25);
  e.note(all, seen, magnitudes);
}

struct AttentionEvaluation : EvaluationModel<AttentionEvaluation, AttentionOp> {
  template <typename A> static Result<A> evaluate(AttentionOp op, Evaluation<A> &e) {
    AttentionRows<A, AttentionOp> rows(op, e);
    if (!rows.fits() || e.shape != rows.getResultShape())
      return e.fail() << "the shapes of the operands do not match on a rank";
    Data<A> out(e.shape);
    rows.forEach([&](const ScoreRow<A> &row) {
      for (int64_t x = 0; x < e.shape[3]; ++x) {
        typename A::Sum sum;
        for (int64_t j = 0; j < rows.keys; ++j)
          sum.add(row.weights[j],
                  rows.v.data[linearize({row.batch, j, row.kvHead, x}, rows.v.shape)]);
        out.data[linearize({row.batch, row.query, row.head, x}, e.shape)] = sum.get();
      }
    });
    return out;
  }
  double countWork(Operation *op, llvm::function_ref<double(DimAttr)> count) const {
    return 2 * count(getDist(cast<AttentionOp>(op).getK()).getDims()[1]);
  }
};

struct AttentionGradEvaluation : EvaluationModel<AttentionGradEvaluation, AttentionGradOp> {
  template <typename A> static Result<A> evaluate(AttentionGradOp op, Evaluation<A> &e) {
    using Element = typename A::Element;
    AttentionRows<A, AttentionGradOp> rows(op, e);
    const Data<A> &q = rows.q, &k = rows.k, &v = rows.v, &cotangent = *e.operands.back();
    if (!rows.fits() || cotangent.shape != rows.getResultShape() ||
        e.shape != (op.getOf() == 0   ? q
                    : op.getOf() == 1 ? k
                                      : v)
                       .shape)
      return e.fail() << "the shapes of the operands do not match on a rank";
    Element scale = A::fromNumber(op.getScale().convertToDouble());
    double limit = op.getSoftcap().convertToDouble();
    Element perLimit = limit != 0 ? A::fromNumber(1 / limit) : A::fromInteger(0);
    Data<A> out(e.shape);
    std::vector<Element> d(rows.keys);
    rows.forEach([&](const ScoreRow<A> &row) {
      int64_t b = row.batch, i = row.query, h = row.head, kv = row.kvHead;
      auto add = [&](ArrayRef<int64_t> index, Element x, Element y) {
        Element &to = out.data[linearize(index, e.shape)];
        to = A::add(to, A::multiply(x, y));
      };
      auto at = [](const Data<A> &t, std::initializer_list<int64_t> index) {
        return t.data[linearize(index, t.shape)];
      };
      if (op.getOf() == 2) {
        for (int64_t j = 0; j < rows.keys; ++j)
          for (int64_t x = 0; x < v.shape[3]; ++x)
            add({b, j, kv, x}, row.weights[j], at(cotangent, {b, i, h, x}));
        return;
      }
      typename A::Sum mean;
      for (int64_t j = 0; j < rows.keys; ++j) {
        typename A::Sum sum;
        for (int64_t x = 0; x < v.shape[3]; ++x)
          sum.add(at(cotangent, {b, i, h, x}), at(v, {b, j, kv, x}));
        d[j] = sum.get();
        mean.add(row.weights[j], d[j]);
      }
      for (int64_t j = 0; j < rows.keys; ++j) {
        if (!row.visible[j])
          continue; // rows without visible keys do not depend on scores either
        Element s = A::multiply(row.weights[j], A::add(d[j], A::negate(mean.get())));
        if (limit != 0) { // 1 - tanh^2
          Element y = A::multiply(row.capped[j], perLimit);
          s = A::multiply(s, A::add(A::fromInteger(1), A::negate(A::multiply(y, y))));
        }
        s = A::multiply(s, scale);
        for (int64_t x = 0; x < q.shape[3]; ++x)
          if (op.getOf() == 0)
            add({b, i, h, x}, s, at(k, {b, j, kv, x}));
          else
            add({b, j, kv, x}, s, at(q, {b, i, h, x}));
      }
    });
    return out;
  }
  double countWork(Operation *op, llvm::function_ref<double(DimAttr)> count) const {
    // For each element of the result: scores, cotangents of probabilities, and the product.
    auto grad = cast<AttentionGradOp>(op);
    unsigned other = grad.getOf() == 0 ? 1 : 0;
    return 3 * count(getDist(op->getOperand(other)).getDims()[1]);
  }
};
} // namespace

void interpret::attachAttentionEvaluations(MLIRContext *context) {
  AttentionOp::attachInterface<AttentionEvaluation>(*context);
  AttentionGradOp::attachInterface<AttentionGradEvaluation>(*context);
}
