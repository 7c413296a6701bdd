//===- CostModels.cpp - Cost models of ops --------------------------------===//

#include "CostOp.h"

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/AttachModels.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "CostOp.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Cost of arithmetic at each point of the rule's iteration space and of reading all operands.
template <typename OpT>
struct ComputedCost : CostOpInterface::ExternalModel<ComputedCost<OpT>, OpT> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getComputeCost(cast<ShardingRuleOpInterface>(op), op->getOperands());
  }
};

/// Counts only the keys within the window of a query.
template <typename OpT>
struct AttentionCost : CostOpInterface::ExternalModel<AttentionCost<OpT>, OpT> {
  Cost getCost(Operation *base, CostModel &model) const {
    auto op = cast<OpT>(base);
    double seen = 1;
    if (std::optional<::tpc::SymExpr> window = op.getWindow(); window && op.getCausal()) {
      double keys = std::max(1.0, model.getNominal(getSizes(op.getK())[1]));
      seen = std::clamp(model.getNominal(*window) / keys, 0.0, 1.0);
    }
    return model.getComputeCost(cast<ShardingRuleOpInterface>(base), op->getOperands(), seen);
  }
};

/// Counts the computation of `top_k` experts for each token. The weights that are read are those of
/// all experts, or of `top_k` experts for each token if these are fewer.
struct MoeCost : CostOpInterface::ExternalModel<MoeCost, MoeOp> {
  Cost getCost(Operation *base, CostModel &model) const {
    auto op = cast<MoeOp>(base);
    auto countElements = [&](Value v) {
      return 8 * model.getBytes(v.getType()) / getElementTypeOrSelf(v).getIntOrFloatBitWidth();
    };
    auto sizeOf = [&](Value v, int64_t dim) {
      return std::max(1.0, model.getNominal(getSizes(v)[dim]));
    };
    double share = double(op.getTopK()) / sizeOf(op.getUp(), 0);
    double tokens = countElements(op.getX()) / sizeOf(op.getX(), 1);
    Cost cost;
    for (Value operand : op->getOperands()) {
      double bytes = model.getBytes(operand.getType());
      if (operand == op.getX() || operand == op.getRouting()) {
        cost.traffic += bytes;
        continue;
      }
      cost.traffic += std::min(1.0, tokens * share) * bytes;
      cost.flops += 2 * share * tokens * countElements(operand);
    }
    cost.traffic += model.getBytes(op.getType());
    cost.seconds = std::max(cost.flops / CostModel::flopsPerSecond,
                            cost.traffic / CostModel::memoryBytesPerSecond);
    return cost;
  }
};

/// Counts only the indexed rows of the table.
template <typename OpT> struct LookupCost : CostOpInterface::ExternalModel<LookupCost<OpT>, OpT> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getComputeCost(cast<ShardingRuleOpInterface>(op), op->getOperands().drop_front());
  }
};

/// Counts one addition for each element of the updates.
struct ScatterAddCost : CostOpInterface::ExternalModel<ScatterAddCost, ScatterAddOp> {
  Cost getCost(Operation *base, CostModel &model) const {
    auto op = cast<ScatterAddOp>(base);
    double updates = model.getBytes(op.getUpdates().getType());
    Cost cost;
    cost.flops = 8 * updates / getElementTypeOrSelf(op.getUpdates()).getIntOrFloatBitWidth();
    cost.traffic = updates + model.getBytes(op.getIds().getType()) + model.getBytes(op.getType());
    cost.seconds = std::max(cost.flops / CostModel::flopsPerSecond,
                            cost.traffic / CostModel::memoryBytesPerSecond);
    return cost;
  }
};

/// Counts only the new tokens, because the op works in place.
struct AppendCost : CostOpInterface::ExternalModel<AppendCost, AppendOp> {
  Cost getCost(Operation *op, CostModel &model) const {
    Cost cost;
    cost.traffic = 2 * model.getBytes(cast<AppendOp>(op).getFresh().getType());
    return cost;
  }
};

template <typename OpT>
struct CollectiveCost : CostOpInterface::ExternalModel<CollectiveCost<OpT>, OpT> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getCollectiveCost(cast<CollectiveOpInterface>(op));
  }
};

/// Counts the memory of the parameter. Its traffic is counted at the ops that read it.
struct ParameterCost : CostOpInterface::ExternalModel<ParameterCost, ParameterOp> {
  Cost getCost(Operation *op, CostModel &model) const {
    Cost cost;
    cost.weightBytes = model.getBytes(op->getResult(0).getType());
    return cost;
  }
};

struct CallCost : CostOpInterface::ExternalModel<CallCost, func::CallOp> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getCallCost(cast<func::CallOp>(op));
  }
};

/// Ops without cost: aliases of memory, data of the executable, program structure. tpc-split-stages
/// counts transfers between stages (getSendSeconds).
template <typename OpT> struct NoCost : CostOpInterface::ExternalModel<NoCost<OpT>, OpT> {
  Cost getCost(Operation *, CostModel &) const { return {}; }
};
} // namespace

void mlir::tpc::registerCostModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    context->getOrLoadDialect<func::FuncDialect>();
    attachToScalarOps<ComputedCost>(context);
    attachModels<AttentionCost, AttentionOp, AttentionGradOp>(context);
    MoeOp::attachInterface<MoeCost>(*context);
    attachModels<ComputedCost, MatmulOp, DequantizeOp, LayerNormOp, RmsNormOp, SoftmaxOp, ReduceOp,
                 RotaryOp, CumSumOp, TriluOp, TransposeOp, ExpandOp, SliceOp, ConcatOp, RollOp,
                 IotaOp>(context);
    attachModels<LookupCost, EmbeddingOp, GatherOp, GatherNDOp>(context);
    attachModels<CollectiveCost, AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                 CollectivePermuteOp, ExchangeOp, BroadcastOp, AllReduceStartOp, DispatchOp,
                 CombineOp>(context);
    ScatterAddOp::attachInterface<ScatterAddCost>(*context);
    ParameterOp::attachInterface<ParameterCost>(*context);
    AppendOp::attachInterface<AppendCost>(*context);
    func::CallOp::attachInterface<CallCost>(*context);
    attachModels<NoCost, ConstantOp, SizeOp, ReshapeOp, ReshardOp, LocalSliceOp, WeightOp, CacheOp,
                 PipelineOp, StageOp, MicroBatchesOp, SendOp, RecvOp, OutputOp, WaitOp,
                 AccumulateOp, AccumulatedOp, func::FuncOp, func::ReturnOp, ModuleOp>(context);
  });
}

SmallVector<CoverageColumn> mlir::tpc::getCostCoverage() {
  return {{"cost",
           "its cost on a rank (`CostOpInterface`)",
           {{"yes", TypeID::get<CostOpInterface>()}}}};
}
