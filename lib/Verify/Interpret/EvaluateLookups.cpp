//===- EvaluateLookups.cpp - Embeddings and gathers on one rank -----------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
/// Dimensions that are looked up, and which part of them this rank holds.
class Table {
public:
  Table(ArrayRef<int64_t> sizes, ArrayRef<std::vector<int64_t>> held) : sizes(sizes), held(held) {}
  enum Place { Here, Elsewhere, Nowhere };
  /// Where an index leads; negative ones count from the end. Sets `at` to the place on this rank.
  Place find(size_t dim, int64_t index, int64_t &at) const {
    at = 0;
    index = index < 0 ? index + sizes[dim] : index;
    if (index < 0 || index >= sizes[dim])
      return Nowhere;
    auto it = llvm::lower_bound(held[dim], index);
    if (it == held[dim].end() || *it != index)
      return Elsewhere;
    at = it - held[dim].begin();
    return Here;
  }

private:
  ArrayRef<int64_t> sizes;
  ArrayRef<std::vector<int64_t>> held;
};
} // namespace

/// Rows that this rank does not hold are zero: the sum over ranks is the lookup.
template <typename A> auto Evaluation<A>::evaluateEmbedding() -> Result {
  const Value &table = *operands[0], &ids = *operands[1];
  Table rows(world.getWholeShape(op->getOperand(0).getType()), getPart(op->getOperand(0)).indices);
  int64_t width = table.shape[1];
  Value out(shape);
  if (out.data.size() != ids.data.size() * width)
    return fail() << "the ids on a rank do not fit the result";
  for (size_t i = 0; i < ids.data.size(); ++i) {
    int64_t row;
    if (rows.find(0, A::toInteger(ids.data[i]), row) == Table::Here)
      std::copy_n(table.data.begin() + row * width, width, out.data.begin() + i * width);
  }
  return out;
}

template <typename A> auto Evaluation<A>::evaluateGather(int64_t dim) -> Result {
  const Value &data = *operands[0], &indices = *operands[1];
  int64_t rank = indices.shape.size();
  Shape expected(data.shape.begin(), data.shape.begin() + dim);
  expected.append(indices.shape);
  expected.append(data.shape.begin() + dim + 1, data.shape.end());
  if (expected != shape)
    return fail() << "the parts on a rank do not fit";
  mlir::Value of = op->getOperand(0);
  Table table(world.getWholeShape(of.getType()), getPart(of).indices);
  Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(of)));
  Value out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t i = A::toInteger(indices.data[linearize(index.slice(dim, rank), indices.shape)]), row;
    auto found = table.find(dim, i, row);
    Shape place(index.take_front(dim));
    place.push_back(row);
    place.append(index.begin() + dim + rank, index.end());
    out.data[next++] = found == Table::Here      ? data.data[linearize(place, data.shape)]
                       : found == Table::Nowhere ? nowhere
                                                 : Element(0);
  });
  return out;
}

template <typename A> auto Evaluation<A>::evaluateGatherND(int64_t batch) -> Result {
  const Value &data = *operands[0], &indices = *operands[1];
  size_t rank = indices.shape.size(), k = indices.shape.back();
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.append(data.shape.begin() + batch + k, data.shape.end());
  if (expected != shape)
    return fail() << "the parts on a rank do not fit";
  mlir::Value of = op->getOperand(0);
  Table table(world.getWholeShape(of.getType()), getPart(of).indices);
  Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(of)));
  Value out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Shape place(index.take_front(batch)), tuple(index.take_front(rank - 1));
    tuple.push_back(0);
    bool here = true, anywhere = true;
    for (size_t i = 0; i < k; ++i) {
      tuple.back() = i;
      int64_t row;
      auto found =
          table.find(batch + i, A::toInteger(indices.data[linearize(tuple, indices.shape)]), row);
      here &= found == Table::Here;
      anywhere &= found != Table::Nowhere;
      place.push_back(row);
    }
    place.append(index.begin() + rank - 1, index.end());
    out.data[next++] = here       ? data.data[linearize(place, data.shape)]
                       : anywhere ? Element(0)
                                  : nowhere;
  });
  return out;
}

template <typename A> auto Evaluation<A>::runLookup() -> std::optional<Result> {
  if (isa<EmbeddingOp>(op))
    return evaluateEmbedding();
  if (auto gather = dyn_cast<GatherOp>(op))
    return evaluateGather(gather.getDim());
  if (auto gather = dyn_cast<GatherNDOp>(op))
    return evaluateGatherND(gather.getBatchDims());
  return std::nullopt;
}

template std::optional<Evaluation<Doubles>::Result> Evaluation<Doubles>::runLookup();
template std::optional<Evaluation<Field>::Result> Evaluation<Field>::runLookup();
