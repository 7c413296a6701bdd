//===- SizeModels.cpp - Size constraints of ops ---------------------------===//

#include "Models.h"
#include "SizeReduction.h"
#include "SmallSizes.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;
using MaybeSize = std::optional<int64_t>;

static MaybeSize getStatic(Value value, int64_t dim) { return getSizes(value)[dim].asConstant(); }

/// Dimensions merged for one collective have sizes such as 8*batch*sequence.
static MaybeSize getScaled(Value value, int64_t dim) {
  return getCoefficient(getSizes(value)[dim]);
}

//===----------------------------------------------------------------------===//
// One function for each op with constraints
//===----------------------------------------------------------------------===//

static void collectSizes(ReshapeOp op, SizeReduction &sizes) {
  uint64_t products[] = {1, 1}; // may wrap around: such large products are frozen elsewhere
  SizeReduction::Factors factors[2];
  Value sides[] = {op.getOperand(), op.getResult()};
  for (auto [i, value] : llvm::enumerate(sides))
    for (const SymExpr &size : getSizes(value))
      if (MaybeSize c = getCoefficient(size)) {
        factors[i].push_back(*c);
        products[i] *= *c;
      }
  if (products[0] == products[1])
    return sizes.equate(factors[0], factors[1]);
  for (int64_t n : llvm::concat<int64_t>(factors[0], factors[1]))
    sizes.freeze(n, op);
}

/// Query heads are kv heads times heads per kv head. Reduced windows hide at least one key.
template <typename OpT> static void collectAttention(OpT op, SizeReduction &sizes) {
  MaybeSize q = getStatic(op.getQ(), 2), kv = getStatic(op.getK(), 2);
  if (q && kv && *kv > 0 && *q > 0 && *q % *kv == 0)
    sizes.equate({*q}, {*kv, *q / *kv});
  if (std::optional<SymExpr> window = op.getWindow())
    if (MaybeSize size = window->asConstant(); size && *size > 0)
      sizes.addWindow(*size, getSizes(op.getK())[1]);
}
static void collectSizes(AttentionOp op, SizeReduction &sizes) {
  if (op.getLengths())
    sizes.addCache(getSizes(op.getK())[1]);
  collectAttention(op, sizes);
}
static void collectSizes(AttentionGradOp op, SizeReduction &sizes) { collectAttention(op, sizes); }

/// A repeated dimension is the product of heads and their replication.
static void collectSizes(ParameterOp op, SizeReduction &sizes) {
  ViewAttr view = op.getWeightOp() ? op.getViewOrDense() : ViewAttr();
  for (unsigned dim = 0; view && dim < view.getDims().size(); ++dim) {
    int64_t before = 1;
    for (StridedFactorAttr factor : view.getFactors(dim)) {
      if (factor.getStride() == 0 && factor.getSize() > 1) {
        int64_t n = *getStatic(op.getResult(), dim);
        sizes.equate({n}, {before, factor.getSize(), n / (before * factor.getSize())});
        sizes.freeze(before, op);
        sizes.freeze(factor.getSize(), op);
      }
      before *= factor.getSize();
    }
  }
}

static void collectSizes(EmbeddingOp op, SizeReduction &sizes) {
  MaybeSize rows = getStatic(op.getTable(), 0);
  if (!rows)
    return;
  sizes.addTable(*rows);
  // Buckets of distances are computed with constants such as 16 and 31, which are not reduced. If
  // the table had fewer rows, all runs of more than one token would look up rows past its end.
  constexpr int64_t most = 128;
  int64_t constant = *rows <= most ? findConstant(op.getIds()) : 0;
  if (constant > 1 && constant < *rows && 2 * (constant + 1) > *rows)
    sizes.freeze(*rows, op);
}

static void collectSizes(ScatterAddOp op, SizeReduction &sizes) {
  if (MaybeSize rows = getStatic(op.getResult(), 0))
    sizes.addTable(*rows);
}

/// Constrains only a gather that repeats a dimension.
static void collectSizes(GatherOp op, SizeReduction &sizes) {
  for (auto &[dim, repeat] : getRepeats(op)) {
    sizes.equate({repeat.major * repeat.times}, {repeat.major, repeat.times});
    sizes.freeze(repeat.major, op);
    sizes.freeze(repeat.times, op);
  }
}

/// A byte has 8 / bits numbers.
static void collectSizes(DequantizeOp op, SizeReduction &sizes) {
  if (int64_t each = 8 / std::abs(int64_t(op.getBits())); each > 1)
    sizes.freeze(each, op);
}

/// The length of an index tuple is the number of dimensions it indexes.
static void collectSizes(GatherNDOp op, SizeReduction &sizes) {
  int64_t last = getSizes(op.getIndices()).size() - 1;
  if (MaybeSize k = getStatic(op.getIndices(), last))
    sizes.freeze(*k, op);
}

/// With a step, the dimension is the step times the number of taken elements, plus a rest. Returns
/// false if the rest or the offset is large, or not a constant.
static bool collectStrided(SliceOp op, SizeReduction &sizes) {
  constexpr int64_t most = 16;
  int64_t step = op.getStep();
  MaybeSize of = getStatic(op.getOperand(), op.getDim()),
            taken = getStatic(op.getResult(), op.getDim()), start = op.getStart().asConstant();
  if (!of || !taken || !start || *start < 0 || *start > most || *taken < 1 || step < 2)
    return false;
  int64_t covered = step * *taken, rest = *of - covered;
  if (rest < 0 || rest > most)
    return false;
  sizes.equate({covered}, {*taken, step});
  sizes.freeze(step, op);
  if (*start > 0) {
    sizes.freeze(*start, op);
    sizes.addCut(*of, *start);
  }
  if (rest > 0) {
    sizes.freeze(rest, op);
    sizes.addUpOrScale(op, {of, covered, rest});
  }
  return true;
}

/// The dimension is the sum of the elements before, in, and after the slice.
static void collectSizes(SliceOp op, SizeReduction &sizes) {
  int64_t dim = op.getDim();
  if (getSizes(op.getOperand())[dim] == getSizes(op.getResult())[dim])
    return;
  if (op.getStep() != 1 && collectStrided(op, sizes))
    return;
  SymExpr start = op.getStart();
  MaybeSize first = start.isConstant(0) ? 0 : getCoefficient(start);
  if (op.getStep() != 1)
    first = std::nullopt;
  MaybeSize of = getScaled(op.getOperand(), dim), taken = getScaled(op.getResult(), dim);
  SmallVector<MaybeSize> all = {of, taken};
  if (!first || *first > 0)
    all.push_back(first);
  bool parts = of && taken && first && getStatic(op.getOperand(), dim) &&
               getStatic(op.getResult(), dim) && start.isConstant() && *first + *taken <= *of;
  if (!parts)
    return sizes.scaleTogether(op, all);
  if (int64_t rest = *of - *taken - *first; rest > 0)
    all.push_back(rest);
  if (!sizes.addUpOrScale(op, all))
    return;
  if (*first > 0)
    sizes.addCut(*of, *first);
  sizes.addCut(*of, *first + *taken);
}

static void collectSizes(ConcatOp op, SizeReduction &sizes) {
  int64_t dim = op.getDim();
  SmallVector<MaybeSize> all = {getScaled(op.getResult(), dim)};
  for (Value operand : op.getOperands())
    all.push_back(getScaled(operand, dim));
  if (getStatic(op.getResult(), dim))
    sizes.addUpOrScale(op, all);
  else
    sizes.scaleTogether(op, all);
}

/// If all caches are sliding-window caches, no type contains the capacity, which limits positions.
static void collectSizes(SizeOp op, SizeReduction &sizes) { sizes.addSymbols(op.getExpr()); }

/// The length of a run divides the dimension.
static void collectRuns(Value of, int64_t dim, std::optional<SymExpr> every, SizeReduction &sizes) {
  MaybeSize c = every ? getCoefficient(*every) : std::nullopt;
  MaybeSize size = c ? getScaled(of, dim) : std::nullopt;
  if (size && *size % *c == 0)
    sizes.equate({*size}, {*size / *c, *c});
}
static void collectSizes(RollOp op, SizeReduction &sizes) {
  collectRuns(op.getOperand(), op.getDim(), op.getEvery(), sizes);
}
static void collectSizes(CollectivePermuteOp op, SizeReduction &sizes) {
  collectRuns(op.getOperand(), op.getDim(), op.getEvery(), sizes);
}

/// The tables have half of the rotated elements of a head.
static void collectSizes(RotaryOp op, SizeReduction &sizes) {
  sizes.scaleTogether(op, {getStatic(op.getX(), 3), getStatic(op.getCos(), 2)});
}

namespace {
template <typename OpT> struct SizesModel : SizesOpInterface::ExternalModel<SizesModel<OpT>, OpT> {
  void collectSizes(Operation *op, SizeReduction &sizes) const {
    ::collectSizes(cast<OpT>(op), sizes);
  }
};

/// Model of ops whose only constraint is that equal sizes stay equal.
template <typename OpT> struct AnySizes : SizesOpInterface::ExternalModel<AnySizes<OpT>, OpT> {
  void collectSizes(Operation *, SizeReduction &) const {}
};
} // namespace

void equivalence::attachSizeModels(MLIRContext *context) {
  attachModels<SizesModel, ReshapeOp, AttentionOp, AttentionGradOp, ParameterOp, GatherOp,
               GatherNDOp, SliceOp, ConcatOp, RollOp, CollectivePermuteOp, RotaryOp, EmbeddingOp,
               ScatterAddOp, DequantizeOp, SizeOp>(context);
  attachToScalarOps<AnySizes>(context);
  attachModels<AnySizes, MatmulOp, MoeOp, LayerNormOp, RmsNormOp, SoftmaxOp, ReduceOp, CumSumOp,
               TriluOp, TransposeOp, ExpandOp, AppendOp, IotaOp, ConstantOp>(context);
  attachModels<AnySizes, ReshardOp, LocalSliceOp, AllReduceOp, AllGatherOp, ReduceScatterOp,
               AllToAllOp, ExchangeOp, BroadcastOp, AllReduceStartOp, WaitOp, DispatchOp,
               CombineOp>(context);
  attachModels<AnySizes, WeightOp, CacheOp, PipelineOp, StageOp, MicroBatchesOp, SendOp, RecvOp,
               OutputOp, AccumulateOp, AccumulatedOp, ModuleOp, func::FuncOp, func::CallOp,
               func::ReturnOp>(context);
}
