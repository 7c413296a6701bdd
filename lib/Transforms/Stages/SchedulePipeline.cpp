//===- SchedulePipeline.cpp - Pipeline schedule from stage calls ----------===//

#include "Accumulation.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"
#include "tpc/Transforms/Stages/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SCHEDULEPIPELINE
#include "tpc/Transforms/Stages/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Returns true if collectives span ranks of which some may have no samples in a micro-batch.
static bool hasBatchCollective(ModuleOp module, DimAttr batch) {
  auto found = module.walk([&](CollectiveOpInterface op) {
    for (auto axis : op.getAxesAttr().getAsRange<StringAttr>())
      if (batch.usesAxis(axis.getValue()))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// Returns true if an output is common to all samples, such as a weight or a copy of another input.
static bool hasCommonOutput(func::FuncOp main, DimAttr batch) {
  return llvm::any_of(main.getResultTypes(), [&](Type type) {
    DistAttr dist = getDist(type);
    return llvm::any_of(batch.getAllAxes(),
                        [&](StringAttr axis) { return !dist.usesAxis(axis.getValue()); });
  });
}

static std::string nameOf(DictionaryAttr attrs, unsigned index, StringRef fallback) {
  if (attrs)
    if (auto name = attrs.getAs<StringAttr>(kNameAttr))
      return name.getValue().str();
  return (fallback + "_" + Twine(index)).str();
}

/// Moves the estimates of a chunk's function to its stage, and adds them up.
static void moveEstimates(func::FuncOp function, StageOp stage) {
  Builder b(function.getContext());
  for (StringRef name : {kSecondsAttr, kLayerSecondsAttr, kRecomputedSecondsAttr,
                         kTransferSecondsAttr, kWeightBytesAttr}) {
    Attribute value = function->removeAttr(name), before = stage->getAttr(name);
    if (auto seconds = dyn_cast_or_null<FloatAttr>(value); seconds && before)
      value = b.getF64FloatAttr(seconds.getValueAsDouble() +
                                cast<FloatAttr>(before).getValueAsDouble());
    else if (auto bytes = dyn_cast_or_null<IntegerAttr>(value); bytes && before)
      value = b.getI64IntegerAttr(bytes.getInt() + cast<IntegerAttr>(before).getInt());
    if (value)
      stage->setAttr(name, value);
  }
  function->removeAttr(kStageAttr);
}

namespace {
struct SchedulePipeline : public mlir::tpc::impl::SchedulePipelineBase<SchedulePipeline> {
  using SchedulePipelineBase::SchedulePipelineBase;

  /// Makes the events of the policy; null if each rank runs its chunk in a loop.
  LogicalResult makeEvents(MeshAttr grid, ScheduleAttr &schedule) {
    std::string name = policy, error;
    ::tpc::PipelineShape shape{grid.getAxisSize(kPipelineAxis), grid.getChunksPerRank(),
                               grid.getMicroBatches()};
    if (name.empty())
      name = shape.chunksPerRank > 1 ? "interleaved" : "gpipe";
    auto table = ::tpc::makeSchedule(name, shape, error);
    Location loc = getOperation().getLoc();
    if (!table)
      return emitError(loc) << error;
    if (llvm::any_of(::tpc::getSchedulePolicies(), [&](const ::tpc::SchedulePolicy &other) {
          return other.name == name && other.isTraining;
        }))
      return emitError(loc) << "the schedule '" << name
                            << "' has backward events, but the program has no backward pass";
    if (name != "gpipe")
      schedule = ScheduleAttr::get(&getContext(), name, ::tpc::addMessages(*table, shape.chunks()));
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    SmallVector<func::CallOp> calls;
    func::CallOp update; // of the sums over micro-batches
    if (main && !main.isExternal())
      for (Operation &op : main.front().without_terminator()) {
        auto call = dyn_cast<func::CallOp>(op);
        if (call && llvm::any_of(call.getOperands(), [](Value operand) {
              return isSumOverMicroBatches(operand.getDefiningOp());
            }))
          update = call;
        else if (call)
          calls.push_back(call);
      }
    MeshAttr grid = MeshAttr::lookup(module);
    if (!grid || calls.empty() ||
        int64_t(calls.size()) != grid.getAxisSize(kPipelineAxis) * grid.getChunksPerRank()) {
      emitError(module.getLoc())
          << "needs a function @main that calls one stage for each coordinate of "
             "pp (with vpp, one for each chunk): run tpc-split-stages first";
      return signalPassFailure();
    }
    ScheduleAttr schedule;
    if (failed(makeEvents(grid, schedule)))
      return signalPassFailure();
    auto batch = module->getAttrOfType<DimAttr>(kBatchAttr);
    if (batch && (hasBatchCollective(module, batch) || hasCommonOutput(main, batch))) {
      // Replicas without samples take part in two cases: sharded weights are gathered in each
      // micro-batch, and outputs common to all samples are delivered in the first iteration, also
      // without samples. The loop then runs over a dimension of which every micro-batch has one
      // element.
      int64_t iterations = grid.getMicroBatches();
      auto time = StringAttr::get(module.getContext(), kMicroBatchAxis);
      batch = iterations == 1 ? DimAttr()
                              : DimAttr::get(module.getContext(),
                                             FactorAttr::get(module.getContext(),
                                                             ::tpc::SymExpr(iterations), {time}));
    }

    Builder attrs(module.getContext());
    SmallVector<Attribute> inputAttrs, outputs;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      DictionaryAttr dict = main.getArgAttrDict(i);
      SmallVector<NamedAttribute> entries;
      if (dict)
        llvm::append_range(entries, dict.getValue());
      if (!dict || !dict.get(kNameAttr))
        entries.push_back(
            attrs.getNamedAttr(kNameAttr, attrs.getStringAttr(nameOf(dict, i, "input"))));
      inputAttrs.push_back(attrs.getDictionaryAttr(entries));
    }
    for (auto [i, type] : llvm::enumerate(main.getResultTypes())) {
      Type global =
          makeTensorType(cast<RankedTensorType>(type).getElementType(), getDist(type).getGlobal());
      Type delivered = getCopies(main, i).getDeliveredType(global);
      SmallVector<NamedAttribute> output = {
          attrs.getNamedAttr("name",
                             attrs.getStringAttr(nameOf(main.getResultAttrDict(i), i, "output"))),
          attrs.getNamedAttr("type", TypeAttr::get(delivered))};
      if (Attribute copies = main.getResultAttr(i, kCopiesAttr))
        output.push_back(attrs.getNamedAttr(kCopiesAttr, copies));
      if (Attribute cache = main.getResultAttr(i, kCacheAttr))
        output.push_back(attrs.getNamedAttr(kCacheAttr, cache));
      if (Attribute update = main.getResultAttr(i, kUpdateAttr))
        output.push_back(attrs.getNamedAttr(kUpdateAttr, update));
      outputs.push_back(attrs.getDictionaryAttr(output));
    }

    OpBuilder builder(main);
    auto pipeline =
        PipelineOp::create(builder, main.getLoc(), main.getName(), attrs.getArrayAttr(inputAttrs),
                           attrs.getArrayAttr(outputs), schedule);
    Block *body = builder.createBlock(&pipeline.getBody());
    IRMapping inputs;
    for (BlockArgument argument : main.getArguments())
      inputs.map(argument, body->addArgument(argument.getType(), argument.getLoc()));

    Operation *terminator = main.front().getTerminator();
    int64_t ranks = grid.getAxisSize(kPipelineAxis);
    SmallVector<StageOp> stages;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      builder.setInsertionPointToEnd(body);
      stages.push_back(StageOp::create(builder, calls[rank].getLoc(), rank));
      builder.createBlock(&stages.back().getBody());
    }
    DenseMap<Operation *, int64_t> sums; // indices
    for (Operation &op : main.front())
      if (isSumOverMicroBatches(&op))
        sums.try_emplace(&op, sums.size());
    for (auto [i, call] : llvm::enumerate(calls)) {
      StageOp stage = stages[i % ranks];
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      moveEstimates(callee, stage);
      builder.setInsertionPointToEnd(&stage.getBody().front());
      auto loop = MicroBatchesOp::create(builder, call.getLoc(), batch);
      builder.createBlock(&loop.getBody());

      SmallVector<Value> operands;
      for (Value operand : call.getOperands()) {
        if (Value input = inputs.lookupOrNull(operand)) {
          operands.push_back(input);
          continue;
        }
        operands.push_back(
            RecvOp::create(builder, call.getLoc(), operand.getType(), (i + ranks - 1) % ranks)
                .getResult());
      }
      auto run = func::CallOp::create(builder, call.getLoc(), callee, operands);
      for (auto [old, result] : llvm::zip(call.getResults(), run.getResults()))
        for (OpOperand &use : old.getUses()) {
          if (use.getOwner() == terminator)
            OutputOp::create(builder, call.getLoc(), use.getOperandNumber(), result);
          else if (isSumOverMicroBatches(use.getOwner()))
            AccumulateOp::create(builder, use.getOwner()->getLoc(), sums[use.getOwner()], result);
          else
            SendOp::create(builder, call.getLoc(), result, (i + 1) % ranks);
        }
    }
    if (update)
      addUpdate(builder, update, stages.back(), inputs, sums);
    main.erase();
  }

  /// Adds the update to a stage, in a loop of its own that runs once.
  void addUpdate(OpBuilder &builder, func::CallOp update, StageOp stage, const IRMapping &inputs,
                 const DenseMap<Operation *, int64_t> &sums) {
    builder.setInsertionPointToEnd(&stage.getBody().front());
    auto loop = MicroBatchesOp::create(builder, update.getLoc(), DimAttr());
    builder.createBlock(&loop.getBody());
    SmallVector<Value> operands;
    for (Value operand : update.getOperands())
      if (auto sum = sums.find(operand.getDefiningOp()); sum != sums.end())
        operands.push_back(AccumulatedOp::create(builder, operand.getLoc(), operand.getType(),
                                                 builder.getI64IntegerAttr(sum->second)));
      else
        operands.push_back(inputs.lookup(operand));
    auto run = func::CallOp::create(builder, update.getLoc(), update.getCallee(),
                                    TypeRange(ValueRange(update.getResults())), operands);
    for (auto [old, result] : llvm::zip(update.getResults(), run.getResults()))
      for (OpOperand &use : old.getUses())
        OutputOp::create(builder, update.getLoc(), use.getOperandNumber(), result);
  }
};
} // namespace
