//===- Attention.cpp - Attention, RotaryEmbedding -------------------------===//

#include "Importer.h"
#include "OpTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Converts [b, s, heads * d] or [b, heads, s, d] to [b, s, heads, d].
static Value toHeads(Node &n, unsigned i, int64_t heads, StringRef attribute) {
  const Tensor &x = n.in(i);
  if (x.rank() == 4)
    return n.transpose(n.operand(i), {0, 2, 1, 3});
  if (x.rank() != 3) {
    n.error() << "needs an input with 3 or 4 dimensions, but has " << str(x.shape);
    return {};
  }
  std::optional<SymExpr> size;
  if (heads > 0)
    size = x.shape[2].divideExact(SymExpr(heads));
  if (!size) {
    n.error() << "has " << attribute << " = " << heads << ", which does not divide the width `"
              << x.shape[2].str() << "`";
    return {};
  }
  return n.reshape(n.operand(i), {x.shape[0], x.shape[1], SymExpr(heads), *size});
}

/// Converts a mask that broadcasts to [b, heads, sq, sk] to [1 or b, 1 or heads, sq, sk].
static Value fullMask(Node &n, Value mask, ArrayRef<SymExpr> full) {
  if (!mask)
    return {};
  Sizes sizes = getSizes(mask);
  if (sizes.size() > 4) {
    n.error() << "has a mask of " << sizes.size() << " dimensions; it must have at most 4";
    return {};
  }
  while (sizes.size() < 4)
    sizes.insert(sizes.begin(), SymExpr(1));
  mask = n.reshape(mask, sizes);
  for (int i = 0; i < 4; ++i) {
    if (sizes[i].isConstant(1) && i >= 2)
      sizes[i] = full[i];
    if (!sizes[i].isConstant(1) &&
        !n.equate(sizes[i], full[i], "the mask must broadcast to " + str(full)))
      return {};
  }
  return n.expand(mask, sizes);
}

static Value allOf(Node &n, Value a, Value b) { return a ? n.binary<AndOp>(a, b) : b; }

/// Returns the mask of keys j with i - left <= j <= i + right, [b, 1, sq, sk]. A negative bound is
/// absent. Query i is at position past + i; `past` has shape [b], [1] or [].
static Value windowMask(Node &n, Value past, const SymExpr &sq, const SymExpr &sk, int64_t left,
                        int64_t right) {
  Type index = n.b.getI64Type();
  SymExpr batch = rankOf(past) ? getSizes(past)[0] : SymExpr(1);
  Value i = n.binary<AddOp>(n.iota(sq, 2, 4), n.reshape(past, {batch, 1, 1, 1}));
  Value j = n.iota(sk, 3, 4), mask;
  if (left >= 0)
    mask = n.compare(Predicate::GE, j, n.binary<SubOp>(i, n.size(left, index)));
  if (right >= 0)
    mask = allOf(n, mask, n.compare(Predicate::LE, j, n.binary<AddOp>(i, n.size(right, index))));
  return mask;
}

namespace {
/// Queries and keys of an attention op, [b, s, heads, d], with all that determines its scores:
/// masks, bias, position of the first query, scale, softcap.
struct Attended {
  Value q, k, keyMask, mask, bias, before;
  double scale, softcap;
  bool causal;
};
} // namespace

/// Returns qk_matmul_output, [b, heads, sq, sk], from matmuls: `mode` 0 the products, 1 after the
/// softcap, 2 with masks, 3 after the softmax.
static Value computeScores(Node &n, const Attended &a, int64_t mode) {
  Sizes q = getSizes(a.q), k = getSizes(a.k);
  auto group = q[2].divideExact(k[2]);
  Value rows = n.transpose(n.reshape(a.q, {q[0], q[1], k[2], *group, q[3]}), {0, 2, 3, 1, 4});
  rows = n.reshape(rows, {q[0], k[2], *group * q[1], q[3]});
  Value x = n.matmul(rows, n.transpose(a.k, {0, 2, 3, 1}));
  if (!x)
    return {};
  x = n.reshape(n.binary<MulOp>(x, n.scalar(a.scale, x)), {q[0], q[2], q[1], k[1]});
  if (mode >= 1 && a.softcap)
    x = n.binary<MulOp>(n.unary<TanhOp>(n.binary<DivOp>(x, n.scalar(a.softcap, x))),
                        n.scalar(a.softcap, x));
  if (mode < 2)
    return x;
  if (a.bias)
    x = n.binary<AddOp>(x, a.bias);
  Value visible = a.mask;
  if (a.keyMask)
    visible = allOf(n, visible, n.reshape(a.keyMask, {q[0], SymExpr(1), SymExpr(1), k[1]}));
  if (a.causal)
    visible = allOf(n, visible, windowMask(n, a.before, q[1], k[1], /*left=*/-1, /*right=*/0));
  if (visible)
    x = n.select(visible, x, n.scalar(-std::numeric_limits<double>::infinity(), x));
  if (mode < 3)
    return x;
  if (!visible)
    return n.softmax(x, 3);
  // Rows without visible keys are zero.
  Value zero = n.scalar(0, x), some = n.cast(visible, n.b.getI32Type());
  some = n.reduce(ReduceFunction::Max, some, {3}, /*keep=*/true);
  if (!some)
    return {};
  some = n.compare(Predicate::GT, some, n.scalar(0, some));
  return n.select(some, n.softmax(n.select(some, x, zero), 3), zero);
}

static LogicalResult importAttention(Node &n) {
  if (failed(n.expectInputs(3, n.version < 24 ? 6 : 7)) || failed(n.expectFloat(0)))
    return failure();
  if (n.has(6) && (n.has(4) || n.has(5)))
    return n.error() << "has both a past and nonpad_kv_seqlen, which ONNX does not allow";
  if (n.has(4) != n.has(5))
    return n.error() << "has only one of past keys and past values";
  int64_t mode = n.getInt("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return n.error() << "has qk_matmul_output_mode = " << mode << "; it must be 0 to 3";
  n.ignore("softmax_precision"); // softmax runs at least in the precision of the inputs
  int64_t qHeads = n.getInt("q_num_heads", 0), kvHeads = n.getInt("kv_num_heads", 0);
  bool causal = n.getInt("is_causal", 0);
  double softcap = n.getFloat("softcap", 0);
  int64_t left = -1, right = -1;
  if (n.version >= 25) {
    // A window wider than any sequence hides nothing, and i + right must not overflow.
    auto window = [&](StringRef name) {
      int64_t size = n.getInt(name, -1);
      return size < (1ll << 40) ? size : -1;
    };
    left = window("left_window_size");
    right = window("right_window_size");
  }
  Value q = toHeads(n, 0, qHeads, "q_num_heads"), k = toHeads(n, 1, kvHeads, "kv_num_heads"),
        v = toHeads(n, 2, kvHeads, "kv_num_heads");
  if (!q || !k || !v || n.failed())
    return failure();
  if (elementOf(k) != elementOf(q) || elementOf(v) != elementOf(q))
    return n.error()
           << "has queries, keys and values of different types; the types must be the same";

  // Caches, [b, heads, past, d], are concatenated with new keys and values.
  SymExpr past(0);
  if (n.has(4)) {
    for (auto [i, fresh] : {std::pair(4u, &k), std::pair(5u, &v)}) {
      if (n.in(i).rank() != 4)
        return n.error() << "has a past of shape " << str(n.in(i).shape)
                         << "; it must be [batch, heads, past, size]";
      *fresh = n.concat({n.transpose(n.operand(i), {0, 2, 1, 3}), *fresh}, 1);
    }
    if (!k || !v)
      return failure();
    past = n.in(4).shape[2];
  }
  for (auto [i, all] : {std::pair(1u, k), std::pair(2u, v)})
    if (n.isUsed(i) && failed(n.set(i, n.wrap(n.transpose(all, {0, 2, 1, 3})))))
      return failure();

  Sizes sizes = getSizes(q), keys = getSizes(k), values = getSizes(v);
  for (Sizes *other : {&keys, &values})
    if (!n.equate(sizes[0], (*other)[0], "the batch of queries, keys and values"))
      return failure();
  if (!n.equate(sizes[3], keys[3], "the size of heads of queries and keys") ||
      !n.equate(keys[1], values[1], "the lengths of keys and values") ||
      !n.equate(keys[2], values[2], "the numbers of heads of keys and values"))
    return failure();
  auto hq = sizes[2].asConstant(), hkv = keys[2].asConstant(), d = sizes[3].asConstant();
  if (!hq || !hkv || !d || !*hq || !*hkv || !*d || *hq % *hkv)
    return n.error() << "has " << sizes[2].str() << " query heads and " << keys[2].str()
                     << " key heads of size " << sizes[3].str()
                     << "; all must be known, and the first a multiple of the second";
  double scale = n.getFloat("scale", 1 / std::sqrt((double)*d));

  // nonpad_kv_seqlen: the number of valid keys of each sequence. The queries have the positions of
  // the last valid keys.
  Value valid, keyMask, lengths;
  if (n.has(6)) {
    const Tensor &given = n.in(6);
    if (!given.isInt() || given.rank() != 1)
      return n.error() << "has nonpad_kv_seqlen " << str(given.shape) << " of " << given.element
                       << "; it must be integers [batch]";
    if (!n.equate(given.shape[0], sizes[0], "nonpad_kv_seqlen has a number for each sequence"))
      return failure();
    valid = n.operand(6);
    if (!valid)
      return failure();
    if (std::optional<SymExpr> all = findCommonSize(valid); all && *all == keys[1]) {
      valid = {};
      past = keys[1] - sizes[1];
    }
  }
  Value before = n.size(past, n.b.getI64Type()); // position of the first query
  if (valid) {
    valid = n.checkedIndex(valid, keys[1] + SymExpr(1), /*wraps=*/false);
    before = n.binary<SubOp>(valid, n.size(sizes[1], n.b.getI64Type()));
    lengths = causal ? before : Value();
    keyMask = causal ? Value()
                     : n.compare(Predicate::LT, n.iota(keys[1], 1, 2),
                                 n.reshape(valid, {sizes[0], SymExpr(1)}));
    if (!before || (!causal && !keyMask))
      return failure();
  }

  Value mask, bias;
  Sizes full{sizes[0], sizes[2], sizes[1], keys[1]};
  if (n.has(3)) {
    Value given = n.operand(3);
    // Keys after a shorter mask are hidden.
    Sizes shape = n.in(3).shape;
    if (!shape.empty() && shape.back().isConstant() && keys[1].isConstant() &&
        !shape.back().isConstant(1) && *shape.back().asConstant() < *keys[1].asConstant()) {
      Sizes rest = shape;
      rest.back() = keys[1] - shape.back();
      double hidden = n.in(3).isBool() ? 0 : -std::numeric_limits<double>::infinity();
      Value more = n.expand(n.constant(n.in(3).element, hidden), rest);
      given = n.concat({given, more}, shape.size() - 1);
    }
    given = fullMask(n, given, full);
    if (!given)
      return failure();
    if (n.in(3).isBool()) {
      mask = given;
    } else if (n.in(3).element == elementOf(q)) {
      bias = given;
      // Minus infinity hides a key. The result of a row without visible keys is zero.
      double low = -std::numeric_limits<double>::infinity();
      mask = n.compare(Predicate::NE, given, n.scalar(low, given));
    } else {
      return n.error() << "has a mask of " << n.in(3).element
                       << "; it must be boolean or of the type of the queries";
    }
  }
  if (left >= 0 || right >= 0) {
    mask = allOf(n, mask, windowMask(n, before, sizes[1], keys[1], left, right));
    if (!mask)
      return failure();
    mask = fullMask(n, mask, full);
  }
  if (n.failed())
    return failure();
  if (n.isUsed(3)) {
    Attended a{q, k, keyMask, mask, bias, before, scale, softcap, causal};
    Value scores = computeScores(n, a, mode);
    if (!scores || failed(n.set(3, n.wrap(scores))))
      return failure();
  }
  Sizes out = sizes;
  out[3] = values[3];
  Value y = AttentionOp::create(n.b, n.loc, n.type(elementOf(q), out), q, k, v, keyMask, mask, bias,
                                /*slopes=*/Value(), /*sinks=*/Value(), lengths, APFloat(scale),
                                causal, past,
                                /*window=*/SymExprAttr(), APFloat(softcap), MaskedRow::Zero);
  if (n.in(0).rank() == 4)
    return n.result(n.transpose(y, {0, 2, 1, 3}));
  return n.result(n.reshape(y, {out[0], out[1], out[2] * out[3]}));
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

/// Imports a rotary embedding of x. `positions`: index of the input with positions, at which the
/// tables are looked up; -1 if the tables already have one row per token.
static LogicalResult rotate(Node &n, unsigned cosInput, int positions) {
  int64_t heads = n.getInt("num_heads", 0), width = n.getInt("rotary_embedding_dim", 0);
  bool interleaved = n.getInt("interleaved", 0);
  // If num_heads is missing, ONNX Runtime's op derives the head width from the tables.
  const Tensor &cosTable = n.in(cosInput);
  if (!heads && n.in(0).rank() == 3 && cosTable.rank() && !n.domain.empty()) {
    SymExpr head = cosTable.shape.back() * SymExpr(2);
    if (auto count = n.in(0).shape[2].divideExact(head); count && count->asConstant() && !width)
      heads = *count->asConstant();
  }
  Value x = toHeads(n, 0, heads, "num_heads");
  if (!x)
    return failure();
  Sizes sizes = getSizes(x);
  Value tables[2];
  for (unsigned i = 0; i < 2; ++i) {
    Value table = n.operand(cosInput + i);
    if (!table)
      return failure();
    if (positions >= 0) {
      const Tensor &ids = n.in(positions);
      if (rankOf(table) != 2 || !ids.isInt())
        return n.error() << "needs tables of two dimensions and integer positions";
      Value at = n.operand(positions);
      Tensor rowsTaken = ids;
      // A single number is the first position.
      if (ids.rank() == 1 && ids.shape[0].isConstant(1)) {
        Value steps = IotaOp::create(n.b, n.loc, n.type(ids.element, {sizes[1]}), 0);
        at = n.reshape(n.binary<AddOp>(steps, at), {SymExpr(1), sizes[1]});
        // A first position that is known only at run time is at least 0.
        SymExpr first = ids.scalarInt().value_or(SymExpr(0));
        rowsTaken.contents.reset();
        rowsTaken.interval = Interval{first, first + sizes[1] - SymExpr(1)};
      }
      if (!at || failed(checkIndices(n, rowsTaken, n.in(cosInput + i), 0)))
        return failure();
      Sizes rows = getSizes(at);
      rows.push_back(getSizes(table)[1]);
      if (rows.size() != 3)
        return n.error() << "needs positions of shape [batch, sequence]";
      table = GatherOp::create(n.b, n.loc, n.type(elementOf(table), rows), table, at, 0);
    }
    Sizes t = getSizes(table);
    if (t.size() != 3 || elementOf(table) != elementOf(x))
      return n.error() << "has tables of shape " << str(t)
                       << "; they must be [batch, sequence, size] of the element type of the input";
    if ((!t[0].isConstant(1) && !n.equate(t[0], sizes[0], "the batch of the tables")) ||
        !n.equate(t[1], sizes[1], "the positions of the tables"))
      return failure();
    tables[i] = table;
  }
  if (std::optional<int64_t> head = sizes[3].asConstant(); head && width > *head)
    return n.error() << "rotates " << width << " elements of heads of size " << *head
                     << ", which are too small";
  SymExpr half = getSizes(tables[0])[2];
  if (!n.equate(half, getSizes(tables[1])[2], "the tables") ||
      !n.equate(half * SymExpr(2), width ? SymExpr(width) : sizes[3],
                "the width of the tables and what is rotated"))
    return failure();
  Value y = RotaryOp::create(n.b, n.loc, x.getType(), x, tables[0], tables[1], interleaved);
  if (n.in(0).rank() == 4)
    return n.result(n.transpose(y, {0, 2, 1, 3}));
  return n.result(n.reshape(y, n.in(0).shape));
}

static LogicalResult importRotary(Node &n) {
  if (failed(n.expectInputs(3, 4)) || failed(n.expectFloat(0)))
    return failure();
  return rotate(n, 1, n.has(3) ? 3 : -1);
}

static LogicalResult importMicrosoftRotary(Node &n) {
  if (failed(n.expectInputs(4)) || failed(n.expectFloat(0)))
    return failure();
  n.ignore("is_packed_batching");
  if (n.getFloat("scale", 1) != 1)
    return n.error() << "has a scale other than 1, which tpc does not support";
  return rotate(n, 2, 1);
}

void mlir::tpc::frontend::addAttentionOps(OpTable &t) {
  t.add("Attention", {23, 24, 25}, importAttention,
        "static numbers of heads, of which kv_num_heads divides q_num_heads; one float type; "
        "mask boolean or of that type");
  t.add("RotaryEmbedding", {23}, importRotary,
        "tables of the element type of the input, of rank 2 with integer position_ids [batch, "
        "sequence], of rank 3 without");
  t.addMicrosoft(
      "RotaryEmbedding", importMicrosoftRotary,
      "scale = 1; tables of rank 2; integer position_ids [batch, sequence] or one number");
}
