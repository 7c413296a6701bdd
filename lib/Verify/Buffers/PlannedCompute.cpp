//===- PlannedCompute.cpp - Models of matmuls and movements on buffers ----===//

#include "PlannedMatmuls.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

LogicalResult mlir::tpc::checkComputed(Operation *op, ValueRange values) {
  const TargetTraits &target = TargetTraits::get(op);
  for (Value v : values)
    if (v && !target.computesMatmuls(getElementTypeOrSelf(v)))
      return op->emitOpError("is of a type that no library computes");
  return success();
}

LogicalResult mlir::tpc::checkOneType(Operation *op, ValueRange values) {
  for (Value v : values)
    if (v && getElementTypeOrSelf(v) != getElementTypeOrSelf(op->getResult(0)))
      return op->emitOpError("has elements of several types, which no call computes");
  return success();
}

Value mlir::tpc::getByHeads(Value tensor) {
  auto transpose = tensor.getDefiningOp<TransposeOp>();
  bool isAliased = transpose && transpose->hasAttr(kAliasedAttr) &&
                   llvm::equal(transpose.getPermutation(), ArrayRef<int64_t>{0, 2, 1, 3});
  return isAliased ? transpose.getOperand() : Value();
}

namespace {
/// Model of ops without a call.
template <typename OpT> struct NoCall : PlannedOpInterface::ExternalModel<NoCall<OpT>, OpT> {
  LogicalResult checkPlan(Operation *, PlanChecker &) const { return success(); }
};

/// Model of ops outside of kernels that are part of another call: casts of parameters, and
/// epilogues of matmuls.
template <typename OpT>
struct FusedOrLoaded : PlannedOpInterface::ExternalModel<FusedOrLoaded<OpT>, OpT> {
  LogicalResult checkPlan(Operation *op, PlanChecker &) const {
    if (op->hasAttr(kLoadedAttr) || op->hasAttr(kQuantizedAttr))
      return success();
    return op->emitOpError("is not computed: neither by a matmul before it nor by a kernel");
  }
};

/// Model of movement ops on caches that are not computed: readers use the layout in memory.
template <typename OpT>
struct LayoutMove : PlannedOpInterface::ExternalModel<LayoutMove<OpT>, OpT> {
  LogicalResult checkPlan(Operation *op, PlanChecker &) const {
    if (op->hasAttr(kAliasedAttr) || op->hasAttr(kQuantizedAttr))
      return success();
    return op->emitOpError("is not computed: neither by a kernel nor by a cache's layout");
  }
};

struct Append : PlannedOpInterface::ExternalModel<Append, AppendOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AppendOp>(base);
    auto call = c.next<buffer::AppendOp>(op);
    if (!call)
      return failure();
    auto sizesOf = [&](Value tensor) {
      return llvm::map_to_vector(getDist(tensor).getDims(),
                                 [&](DimAttr d) { return c.sizes().size(d); });
    };
    SmallVector<SymExpr> cache = sizesOf(op.getResult()), fresh = sizesOf(op.getFresh());
    if (!getElementTypeOrSelf(op.getLengths()).isInteger(64))
      return op.emitOpError("must have lengths of type i64");
    // The new tokens are [b, h, tokens, d], or [b, tokens, h, d] before an aliased transpose.
    Value from = op.getFresh(), byTokens = getByHeads(from);
    SmallVector<SymExpr> strides{fresh[1] * fresh[2] * fresh[3], fresh[2] * fresh[3], fresh[3]};
    if (byTokens) {
      from = byTokens;
      strides[1] = fresh[3];
      strides[2] = fresh[1] * fresh[3];
    }
    if (c.getColumns(call.getFrom())) {
      SmallVector<SymExpr> sizes = sizesOf(from);
      unsigned rowDims = byTokens ? 2 : 3;
      auto row = c.getRowStride(call, call.getFrom(), sizes, rowDims);
      if (failed(row))
        return failure();
      strides[0] = fresh[2] * *row;
      strides[2] = *row;
      if (!byTokens) {
        strides[0] = fresh[1] * strides[0];
        strides[1] = fresh[2] * *row;
      }
    }
    return failure(failed(c.compare(call, "batch", call.getBatch(), cache[0])) ||
                   failed(c.compare(call, "heads", call.getHeads(), cache[1])) ||
                   failed(c.compare(call, "capacity", call.getCapacity(), cache[2])) ||
                   failed(c.compare(call, "size", call.getSize(), cache[3])) ||
                   failed(c.compare(call, "tokens", call.getTokens(), fresh[2])) ||
                   failed(c.compare(call, "strides", call.getStrides(), strides)) ||
                   failed(c.read(call, call.getFrom(), from, {}, PlanChecker::Access::ByRows)) ||
                   failed(c.read(call, call.getLengths(), op.getLengths())) ||
                   failed(c.read(call, call.getCache(), op.getCache(), call.getCache())) ||
                   failed(c.write(call, call.getCache(), op.getResult())));
  }
};

/// Model of ops outside of kernels that a matmul of quantized parameters computes.
template <typename OpT> struct Quantized : PlannedOpInterface::ExternalModel<Quantized<OpT>, OpT> {
  LogicalResult checkPlan(Operation *op, PlanChecker &) const {
    if (op->hasAttr(kQuantizedAttr))
      return success();
    return op->emitOpError("is not computed: neither by a kernel nor by a matmul");
  }
};

struct Matmul : PlannedOpInterface::ExternalModel<Matmul, MatmulOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<MatmulOp>(base);
    if (failed(checkComputed(op, {op.getLhs(), op.getRhs(), op.getResult()})))
      return failure();
    if (c.getChunkedStart(op))
      return success(); // checked with its chunks
    if (c.isNext<buffer::QuantizedProductOp>())
      return checkQuantizedProduct(op, c);
    return c.isNext<buffer::BatchProductOp>() ? checkBatch(op, c) : checkPacked(op, c);
  }

  /// Returns the matmuls of one call, in order: the matmuls with the same tpc.merged number and
  /// LHS.
  static SmallVector<MatmulOp> getMerged(MatmulOp op) {
    Attribute mark = op->getAttr(kMergedAttr);
    if (!mark)
      return {op};
    SmallVector<MatmulOp> merged;
    for (OpOperand &use : op.getLhs().getUses())
      if (auto other = dyn_cast<MatmulOp>(use.getOwner()); other && use.getOperandNumber() == 0 &&
                                                           other->getBlock() == op->getBlock() &&
                                                           other->getAttr(kMergedAttr) == mark)
        merged.push_back(other);
    llvm::sort(merged, [](MatmulOp a, MatmulOp b) { return a->isBeforeInBlock(b); });
    return merged;
  }

  static LogicalResult checkPacked(MatmulOp first, PlanChecker &c) {
    auto call = c.next<buffer::ProductOp>(first);
    if (!call)
      return failure();
    ArrayRef<DimAttr> x = getDist(first.getLhs()).getDims();
    if (x.empty())
      return first.emitOpError("must be a matmul with a packed parameter");
    if (failed(c.compare(call, "m", call.getM(), c.sizes().size(x.drop_back()))) ||
        failed(c.compare(call, "k", call.getK(), c.sizes().size(x.back()))) ||
        failed(c.read(call, call.getX(), first.getLhs())))
      return failure();
    SmallVector<MatmulOp> merged = getMerged(first);
    SmallVector<buffer::ProductOp::Matmul> parts = call.getMatmuls();
    if (parts.size() != merged.size())
      return call.emitOpError() << "has " << parts.size() << " parameters, but on tensors there "
                                << (merged.size() == 1 ? "is " : "are ") << merged.size();
    // All operands are read before any result is written.
    SmallVector<Value> results;
    for (auto [op, part] : llvm::zip_equal(merged, parts)) {
      auto result = readOperands(op, call, part, c);
      if (failed(result))
        return failure();
      results.push_back(*result);
      c.setDone(op);
    }
    for (auto [result, part] : llvm::zip_equal(results, parts)) {
      auto columns = c.getColumns(part.to);
      if (columns && failed(c.compare(call, "n", part.n, columns->width)))
        return failure();
      if (columns && part.residual)
        return call.emitOpError("adds a residual to columns of a buffer");
      if (failed(c.write(call, part.to, result, PlanChecker::Access::ByRows)))
        return failure();
    }
    return success();
  }

  static FailureOr<Value> readOperands(MatmulOp op, buffer::ProductOp call,
                                       const buffer::ProductOp::Matmul &part, PlanChecker &c) {
    auto epilogue = getMatmulEpilogue(op, c);
    if (failed(epilogue))
      return failure();
    ArrayRef<DimAttr> w = getDist(op.getRhs()).getDims();
    Value weight = op.getRhs();
    if (auto cast = weight.getDefiningOp<CastOp>(); cast && cast->hasAttr(kLoadedAttr))
      weight = cast.getOperand();
    if (failed(checkComputed(op, {op.getLhs(), op.getRhs(), op.getResult()})) ||
        failed(checkOneType(op, {epilogue->bias, epilogue->residual, epilogue->result})))
      return failure();
    if (getElementTypeOrSelf(op.getLhs()) != getElementTypeOrSelf(op.getRhs()))
      return op.emitOpError("has operands of two types, which no call computes");
    if (w.size() != 2)
      return op.emitOpError("must be a matmul with a packed parameter");
    if (failed(c.compare(call, "k", call.getK(), c.sizes().size(w[0]))) ||
        failed(c.compare(call, "n", part.n, c.sizes().size(w[1]))))
      return failure();
    if (part.epilogue != epilogue->activation)
      return call.emitOpError() << "has epilogue " << buffer::stringifyEpilogue(part.epilogue)
                                << ", but the op on tensors "
                                << buffer::stringifyEpilogue(epilogue->activation);
    if (failed(c.checkParameter(call, part.parameter, weight, buffer::ParameterUse::Packed)) ||
        failed(checkOptional(c, call, "bias", part.bias, epilogue->bias)) ||
        failed(checkOptional(c, call, "residual", part.residual, epilogue->residual, part.to)))
      return failure();
    return epilogue->result;
  }

  static LogicalResult checkBatch(MatmulOp op, PlanChecker &c) {
    auto call = c.next<buffer::BatchProductOp>(op);
    if (!call)
      return failure();
    if (op.getBias())
      return call.emitOpError("has no bias, but the op on tensors has one");
    if (failed(checkOneType(op, {op.getLhs(), op.getRhs()})))
      return failure();
    const PartSizes &sizes = c.sizes();
    ArrayRef<DimAttr> a = getDist(op.getLhs()).getDims(), b = getDist(op.getRhs()).getDims();
    if (a.empty() || b.size() < 2)
      return op.emitOpError("must be a matmul of matrices");
    bool isRow = a.size() == 1;
    SymExpr rows = isRow ? SymExpr(1) : sizes.size(a[a.size() - 2]), k = sizes.size(a.back());
    SymExpr n = sizes.size(b.back());
    // Either both operands have a batch, or one matrix of an operand is used for the entire batch.
    ArrayRef<DimAttr> aBatch = isRow ? ArrayRef<DimAttr>() : a.drop_back(2),
                      bBatch = b.drop_back(2);
    auto isOne = [](ArrayRef<DimAttr> dims) {
      return llvm::all_of(dims, [](DimAttr d) { return d.getExpr().isConstant(1); });
    };
    SymExpr batch(1), aStride(0), bStride(0);
    if (isOne(bBatch)) {
      rows = sizes.size(aBatch) * rows; // the batch is merged into the rows
    } else {
      batch = sizes.size(bBatch);
      bStride = k * n;
      if (!isOne(aBatch)) {
        if (aBatch != bBatch)
          return op.emitOpError("multiplies batches of different shapes");
        aStride = rows * k;
      }
    }
    return failure(failed(c.compare(call, "batch", call.getBatch(), batch)) ||
                   failed(c.compare(call, "m", call.getM(), rows)) ||
                   failed(c.compare(call, "k", call.getK(), k)) ||
                   failed(c.compare(call, "k", call.getK(), sizes.size(b[b.size() - 2]))) ||
                   failed(c.compare(call, "n", call.getN(), n)) ||
                   failed(c.compare(call, "a stride", call.getAStride(), aStride)) ||
                   failed(c.compare(call, "a stride", call.getBStride(), bStride)) ||
                   failed(c.read(call, call.getA(), op.getLhs())) ||
                   failed(c.read(call, call.getB(), op.getRhs())) ||
                   failed(c.write(call, call.getTo(), op.getResult())));
  }
};
} // namespace

void mlir::tpc::attachPlannedCompute(MLIRContext *context) {
  ParameterOp::attachInterface<NoCall<ParameterOp>>(*context);
  ConstantOp::attachInterface<NoCall<ConstantOp>>(*context);
  ReshapeOp::attachInterface<NoCall<ReshapeOp>>(*context);
  LocalSliceOp::attachInterface<NoCall<LocalSliceOp>>(*context);
  CastOp::attachInterface<FusedOrLoaded<CastOp>>(*context);
  AddOp::attachInterface<FusedOrLoaded<AddOp>>(*context);
  GeluOp::attachInterface<FusedOrLoaded<GeluOp>>(*context);
  SiluOp::attachInterface<FusedOrLoaded<SiluOp>>(*context);
  ReluOp::attachInterface<FusedOrLoaded<ReluOp>>(*context);
  ExpandOp::attachInterface<LayoutMove<ExpandOp>>(*context);
  GatherOp::attachInterface<LayoutMove<GatherOp>>(*context);
  TransposeOp::attachInterface<LayoutMove<TransposeOp>>(*context);
  DequantizeOp::attachInterface<Quantized<DequantizeOp>>(*context);
  SliceOp::attachInterface<Quantized<SliceOp>>(*context);
  AppendOp::attachInterface<Append>(*context);
  MatmulOp::attachInterface<Matmul>(*context);
  attachPlannedAttention(context);
  attachPlannedExperts(context);
}
