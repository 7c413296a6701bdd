//===- KernelModelsLookup.cpp - Lookups and scatters in kernels ---------===//

#include "KernelModels.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;

// Converts an id to a row: negative ids count from the end. Returns {local row index, whether the
// row is in this rank's shard}. Elements of rows of other shards are zero; so are elements of rows
// out of bounds, for which an error is reported.
static SmallVector<Value> findRow(KernelBuilder &e, Operation *op, Value given, DimAttr dim) {
  OpBuilder &b = e.builder();
  Value n = e.size(getGlobalSize(dim));
  Value negative = e.less(given, e.constant(0));
  Value id = e.select(negative, e.add(given, n), given);
  Value exists = arith::CmpIOp::create(b, e.getLoc(), arith::CmpIPredicate::ult, id, n);
  e.reportUnless(exists, op, given, n);
  Value inside, row = e.localIndex(dim, id, &inside);
  return {row, inside ? arith::AndIOp::create(b, e.getLoc(), exists, inside) : exists};
}

namespace {
struct EmbeddingModel : KernelOpInterface::ExternalModel<EmbeddingModel, EmbeddingOp> {
  SmallVector<Value> row(EmbeddingOp op, KernelBuilder &e, ValueRange index) const {
    return e.remember(op, index, [&] {
      Value id = toIndex(e, e.element(op.getIds(), index), op.getIds().getType());
      return findRow(e, op, id, getDist(op.getTable()).getDims()[0]);
    });
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto embedding = cast<EmbeddingOp>(op);
    if ((int64_t)index.size() + 1 == embedding.getType().getRank() &&
        haveSameRows(embedding.getIds(), embedding.getResult(), index.size()))
      row(embedding, e, index);
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto embedding = cast<EmbeddingOp>(op);
    SmallVector<Value> ids(index.drop_back());
    auto found = row(embedding, e, ids);
    Value column = index.back();
    Type type = getScalarType(embedding.getType());
    return e.ifElse(
        found[1], type, [&] { return e.element(embedding.getTable(), {found[0], column}); },
        [&] { return e.scalar(type, 0); });
  }
  int64_t getMaxRowRank(Operation *op) const {
    return cast<EmbeddingOp>(op).getType().getRank() - 1;
  }
  bool isRowAligned(Operation *op, unsigned operand, int64_t rank) const {
    return operand == 1 && rank < cast<EmbeddingOp>(op).getType().getRank();
  }
};

struct GatherModel : KernelOpInterface::ExternalModel<GatherModel, GatherOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto gather = cast<GatherOp>(op);
    int64_t dim = gather.getDim();
    auto idType = cast<RankedTensorType>(gather.getIndices().getType());
    SmallVector<Value> ids(index.slice(dim, idType.getRank()));
    auto found = e.remember(op, ids, [&] {
      Value id = toIndex(e, e.element(gather.getIndices(), ids), idType);
      return findRow(e, op, id, getDist(gather.getData()).getDims()[dim]);
    });
    SmallVector<Value> at(index.take_front(dim));
    at.push_back(found[0]);
    llvm::append_range(at, index.drop_front(dim + idType.getRank()));
    Type type = getScalarType(gather.getType());
    return e.ifElse(
        found[1], type, [&] { return e.element(gather.getData(), at); },
        [&] { return e.scalar(type, 0); });
  }
  bool isCheap(Operation *) const { return false; }
};

struct GatherNDModel : KernelOpInterface::ExternalModel<GatherNDModel, GatherNDOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto gather = cast<GatherNDOp>(op);
    auto idType = cast<RankedTensorType>(gather.getIndices().getType());
    int64_t batch = gather.getBatchDims(), k = idType.getShape().back();
    SmallVector<Value> ids(index.take_front(idType.getRank() - 1));
    SmallVector<Value> at(index.take_front(batch));
    Value inside;
    for (int64_t i = 0; i < k; ++i) {
      SmallVector<Value> one(ids);
      one.push_back(e.constant(i));
      Value id = toIndex(e, e.element(gather.getIndices(), one), idType);
      auto found = findRow(e, op, id, getDist(gather.getData()).getDims()[batch + i]);
      at.push_back(found[0]);
      inside = inside ? arith::AndIOp::create(e.builder(), e.getLoc(), inside, found[1]).getResult()
                      : found[1];
    }
    llvm::append_range(at, index.drop_front(idType.getRank() - 1));
    if (!inside)
      return e.element(gather.getData(), at);
    Type type = getScalarType(gather.getType());
    return e.ifElse(
        inside, type, [&] { return e.element(gather.getData(), at); },
        [&] { return e.scalar(type, 0); });
  }
  bool isCheap(Operation *) const { return false; }
};

/// Each row of the result reads all ids and, if one of them names the row, all updates. So updates
/// are added in their order, for any number of threads.
struct ScatterAddModel : KernelOpInterface::ExternalModel<ScatterAddModel, ScatterAddOp> {
  /// Returns value(i) if ids[i] is the row with this global index, else 0.
  static Value ofRow(ScatterAddOp op, KernelBuilder &e, ValueRange i, Value row, Value value) {
    OpBuilder &b = e.builder();
    Value id = toIndex(e, e.element(op.getIds(), i), op.getIds().getType());
    Value n = e.size(getGlobalSize(getDist(op.getResult()).getDims()[0]));
    id = e.select(e.less(id, e.constant(0)), e.add(id, n), id);
    Value isRow = arith::CmpIOp::create(b, e.getLoc(), arith::CmpIPredicate::eq, id, row);
    return arith::SelectOp::create(b, e.getLoc(), isRow, value, e.scalar(value.getType(), 0));
  }

  /// Returns whether all ids are one constant.
  static bool hasOneId(ScatterAddOp op) {
    Operation *from = op.getIds().getDefiningOp();
    while (isa_and_nonnull<ExpandOp, ReshapeOp>(from))
      from = from->getOperand(0).getDefiningOp();
    auto constant = dyn_cast_or_null<ConstantOp>(from);
    auto ids = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    return ids && ids.isSplat();
  }

  /// Returns {global index, whether an id is this row}.
  static SmallVector<Value> getRow(ScatterAddOp op, KernelBuilder &e, Value local) {
    return e.remember(op, local, [&]() -> SmallVector<Value> {
      OpBuilder &b = e.builder();
      Type type = getComputeType(op.getType());
      Value row = e.globalIndex(getDist(op.getResult()).getDims()[0], local);
      Value count = e.fold(kernel::FoldKind::Sum, type, e.sizesOf(op.getIds()), /*adjacent=*/true,
                           [&](ValueRange i) { return ofRow(op, e, i, row, e.scalar(type, 1)); });
      return {row, arith::CmpFOp::create(b, e.getLoc(), arith::CmpFPredicate::OGT, count,
                                         e.scalar(type, 0))};
    });
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange index) const {
    if (index.size() == 1)
      getRow(cast<ScatterAddOp>(op), e, index[0]);
  }
  Value buildElement(Operation *base, KernelBuilder &e, ValueRange index) const {
    auto op = cast<ScatterAddOp>(base);
    SmallVector<Value> row = getRow(op, e, index[0]);
    Type type = getComputeType(op.getType());
    Value sum = e.ifElse(
        row[1], type,
        [&]() -> Value {
          return e.fold(kernel::FoldKind::Sum, type, e.sizesOf(op.getIds()), /*adjacent=*/false,
                        [&](ValueRange i) {
                          SmallVector<Value> at(i);
                          at.push_back(index[1]);
                          Value update = e.wide(op.getUpdates(), at);
                          return hasOneId(op) ? update : ofRow(op, e, i, row[0], update);
                        });
        },
        [&] { return e.scalar(type, 0); });
    return e.narrow(sum, op.getType());
  }
  int64_t getMaxRowRank(Operation *) const { return 1; }
  bool isCheap(Operation *) const { return false; }
};
} // namespace

void mlir::tpc::attachLookupModels(MLIRContext *context) {
  EmbeddingOp::attachInterface<EmbeddingModel>(*context);
  GatherOp::attachInterface<GatherModel>(*context);
  GatherNDOp::attachInterface<GatherNDModel>(*context);
  ScatterAddOp::attachInterface<ScatterAddModel>(*context);
}
