//===- EvaluateLookups.cpp - Evaluation of lookups and scatters ---------===//

#include "Domains.h"
#include "Models.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

// Dimensions of the first operand that the second operand indexes.
static SmallVector<int64_t> getTableDims(EmbeddingOp) { return {0}; }
static SmallVector<int64_t> getTableDims(GatherOp op) { return {int64_t(op.getDim())}; }
static SmallVector<int64_t> getTableDims(GatherNDOp op) {
  int64_t first = op.getBatchDims(), count = *getSizes(op.getIndices()).back().asConstant();
  return llvm::to_vector(llvm::seq(first, first + count));
}

namespace {
/// The indexed dimensions of a lookup, and their slice on this rank.
class Table {
public:
  template <typename OpT, typename A>
  Table(OpT op, Evaluation<A> &e)
      : world(e.world), dims(getTableDims(op)),
        sizes(e.world.getWholeShape(op->getOperand(0).getType())),
        owned(e.getSlice(op->getOperand(0)).indices) {}
  enum Location { Here, Elsewhere, Nowhere };
  /// Finds the global index `index` in the i-th indexed dimension. Negative indices are relative to
  /// the end. Sets `at` to the local index.
  Location find(size_t i, int64_t index, int64_t &at) const {
    at = 0;
    int64_t dim = dims[i];
    index = index < 0 ? index + sizes[dim] : index;
    if (index < 0 || index >= sizes[dim]) {
      world.misses = true;
      return Nowhere;
    }
    auto it = llvm::lower_bound(owned[dim], index);
    if (it == owned[dim].end() || *it != index)
      return Elsewhere;
    at = it - owned[dim].begin();
    return Here;
  }

  /// Records whether the index is the first row or the last one.
  void noteRow(size_t i, int64_t index, Facts &seen, Magnitudes &magnitudes) const {
    int64_t rows = sizes[dims[i]];
    index = index < 0 ? index + rows : index;
    seen.add(Fact::FirstRow, index == 0);
    seen.add(Fact::LastRow, index == rows - 1);
    magnitudes.rows = std::max(magnitudes.rows, index + 1);
  }

private:
  World &world;
  SmallVector<int64_t> dims;
  ArrayRef<int64_t> sizes;
  ArrayRef<std::vector<int64_t>> owned;
};

/// Requires indices in bounds of all indexed dimensions. The table has the domain of the result.
template <typename OpT>
struct LookupDomain : DomainOpInterface::ExternalModel<LookupDomain<OpT>, OpT> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    domains.narrow(op->getOperand(0), domains.get(op->getResult(0)));
    for (int64_t dim : getTableDims(cast<OpT>(op))) {
      Type table = op->getOperand(0).getType();
      domains.narrow(op->getOperand(1),
                     Domain::ofIndices(domains.getWorld().getWholeShape(table)[dim]));
    }
    return success();
  }
};

/// Rows of other ranks are zero, so that the sum over ranks is the result of the lookup.
struct EmbeddingEvaluation : EvaluationModel<EmbeddingEvaluation, EmbeddingOp> {
  template <typename A> static Result<A> evaluate(EmbeddingOp op, Evaluation<A> &e) {
    const Data<A> &table = *e.operands[0], &ids = *e.operands[1];
    Table rows(op, e);
    Facts seen;
    Magnitudes magnitudes;
    int64_t width = table.shape[1];
    Data<A> out(e.shape);
    if (out.data.size() != ids.data.size() * width)
      return e.fail() << "the ids on a rank do not match the result";
    for (size_t i = 0; i < ids.data.size(); ++i) {
      int64_t row, id = A::toInteger(ids.data[i]);
      rows.noteRow(0, id, seen, magnitudes);
      if (rows.find(0, id, row) == Table::Here)
        std::copy_n(table.data.begin() + row * width, width, out.data.begin() + i * width);
    }
    e.note({Fact::FirstRow, Fact::LastRow}, seen, magnitudes);
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
      return e.fail() << "the shapes of the operands do not match on a rank";
    Table table(op, e);
    typename A::Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(op.getData())));
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      int64_t i = A::toInteger(indices.data[linearize(index.slice(dim, rank), indices.shape)]), row;
      auto found = table.find(0, i, row);
      Shape position(index.take_front(dim));
      position.push_back(row);
      position.append(index.begin() + dim + rank, index.end());
      out.data[next++] = found == Table::Here      ? data.data[linearize(position, data.shape)]
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
      return e.fail() << "the shapes of the operands do not match on a rank";
    Table table(op, e);
    typename A::Element nowhere = A::nowhere(isa<FloatType>(getElementTypeOrSelf(op.getData())));
    Data<A> out(e.shape);
    size_t next = 0;
    forEachIndex(e.shape, [&](ArrayRef<int64_t> index) {
      Shape position(index.take_front(batch)), tuple(index.take_front(rank - 1));
      tuple.push_back(0);
      bool here = true, anywhere = true;
      for (size_t i = 0; i < k; ++i) {
        tuple.back() = i;
        int64_t row;
        auto found =
            table.find(i, A::toInteger(indices.data[linearize(tuple, indices.shape)]), row);
        here &= found == Table::Here;
        anywhere &= found != Table::Nowhere;
        position.push_back(row);
      }
      position.append(index.begin() + rank - 1, index.end());
      out.data[next++] = here       ? data.data[linearize(position, data.shape)]
                         : anywhere ? typename A::Element(0)
                                    : nowhere;
    });
    return out;
  }
};

/// Requires ids of rows of the result.
struct ScatterAddDomain : DomainOpInterface::ExternalModel<ScatterAddDomain, ScatterAddOp> {
  LogicalResult narrowOperands(Operation *base, Domains &domains) const {
    auto op = cast<ScatterAddOp>(base);
    domains.narrow(op.getIds(),
                   Domain::ofIndices(domains.getWorld().getWholeShape(op.getType())[0]));
    return success();
  }
};

/// A rank adds the updates whose ids are rows of its shard.
struct ScatterAddEvaluation : EvaluationModel<ScatterAddEvaluation, ScatterAddOp> {
  template <typename A> static Result<A> evaluate(ScatterAddOp op, Evaluation<A> &e) {
    const Data<A> &updates = *e.operands[0], &ids = *e.operands[1];
    int64_t rows = e.world.getWholeShape(op.getType())[0], width = e.shape[1];
    const std::vector<int64_t> &owned = e.getSlice(op.getResult()).indices[0];
    if (updates.data.size() != ids.data.size() * width)
      return e.fail() << "the ids on a rank do not match the updates";
    std::vector<typename A::Sum> sums(e.shape[0] * width);
    for (size_t i = 0; i < ids.data.size(); ++i) {
      int64_t id = A::toInteger(ids.data[i]);
      auto row = llvm::lower_bound(owned, id < 0 ? id + rows : id);
      if (row == owned.end() || *row != (id < 0 ? id + rows : id))
        continue;
      for (int64_t h = 0; h < width; ++h)
        sums[(row - owned.begin()) * width + h].add(updates.data[i * width + h],
                                                    typename A::Element(1));
    }
    Data<A> out(e.shape);
    llvm::transform(sums, out.data.begin(), [](typename A::Sum &sum) { return sum.get(); });
    return out;
  }
};
} // namespace

void interpret::attachLookupEvaluations(MLIRContext *context) {
  tpc::attachModels<LookupDomain, EmbeddingOp, GatherOp, GatherNDOp>(context);
  EmbeddingOp::attachInterface<EmbeddingEvaluation>(*context);
  GatherOp::attachInterface<GatherEvaluation>(*context);
  GatherNDOp::attachInterface<GatherNDEvaluation>(*context);
  ScatterAddOp::attachInterface<ScatterAddDomain>(*context);
  ScatterAddOp::attachInterface<ScatterAddEvaluation>(*context);
}
