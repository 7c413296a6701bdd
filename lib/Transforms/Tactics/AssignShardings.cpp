//===- AssignShardings.cpp - Assignment of axes to factors ----------------===//

#include "BuiltinTactics.h"
#include "Partitioner.h"
#include "PlannedDists.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
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
static void restoreBiases(PartitionState &state, SmallVectorImpl<Operation *> &erased) {
  state.problem.module.walk([&](AddOp add) {
    if (!add->removeAttr(kBiasAttr))
      return;
    auto matmul = add.getLhs().getDefiningOp<MatmulOp>();
    const ShardingRule &rule = state.problem.classes.getRule(matmul);
    bool splits = false;
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
      if (rule.factors[factor].kind != FactorKind::Parallel)
        for (int cls : state.problem.classes.getFactorClasses(matmul, factor))
          splits |= !state.getAxes(cls, matmul.getOperation(), factor).empty();
    if (splits || bool(state.getPlacement(matmul.getOperation())) !=
                      bool(state.getPlacement(add.getOperation())))
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

static void annotateOps(PartitionState &state) {
  MLIRContext *context = state.problem.module.getContext();
  PlannedDists dists(state);
  for (Operation *op : state.problem.getOps()) {
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

static void annotateArguments(PartitionState &state) {
  MLIRContext *context = state.problem.module.getContext();
  PlannedDists dists(state);
  for (auto function : state.problem.module.getOps<func::FuncOp>()) {
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

static void recordTactics(PartitionState &state) {
  Builder builder(state.problem.module.getContext());
  SmallVector<Attribute> tactics;
  for (const TacticRecord &record : std::as_const(state).getRecords()) {
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
  state.problem.module->setAttr(kTacticsAttr, builder.getArrayAttr(tactics));
}

MeshAttr mlir::tpc::makeMeshAttr(MLIRContext *context, const ::tpc::ShardSpec &spec) {
  SmallVector<StringAttr> order;
  SmallVector<int64_t> sizes;
  std::vector<::tpc::MeshAtom> atoms = spec.axes();
  for (const ::tpc::MeshAtom &atom : atoms) {
    order.push_back(StringAttr::get(context, atom.name));
    sizes.push_back(atom.size);
  }
  auto make = [&](const NamedAttrList &views) {
    return MeshAttr::get(context, order, sizes, views.getDictionary(context), spec.microBatches,
                         spec.gpusPerNode, spec.chunksPerRank);
  };
  // Adds the views that differ from their defaults. The default of an axis of experts consists of
  // the views of its dense axes, which are therefore added first.
  NamedAttrList views;
  for (std::string_view name : ::tpc::getViewNames()) {
    SmallVector<StringAttr> view;
    for (auto [axis, atom] : llvm::zip(order, atoms))
      if (atom.isIn(name))
        view.push_back(axis);
    if (view != make(views).getView(name))
      views.set(name, ArrayAttr::get(context, SmallVector<Attribute>(view.begin(), view.end())));
  }
  return make(views);
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
    Partitioner partitioner(module, spec, tactics);
    if (failed(partitioner.run()))
      return signalPassFailure();
    PartitionState &state = partitioner.getState();

    SmallVector<Operation *> erased;
    annotateOps(state);
    annotateArguments(state);
    if (failed(expectCollectives(state)))
      return signalPassFailure();
    restoreBiases(state, erased);
    recordTactics(state);
    for (const std::string &warning : state.getWarnings())
      warnAboutPlan(module, warning);
    for (Operation *op : erased)
      op->erase();
    module.walk([](Operation *op) { op->removeDiscardableAttr(kNormAttr); });
    eraseAnnotations(module);
  }
};
} // namespace
