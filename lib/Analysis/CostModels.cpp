//===- CostModels.cpp - Cost models of ops --------------------------------===//

#include "CostOp.h"

#include "tpc/Dialect/AttachModels.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "CostOp.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Arithmetic at each point of the rule's iteration space; reads all operands.
template <typename OpT>
struct ComputedCost : CostOpInterface::ExternalModel<ComputedCost<OpT>, OpT> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getComputed(cast<ShardingRuleOpInterface>(op), op->getOperands());
  }
};

/// Only keys within the window are visible to a query.
struct AttentionCost : CostOpInterface::ExternalModel<AttentionCost, AttentionOp> {
  Cost getCost(Operation *base, CostModel &model) const {
    auto op = cast<AttentionOp>(base);
    double seen = 1;
    if (std::optional<::tpc::SymExpr> window = op.getWindow(); window && op.getCausal()) {
      double keys = std::max(1.0, model.getNominal(getSizes(op.getK())[1]));
      seen = std::clamp(model.getNominal(*window) / keys, 0.0, 1.0);
    }
    return model.getComputed(op, op->getOperands(), seen);
  }
};

/// Reads only the indexed rows of the table.
template <typename OpT> struct LookupCost : CostOpInterface::ExternalModel<LookupCost<OpT>, OpT> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getComputed(cast<ShardingRuleOpInterface>(op), op->getOperands().drop_front());
  }
};

/// In place: reads and writes only new tokens.
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
    return model.getCommunicated(cast<CollectiveOpInterface>(op));
  }
};

/// Counts the memory of the parameter. Ops that read it count the traffic.
struct ParameterCost : CostOpInterface::ExternalModel<ParameterCost, ParameterOp> {
  Cost getCost(Operation *op, CostModel &model) const {
    Cost cost;
    cost.weightBytes = model.getBytes(op->getResult(0).getType());
    return cost;
  }
};

struct CallCost : CostOpInterface::ExternalModel<CallCost, func::CallOp> {
  Cost getCost(Operation *op, CostModel &model) const {
    return model.getCalled(cast<func::CallOp>(op));
  }
};

/// No cost: an alias of memory, data of the executable, or structure. Transfers between stages are
/// counted where stages are cut (getSendSeconds).
template <typename OpT> struct NoCost : CostOpInterface::ExternalModel<NoCost<OpT>, OpT> {
  Cost getCost(Operation *, CostModel &) const { return {}; }
};
} // namespace

void mlir::tpc::registerCostModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    context->getOrLoadDialect<func::FuncDialect>();
    attachToScalarOps<ComputedCost>(context);
    AttentionOp::attachInterface<AttentionCost>(*context);
    attachModels<ComputedCost, MatmulOp, LayerNormOp, RmsNormOp, SoftmaxOp, ReduceOp, RotaryOp,
                 CumSumOp, TriluOp, TransposeOp, ExpandOp, SliceOp, ConcatOp, RollOp, IotaOp>(
        context);
    attachModels<LookupCost, EmbeddingOp, GatherOp, GatherNDOp>(context);
    attachModels<CollectiveCost, AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                 CollectivePermuteOp, ExchangeOp, BroadcastOp>(context);
    ParameterOp::attachInterface<ParameterCost>(*context);
    AppendOp::attachInterface<AppendCost>(*context);
    func::CallOp::attachInterface<CallCost>(*context);
    attachModels<NoCost, ConstantOp, SizeOp, ReshapeOp, ReshardOp, LocalSliceOp, WeightOp, CacheOp,
                 PipelineOp, StageOp, MicroBatchesOp, SendOp, RecvOp, OutputOp, func::FuncOp,
                 func::ReturnOp, ModuleOp>(context);
  });
}

SmallVector<CoverageColumn> mlir::tpc::getCostCoverage() {
  return {{"cost",
           "its cost on a rank (`CostOpInterface`)",
           {{"yes", TypeID::get<CostOpInterface>()}}}};
}
