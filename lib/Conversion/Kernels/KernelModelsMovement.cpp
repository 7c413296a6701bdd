//===- KernelModelsMovement.cpp - Movement ops and constants in kernels ---===//

#include "KernelModels.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct ConstantModel : KernelOpInterface::ExternalModel<ConstantModel, ConstantOp> {
  // Only splats are built in kernels; other constants are operands in memory.
  bool isKernelOp(Operation *op) const {
    auto dense = dyn_cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
    return dense && dense.isSplat();
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange) const {
    auto dense = cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
    Type type = getScalarType(dense.getType());
    TypedAttr value;
    if (isa<FloatType>(type))
      value = FloatAttr::get(type, dense.getSplatValue<APFloat>());
    else
      value = IntegerAttr::get(type, dense.getSplatValue<APInt>());
    return arith::ConstantOp::create(e.builder(), e.getLoc(), value);
  }
};

struct TransposeModel : KernelOpInterface::ExternalModel<TransposeModel, TransposeOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto transpose = cast<TransposeOp>(op);
    SmallVector<Value> from(index.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      from[dim] = index[i];
    return e.element(transpose.getOperand(), from);
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    for (auto [i, dim] : llvm::enumerate(cast<TransposeOp>(op).getPermutation().take_front(rank)))
      if ((int64_t)i != dim)
        return false;
    return true;
  }
};

struct ExpandModel : KernelOpInterface::ExternalModel<ExpandModel, ExpandOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    Value operand = op->getOperand(0);
    return e.element(operand, broadcastIndex(e, operand, index));
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    Value x = op->getOperand(0), y = op->getResult(0);
    return getDist(x).getDims().size() == getDist(y).getDims().size() && haveSameRows(x, y, rank);
  }
};

/// Whether `rank` row dimensions are all before dimension `dim` of the op.
template <typename OpT> static bool isBeforeDim(Operation *op, int64_t rank) {
  return rank <= (int64_t)cast<OpT>(op).getDim();
}

/// Returns an offset in a dimension of `size` as an expression. Numbers become named symbols
/// (RankSizes.h).
SymExpr getOffset(const SymExpr &offset, const SymExpr &size) {
  std::optional<int64_t> at = offset.asConstant(), all = size.asConstant();
  return at && all ? getNamedOffset(*at, *all) : toNamedSize(offset);
}

struct SliceModel : KernelOpInterface::ExternalModel<SliceModel, SliceOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto slice = cast<SliceOp>(op);
    SmallVector<Value> from(index);
    Value &at = from[slice.getDim()];
    at = e.add(e.mul(at, e.constant(slice.getStep())),
               e.size(getOffset(slice.getStart(), getSizes(slice.getOperand())[slice.getDim()])));
    return e.element(slice.getOperand(), from);
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return isBeforeDim<SliceOp>(op, rank);
  }
};

/// Rolls each run of `every` elements of a dimension. No axis splits a run.
struct RollModel : KernelOpInterface::ExternalModel<RollModel, RollOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto roll = cast<RollOp>(op);
    SymExpr run = roll.getEvery();
    Value runSize = e.size(toNamedSize(run));
    Value first = e.size(SymExpr::mod(toNamedSize(roll.getFrom()), toNamedSize(run)));
    SmallVector<Value> elementIndex(index);
    Value &at = elementIndex[roll.getDim()];
    // Both terms are less than the run's size, so the sum wraps around at most once.
    SmallVector<Value> parts{e.constant(0), at};
    if (getSizes(roll.getOperand())[roll.getDim()] != run)
      parts = e.delinearize(at, {SymExpr(0), toNamedSize(run)});
    Value next = e.add(parts[1], first);
    next = e.select(e.less(next, runSize), next, e.sub(next, runSize));
    at = e.linearize({parts[0], next}, {SymExpr(0), toNamedSize(run)});
    return e.element(roll.getOperand(), elementIndex);
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return isBeforeDim<RollOp>(op, rank);
  }
};

struct ConcatModel : KernelOpInterface::ExternalModel<ConcatModel, ConcatOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    return from(cast<ConcatOp>(op), e, index, 0);
  }
  // Returns the element of operand `k` if it contains the index, else of a later operand.
  Value from(ConcatOp op, KernelBuilder &e, ValueRange index, unsigned k) const {
    Value operand = op.getOperands()[k];
    SmallVector<Value> at(index);
    if (k + 1 == op.getOperands().size())
      return e.element(operand, at);
    Value size = e.size(e.sizesOf(operand)[op.getDim()]);
    return e.ifElse(
        e.less(at[op.getDim()], size), getScalarType(operand.getType()),
        [&] { return e.element(operand, at); },
        [&] {
          SmallVector<Value> rest(at);
          rest[op.getDim()] = e.sub(rest[op.getDim()], size);
          return from(op, e, rest, k + 1);
        });
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return isBeforeDim<ConcatOp>(op, rank);
  }
};

/// Writes new tokens after the cached tokens of a sequence; tokens beyond the capacity are dropped.
struct AppendModel : KernelOpInterface::ExternalModel<AppendModel, AppendOp> {
  Value getAliasedOperand(Operation *op) const { return cast<AppendOp>(op).getCache(); }
  Value getWritten(Operation *op) const { return cast<AppendOp>(op).getFresh(); }
  int64_t getMaxRowRank(Operation *) const { return CacheOp::tokenDim + 1; }
  bool isRowAligned(Operation *op, unsigned operand, int64_t rank) const {
    return operand == cast<AppendOp>(op).getFreshMutable().getOperandNumber() &&
           rank <= getMaxRowRank(op);
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    return e.element(cast<AppendOp>(op).getFresh(), index);
  }
  /// Returns {position of a token in the cache, whether it is less than the capacity}.
  SmallVector<Value> token(AppendOp op, KernelBuilder &e, ValueRange index) const {
    return e.remember(op, index, [&]() -> SmallVector<Value> {
      Value length = e.element(op.getLengths(), index.front());
      Value at = e.add(toIndex(e, length, op.getLengths().getType()), index.back());
      Value capacity = e.size(e.sizesOf(op.getResult())[CacheOp::tokenDim]);
      return {at, arith::CmpIOp::create(e.builder(), e.getLoc(), arith::CmpIPredicate::ult, at,
                                        capacity)};
    });
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange row) const {
    if ((int64_t)row.size() > CacheOp::tokenDim)
      token(cast<AppendOp>(op), e, {row[0], row[CacheOp::tokenDim]});
  }
  Value buildOverwrittenIndex(Operation *op, KernelBuilder &e,
                              SmallVectorImpl<Value> &index) const {
    auto found = token(cast<AppendOp>(op), e, {index[0], index[CacheOp::tokenDim]});
    index[CacheOp::tokenDim] = found[0];
    return found[1];
  }
};

/// Model of reshapes in kernels; outside of kernels, a reshape is an alias.
struct ReshapeModel : KernelOpInterface::ExternalModel<ReshapeModel, ReshapeOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    Value x = op->getOperand(0), y = op->getResult(0);
    // If only dimensions of size 1 differ, no index arithmetic is needed.
    SmallVector<Value> nonUnit;
    SmallVector<SymExpr> from, to;
    for (auto [i, size] : llvm::enumerate(getSizes(y)))
      if (!size.isConstant(1)) {
        nonUnit.push_back(index[i]);
        to.push_back(size);
      }
    for (const SymExpr &size : getSizes(x))
      if (!size.isConstant(1))
        from.push_back(size);
    if (from == to) {
      SmallVector<Value> at;
      unsigned next = 0;
      for (const SymExpr &size : getSizes(x))
        at.push_back(size.isConstant(1) ? e.constant(0) : nonUnit[next++]);
      return e.element(x, at);
    }
    SmallVector<SymExpr> ySizes(e.sizesOf(y)), xSizes(e.sizesOf(x));
    return e.element(x, e.delinearize(e.linearize(index, ySizes), xSizes));
  }
};

/// Unpacks quantized weights: selects the bits of an element by a shift and a remainder.
struct DequantizeModel : KernelOpInterface::ExternalModel<DequantizeModel, DequantizeOp> {
  Value buildElement(Operation *base, KernelBuilder &e, ValueRange index) const {
    auto op = cast<DequantizeOp>(base);
    OpBuilder &b = e.builder();
    Location loc = e.getLoc();
    Type type = getComputeType(op.getType());
    bool noSign = isUnsigned(op.getPacked().getType());
    int64_t bits = op.getBits(), range = int64_t(1) << bits;
    auto toFloat = [&](Value v, bool isSigned) -> Value {
      return isSigned ? arith::SIToFPOp::create(b, loc, type, v).getResult()
                      : arith::UIToFPOp::create(b, loc, type, v).getResult();
    };
    Value byte = e.element(op.getPacked(), index.drop_back()), q;
    double offset = double(int64_t(op.getZeroPoint()));
    if (bits == 8) {
      q = toFloat(byte, !noSign);
    } else {
      Type wide = b.getI32Type();
      auto integer = [&](int64_t n) -> Value {
        return arith::ConstantOp::create(b, loc, b.getIntegerAttr(wide, n));
      };
      Value j = arith::IndexCastOp::create(b, loc, wide, index.back());
      Value v = arith::ExtUIOp::create(b, loc, wide, byte);
      v = arith::ShRUIOp::create(b, loc, v, arith::MulIOp::create(b, loc, j, integer(bits)));
      if (!noSign) { // the remainder below is q + range / 2, because q is in two's complement
        v = arith::AddIOp::create(b, loc, v, integer(range / 2));
        offset += double(range / 2);
      }
      q = toFloat(arith::RemUIOp::create(b, loc, v, integer(range)), true);
    }
    auto minus = [&](Value x) { q = arith::SubFOp::create(b, loc, q, x); };
    if (offset != 0)
      minus(e.scalar(type, offset));
    if (Value zero = op.getZero()) {
      Value z = e.wide(zero, broadcastIndex(e, zero, index));
      minus(isa<FloatType>(z.getType()) ? z : toFloat(z, !noSign));
    }
    Value scale = e.wide(op.getScale(), broadcastIndex(e, op.getScale(), index));
    return e.narrow(arith::MulFOp::create(b, loc, q, scale), op.getType());
  }
};

struct IotaModel : KernelOpInterface::ExternalModel<IotaModel, IotaOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto iota = cast<IotaOp>(op);
    DimAttr dim = getDist(iota.getResult()).getDims()[iota.getDim()];
    return fromIndex(e, e.globalIndex(dim, index[iota.getDim()]), iota.getType());
  }
};

struct SizeModel : KernelOpInterface::ExternalModel<SizeModel, SizeOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange) const {
    auto size = cast<SizeOp>(op);
    return fromIndex(e, e.size(toNamedSize(size.getExpr())), size.getType());
  }
};

struct TriluModel : KernelOpInterface::ExternalModel<TriluModel, TriluOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto trilu = cast<TriluOp>(op);
    unsigned rank = index.size();
    Value k = e.size(trilu.getK());
    Value limit = e.add(index[rank - 2], k), column = index[rank - 1];
    Value keep = arith::CmpIOp::create(
        e.builder(), e.getLoc(),
        trilu.getUpper() ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle, column, limit);
    Value x = e.element(trilu.getOperand(), index);
    return arith::SelectOp::create(e.builder(), e.getLoc(), keep, x, e.scalar(trilu.getType(), 0));
  }
  bool isRowAligned(Operation *, unsigned, int64_t) const { return true; }
};

/// Returns the operand's element at this rank's offset.
struct LocalSliceModel : KernelOpInterface::ExternalModel<LocalSliceModel, LocalSliceOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto slice = cast<LocalSliceOp>(op);
    DimAttr from = getDist(slice.getOperand()).getDims()[slice.getDim()];
    DimAttr to = getDist(slice.getResult()).getDims()[slice.getDim()];
    SmallVector<Value> at(index);
    Value &i = at[slice.getDim()];
    i = e.localIndex(from, e.globalIndex(to, i));
    return e.element(slice.getOperand(), at);
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return isBeforeDim<LocalSliceOp>(op, rank);
  }
};
} // namespace

void mlir::tpc::attachMovementModels(MLIRContext *context) {
  ConstantOp::attachInterface<ConstantModel>(*context);
  TransposeOp::attachInterface<TransposeModel>(*context);
  ExpandOp::attachInterface<ExpandModel>(*context);
  SliceOp::attachInterface<SliceModel>(*context);
  RollOp::attachInterface<RollModel>(*context);
  ConcatOp::attachInterface<ConcatModel>(*context);
  AppendOp::attachInterface<AppendModel>(*context);
  ReshapeOp::attachInterface<ReshapeModel>(*context);
  DequantizeOp::attachInterface<DequantizeModel>(*context);
  IotaOp::attachInterface<IotaModel>(*context);
  SizeOp::attachInterface<SizeModel>(*context);
  TriluOp::attachInterface<TriluModel>(*context);
  LocalSliceOp::attachInterface<LocalSliceModel>(*context);
}
