//===- PlaceAnnotations.cpp - Annotations of values, placed again ---------===//
//
// An annotation is about the value that it uses now: whatever has replaced the one that the user
// named. Where nothing else uses that, the model computes it no longer. It may still be a reshape
// or a transpose of what the model computes (ops on [batch, sequence, 64] work on
// [batch * sequence, 64] in the normal form): then that is annotated.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Iterators.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PLACEANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

struct Entry {
  SymExpr size;
  FactorAttr factor;  // null: open
  bool exact = false; // one of several factors of a dimension, which it has to be
};

class Placer {
public:
  explicit Placer(ModuleOp module) : module(module) {}
  LogicalResult run();

private:
  LogicalResult place(AnnotationOp annotation);
  LogicalResult putSharding(AnnotationOp annotation, Operation *op, ArrayAttr sharding);
  InFlightDiagnostic error(AnnotationOp annotation, Location loc) const;

  ModuleOp module;
  /// What is there for annotations alone.
  DenseSet<Operation *> unneeded;
  /// The annotations that ops have their shardings of.
  DenseMap<Operation *, AnnotationOp> shardings;
  /// What ops themselves say, not the nodes that they are made of.
  llvm::MapVector<Operation *, Attribute> stages;
};

struct PlaceAnnotations : public mlir::tpc::impl::PlaceAnnotationsBase<PlaceAnnotations> {
  void runOnOperation() override {
    if (failed(Placer(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace

static SmallVector<Entry> getEntries(ArrayAttr sharding, ArrayRef<SymExpr> sizes) {
  SmallVector<Entry> entries;
  for (auto [attr, size] : llvm::zip(sharding, sizes)) {
    auto dim = dyn_cast<DimAttr>(attr);
    if (!dim)
      entries.push_back({size, {}});
    else
      for (FactorAttr factor : dim.getFactors())
        entries.push_back({factor.getExpr(), factor, dim.getFactors().size() > 1});
  }
  return entries;
}

/// The annotation for the dimensions that the value has now: dimensions may have been merged
/// ([batch, sequence, 64] is [batch * sequence, 64]) or divided, not permuted. Null where it does
/// not fit.
static ArrayAttr fit(ArrayRef<Entry> entries, ArrayRef<SymExpr> sizes, MLIRContext *context) {
  SmallVector<Entry> rest(llvm::reverse(entries));
  SmallVector<Attribute> dims;
  for (const SymExpr &size : sizes) {
    SmallVector<FactorAttr> factors;
    bool open = false;
    SymExpr need = size;
    auto dropOnes = [&] {
      while (!rest.empty() && rest.back().size.isConstant(1))
        rest.pop_back();
    };
    for (dropOnes(); !need.isConstant(1); dropOnes()) {
      if (rest.empty())
        return {};
      Entry &entry = rest.back();
      open |= !entry.factor;
      if (auto left = need.divideExact(entry.size)) {
        factors.push_back(entry.factor ? entry.factor : FactorAttr::get(context, entry.size));
        need = *left;
        rest.pop_back();
      } else if (auto left = entry.size.divideExact(need)) {
        if (entry.exact && !entry.factor.getAxes().empty())
          return {};
        // The outermost part takes the axes.
        factors.push_back(FactorAttr::get(
            context, need, entry.factor ? entry.factor.getAxes() : ArrayRef<StringAttr>()));
        entry.size = *left;
        if (entry.factor)
          entry.factor = FactorAttr::get(context, *left);
        need = SymExpr(1);
      } else {
        return {};
      }
    }
    bool split = llvm::any_of(factors, [](FactorAttr f) { return !f.getAxes().empty(); });
    if (open && !split)
      dims.push_back(UnitAttr::get(context));
    else if (factors.empty())
      dims.push_back(DimAttr::get(context, size));
    else
      dims.push_back(DimAttr::get(context, factors));
  }
  for (const Entry &entry : rest)
    if (!entry.size.isConstant(1))
      return {};
  return ArrayAttr::get(context, dims);
}

/// Ops are in the stage of the node that they are made of.
static void placeStages(ModuleOp module) {
  auto held = dyn_cast_or_null<ArrayAttr>(module->removeAttr(kHeldStagesAttr));
  if (!held)
    return;
  llvm::StringMap<Attribute> stages;
  for (auto stage : held.getAsRange<DictionaryAttr>())
    stages[stage.getAs<StringAttr>("node").getValue()] = stage.get("stage");
  // Of the ops that are made of one node the last one is its value. Those before it are parts of it
  // if nobody else uses them: a mask that layers share is not where the first attention is.
  llvm::StringMap<DenseSet<Operation *>> placed;
  module.walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
    // What has no operands is wherever it is needed.
    if (!isa<ShardingRuleOpInterface>(op) || op->getNumOperands() == 0)
      return;
    SmallVector<std::string> names;
    collectNodeNames(op->getLoc(), names);
    for (const std::string &name : names) {
      auto it = stages.find(name);
      if (it == stages.end())
        continue;
      DenseSet<Operation *> &parts = placed[name];
      if (!parts.empty() &&
          !llvm::all_of(op->getUsers(), [&](Operation *user) { return parts.contains(user); }))
        continue;
      parts.insert(op);
      op->setAttr(kPipelineStageAttr, it->second);
    }
  });
}

InFlightDiagnostic Placer::error(AnnotationOp annotation, Location loc) const {
  InFlightDiagnostic diag =
      emitError(loc) << (annotation.getSharding() ? "annotation of value '" : "pipeline stage of '")
                     << annotation.getName() << "'";
  if (auto source = annotation.getSource())
    diag << " (" << *source << ")";
  return diag;
}

LogicalResult Placer::putSharding(AnnotationOp annotation, Operation *op, ArrayAttr sharding) {
  auto [before, isNew] = shardings.try_emplace(op, annotation);
  if (!isNew) {
    auto other = op->getAttrOfType<ArrayAttr>(kShardingAttr);
    if (other == sharding)
      return success();
    InFlightDiagnostic diag = error(annotation, op->getLoc());
    diag << " is " << printSharding(sharding) << ", but it is the same value as '"
         << before->second.getName() << "'";
    if (auto source = before->second.getSource())
      diag << " (" << *source << ")";
    return diag << ", which is annotated " << printSharding(other);
  }
  op->setAttr(kShardingAttr, sharding);
  if (auto source = annotation.getSourceAttr())
    op->setAttr(kShardingSourceAttr, source);
  return success();
}

LogicalResult Placer::place(AnnotationOp annotation) {
  Value value = annotation.getValue();
  ArrayAttr sharding = annotation.getShardingAttr();
  SmallVector<SymExpr> sizes = getSizes(value);
  // Dimensions of one element are never split, whatever is said of them.
  SmallVector<Entry> entries;
  auto fitTo = [&](Value to) {
    if (!sharding)
      return true;
    entries = getEntries(sharding, sizes);
    sizes = getSizes(to);
    sharding = fit(entries, sizes, module.getContext());
    return bool(sharding);
  };
  bool fits = fitTo(value);
  Operation *op = value.getDefiningOp();
  for (; fits && op && unneeded.contains(op) && isa<ReshapeOp, TransposeOp>(op);
       op = value.getDefiningOp()) {
    value = op->getOperand(0);
    auto transpose = dyn_cast<TransposeOp>(op);
    if (!transpose) {
      fits = fitTo(value);
    } else if (sharding) {
      SmallVector<Attribute> dims(sharding.size());
      for (auto [dim, from] : llvm::zip(sharding, transpose.getPermutation()))
        dims[from] = dim;
      sharding = ArrayAttr::get(module.getContext(), dims);
      sizes = getSizes(value);
    }
  }
  if (!fits) {
    InFlightDiagnostic diag = error(annotation, op ? op->getLoc() : annotation.getLoc());
    diag << ": the value has dimensions [";
    llvm::interleaveComma(entries, diag, [&](const Entry &e) { diag << e.size.str(); });
    diag << "], which are [";
    llvm::interleaveComma(sizes, diag, [&](const SymExpr &size) { diag << size.str(); });
    return diag << "] in the program that is partitioned: in another order, or not divided where a "
                   "factor is to be split; annotate a weight, or another value";
  }
  if (!op || unneeded.contains(op)) {
    InFlightDiagnostic diag =
        error(annotation, NameLoc::get(annotation.getNameAttr(), module.getLoc()));
    if (!op)
      return diag << ": it is an input itself in the program that is partitioned; annotate the "
                     "input";
    return diag << ": it is not in the program that is partitioned, it has become part of a larger "
                   "op; annotate "
                << (sharding ? "a weight, or the result of that op" : "that op");
  }
  if (Attribute stage = annotation.getStageAttr())
    stages[op] = stage;
  return sharding ? putSharding(annotation, op, sharding) : success();
}

LogicalResult Placer::run() {
  SmallVector<AnnotationOp> annotations;
  llvm::SetVector<Block *> blocks;
  module.walk([&](AnnotationOp op) {
    annotations.push_back(op);
    blocks.insert(op->getBlock());
  });
  for (Block *block : blocks)
    unneeded.insert_range(getUnneeded(*block));
  bool ok = true;
  for (AnnotationOp annotation : annotations)
    ok &= succeeded(place(annotation));
  if (!ok)
    return failure();
  for (AnnotationOp annotation : annotations)
    annotation.erase();
  for (Block *block : blocks)
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (unneeded.contains(&op))
        op.erase();

  placeStages(module);
  for (auto [op, stage] : stages)
    op->setAttr(kPipelineStageAttr, stage);
  return success();
}
