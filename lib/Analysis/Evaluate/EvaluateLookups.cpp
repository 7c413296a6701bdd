//===- EvaluateLookups.cpp - Embeddings and gathers on paper ---------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::evaluator;
using Operands = ArrayRef<const Tensor *>;

/// Rows that this rank does not hold are zero: the sum over ranks is the lookup.
static Tensor embedding(EmbeddingOp op, Operands operands, ArrayRef<int64_t> shape,
                        const Environment &env, const Coordinates &at) {
  const Tensor &table = *operands[0], &ids = *operands[1];
  Indices rows = env.getIndices(op.getTable().getType(), at);
  int64_t all = env.getGlobalShape(op.getTable().getType())[0], width = table.shape[1];
  Tensor out(shape);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t id = int64_t(ids.data[i]);
    id = id < 0 ? id + all : id;
    auto row = llvm::find(rows[0], id);
    if (row == rows[0].end())
      continue;
    for (int64_t x = 0; x < width; ++x)
      out.data[i * width + x] = table.data[(row - rows[0].begin()) * width + x];
  }
  return out;
}

/// Where an index leads in a dimension of which this rank holds `held`: nothing where another
/// rank holds that element (it reads as zero), -1 where nobody does.
static std::optional<int64_t> findHeld(int64_t index, int64_t all, ArrayRef<int64_t> held) {
  index = index < 0 ? index + all : index;
  if (index < 0 || index >= all)
    return -1;
  auto it = llvm::find(held, index);
  return it == held.end() ? std::nullopt : std::optional<int64_t>(it - held.begin());
}

static Tensor gather(GatherOp op, Operands operands, ArrayRef<int64_t> shape,
                     const Environment &env, const Coordinates &coordinates) {
  const Tensor &data = *operands[0], &indices = *operands[1];
  int64_t dim = op.getDim(), rank = indices.shape.size();
  Indices held = env.getIndices(op.getData().getType(), coordinates);
  int64_t all = env.getGlobalShape(op.getData().getType())[dim];
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t i = int64_t(indices.data[linearize(index.slice(dim, rank), indices.shape)]);
    std::optional<int64_t> found = findHeld(i, all, held[dim]);
    double &result = out.data[next++];
    if (!found || *found < 0) {
      result = found ? NAN : 0;
      return;
    }
    Shape at(index.take_front(dim));
    at.push_back(*found);
    at.append(index.begin() + dim + rank, index.end());
    result = data.data[linearize(at, data.shape)];
  });
  return out;
}

static Tensor gatherND(GatherNDOp op, Operands operands, ArrayRef<int64_t> shape,
                       const Environment &env, const Coordinates &coordinates) {
  const Tensor &data = *operands[0], &indices = *operands[1];
  size_t batch = op.getBatchDims(), rank = indices.shape.size(), k = indices.shape.back();
  Indices held = env.getIndices(op.getData().getType(), coordinates);
  Shape all = env.getGlobalShape(op.getData().getType());
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Shape at(index.take_front(batch));
    Shape tuple(index.take_front(rank - 1));
    tuple.push_back(0);
    bool here = true, anywhere = true;
    for (size_t i = 0; i < k; ++i) {
      tuple.back() = i;
      int64_t x = int64_t(indices.data[linearize(tuple, indices.shape)]);
      std::optional<int64_t> found = findHeld(x, all[batch + i], held[batch + i]);
      here &= found.has_value();
      anywhere &= !found || *found >= 0;
      at.push_back(found.value_or(0));
    }
    at.append(index.begin() + rank - 1, index.end());
    out.data[next++] = !anywhere ? NAN : here ? data.data[linearize(at, data.shape)] : 0;
  });
  return out;
}

Tensor evaluator::evaluateLookup(Operation *op, Operands operands, ArrayRef<int64_t> shape,
                                 const Environment &env, const Coordinates &at) {
  if (auto embeds = dyn_cast<EmbeddingOp>(op))
    return embedding(embeds, operands, shape, env, at);
  if (auto gathers = dyn_cast<GatherOp>(op))
    return gather(gathers, operands, shape, env, at);
  return gatherND(cast<GatherNDOp>(op), operands, shape, env, at);
}
