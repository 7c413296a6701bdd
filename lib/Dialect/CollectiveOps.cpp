//===- CollectiveOps.cpp - Resharding and communication -------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Exchange.h"

using namespace mlir;
using namespace mlir::tpc;

#include "tpc/Interfaces/CollectiveInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "tpc/Dialect/AsyncOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Common code
//===----------------------------------------------------------------------===//

static SmallVector<StringAttr> axesOf(ArrayAttr axes) {
  return llvm::to_vector(axes.getAsRange<StringAttr>());
}

static LogicalResult checkCommon(Operation *op, Value in, Value out, bool sameSizes = true) {
  if (elementTypeOf(in) != elementTypeOf(out))
    return op->emitOpError("must not change the element type");
  if (sameSizes && getSizes(in) != getSizes(out))
    return op->emitOpError() << "must not change the global shape, but changes "
                             << describe(getSizes(in)) << " to " << describe(getSizes(out));
  return success();
}

static LogicalResult checkAxes(Operation *op, ArrayAttr axes) {
  if (axes.empty())
    return op->emitOpError("needs at least one axis");
  MeshAttr grid = MeshAttr::lookup(op);
  for (StringAttr axis : axesOf(axes))
    if (grid && !grid.hasAxis(axis))
      return op->emitOpError() << "axis '" << axis.getValue() << "' is not in the grid";
  return success();
}

/// Returns `dim` without `axes` if these are the last axes of the product or, if the product has no
/// axes, of one factor. Otherwise returns null.
static DimAttr removeInnermost(DimAttr dim, ArrayRef<StringAttr> axes) {
  auto endsWith = [&](ArrayRef<StringAttr> all) {
    return all.size() >= axes.size() && all.take_back(axes.size()) == axes;
  };
  if (!dim.getAxes().empty()) {
    if (!endsWith(dim.getAxes()))
      return {};
    return DimAttr::get(dim.getContext(), dim.getFactors(), dim.getAxes().drop_back(axes.size()));
  }
  SmallVector<FactorAttr> factors(dim.getFactors());
  for (FactorAttr &f : factors)
    if (endsWith(f.getAxes())) {
      f = FactorAttr::get(dim.getContext(), f.getSize(), f.getAxes().drop_back(axes.size()));
      return DimAttr::get(dim.getContext(), factors);
    }
  return {};
}

static DistAttr removeSplit(DistAttr dist, int64_t dim, ArrayRef<StringAttr> axes) {
  SmallVector<DimAttr> dims(dist.getDims());
  dims[dim] = removeInnermost(dims[dim], axes);
  return dims[dim] ? dist.withDims(dims) : DistAttr();
}

static DistAttr removePartial(DistAttr dist, ArrayRef<StringAttr> axes) {
  SmallVector<StringAttr> rest;
  for (StringAttr axis : dist.getPartialAxes())
    if (!llvm::is_contained(axes, axis))
      rest.push_back(axis);
  if (rest.size() + axes.size() != dist.getPartialAxes().size())
    return {};
  if (rest.empty())
    return dist.withPartial({});
  return dist.withPartial(PartialAttr::get(dist.getContext(), dist.getPartial().getKind(), rest));
}

/// Compares distributions, but not whether they are local: a replicated local type may have no
/// encoding, like a global one.
static bool sameDist(DistAttr a, DistAttr b) {
  return a && b && a.withLocal(false) == b.withLocal(false);
}

static LogicalResult distMismatch(Operation *op, const Twine &what) {
  return op->emitOpError() << what << "; operand is " << op->getOperand(0).getType() << ", result "
                           << op->getResult(0).getType();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())))
    return failure();
  DistAttr from = getDist(getOperand()), to = getDist(getResult());
  if (from.getLocal() || to.getLocal())
    return emitOpError("belongs to the sharded program; local values are "
                       "moved by collectives");
  for (StringAttr axis : to.getPartialAxes())
    if (!from.isUnreducedOver(axis))
      return emitOpError() << "cannot make a value unreduced over '" << axis.getValue() << "'";
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return {};
}

static LogicalResult checkAllReduce(Operation *op, ArrayAttr axes) {
  if (failed(checkCommon(op, op->getOperand(0), op->getResult(0))) || failed(checkAxes(op, axes)))
    return failure();
  DistAttr expected = removePartial(getDist(op->getOperand(0)), axesOf(axes));
  if (!expected)
    return distMismatch(op, "needs an operand that is unreduced over its axes");
  if (!sameDist(expected, getDist(op->getResult(0))))
    return distMismatch(op, "result must be the operand, no longer unreduced");
  return success();
}

LogicalResult AllReduceOp::verify() { return checkAllReduce(*this, getAxesAttr()); }

LogicalResult AllReduceStartOp::verify() {
  int64_t chunks = getChunks(), grain = getGrain();
  if (chunks < 1 || chunks > maxChunks)
    return emitOpError() << "must have 1 to " << maxChunks << " chunks, not " << chunks;
  if (grain < 1)
    return emitOpError() << "must have chunks of at least 1 row, not " << grain;
  return checkAllReduce(*this, getAxesAttr());
}

SmallVector<int64_t> AllReduceStartOp::getChunkRows(int64_t rows) {
  int64_t chunks = getChunks(), grain = getGrain();
  int64_t units = llvm::divideCeil(rows, grain);
  SmallVector<int64_t> sizes;
  for (int64_t i = 0; i < chunks; ++i) {
    auto begin = [&](int64_t i) {
      return std::min<int64_t>(rows, grain * llvm::divideCeil(i * units, chunks));
    };
    sizes.push_back(begin(i + 1) - begin(i));
  }
  return sizes;
}

LogicalResult mlir::tpc::checkGather(Operation *op, ArrayAttr axes, int64_t dim) {
  if (failed(checkCommon(op, op->getOperand(0), op->getResult(0))) || failed(checkAxes(op, axes)) ||
      failed(checkDim(op, op->getOperand(0), dim, "dim")))
    return failure();
  DistAttr expected = removeSplit(getDist(op->getOperand(0)), dim, axesOf(axes));
  if (!expected)
    return distMismatch(op, "its axes are not the innermost split of dimension " + Twine(dim) +
                                " of the operand");
  if (!sameDist(expected, getDist(op->getResult(0))))
    return distMismatch(op, "result must be the operand, no longer split over "
                            "these axes");
  return success();
}

LogicalResult mlir::tpc::checkScatter(Operation *op, ArrayAttr list, int64_t dim) {
  if (failed(checkCommon(op, op->getOperand(0), op->getResult(0))) || failed(checkAxes(op, list)) ||
      failed(checkDim(op, op->getOperand(0), dim, "dim")))
    return failure();
  SmallVector<StringAttr> axes = axesOf(list);
  DistAttr reduced = removePartial(getDist(op->getOperand(0)), axes);
  if (!reduced)
    return distMismatch(op, "needs an operand that is unreduced over its axes");
  DistAttr whole = removeSplit(getDist(op->getResult(0)), dim, axes);
  if (!sameDist(reduced, whole))
    return distMismatch(op, "result must be the reduced operand, split over "
                            "these axes in dimension " +
                                Twine(dim));
  return success();
}

LogicalResult AllGatherOp::verify() { return checkGather(*this, getAxesAttr(), getDim()); }
LogicalResult ReduceScatterOp::verify() { return checkScatter(*this, getAxesAttr(), getDim()); }

LogicalResult AllToAllOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())) ||
      failed(checkAxes(*this, getAxesAttr())) ||
      failed(checkDim(*this, getOperand(), getFromDim(), "from")) ||
      failed(checkDim(*this, getOperand(), getToDim(), "to")))
    return failure();
  SmallVector<StringAttr> axes = axesOf(getAxesAttr());
  DistAttr a = removeSplit(getDist(getOperand()), getFromDim(), axes);
  DistAttr b = removeSplit(getDist(getResult()), getToDim(), axes);
  if (getFromDim() == getToDim() || !sameDist(a, b))
    return distMismatch(*this, "must move the split over its axes from dimension " +
                                   Twine(getFromDim()) + " to " + Twine(getToDim()));
  return success();
}

LogicalResult CollectivePermuteOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())) ||
      failed(checkAxes(*this, getAxesAttr())) ||
      failed(checkDim(*this, getOperand(), getDim(), "dim")))
    return failure();
  if (getFrom().has_value() != getEvery().has_value())
    return emitOpError("'from' and 'every' must be given together");
  DistAttr in = getDist(getOperand()), out = getDist(getResult());
  SmallVector<DimAttr> dims(in.getDims());
  dims[getDim()] = out.getDims()[getDim()];
  if (!sameDist(in.withDims(dims), out))
    return distMismatch(*this,
                        "result must equal the operand except in dimension " + Twine(getDim()));
  if (getFrom() && (failed(checkRun(*this, getOperand(), getDim(), *getFrom(), *getEvery()))))
    return failure();
  auto move = BlockMove::get(*this);
  if (!move)
    return distMismatch(*this, "each rank's shard of dimension " + Twine(getDim()) +
                                   " must be a contiguous range of each run");
  SmallVector<StringAttr> axes = axesOf(getAxesAttr());
  BlockMove::Axes split = move->getAxes();
  if (axes.size() != split.size() ||
      !llvm::all_of(split, [&](StringAttr axis) { return llvm::is_contained(axes, axis); }))
    return distMismatch(*this, "its axes must be those that split the runs of dimension " +
                                   Twine(getDim()));
  return success();
}

LogicalResult ExchangeOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())) ||
      failed(checkAxes(*this, getAxesAttr())))
    return failure();
  DistAttr from = getDist(getOperand()), to = getDist(getResult());
  if (from.getPartial() != to.getPartial())
    return distMismatch(*this, "operand and result must be unreduced over the same axes");
  auto exchange = Exchange::get(from, to);
  if (!exchange)
    return distMismatch(*this, "operand and result must be split over different axes of ranks, by "
                               "factors of which one divides the other");
  if (exchange->axes != axesOf(getAxesAttr())) {
    std::string names;
    for (StringAttr axis : exchange->axes)
      names += (names.empty() ? "" : ", ") + axis.getValue().str();
    return distMismatch(*this, "its axes must be those whose split changes: " + names);
  }
  return success();
}

/// Elements of ranks other than the root are lost.
bool BroadcastOp::preservesAllElements() { return false; }

LogicalResult BroadcastOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())) ||
      failed(checkAxes(*this, getAxesAttr())))
    return failure();
  if (getDist(getOperand()) != getDist(getResult()))
    return distMismatch(*this, "types must be equal");
  MeshAttr grid = MeshAttr::lookup(*this);
  int64_t members = 1;
  for (StringAttr axis : axesOf(getAxesAttr()))
    members *= grid ? grid.getAxisSize(axis) : 1;
  if ((int64_t)getRoot() < 0 || (grid && (int64_t)getRoot() >= members))
    return emitOpError() << "root " << (int64_t)getRoot() << " is not one of the group's "
                         << members << " members";
  return success();
}

LogicalResult LocalSliceOp::verify() {
  if (failed(checkCommon(*this, getOperand(), getResult())) ||
      failed(checkAxes(*this, getAxesAttr())) ||
      failed(checkDim(*this, getOperand(), getDim(), "dim")))
    return failure();
  DistAttr whole = removeSplit(getDist(getResult()), getDim(), axesOf(getAxesAttr()));
  if (!sameDist(getDist(getOperand()), whole))
    return distMismatch(*this, "result must be the operand, split over these axes "
                               "in dimension " +
                                   Twine(getDim()));
  return success();
}

//===----------------------------------------------------------------------===//
// Split dimensions and transferred bytes
//===----------------------------------------------------------------------===//

std::optional<int64_t> AllGatherOp::getOperandSplitDim() { return getDim(); }
std::optional<int64_t> ReduceScatterOp::getResultSplitDim() { return getDim(); }
std::optional<int64_t> AllToAllOp::getOperandSplitDim() { return getFromDim(); }
std::optional<int64_t> AllToAllOp::getResultSplitDim() { return getToDim(); }
std::optional<int64_t> CollectivePermuteOp::getOperandSplitDim() { return getDim(); }
std::optional<int64_t> CollectivePermuteOp::getResultSplitDim() { return getDim(); }

bool CollectivePermuteOp::sendsOnlyMissing() { return true; }
std::optional<int64_t> CollectivePermuteOp::getMaxMemberBytes(MeshAttr grid,
                                                              const BlockMove::Values &coordinates,
                                                              const BlockMove::Values &symbols) {
  return getMaxSentBytes(*this, grid, coordinates, symbols);
}

bool ExchangeOp::mayChangeAnySplit() { return true; }
bool ExchangeOp::sendsOnlyMissing() { return true; }
std::optional<int64_t> ExchangeOp::getMaxMemberBytes(MeshAttr grid,
                                                     const Exchange::Values &coordinates,
                                                     const Exchange::Values &symbols) {
  auto exchange = Exchange::get(getDist(getOperand()), getDist(getResult()));
  auto bytes = exchange ? exchange->getMaxMovedElements(grid, coordinates, symbols) : std::nullopt;
  int64_t element = getElementBytes(getType());
  if (!bytes || __builtin_mul_overflow(*bytes, element, &*bytes))
    return std::nullopt;
  return bytes;
}
