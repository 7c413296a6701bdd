//===- MicrosoftAttention.cpp - Fused attention ops of ONNX Runtime -------===//
//
// Attention, MultiHeadAttention and EmbedLayerNormalization of com.microsoft are decomposed into
// the ops that they fuse. Later passes then handle a single form: matmuls, an additive mask, a
// softmax, and caches that are concatenated with new keys and values.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"
#include "Quantize.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Queries, keys and values, each [batch, heads, tokens, size].
struct Heads {
  Value q, k, v;
};
} // namespace

/// Converts [b, s, heads * d] to [b, heads, s, d].
static Value toHeads(Node &n, Value x, int64_t heads) {
  if (!x)
    return {};
  Sizes sizes = getSizes(x);
  auto size = sizes[2].divideExact(SymExpr(heads));
  if (!size) {
    n.error() << "has num_heads = " << heads << ", which does not divide the width `"
              << sizes[2].str() << "`";
    return {};
  }
  return n.transpose(n.reshape(x, {sizes[0], sizes[1], SymExpr(heads), *size}), {0, 2, 1, 3});
}

/// Returns the additive mask of scores [b, 1 or heads, q, k]: 0 for a visible key, else `hidden`.
static Value additiveMask(Node &n, Value seen, double hidden, Type element) {
  if (!seen)
    return {};
  return n.select(seen, n.constant(element, 0), n.constant(element, hidden));
}

/// Converts a mask input to booleans [b, 1, 1 or q, k] of visible keys. A mask of shape [batch] has
/// the end of each sequence's keys. A mask of shape [2*batch] also has the begin, after padding on
/// the left.
static Value readMask(Node &n, unsigned input, ArrayRef<SymExpr> full) {
  const Tensor &mask = n.in(input);
  if (!mask.isInt()) {
    n.error() << "has a mask of " << mask.element << "; it must be integers";
    return {};
  }
  Value v = n.operand(input);
  if (!v)
    return {};
  const SymExpr &batch = full[0], &queries = full[2], &keys = full[3];
  Value zero = n.scalar(0, v);
  if (mask.rank() == 2) {
    if (!n.equate(mask.shape[0], batch, "the mask has a row for each sample") ||
        !n.equate(mask.shape[1], keys, "the mask is of all keys, those of the past included"))
      return {};
    return n.compare(Predicate::GT, n.reshape(v, {batch, 1, 1, keys}), zero);
  }
  if (mask.rank() == 3) {
    if (!n.equate(mask.shape[0], batch, "the mask has a matrix for each sample") ||
        !n.equate(mask.shape[1], queries, "the mask has a row for each query") ||
        !n.equate(mask.shape[2], keys, "the mask is of all keys, those of the past included"))
      return {};
    return n.compare(Predicate::GT, n.reshape(v, {batch, 1, queries, keys}), zero);
  }
  bool begins = mask.rank() == 1 && mask.shape[0] == batch * SymExpr(2);
  if (mask.rank() != 1 || (!begins && mask.shape[0] != batch)) {
    n.error() << "has a mask of shape " << str(mask.shape)
              << "; supported are [batch, keys], [batch, queries, keys], [batch] and [2*batch]";
    return {};
  }
  Value position = IotaOp::create(n.b, n.loc, n.type(mask.element, {1, 1, 1, keys}), 3);
  auto bound = [&](const SymExpr &from) {
    return n.reshape(n.slice(v, 0, from, batch), {batch, 1, 1, 1});
  };
  Value seen = n.compare(Predicate::LT, position, bound(SymExpr(0)));
  if (begins)
    seen = n.binary<AndOp>(seen, n.compare(Predicate::GE, position, bound(batch)));
  return seen;
}

/// Returns the causal mask [1, 1, q, k] of ONNX Runtime on CPUs: query i sees keys j <= past + i,
/// and the last query sees all keys. The latter adds keys only if there are more new keys than
/// queries.
static Value causalMask(Node &n, const SymExpr &past, const SymExpr &queries, const SymExpr &keys) {
  Type index = n.b.getI64Type();
  Value i = IotaOp::create(n.b, n.loc, n.type(index, {1, 1, queries, 1}), 2);
  Value j = IotaOp::create(n.b, n.loc, n.type(index, {1, 1, 1, keys}), 3);
  Value seen = n.compare(Predicate::LE, j, n.binary<AddOp>(i, n.size(past, index)));
  if (keys - past == queries)
    return seen;
  Value last = n.compare(Predicate::EQ, i, n.size(queries - SymExpr(1), index));
  return n.binary<OrOp>(seen, last);
}

/// Computes softmax(q k^T scale + masks) v, as [b, s, heads * d]. The first `past` keys are cached.
static Value buildAttention(Node &n, const Heads &heads, const SymExpr &past, unsigned maskInput,
                            unsigned biasInput) {
  Sizes q = getSizes(heads.q), k = getSizes(heads.k), v = getSizes(heads.v);
  if (!n.equate(q[0], k[0], "the batch of queries and keys") ||
      !n.equate(q[3], k[3], "the size of heads of queries and keys") ||
      !n.equate(k[2], v[2], "the lengths of keys and values"))
    return {};
  auto size = q[3].asConstant();
  if (!size || *size < 1) {
    n.error() << "has heads of size " << q[3].str() << ", which must be known";
    return {};
  }
  double scale = n.getFloat("scale", 0), hidden = n.getFloat("mask_filter_value", -10000);
  bool causal = n.getInt("unidirectional", 0);
  if (n.failed())
    return {};
  Type element = elementOf(heads.q);
  Sizes full = {q[0], q[1], q[2], k[2]};
  Value scores = n.matmul(heads.q, n.transpose(heads.k, {0, 1, 3, 2}));
  if (!scores)
    return {};
  scores =
      n.binary<MulOp>(scores, n.scalar(scale == 0 ? 1 / std::sqrt(double(*size)) : scale, scores));
  Value mask;
  if (n.has(maskInput)) {
    mask = additiveMask(n, readMask(n, maskInput, full), hidden, element);
    if (!mask)
      return {};
  }
  if (causal) {
    Value seen = causalMask(n, past, q[2], k[2]);
    // A later key is hidden regardless of the mask.
    double lowest = -std::numeric_limits<float>::max();
    Value later = n.constant(element, element.isF16() ? -65504 : lowest);
    mask = n.select(seen, mask ? mask : n.constant(element, 0), later);
  }
  if (mask)
    scores = n.binary<AddOp>(scores, mask);
  if (n.has(biasInput)) {
    if (n.in(biasInput).rank() != 4) {
      n.error() << "has a bias of scores of shape " << str(n.in(biasInput).shape)
                << "; it must be [1 or batch, 1 or heads, queries, keys]";
      return {};
    }
    scores = n.binary<AddOp>(scores, n.operand(biasInput));
  }
  if (!scores)
    return {};
  Value y = n.transpose(n.matmul(n.softmax(scores, 3), heads.v), {0, 2, 1, 3});
  if (!y)
    return {};
  return n.reshape(y, {q[0], q[2], q[1] * v[3]});
}

/// Imports attention with queries, keys and values from one input, and with both caches in one
/// input `pastInput`, [2, b, heads, past, d]. `project` returns columns of the input times the
/// weights, plus the bias.
static LogicalResult importPacked(Node &n, llvm::function_ref<Value(const Columns &)> project,
                                  unsigned maskInput, unsigned pastInput, unsigned biasInput,
                                  unsigned bufferInput) {
  int64_t heads = n.getInt("num_heads", 0);
  if (n.getInt("past_present_share_buffer", 0) || n.has(bufferInput))
    return n.error()
           << "writes into the buffer of its past (past_present_share_buffer); convert the "
              "model without it";
  if (n.getInt("do_rotary", 0))
    return n.error() << "applies rotary embeddings itself (do_rotary = 1), which is not supported";
  n.ignore("rotary_embedding_dim");
  auto widths = n.getInts("qkv_hidden_sizes");
  const Tensor &x = n.in(0), &w = n.in(1);
  if (n.failed())
    return failure();
  if (x.rank() != 3 || w.rank() != 2 || heads < 1)
    return n.error() << "has an input " << str(x.shape) << ", weights " << str(w.shape) << " and "
                     << heads << " heads; it needs [batch, sequence, width], [width, 3 * heads * "
                     << "size] and at least one";
  Sizes columns;
  if (widths && widths->size() != 3)
    return n.error() << "has " << widths->size() << " qkv_hidden_sizes; there must be three";
  auto third = w.shape[1].divideExact(SymExpr(3));
  if (!widths && !third)
    return n.error() << "has weights of " << w.shape[1].str() << " columns, which are not those of "
                     << "queries, keys and values";
  for (int i = 0; i < 3; ++i)
    columns.push_back(widths ? SymExpr((*widths)[i]) : *third);
  if (!n.equate(columns[0] + columns[1] + columns[2], w.shape[1],
                "the columns of queries, keys and values"))
    return failure();

  Value parts[3];
  SymExpr start(0);
  for (int i = 0; i < 3; ++i) {
    Value part = project({start, columns[i]});
    parts[i] = part ? toHeads(n, part, heads) : Value();
    if (!parts[i])
      return failure();
    start = start + columns[i];
  }
  Heads own = {parts[0], parts[1], parts[2]};
  SymExpr pastSize(0);
  if (n.has(pastInput)) {
    const Tensor &past = n.in(pastInput);
    Type element = elementOf(own.q);
    if (past.rank() != 5 || !past.shape[0].isConstant(2) || past.element != element ||
        columns[1] != columns[2])
      return n.error() << "has a past " << str(past.shape) << " of " << past.element
                       << "; it must be [2, batch, heads, past, size] of " << element;
    Sizes one(past.shape.begin() + 1, past.shape.end());
    pastSize = past.shape[3];
    auto join = [&](int64_t which, Value fresh) {
      Value old = n.reshape(n.slice(n.operand(pastInput), 0, SymExpr(which), SymExpr(1)), one);
      return n.concat({old, fresh}, 2);
    };
    own.k = join(0, own.k);
    own.v = join(1, own.v);
    if (!own.k || !own.v)
      return failure();
  }
  if (n.isUsed(1)) {
    Sizes sizes = getSizes(own.k);
    sizes.insert(sizes.begin(), SymExpr(1));
    Value present = n.concat({n.reshape(own.k, sizes), n.reshape(own.v, sizes)}, 0);
    if (!present || failed(n.set(1, n.wrap(present))))
      return failure();
  }
  Value y = buildAttention(n, own, pastSize, maskInput, biasInput);
  return y ? n.result(y) : failure();
}

static LogicalResult importMicrosoftAttention(Node &n) {
  if (failed(n.expectInputs(2, 7)) || failed(n.expectFloat(0)))
    return failure();
  Value all;
  auto project = [&](const Columns &columns) {
    if (!all) {
      all = n.matmul(n.operand(0), n.operand(1));
      all = n.has(2) ? n.binary<AddOp>(all, n.operand(2)) : all;
    }
    return all ? n.slice(all, 2, columns.start, columns.size) : all;
  };
  return importPacked(n, project, 3, 4, 5, 6);
}

static LogicalResult importQAttention(Node &n) {
  enum : unsigned { X, W, Bias, ScaleX, ScaleW, Mask, ZeroX, ZeroW, Past, None };
  if (failed(n.expectInputs(5, 9)) || failed(n.expectFloat(Bias)))
    return failure();
  if (n.in(Bias).rank() != 1)
    return n.error() << "has a bias " << str(n.in(Bias).shape) << "; it must be a vector";
  auto project = [&](const Columns &columns) -> Value {
    Value x = makeFactor(n, X, ZeroX, false),
          w = x ? makeFactor(n, W, ZeroW, true, columns) : Value();
    Value y = w ? multiplyFactors(n, x, w, ScaleX, ScaleW, columns) : Value();
    return n.binary<AddOp>(y, n.slice(n.operand(Bias), 0, columns.start, columns.size));
  };
  return importPacked(n, project, Mask, Past, None, None);
}

/// Imports MultiHeadAttention: separate queries, keys and values; caches [b, heads, past, d].
static LogicalResult importMultiHeadAttention(Node &n) {
  if (failed(n.expectInputs(1, 8)) || failed(n.expectFloat(0)))
    return failure();
  int64_t heads = n.getInt("num_heads", 0);
  if (!n.has(1) || !n.has(2) || n.in(0).rank() != 3 || heads < 1)
    return n.error() << "takes queries, keys and values packed in one input, which is not "
                        "supported; convert the model with separate inputs";
  if (failed(n.expectUnused(3, "the scores")))
    return failure();
  Value parts[3];
  SymExpr start(0);
  for (unsigned i = 0; i < 3; ++i) {
    const Tensor &x = n.in(i);
    if (x.element != n.in(0).element)
      return n.error()
             << "has queries, keys and values of different types; the types must be the same";
    if (x.rank() == 4 && i > 0) { // already [b, heads, tokens, d]
      parts[i] = n.operand(i);
      if (n.has(3))
        return n.error() << "has a bias for keys and values that are already split into heads";
      continue;
    }
    if (x.rank() != 3)
      return n.error() << "has an input of shape " << str(x.shape)
                       << "; it must be [batch, sequence, width]";
    Value v = n.operand(i);
    if (n.has(3)) {
      if (n.in(3).rank() != 1)
        return n.error() << "has a bias of shape " << str(n.in(3).shape) << "; it must be a vector";
      v = n.binary<AddOp>(v, n.slice(n.operand(3), 0, start, x.shape[2]));
      start = start + x.shape[2];
    }
    parts[i] = toHeads(n, v, heads);
  }
  Heads own = {parts[0], parts[1], parts[2]};
  if (!own.q || !own.k || !own.v)
    return failure();
  if (n.has(3) && !n.equate(start, n.in(3).shape[0], "the bias of queries, keys and values"))
    return failure();
  if (n.has(6) != n.has(7))
    return n.error() << "has only one of past keys and past values";
  SymExpr past(0);
  if (n.has(6)) {
    past = n.in(6).rank() == 4 ? n.in(6).shape[2] : past;
    if (n.in(6).rank() != 4 || n.in(7).rank() != 4)
      return n.error() << "has a past of shapes " << str(n.in(6).shape) << " and "
                       << str(n.in(7).shape) << "; they must be [batch, heads, past, size]";
    own.k = n.concat({n.operand(6), own.k}, 2);
    own.v = n.concat({n.operand(7), own.v}, 2);
    if (!own.k || !own.v)
      return failure();
  }
  for (auto [i, v] : {std::pair(1u, own.k), std::pair(2u, own.v)})
    if (n.isUsed(i) && failed(n.set(i, n.wrap(v))))
      return failure();
  Value y = buildAttention(n, own, past, 4, 5);
  return y ? n.result(y) : failure();
}

/// Imports EmbedLayerNormalization: the norm of a sum of table rows, and optionally the sum.
static LogicalResult importEmbedLayerNorm(Node &n) {
  // Inputs: ids, segments, tables of words, positions and segments, scale, bias, mask, positions.
  if (failed(n.expectInputs(1, 9)) ||
      failed(n.expectUnused(1, "how many tokens of each sample the mask shows")))
    return failure();
  for (unsigned i : {2, 3, 5, 6})
    if (!n.has(i))
      return n.error() << "lacks input " << i;
  double epsilon = n.getFloat("epsilon", 1e-12);
  n.ignore("mask_index_type");
  const Tensor &ids = n.in(0);
  if (!ids.isInt() || ids.rank() != 2)
    return n.error() << "needs ids [batch, sequence], but has " << str(ids.shape) << " of "
                     << ids.element;
  auto rows = [&](unsigned table, const Tensor &which, Value of) -> Value {
    const Tensor &t = n.in(table);
    if (t.rank() != 2 || !t.isFloat()) {
      n.error() << "needs a table of two dimensions for input " << table;
      return {};
    }
    if (!of || failed(checkIndices(n, which, t, 0)))
      return {};
    Sizes sizes = getSizes(of);
    sizes.push_back(t.shape[1]);
    return EmbeddingOp::create(n.b, n.loc, n.type(t.element, sizes), n.operand(table), of);
  };
  Value sum = rows(2, ids, n.operand(0));
  if (!sum)
    return failure();
  Tensor positions;
  Value at;
  if (n.has(8)) {
    positions = n.in(8);
    at = n.operand(8);
  } else {
    positions.element = ids.element;
    positions.shape = {SymExpr(1), ids.shape[1]};
    positions.interval = Interval{SymExpr(0), ids.shape[1] - SymExpr(1)};
    at = IotaOp::create(n.b, n.loc, n.type(ids.element, positions.shape), 1);
  }
  sum = n.binary<AddOp>(sum, rows(3, positions, at));
  if (n.has(1) && n.has(4))
    sum = n.binary<AddOp>(sum, rows(4, n.in(1), n.operand(1)));
  if (!sum)
    return failure();
  if (n.isUsed(2) && failed(n.set(2, n.wrap(sum))))
    return failure();
  Value scale = n.operand(5), bias = n.operand(6);
  return n.result(n.layerNorm(sum, scale, bias, epsilon));
}

void mlir::tpc::frontend::addMicrosoftAttentionOps(OpTable &t) {
  t.addMicrosoft(
      "Attention", importMicrosoftAttention,
      "no do_rotary, no past_present_share_buffer; integer masks [batch], [2*batch], [batch, "
      "keys], [batch, queries, keys]; past [2, batch, heads, past, size]; static head size");
  t.addMicrosoft("QAttention", importQAttention,
                 "as com.microsoft Attention; one scale for the input, and one for each column of "
                 "the weights");
  t.addMicrosoft("MultiHeadAttention", importMultiHeadAttention,
                 "no packed QKV or KV; masks as com.microsoft Attention; attention_bias of rank 4; "
                 "past keys and values together; static head size");
  t.addMicrosoft("EmbedLayerNormalization", importEmbedLayerNorm,
                 "ids [batch, sequence]; tables of rank 2");
}
