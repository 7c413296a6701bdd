//===- AssignShardings.cpp - Assignment of axes to factors ----------------===//

#include "PlannedDists.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/AnnotatedFactors.h"
#include "tpc/Transforms/Tactics/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_ASSIGNSHARDINGS
#include "tpc/Transforms/Tactics/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Separates each bias: matmul with bias -> matmul, add.
void mlir::tpc::separateBiases(ModuleOp module) {
  module.walk([&](MatmulOp matmul) {
    Value bias = matmul.getBias();
    if (!bias)
      return;
    OpBuilder builder(matmul);
    builder.setInsertionPointAfter(matmul);
    auto add = AddOp::create(builder, matmul.getLoc(), matmul.getType(), matmul.getResult(), bias);
    add->setAttr(kBiasAttr, builder.getUnitAttr());
    // An annotation of the matmul with bias applies to both ops.
    for (StringRef name : {kShardingAttr, kShardingSourceAttr})
      if (Attribute annotation = matmul->getAttr(name))
        add->setAttr(name, annotation);
    matmul.getResult().replaceAllUsesExcept(add.getResult(), add);
    matmul.getBiasMutable().clear();
  });
}

/// Restores a bias if the matmul's inner dimension is not split and both ops process the same
/// tokens. Appends the replaced ops to `erased`.
static void restoreBiases(Plan &plan, SmallVectorImpl<Operation *> &erased) {
  plan.module.walk([&](AddOp add) {
    if (!add->removeAttr(kBiasAttr))
      return;
    auto matmul = add.getLhs().getDefiningOp<MatmulOp>();
    const ShardingRule &rule = plan.classes.getRule(matmul);
    bool splits = false;
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
      if (rule.factors[factor].kind != FactorKind::Parallel)
        for (int cls : plan.classes.getFactorClasses(matmul, factor))
          splits |= !plan.getAxes(cls, Plan::getSite(matmul), factor).empty();
    if (splits || plan.tokenFactor.contains(matmul) != plan.tokenFactor.contains(add))
      return;
    Value bias = add.getRhs();
    // The bias may be defined between the two ops.
    if (Operation *def = bias.getDefiningOp(); def && matmul->isBeforeInBlock(def))
      return;
    add.getResult().replaceAllUsesWith(matmul.getResult());
    matmul.getBiasMutable().assign(bias);
    erased.push_back(add);
  });
}

static SmallVector<Attribute> toAttributes(ArrayRef<DimAttr> dims) {
  return SmallVector<Attribute>(dims.begin(), dims.end());
}

static void annotateOps(Plan &plan) {
  MLIRContext *context = plan.module.getContext();
  PlannedDists dists(plan);
  for (Operation *op : plan.getOps()) {
    // Constants are replicated, and slicing one costs nothing.
    if (isa<ConstantOp, SizeOp>(op))
      continue;
    SmallVector<DimAttr> splits = dists.getSplits(op);
    if (llvm::any_of(splits, [](DimAttr dim) { return dim.isSharded(); }))
      op->setAttr(kSplitAttr, ArrayAttr::get(context, toAttributes(splits)));
    for (Value result : op->getResults())
      if (DistAttr stored = dists.getStored(result))
        op->setAttr(kResultSplitAttr, ArrayAttr::get(context, toAttributes(stored.getDims())));
  }
}

static void annotateArguments(Plan &plan) {
  MLIRContext *context = plan.module.getContext();
  PlannedDists dists(plan);
  for (auto function : plan.module.getOps<func::FuncOp>()) {
    if (function.getName() == "main")
      continue; // inputs are replicated
    for (BlockArgument argument : function.getArguments()) {
      DistAttr dist = dists.getProduced(argument);
      if (dist.isSharded())
        function.setArgAttr(argument.getArgNumber(), kSplitAttr,
                            ArrayAttr::get(context, toAttributes(dist.getDims())));
    }
  }
}

/// Removes annotations, which the plan now contains.
static void eraseAnnotations(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (StringRef name : {kShardingAttr, kShardingSourceAttr}) {
    module.walk([&](Operation *op) { op->removeDiscardableAttr(name); });
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      main.removeArgAttr(i, StringAttr::get(module.getContext(), name));
  }
}

static void recordTactics(Plan &plan) {
  Builder builder(plan.module.getContext());
  SmallVector<Attribute> tactics;
  for (const TacticRecord &record : plan.records) {
    if (record.splits.empty() && record.collectives.empty())
      continue;
    SmallVector<Attribute> splits, collectives;
    for (const std::string &split : record.splits)
      splits.push_back(builder.getStringAttr(split));
    for (const ExpectedCollective &p : record.collectives) {
      SmallVector<NamedAttribute> fields = {
          builder.getNamedAttr("kind", builder.getStringAttr(p.kind)),
          builder.getNamedAttr("axis", builder.getStringAttr(p.axis)),
          builder.getNamedAttr("why", builder.getStringAttr(p.why))};
      if (!p.size.empty())
        fields.push_back(builder.getNamedAttr("size", builder.getStringAttr(p.size)));
      collectives.push_back(builder.getDictionaryAttr(fields));
    }
    tactics.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(record.name)),
         builder.getNamedAttr("splits", builder.getArrayAttr(splits)),
         builder.getNamedAttr("predicts", builder.getArrayAttr(collectives))}));
  }
  plan.module->setAttr(kTacticsAttr, builder.getArrayAttr(tactics));
}

SmallVector<Tactic> mlir::tpc::getTactics(const ::tpc::ShardSpec &spec) {
  // User annotations have priority; the other tactics complete the plan.
  SmallVector<Tactic> tactics = {{"annotations", Tactic::Phase::Classes, applyAnnotations}};
  // With `manual`, this tactic only splits micro-batches.
  tactics.push_back({"dp", Tactic::Phase::Classes, applyDataTactic});
  if (!spec.manual) {
    if (spec.experts.size(::tpc::Axis::EP) > 1)
      tactics.push_back({"ep", Tactic::Phase::Classes, applyExpertsTactic});
    tactics.push_back({"tp", Tactic::Phase::Classes, applyTensorTactic});
    tactics.push_back({"vocabulary", Tactic::Phase::Classes, applyVocabularyTactic});
  }
  // With `manual`, this tactic only assigns the axes of annotated matrices to rows and columns.
  if (spec.isTensor2D())
    tactics.push_back({"rows", Tactic::Phase::Rows, applyRowsTactic});
  if (spec.sequenceParallel)
    tactics.push_back({"sp", Tactic::Phase::Ops, applySequenceTactic});
  return tactics;
}

SmallVector<std::string> mlir::tpc::getTacticNames(const ::tpc::ShardSpec &spec) {
  SmallVector<std::string> names;
  for (const Tactic &tactic : getTactics(spec))
    names.push_back(tactic.name.str());
  return names;
}

GridAttr mlir::tpc::makeGrid(MLIRContext *context, const ::tpc::ShardSpec &spec) {
  SmallVector<StringAttr> order;
  SmallVector<int64_t> sizes;
  for (const ::tpc::ShardSpec::NamedAxis &axis : spec.axes()) {
    order.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return GridAttr::get(context, order, sizes, spec.microBatches, spec.gpusPerNode,
                       spec.chunksPerRank);
}

namespace {
struct AssignShardings : public mlir::tpc::impl::AssignShardingsBase<AssignShardings> {
  using AssignShardingsBase::AssignShardingsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const ::tpc::ShardSpec &spec = shard;
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal()) {
      emitError(module.getLoc()) << "there is no function @main to partition";
      return signalPassFailure();
    }
    if (failed(verifyNoAnnotations(module)))
      return signalPassFailure();
    module->setAttr(kGridAttr, makeGrid(&getContext(), spec));

    specializeLayers(module);
    separateUses(module);
    separateBiases(module);
    SmallVector<Tactic> list = getTactics(spec);
    if (tactics >= 0 && tactics < int64_t(list.size()))
      list.truncate(tactics);
    std::optional<FactorClasses> classes;
    std::optional<Plan> current;
    auto applyTo = [&](Plan &plan, Tactic::Phase phase) {
      for (const Tactic &tactic : list)
        if (tactic.phase == phase && failed(tactic.apply(plan)))
          return failure();
      return success();
    };
    auto apply = [&](Tactic::Phase phase) { return applyTo(*current, phase); };
    auto chooseColumns = [&](Plan &plan) { return applyTo(plan, Tactic::Phase::Classes); };
    auto startPlan = [&] {
      classes.emplace(module);
      AnnotatedFactors(*classes, GridAttr::lookup(module)).divide(module);
      current.emplace(module, spec, *classes);
    };
    startPlan();
    bool isNew = !decomposeInnerNorms(*current, chooseColumns);
    if (llvm::any_of(list, [](Tactic &t) { return t.phase == Tactic::Phase::Rows; })) {
      if (!isNew)
        startPlan();
      isNew = false;
      if (failed(chooseColumns(*current)))
        return signalPassFailure();
      decomposeResidualNorms(*current);
    }
    auto makePlan = [&] {
      if (!isNew)
        startPlan();
      isNew = false;
      if (failed(chooseColumns(*current)) || failed(apply(Tactic::Phase::Rows)))
        return failure();
      resolveConflicts(*current);
      return success();
    };
    if (failed(makePlan()))
      return signalPassFailure();
    // Reordered sums have the same classes, so the plan is the same.
    if (regroupSums(*current) && failed(makePlan()))
      return signalPassFailure();
    Plan &plan = *current;
    if (failed(apply(Tactic::Phase::Ops)))
      return signalPassFailure();

    SmallVector<Operation *> erased;
    annotateOps(plan);
    annotateArguments(plan);
    if (failed(expectCollectives(plan)))
      return signalPassFailure();
    restoreBiases(plan, erased);
    recordTactics(plan);
    for (const std::string &warning : plan.warnings)
      warnAboutPlan(module, warning);
    for (Operation *op : erased)
      op->erase();
    module.walk([](Operation *op) { op->removeDiscardableAttr(kNormAttr); });
    eraseAnnotations(module);
  }
};
} // namespace
