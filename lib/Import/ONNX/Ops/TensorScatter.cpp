//===- TensorScatter.cpp - Caches that are written at positions -----------===//
//
// TensorScatter writes new keys or values into a cache of fixed size, for each sequence at a
// position that is known at run time. The result is a lookup of rows in the concatenation of cache
// and new rows.
//
// In a generation, a cache is reduced to the rows that it contains, the first `past` ones, and new
// rows follow them (Importer::findCacheViews). Then the result is the concatenation.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"

#include "onnx.pb.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

std::optional<SymExpr> mlir::tpc::frontend::findCommonSize(Value value) {
  IndexAnalysis analysis(getSizes(value));
  IndexExpr element = analysis.at(value, analysis.getIndices());
  if (!element || !element.isInteger() || !IndexAnalysis::isSize(element.getPolynomial()))
    return std::nullopt;
  return element.getPolynomial();
}

Importer::CacheViews Importer::findCacheViews() const {
  std::map<std::string, int64_t> ranks;
  for (const auto &input : model.graph().input())
    ranks[input.name()] = input.type().tensor_type().shape().dim_size();
  CacheViews views;
  for (const auto &node : model.graph().node()) {
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      continue;
    auto isInput = [&](int i) { return node.input_size() > i && ranks.count(node.input(i)); };
    if (node.op_type() == "Attention" && isInput(6))
      views.ends.insert(node.input(6));
    if (node.op_type() != "TensorScatter" || !isInput(0) || !isInput(2) ||
        ranks[node.input(2)] != 1)
      continue;
    int64_t rank = ranks[node.input(0)], axis = -2;
    bool isLinear = true;
    for (const auto &attribute : node.attribute()) {
      if (attribute.name() == "axis")
        axis = attribute.i();
      if (attribute.name() == "mode")
        isLinear = attribute.s() == "linear";
    }
    axis += axis < 0 ? rank : 0;
    if (!isLinear || axis < 1 || axis >= rank)
      continue;
    views.dims[node.input(0)] = axis;
    views.starts.insert(node.input(2));
  }
  if (views.dims.empty())
    return {};
  return views;
}

FailureOr<SymExpr> Importer::countTokens(const CacheViews &views) {
  for (const auto &input : model.graph().input()) {
    const auto &type = input.type().tensor_type();
    if (type.shape().dim_size() != 2 || views.dims.count(input.name()) || top.lookup(input.name()))
      continue;
    FailureOr<Sizes> sizes = readShape(input);
    if (failed(sizes))
      return failure();
    return SymExpr::symbol(kPastSymbol.str()) + (*sizes)[1];
  }
  return emitError(fileLoc()) << "the model has caches that TensorScatter writes, but no input of "
                                 "token ids, [batch, sequence]";
}

static LogicalResult importTensorScatter(Node &n) {
  if (failed(n.expectInputs(2, 3)))
    return failure();
  const Tensor &cache = n.in(0), &fresh = n.in(1);
  std::string mode = n.getString("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return n.error() << "has mode = '" << mode << "'; it must be linear or circular";
  if (cache.element != fresh.element || cache.rank() != fresh.rank())
    return n.error() << "writes " << str(fresh.shape) << " of " << fresh.element << " into "
                     << str(cache.shape) << " of " << cache.element
                     << "; they must have the same rank and element type";
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", -2), cache.rank());
  if (failed(axis))
    return failure();
  if (*axis == 0)
    return n.error() << "has axis = 0, the dimension of sequences";
  for (int64_t d = 0; d < cache.rank(); ++d)
    if (d != *axis && !n.equate(cache.shape[d], fresh.shape[d],
                                "a cache and its new rows have the same other dimensions"))
      return failure();
  const SymExpr batch = cache.shape[0], capacity = cache.shape[*axis], count = fresh.shape[*axis];
  Type index = n.b.getI64Type();
  Value start;
  if (n.has(2)) {
    if (!n.in(2).isInt() || n.in(2).rank() != 1)
      return n.error() << "has write_indices " << str(n.in(2).shape) << " of " << n.in(2).element
                       << "; they must be integers [batch]";
    if (!n.equate(n.in(2).shape[0], batch, "write_indices has a number for each sequence"))
      return failure();
    start = n.cast(n.operand(2), index);
    if (!start)
      return failure();
    if (std::optional<SymExpr> size = findCommonSize(start); size && *size == capacity)
      return n.result(n.concat({n.operand(0), n.operand(1)}, *axis));
  }
  std::string why = "node " + getSourceName(n.loc) + " writes " + count.str() +
                    " rows into a cache of " + capacity.str();
  if (!n.assumeNonNegative(capacity - count, why))
    return n.error() << "writes " << count.str() << " rows into a cache of " << capacity.str();

  Value row = n.iota(capacity, 1, 2), distance = row;
  auto number = [&](const SymExpr &e) { return n.size(e, index); };
  if (start && mode == "circular") {
    start = n.binary<ModOp>(start, number(capacity));
  } else if (start) {
    start = n.checkedIndex(start, capacity - count + SymExpr(1), /*wraps=*/false);
  }
  if (start) {
    distance = n.binary<SubOp>(row, n.reshape(start, {batch, SymExpr(1)}));
    if (mode == "circular") {
      Value around = n.binary<AddOp>(distance, number(capacity));
      distance = n.select(n.compare(Predicate::LT, distance, number(0)), around, distance);
    }
  }
  if (!distance)
    return failure();
  Value isNew = n.binary<AndOp>(n.compare(Predicate::GE, distance, number(0)),
                                n.compare(Predicate::LT, distance, number(count)));
  Value from = n.binary<AddOp>(distance, number(capacity));
  Value rows = n.expand(n.select(isNew, from, row), {batch, capacity});
  rows = n.reshape(rows, {batch, capacity, SymExpr(1)});

  SmallVector<int64_t> order = {0, *axis};
  for (int64_t d = 1; d < cache.rank(); ++d)
    if (d != *axis)
      order.push_back(d);
  Value all = n.transpose(n.concat({n.operand(0), n.operand(1)}, *axis), order);
  if (!all || !rows)
    return failure();
  Sizes sizes = getSizes(all);
  sizes[1] = capacity;
  Value result = GatherNDOp::create(n.b, n.loc, n.type(cache.element, sizes), all, rows, 1);
  SmallVector<int64_t> back(order.size());
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = to;
  return n.result(n.transpose(result, back));
}

void mlir::tpc::frontend::addTensorScatterOps(OpTable &t) {
  t.add("TensorScatter", {24}, importTensorScatter);
}
