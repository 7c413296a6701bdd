//===- EvaluateLookups.cpp - Embeddings and gathers on one rank -----------===//

#include "Models.h"

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

/// Rows that this rank does not hold are zero: the sum over ranks is the lookup.
struct EmbeddingEvaluation : EvaluationModel<EmbeddingEvaluation, EmbeddingOp> {
  template <typename A> static Result<A> evaluate(EmbeddingOp op, Evaluation<A> &e) {
    const Data<A> &table = *e.operands[0], &ids = *e.operands[1];
    Table rows(e.world.getWholeShape(op->getOperand(0).getType()),
               e.getPart(op->getOperand(0)).indices);
    int64_t width = table.shape[1];
    Data<A> out(e.shape);
    if (out.data.size() != ids.data.size() * width)
      return e.fail() << "the ids on a rank do not fit the result";
    for (size_t i = 0; i < ids.data.size(); ++i) {
      int64_t row;
      if (rows.find(0, A::toInteger(ids.data[i]), row) == Table::Here)
        std::copy_n(table.data.begin() + row * width, width, out.data.begin() + i * width);
    }
    return out;
  }
};

struct GatherEvaluation : EvaluationModel<GatherEvaluation, GatherOp> {
  template <typename A> static Result<A> evaluate(GatherOp op, Evaluation<A> &e) {
    int64_t dim = op.getDim();
    const Data<A> &data = *e.operands[0], &indices = *e.operands[1];
    int64_t rank = indices.shape.size();
    Shape expected(data.shape.begin(), data.shape.begin() + dim);
    expected.append(indices.shape);
    expected.append(data.shape.begin() + dim + 1, data.shape.end());
    if (expected != e.shape)
      return e.fail() << "the parts on a rank do not fit";
    Value of = op->getOperand(0);
    Table table(e.world.getWholeShape(of.getType()), e.getPart(of).indices);
    typename A::Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(of)));
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      int64_t i = A::toInteger(indices.data[linearize(index.slice(dim, rank), indices.shape)]), row;
      auto found = table.find(dim, i, row);
      Shape place(index.take_front(dim));
      place.push_back(row);
      place.append(index.begin() + dim + rank, index.end());
      out.data[next++] = found == Table::Here      ? data.data[linearize(place, data.shape)]
                         : found == Table::Nowhere ? nowhere
                                                   : typename A::Element(0);
    });
    return out;
  }
};

struct GatherNDEvaluation : EvaluationModel<GatherNDEvaluation, GatherNDOp> {
  template <typename A> static Result<A> evaluate(GatherNDOp op, Evaluation<A> &e) {
    int64_t batch = op.getBatchDims();
    const Data<A> &data = *e.operands[0], &indices = *e.operands[1];
    size_t rank = indices.shape.size(), k = indices.shape.back();
    Shape expected(indices.shape.begin(), indices.shape.end() - 1);
    expected.append(data.shape.begin() + batch + k, data.shape.end());
    if (expected != e.shape)
      return e.fail() << "the parts on a rank do not fit";
    Value of = op->getOperand(0);
    Table table(e.world.getWholeShape(of.getType()), e.getPart(of).indices);
    typename A::Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(of)));
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
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
                         : anywhere ? typename A::Element(0)
                                    : nowhere;
    });
    return out;
  }
};
} // namespace

void interpret::attachLookupEvaluations(MLIRContext *context) {
  EmbeddingOp::attachInterface<EmbeddingEvaluation>(*context);
  GatherOp::attachInterface<GatherEvaluation>(*context);
  GatherNDOp::attachInterface<GatherNDEvaluation>(*context);
}
