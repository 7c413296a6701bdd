//===- GroupQueryAttention.cpp - GroupQueryAttention of ONNX Runtime ------===//
//
// The op, which onnxruntime-genai's model builder writes, appends new keys and values to a cache
// and computes causal attention of grouped heads. The op may also split packed queries, keys and
// values, and normalize and rotate heads. It is decomposed into ops of the dialect. The number of
// past tokens of each sequence is data, because sequences of a batch may have different lengths:
//
//   lengths[b] = seqlens_k[b] + 1 - sequence      past tokens, at least 0
//   positions  = lengths[b] + 0, 1, …             of new tokens
//   present[b] = past[b, :lengths[b]], new tokens
//
// In a prompt the difference is 0 or less, so the length is 0. Padding is at the end of a sequence,
// where causality hides it. `present` is a lookup of rows in the concatenation of past and new
// tokens. If each sequence has `past` tokens, as in a generation, tpc-simplify finds that the
// lookup is the identity, and that queries begin at `past`.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"
#include "tpc/Dialect/State.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Inputs, as ONNX Runtime numbers them.
enum Input : unsigned {
  Query,
  Key,
  ValueInput,
  PastKey,
  PastValue,
  LastPositions, // seqlens_k
  TotalLength,
  Cosines,
  Sines,
  PositionIds,
  Bias,
  Sink,
  KeyScale,
  ValueScale,
  QueryNorm,
  KeyNorm,
  NumInputs
};

class GroupQueryAttention {
public:
  explicit GroupQueryAttention(Node &n) : n(n) {}
  LogicalResult import();

private:
  LogicalResult readAttributes();
  LogicalResult readLengths();
  /// Sets queries, keys and values, [batch, sequence, heads, size].
  LogicalResult readHeads();
  Value normalize(Value x, unsigned weight);
  LogicalResult rotate();
  /// Sets `lengths` and `rows`.
  LogicalResult findRows();
  /// Replaces `tokens`, the new keys or values, by past and new ones, and sets an output to them.
  LogicalResult append(unsigned pastInput, unsigned output, Value &tokens);
  /// Returns the visible keys, [batch or 1, 1, sequence, keys].
  Value visibleKeys();
  FailureOr<Value> scoreBias();
  Value attend();
  /// Returns the sinks [heads], whose exponentials are added to the denominators of the softmax;
  /// null without smooth_softmax.
  FailureOr<Value> getSinks();

  Type index() { return n.b.getI64Type(); }
  SymExpr batch() { return getSizes(q)[0]; }
  SymExpr sequence() { return getSizes(q)[1]; }

  Node &n;
  int64_t heads = 0, kvHeads = 0, window = -1, size = 0;
  bool rotates = false, interleaved = false, causal = true, smooth = false;
  double scale = 0, softcap = 0, epsilon = 0;
  SymExpr past = 0;
  Value q, k, v;
  Value lengths; // [batch], past tokens; null: none
  Value rows;    // [batch, keys, 1]; rows of past and new tokens that `present` consists of
};
} // namespace

LogicalResult GroupQueryAttention::readAttributes() {
  if (failed(n.expectInputs(1, NumInputs)) || failed(n.expectFloat(Query)))
    return failure();
  heads = n.getInt("num_heads", 0);
  kvHeads = n.getInt("kv_num_heads", 0);
  rotates = n.getInt("do_rotary", 0);
  interleaved = n.getInt("rotary_interleaved", 0);
  causal = n.getInt("causal", 1);
  smooth = n.getInt("smooth_softmax", -1) == 1 || n.has(Sink);
  window = n.getInt("local_window_size", -1);
  scale = n.getFloat("scale", 0);
  softcap = n.getFloat("softcap", 0);
  epsilon = n.getFloat("qk_norm_epsilon", 1e-6);
  n.ignore("qk_output");
  if (failed(n.expectUnused(3, "the scores")))
    return failure();
  if (n.failed())
    return failure();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads)
    return n.error() << "has num_heads = " << heads << " and kv_num_heads = " << kvHeads
                     << "; the first must be a multiple of the second, and both at least 1";
  int64_t bits = n.getInt("kv_cache_bit_width", 0);
  std::string types[] = {n.getString("k_quant_type", "NONE"), n.getString("v_quant_type", "NONE")};
  for (StringRef type : types)
    if (type != "NONE" || bits || n.has(KeyScale) || n.has(ValueScale))
      return n.error() << "has a quantized cache (k_quant_type = " << types[0]
                       << ", v_quant_type = " << types[1] << ", kv_cache_bit_width = " << bits
                       << "), which tpc does not have; export the model with a cache of floats";
  // The attribute states whether the caller's caches have tokens before the window. Imported caches
  // have all tokens; a generation keeps those of the window.
  n.ignore("sliding_window_cache");
  if (window == 0 || window < -1 || (window > 0 && !causal))
    return n.error() << "has local_window_size = " << window << " and causal = " << int(causal)
                     << "; a window needs at least 1 token and causal = 1; -1 means no window";
  return success();
}

Value GroupQueryAttention::normalize(Value x, unsigned weight) {
  if (!n.has(weight))
    return x;
  if (n.in(weight).rank() != 1 || n.in(weight).element != elementOf(x)) {
    n.error() << "normalizes heads by a vector " << str(n.in(weight).shape) << " of "
              << n.in(weight).element << "; it must be [size of a head] of " << elementOf(x);
    return {};
  }
  if (!n.equate(n.in(weight).shape[0], SymExpr(size), "a head is normalized by a vector"))
    return {};
  return n.rmsNorm(x, n.operand(weight), epsilon);
}

LogicalResult GroupQueryAttention::readHeads() {
  const Tensor &x = n.in(Query);
  if (x.rank() != 3 || n.has(Key) != n.has(ValueInput))
    return n.error() << "has queries of shape " << str(x.shape) << (n.has(Key) ? "," : ", no")
                     << " keys and " << (n.has(ValueInput) ? "" : "no ")
                     << "values; it needs [batch, sequence, width], and both or none (packed)";
  bool packed = !n.has(Key);
  int64_t columns = packed ? heads + 2 * kvHeads : heads;
  std::optional<SymExpr> each = x.shape[2].divideExact(SymExpr(columns));
  if (!each || !each->isConstant() || *each->asConstant() < 1)
    return n.error() << "has " << (packed ? "packed queries, keys and values" : "queries")
                     << " of width `" << x.shape[2].str() << "`, which must be a known multiple of "
                     << columns << " heads";
  size = *each->asConstant();
  if (scale == 0)
    scale = 1 / std::sqrt(double(size));
  Sizes tokens = {x.shape[0], x.shape[1]};
  int64_t counts[] = {heads, kvHeads, kvHeads}, start = 0;
  Value *parts[] = {&q, &k, &v};
  for (unsigned i = 0; i < 3; ++i) {
    Value part;
    SymExpr width(counts[i] * size);
    if (packed) {
      part = n.slice(n.operand(Query), 2, SymExpr(start), width);
      start += counts[i] * size;
    } else {
      const Tensor &own = n.in(Query + i);
      if (own.rank() != 3 || own.element != x.element)
        return n.error() << "has input " << i << " of shape " << str(own.shape) << " and "
                         << own.element << "; it must be [batch, sequence, width] of " << x.element;
      if (!n.equate(own.shape[0], tokens[0], "the batch of queries, keys and values") ||
          !n.equate(own.shape[1], tokens[1], "the tokens of queries, keys and values") ||
          !n.equate(own.shape[2], width, "the heads of keys and values"))
        return failure();
      part = n.operand(Query + i);
    }
    *parts[i] = n.reshape(part, {tokens[0], tokens[1], SymExpr(counts[i]), SymExpr(size)});
    if (!*parts[i])
      return failure();
  }
  if (n.has(QueryNorm) != n.has(KeyNorm))
    return n.error() << "normalizes only one of queries and keys";
  q = normalize(q, QueryNorm);
  k = normalize(k, KeyNorm);
  return success(q && k);
}

LogicalResult GroupQueryAttention::readLengths() {
  if (n.has(PastKey) != n.has(PastValue))
    return n.error() << "has only one of past keys and past values";
  for (unsigned i : {PastKey, PastValue}) {
    if (!n.has(i))
      continue;
    const Tensor &cache = n.in(i);
    if (cache.rank() != 4 || cache.element != n.in(Query).element)
      return n.error() << "has a past " << str(cache.shape) << " of " << cache.element
                       << "; it must be [batch, kv heads, past, size] of " << n.in(Query).element;
    if (!n.equate(cache.shape[0], batch(), "the batch of queries and of the past") ||
        !n.equate(cache.shape[1], SymExpr(kvHeads), "kv_num_heads and the heads of the past") ||
        !n.equate(cache.shape[2], n.in(PastKey).shape[2], "the lengths of past keys and values") ||
        !n.equate(cache.shape[3], SymExpr(size), "the sizes of a head and of the past"))
      return failure();
    past = cache.shape[2];
  }
  for (unsigned i : {LastPositions, TotalLength})
    if (!n.has(i) || !n.in(i).isInt())
      return n.error() << "needs integers as input " << unsigned(i)
                       << " (seqlens_k and total_sequence_length)";
  const Tensor &last = n.in(LastPositions);
  bool column = last.rank() == 2 && last.shape[1].isConstant(1);
  if (last.rank() != 1 && !column)
    return n.error() << "has seqlens_k of shape " << str(last.shape) << "; it must be [batch]";
  if (!n.equate(last.shape[0], batch(), "seqlens_k has a number for each sequence"))
    return failure();
  // The total (from the mask) and the past (window caches) may have different symbols. Then the
  // past's symbol becomes total - sequence.
  std::optional<SymExpr> total = n.in(TotalLength).scalarInt();
  StringRef why = "total_sequence_length is the number of past and new tokens";
  if (total && getSymbolName(*total - sequence()) && getSymbolName(past))
    n.equate(past, *total - sequence(), why);
  else if (total)
    n.equate(*total, past + sequence(), why);
  if (n.failed())
    return failure();
  return success();
}

LogicalResult GroupQueryAttention::findRows() {
  if (!n.has(PastKey))
    return success();
  SymExpr total = past + sequence();
  auto number = [&](const SymExpr &e) { return n.size(e, index()); };
  Value last = n.cast(n.reshape(n.operand(LastPositions), {batch()}), index());
  Value own = n.binary<AddOp>(last, number(SymExpr(1) - sequence()));
  // The product is zero; it is computed only to check that 0 <= seqlens_k < total. If the mask
  // hides nothing, tpc-simplify folds the maximum, and the check with it.
  Value none = n.binary<MulOp>(n.checkedIndex(last, total, /*wraps=*/false), number(0));
  if (!n.in(TotalLength).scalarInt()) {
    // The same check with a total that is data.
    Value all = n.cast(n.reshape(n.operand(TotalLength), {1}), index());
    Value rest = n.binary<SubOp>(n.binary<SubOp>(all, number(SymExpr(1))), last);
    Value checked = n.checkedIndex(rest, total, /*wraps=*/false);
    none = n.binary<AddOp>(none, n.binary<MulOp>(checked, number(0)));
  }
  own = n.binary<MaxOp>(own, none);
  lengths = n.binary<MinOp>(own, number(past));
  if (!lengths)
    return failure();
  // Row j of `present` is row j of the past, or row past + j - length of the concatenation. Rows
  // after the new tokens are unspecified, so they may be any rows.
  Value j = IotaOp::create(n.b, n.loc, n.type(index(), {1, total}), 1);
  Value length = n.reshape(lengths, {batch(), 1});
  Value moved = n.binary<SubOp>(n.binary<AddOp>(j, number(past)), length);
  moved = n.binary<MinOp>(moved, number(total - SymExpr(1)));
  Value row = n.select(n.compare(Predicate::LT, j, length), j, moved);
  rows = n.reshape(row, {batch(), total, 1});
  return success(rows != nullptr);
}

LogicalResult GroupQueryAttention::rotate() {
  if (!rotates)
    return success();
  if (!n.has(Cosines) || !n.has(Sines))
    return n.error() << "rotates heads (do_rotary = 1), but lacks cos_cache or sin_cache";
  Tensor positions;
  Value at;
  if (n.has(PositionIds)) {
    positions = n.in(PositionIds);
    if (!positions.isInt() || positions.rank() != 2)
      return n.error() << "has position_ids " << str(positions.shape) << " of " << positions.element
                       << "; they must be integers [batch, sequence]";
    if ((!positions.shape[0].isConstant(1) &&
         !n.equate(positions.shape[0], batch(), "position_ids has a row for each sequence")) ||
        !n.equate(positions.shape[1], sequence(), "position_ids has a number for each token"))
      return failure();
    at = n.operand(PositionIds);
  } else {
    positions.shape = {lengths ? batch() : SymExpr(1), sequence()};
    positions.interval = Interval{SymExpr(0), past + sequence() - SymExpr(1)};
    at = IotaOp::create(n.b, n.loc, n.type(index(), {1, sequence()}), 1);
    if (lengths)
      at = n.binary<AddOp>(at, n.reshape(lengths, {batch(), 1}));
  }
  if (!at)
    return failure();
  Value tables[2];
  for (unsigned i : {0, 1}) {
    const Tensor &table = n.in(Cosines + i);
    if (table.rank() != 2 || table.element != elementOf(q) || !table.shape[1].isConstant() ||
        2 * *table.shape[1].asConstant() > size || table.shape != n.in(Cosines).shape)
      return n.error() << "has " << (i ? "sin_cache " : "cos_cache ") << str(table.shape) << " of "
                       << table.element << "; it must be [positions, at most " << size / 2
                       << "] of " << elementOf(q) << ", and both alike";
    if (failed(checkIndices(n, positions, table, 0)))
      return failure();
    Sizes sizes = getSizes(at);
    sizes.push_back(table.shape[1]);
    tables[i] =
        GatherOp::create(n.b, n.loc, n.type(table.element, sizes), n.operand(Cosines + i), at, 0);
  }
  for (Value *x : {&q, &k})
    *x = RotaryOp::create(n.b, n.loc, x->getType(), *x, tables[0], tables[1], interleaved);
  return success();
}

LogicalResult GroupQueryAttention::append(unsigned pastInput, unsigned output, Value &tokens) {
  if (n.has(pastInput)) {
    Value all = n.concat({n.operand(pastInput), n.transpose(tokens, {0, 2, 1, 3})}, 2);
    if (!all)
      return failure();
    all = n.transpose(all, {0, 2, 1, 3});
    tokens = GatherNDOp::create(n.b, n.loc, all.getType(), all, rows, 1);
  }
  if (!n.isUsed(output))
    return success();
  return n.set(output, n.wrap(n.transpose(tokens, {0, 2, 1, 3})));
}

Value GroupQueryAttention::visibleKeys() {
  SymExpr keys = past + sequence();
  Value j = IotaOp::create(n.b, n.loc, n.type(index(), {1, 1, 1, keys}), 3);
  if (!causal) {
    Value last = n.reshape(n.cast(n.operand(LastPositions), index()), {batch(), 1, 1, 1});
    return n.compare(Predicate::LE, j, last);
  }
  Value p = IotaOp::create(n.b, n.loc, n.type(index(), {1, 1, sequence(), 1}), 2);
  if (lengths)
    p = n.binary<AddOp>(p, n.reshape(lengths, {batch(), 1, 1, 1}));
  Value seen = n.compare(Predicate::LE, j, p);
  if (window < 0)
    return seen;
  Value first = n.binary<SubOp>(p, n.size(SymExpr(window), index()));
  return n.binary<AndOp>(seen, n.compare(Predicate::GT, j, first));
}

FailureOr<Value> GroupQueryAttention::scoreBias() {
  if (!n.has(Bias))
    return Value();
  const Tensor &bias = n.in(Bias);
  Sizes full = {batch(), SymExpr(heads), sequence(), past + sequence()}, sizes = bias.shape;
  if (bias.rank() != 4 || bias.element != elementOf(q))
    return n.error() << "has attention_bias " << str(bias.shape) << " of " << bias.element
                     << "; it must be [batch or 1, heads or 1, sequence, past and new tokens] of "
                     << elementOf(q);
  for (int i = 0; i < 4; ++i)
    if (!(i < 2 && sizes[i].isConstant(1)) &&
        !n.equate(sizes[i], full[i], "attention_bias must broadcast to " + str(full)))
      return failure();
  return n.operand(Bias);
}

Value GroupQueryAttention::attend() {
  FailureOr<Value> bias = scoreBias(), sinks = getSinks();
  if (failed(bias) || failed(sinks))
    return {};
  Value keyMask;
  if (!causal) {
    Sizes sizes = {batch(), past + sequence()};
    keyMask = n.reshape(visibleKeys(), sizes);
    if (!keyMask)
      return {};
  }
  auto limit = window > 0 ? SymExprAttr::get(n.b.getContext(), SymExpr(window)) : SymExprAttr();
  return AttentionOp::create(n.b, n.loc, q.getType(), q, k, v, keyMask, /*mask=*/Value(), *bias,
                             /*slopes=*/Value(), *sinks, causal ? lengths : Value(), APFloat(scale),
                             causal, SymExpr(0), limit, APFloat(softcap), MaskedRow::Zero);
}

FailureOr<Value> GroupQueryAttention::getSinks() {
  if (!smooth)
    return Value();
  Type element = elementOf(q);
  if (!n.has(Sink))
    return n.expand(n.constant(element, 0), {SymExpr(heads)});
  if (n.in(Sink).rank() != 1 || n.in(Sink).element != element)
    return n.error() << "has head_sink " << str(n.in(Sink).shape) << " of " << n.in(Sink).element
                     << "; it must be [heads] of " << element;
  if (!n.equate(n.in(Sink).shape[0], SymExpr(heads), "head_sink has a number for each head"))
    return failure();
  return n.operand(Sink);
}

LogicalResult GroupQueryAttention::import() {
  if (failed(readAttributes()) || failed(readHeads()) || failed(readLengths()) ||
      failed(findRows()) || failed(rotate()) || failed(append(PastKey, 1, k)) ||
      failed(append(PastValue, 2, v)))
    return failure();
  Value y = attend();
  if (!y || n.failed())
    return failure();
  return n.result(n.reshape(y, {batch(), sequence(), SymExpr(heads * size)}));
}

static LogicalResult importGroupQueryAttention(Node &n) { return GroupQueryAttention(n).import(); }

void mlir::tpc::frontend::addGroupQueryAttentionOps(OpTable &t) {
  t.addMicrosoft(
      "GroupQueryAttention", importGroupQueryAttention,
      "no quantized cache; output output_qk unused; past inputs contain all past tokens; "
      "past and present do not share a buffer; static head size");
}
