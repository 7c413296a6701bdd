//===- BoundsModels.cpp - Trip counts of op loops -------------------------===//

#include "BoundsChecker.h"
#include "Models.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {
/// Model of ops with one loop nest over all letters of their formula.
template <typename OpT>
struct FormulaBounds : BoundsOpInterface::ExternalModel<FormulaBounds<OpT>, OpT> {
  LogicalResult checkBounds(Operation *op, BoundsChecker &checker) const {
    return checker.checkLoop(op, *cast<LemmaOpInterface>(op).getFormula());
  }
};

/// Attention has two loop nests, for scores and for values, each over one of the head sizes.
template <typename OpT>
struct AttentionBounds : BoundsOpInterface::ExternalModel<AttentionBounds<OpT>, OpT> {
  LogicalResult checkBounds(Operation *op, BoundsChecker &checker) const {
    Lemma lemma = *cast<LemmaOpInterface>(op).getFormula();
    int scored = lemma.operands[0].back(), valued = lemma.operands[2].back();
    return failure(failed(checker.checkLoop(op, lemma, valued)) ||
                   failed(checker.checkLoop(op, lemma, scored)));
  }
};

/// Experts have loop nests over the elements of `up` and of `down`, for each token.
struct MoeBounds : BoundsOpInterface::ExternalModel<MoeBounds, MoeOp> {
  LogicalResult checkBounds(Operation *op, BoundsChecker &checker) const {
    Lemma lemma = *cast<LemmaOpInterface>(op).getFormula();
    int hidden = lemma.operands[0].back(), columns = lemma.operands[1].back(),
        outputs = lemma.result.back();
    return failure(failed(checker.checkLoop(op, lemma, {hidden, columns})) ||
                   failed(checker.checkLoop(op, lemma, {outputs, columns})));
  }
};

struct WeightBounds : BoundsOpInterface::ExternalModel<WeightBounds, WeightOp> {
  LogicalResult checkBounds(Operation *op, BoundsChecker &checker) const {
    auto weight = cast<WeightOp>(op);
    if (failed(checker.checkType(op, weight.getType())))
      return failure();
    Wide end = Wide(weight.getOffset()) + checker.countBytes(weight.getType()).high;
    if (!end.fits64())
      return checker.fail(op) << "ends at byte " << end.str()
                              << " of its file, more than 64 bits can count (" << INT64_MAX << ")";
    return success();
  }
};

/// Model of ops with one loop iteration per element of the results.
template <typename OpT>
struct ResultBounds : BoundsOpInterface::ExternalModel<ResultBounds<OpT>, OpT> {
  LogicalResult checkBounds(Operation *, BoundsChecker &) const { return success(); }
};
} // namespace

void equivalence::attachBoundsModels(MLIRContext *context) {
  attachToScalarOps<FormulaBounds>(context);
  attachModels<FormulaBounds, MatmulOp, DequantizeOp, LayerNormOp, RmsNormOp, SoftmaxOp, ReduceOp,
               CumSumOp, TriluOp, TransposeOp, ExpandOp, ScatterAddOp>(context);
  attachModels<AttentionBounds, AttentionOp, AttentionGradOp>(context);
  MoeOp::attachInterface<MoeBounds>(*context);
  WeightOp::attachInterface<WeightBounds>(*context);
  attachModels<ResultBounds, ReshapeOp, SliceOp, ConcatOp, RollOp, EmbeddingOp, GatherOp,
               GatherNDOp, RotaryOp, AppendOp, IotaOp, ConstantOp, SizeOp, ParameterOp>(context);
  attachModels<ResultBounds, ReshardOp, LocalSliceOp, AllReduceOp, AllGatherOp, ReduceScatterOp,
               AllToAllOp, CollectivePermuteOp, ExchangeOp, BroadcastOp, AllReduceStartOp, WaitOp,
               DispatchOp, CombineOp>(context);
  attachModels<ResultBounds, CacheOp, PipelineOp, StageOp, MicroBatchesOp, SendOp, RecvOp, OutputOp,
               AccumulateOp, AccumulatedOp, ModuleOp, func::FuncOp, func::CallOp, func::ReturnOp>(
      context);
}
