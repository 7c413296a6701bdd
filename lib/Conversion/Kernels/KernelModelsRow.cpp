//===- KernelModelsRow.cpp - Ops on rows, and matmuls, in kernels ---------===//

#include "KernelModels.h"

#include "tpc/Conversion/Target/TargetTraits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;
using kernel::FoldKind;
using ::tpc::SymExpr;

static Value sub(KernelBuilder &e, Value x, Value y) {
  return arith::SubFOp::create(e.builder(), e.getLoc(), x, y);
}
static Value mul(KernelBuilder &e, Value x, Value y) {
  return arith::MulFOp::create(e.builder(), e.getLoc(), x, y);
}
static Value div(KernelBuilder &e, Value x, Value y) {
  return arith::DivFOp::create(e.builder(), e.getLoc(), x, y);
}

/// Returns the sum of f(x[index, i]) over the last dimension of x.
static Value sumRow(KernelBuilder &e, Value x, ValueRange index, function_ref<Value(Value)> f) {
  SmallVector<Value> at(index);
  at.resize(rankOf(x));
  return e.fold(FoldKind::Sum, x, {rankOf(x) - 1}, at,
                [&](ValueRange at) { return f(e.wide(x, at)); });
}

static Value rowLength(KernelBuilder &e, Value x) {
  return fromIndex(e, e.size(e.sizesOf(x).back()), getComputeType(x.getType()));
}

/// Returns 1 / sqrt(mean + epsilon).
static Value inverseRoot(KernelBuilder &e, Value mean, double epsilon) {
  Value shifted =
      arith::AddFOp::create(e.builder(), e.getLoc(), mean, e.scalar(mean.getType(), epsilon));
  return div(e, e.scalar(mean.getType(), 1),
             math::SqrtOp::create(e.builder(), e.getLoc(), shifted));
}

namespace {
/// Common base of norms over the last dimension.
template <typename Derived, typename OpT>
struct NormModel : KernelOpInterface::ExternalModel<Derived, OpT> {
  SmallVector<Value> statistics(OpT op, KernelBuilder &e, ValueRange row) const {
    SmallVector<Value> copy(row);
    return e.remember(op, copy, [&] { return Derived::compute(op, e, copy); });
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange row) const {
    auto norm = cast<OpT>(op);
    if ((int64_t)row.size() + 1 == cast<RankedTensorType>(norm.getType()).getRank())
      statistics(norm, e, row);
  }
  int64_t getMaxRowRank(Operation *op) const {
    return cast<RankedTensorType>(op->getResult(0).getType()).getRank() - 1;
  }
  bool isRowAligned(Operation *op, unsigned operand, int64_t rank) const {
    return operand == 0 && rank <= getMaxRowRank(op);
  }
  bool isCheap(Operation *) const { return false; }
};

struct LayerNormModel : NormModel<LayerNormModel, LayerNormOp> {
  static SmallVector<Value> compute(LayerNormOp op, KernelBuilder &e, ValueRange row) {
    Value x = op.getX(), n = rowLength(e, x);
    Value mean = div(e, sumRow(e, x, row, [](Value v) { return v; }), n);
    Value squares = sumRow(e, x, row, [&](Value v) {
      Value d = sub(e, v, mean);
      return mul(e, d, d);
    });
    return {mean, inverseRoot(e, div(e, squares, n), op.getEpsilon().convertToDouble())};
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto norm = cast<LayerNormOp>(op);
    auto s = statistics(norm, e, index.drop_back());
    Value x = e.wide(norm.getX(), index);
    Value y = mul(e, mul(e, sub(e, x, s[0]), s[1]), e.wide(norm.getScale(), index.take_back()));
    if (norm.getBias())
      y = e.plus(y, e.wide(norm.getBias(), index.take_back()));
    return e.narrow(y, norm.getType());
  }
};

struct RmsNormModel : NormModel<RmsNormModel, RmsNormOp> {
  static SmallVector<Value> compute(RmsNormOp op, KernelBuilder &e, ValueRange row) {
    Value x = op.getX();
    Value squares = sumRow(e, x, row, [&](Value v) { return mul(e, v, v); });
    return {inverseRoot(e, div(e, squares, rowLength(e, x)), op.getEpsilon().convertToDouble())};
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto norm = cast<RmsNormOp>(op);
    auto s = statistics(norm, e, index.drop_back());
    Value y = mul(e, mul(e, e.wide(norm.getX(), index), s[0]),
                  e.wide(norm.getScale(), index.take_back()));
    return e.narrow(y, norm.getType());
  }
};

struct SoftmaxModel : KernelOpInterface::ExternalModel<SoftmaxModel, SoftmaxOp> {
  // Returns the maximum along the dimension, and 1 / sum of exp(x - maximum). `others` is the index
  // without the dimension.
  SmallVector<Value> statistics(SoftmaxOp op, KernelBuilder &e, ValueRange others) const {
    SmallVector<Value> copy(others);
    return e.remember(op, copy, [&]() -> SmallVector<Value> {
      Value x = op.getOperand();
      int64_t dim = op.getDim();
      SmallVector<Value> at(copy);
      at.insert(at.begin() + dim, Value());
      Type type = getComputeType(x.getType());
      // maxnum suffices: the sign of zero does not affect x - maximum, and a NaN that maxnum
      // ignores makes the sum NaN.
      Value largest =
          e.fold(FoldKind::MaxNum, x, {dim}, at, [&](ValueRange at) { return e.wide(x, at); });
      Value sum = e.fold(FoldKind::Sum, x, {dim}, at, [&](ValueRange at) -> Value {
        Value d = sub(e, e.wide(x, at), largest);
        return math::ExpOp::create(e.builder(), e.getLoc(), d);
      });
      return {largest, div(e, e.scalar(type, 1), sum)};
    });
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange row) const {
    auto softmax = cast<SoftmaxOp>(op);
    int64_t rank = cast<RankedTensorType>(softmax.getType()).getRank();
    if ((int64_t)softmax.getDim() == rank - 1 && (int64_t)row.size() == rank - 1)
      statistics(softmax, e, row);
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto softmax = cast<SoftmaxOp>(op);
    SmallVector<Value> others(index);
    others.erase(others.begin() + softmax.getDim());
    auto s = statistics(softmax, e, others);
    Value d = sub(e, e.wide(softmax.getOperand(), index), s[0]);
    Value y = mul(e, math::ExpOp::create(e.builder(), e.getLoc(), d), s[1]);
    return e.narrow(y, softmax.getType());
  }
  int64_t getMaxRowRank(Operation *op) const { return cast<SoftmaxOp>(op).getDim(); }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return rank <= getMaxRowRank(op);
  }
  bool isCheap(Operation *) const { return false; }
};

struct ReduceModel : KernelOpInterface::ExternalModel<ReduceModel, ReduceOp> {
  static FoldKind getFoldKind(ReduceOp op) {
    bool withoutSign = isUnsigned(op.getOperand().getType());
    switch (op.getFunction()) {
    case ReduceFunction::Max:
      return withoutSign ? FoldKind::UMax : FoldKind::Max;
    case ReduceFunction::Min:
      return withoutSign ? FoldKind::UMin : FoldKind::Min;
    default:
      return FoldKind::Sum;
    }
  }
  static int64_t firstDim(ReduceOp op) {
    auto dims = op.getDims();
    int64_t rank = cast<RankedTensorType>(op.getOperand().getType()).getRank();
    return dims.empty() ? rank : *llvm::min_element(dims);
  }
  void buildRow(Operation *op, KernelBuilder &e, ValueRange row) const {
    // A result with one element per row is computed once per row.
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<Value> index(row);
    for (int64_t size : type.getShape().drop_front(row.size())) {
      if (size != 1)
        return;
      index.push_back(e.constant(0));
    }
    e.element(op->getResult(0), index);
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto reduce = cast<ReduceOp>(op);
    Value x = reduce.getOperand();
    SmallVector<int64_t> dims(reduce.getDims());
    llvm::sort(dims);
    Type type = getComputeType(x.getType());
    SmallVector<Value> at;
    unsigned next = 0;
    for (unsigned i = 0; i < rankOf(x); ++i) {
      bool reduced = llvm::is_contained(dims, (int64_t)i);
      at.push_back(reduced ? Value() : index[next]);
      next += !reduced || reduce.getKeepDims();
    }
    auto narrowed = [&](Value v) { return e.narrow(v, reduce.getType()); };
    ReduceFunction f = reduce.getFunction();
    Value result =
        e.fold(getFoldKind(reduce), x, dims, at, [&](ValueRange at) { return e.wide(x, at); });
    if (f != ReduceFunction::Mean)
      return narrowed(result);
    SymExpr count = 1;
    for (int64_t dim : dims)
      count = count * e.sizesOf(x)[dim];
    Value n = fromIndex(e, e.size(count), type);
    if (isa<FloatType>(type))
      return narrowed(div(e, result, n));
    // An empty mean of integers is undefined, but must not trap.
    Value one = e.scalar(type, 1);
    n = arith::MaxSIOp::create(e.builder(), e.getLoc(), n, one);
    return arith::DivSIOp::create(e.builder(), e.getLoc(), result, n);
  }
  int64_t getMaxRowRank(Operation *op) const {
    return std::min<int64_t>(firstDim(cast<ReduceOp>(op)),
                             cast<RankedTensorType>(op->getResult(0).getType()).getRank());
  }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return rank <= firstDim(cast<ReduceOp>(op));
  }
  bool isCheap(Operation *) const { return false; }
};

struct CumSumModel : KernelOpInterface::ExternalModel<CumSumModel, CumSumOp> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto cumsum = cast<CumSumOp>(op);
    Value x = cumsum.getOperand(), here = index[cumsum.getDim()];
    Value next = e.add(here, e.constant(1));
    Value lb = e.constant(0), ub = cumsum.getExclusive() ? here : next;
    if (cumsum.getReverse()) {
      lb = cumsum.getExclusive() ? next : here;
      ub = e.size(e.sizesOf(x)[cumsum.getDim()]);
    }
    SmallVector<Value> at(index);
    Value sum = e.loop(lb, ub, e.scalar(getComputeType(x.getType()), 0), [&](Value i, Value sum) {
      at[cumsum.getDim()] = i;
      return e.plus(sum, e.wide(x, at));
    });
    return e.narrow(sum, cumsum.getType());
  }
  int64_t getMaxRowRank(Operation *op) const { return cast<CumSumOp>(op).getDim(); }
  bool isRowAligned(Operation *op, unsigned, int64_t rank) const {
    return rank <= getMaxRowRank(op);
  }
  bool isCheap(Operation *) const { return false; }
};

struct RotaryModel : KernelOpInterface::ExternalModel<RotaryModel, RotaryOp> {
  // y[i] = x[i] cos - x[i + half] sin and y[i + half] = x[i + half] cos + x[i] sin
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto rotary = cast<RotaryOp>(op);
    OpBuilder &b = e.builder();
    SmallVector<Value> at(index);
    Value half = e.size(e.sizesOf(rotary.getCos()).back()), i = at.back();
    auto rotate = [&] {
      Value isFirst, pair, partner;
      auto select = [&](Value x, Value y) { return e.select(isFirst, x, y); };
      if (rotary.getInterleaved()) {
        Value two = e.constant(2), one = e.constant(1);
        isFirst = arith::CmpIOp::create(b, e.getLoc(), arith::CmpIPredicate::eq,
                                        e.remainder(i, two), e.constant(0));
        pair = e.quotient(i, two);
        partner = select(e.add(i, one), e.sub(i, one));
      } else {
        isFirst = e.less(i, half);
        pair = select(i, e.sub(i, half));
        partner = select(e.add(i, half), e.sub(i, half));
      }
      SmallVector<Value> angle{index[0], index[1], pair};
      if (getSizes(rotary.getCos())[0].isConstant(1))
        angle[0] = e.constant(0);
      Value x = e.wide(rotary.getX(), at);
      at.back() = partner;
      Value other = e.wide(rotary.getX(), at);
      Value sin = e.wide(rotary.getSin(), angle);
      Value negated = arith::NegFOp::create(b, e.getLoc(), sin);
      sin = arith::SelectOp::create(b, e.getLoc(), isFirst, negated, sin);
      Value y = e.plus(mul(e, x, e.wide(rotary.getCos(), angle)), mul(e, other, sin));
      return e.narrow(y, rotary.getType());
    };
    if (getSizes(rotary.getX()).back() == 2 * getSizes(rotary.getCos()).back())
      return rotate();
    Value rotated = e.mul(half, e.constant(2));
    return e.ifElse(e.less(i, rotated), getScalarType(rotary.getType()), rotate,
                    [&] { return e.element(rotary.getX(), index); });
  }
  int64_t getMaxRowRank(Operation *op) const { return 3; }
  bool isRowAligned(Operation *op, unsigned operand, int64_t rank) const {
    return operand == 0 && rank <= 3;
  }
};

/// Models matmuls without a library call.
struct MatmulModel : KernelOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  bool isKernelOp(Operation *op) const {
    return !TargetTraits::get(op).computesMatmuls(getElementTypeOrSelf(op->getResult(0)));
  }
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
    auto matmul = cast<MatmulOp>(op);
    OpBuilder &b = e.builder();
    Value lhs = matmul.getLhs(), rhs = matmul.getRhs();
    Type type = getScalarType(matmul.getType());
    Type sumType = getComputeType(type);
    int64_t lhsRank = cast<RankedTensorType>(lhs.getType()).getRank();
    bool isVector = lhsRank == 1; // [k] x [k, n] -> [n]
    ValueRange batch = index.drop_back(isVector ? 1 : 2);
    int64_t rhsRank = cast<RankedTensorType>(rhs.getType()).getRank();
    // The fold is not `adjacent`: threads compute adjacent columns, and each thread reduces the
    // terms of its column in order.
    Value sum = e.fold(
        FoldKind::Sum, sumType, e.sizesOf(lhs).back(), /*adjacent=*/false, [&](ValueRange i) {
          SmallVector<Value> x, y;
          if (!isVector) {
            x.assign(batch.begin(), batch.end());
            x.push_back(index[index.size() - 2]);
          }
          x.push_back(i[0]);
          y.assign(batch.begin(), batch.end());
          y.push_back(i[0]);
          y.push_back(index.back());
          Value a = e.wide(lhs, broadcastBatch(e, lhs, x, lhsRank));
          Value c = e.wide(rhs, broadcastBatch(e, rhs, y, rhsRank));
          return isa<FloatType>(sumType) ? mul(e, a, c)
                                         : arith::MulIOp::create(b, e.getLoc(), a, c).getResult();
        });
    if (matmul.getBias())
      sum = e.plus(sum, e.wide(matmul.getBias(), index.take_back()));
    return e.narrow(sum, matmul.getType());
  }
  // Like broadcastIndex, but the matrix dimensions do not broadcast.
  static SmallVector<Value> broadcastBatch(KernelBuilder &e, Value x, ArrayRef<Value> index,
                                           int64_t rank) {
    SmallVector<Value> at(index.take_back(rank));
    auto sizes = getSizes(x);
    for (int64_t i = 0; i < rank - 2; ++i)
      if (sizes[i].isConstant(1))
        at[i] = e.constant(0);
    return at;
  }
  int64_t getMaxRowRank(Operation *op) const {
    return std::max<int64_t>(cast<RankedTensorType>(op->getResult(0).getType()).getRank() - 1, 0);
  }
  bool isCheap(Operation *) const { return false; }
};
} // namespace

void mlir::tpc::attachRowModels(MLIRContext *context) {
  LayerNormOp::attachInterface<LayerNormModel>(*context);
  RmsNormOp::attachInterface<RmsNormModel>(*context);
  SoftmaxOp::attachInterface<SoftmaxModel>(*context);
  ReduceOp::attachInterface<ReduceModel>(*context);
  CumSumOp::attachInterface<CumSumModel>(*context);
  RotaryOp::attachInterface<RotaryModel>(*context);
  MatmulOp::attachInterface<MatmulModel>(*context);
}
