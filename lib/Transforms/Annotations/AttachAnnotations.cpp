//===- AttachAnnotations.cpp - Conversion of annotation ops to attributes -===//
//
// A `tpc.annotation` applies to its operand, which may be a replacement of the value that the user
// annotated. If the operand has no other use but is a reshape or transpose of a used value, that
// value is annotated instead: in the normal form, ops on [batch, sequence, 64] are ops on [batch *
// sequence, 64].
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
#define GEN_PASS_DEF_ATTACHANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

struct AnnotatedSize {
  SymExpr size;
  FactorAttr factor;  // null: unconstrained
  bool exact = false; // whether the dimension's annotation has several factors, see isExact
};

class AnnotationAttacher {
public:
  explicit AnnotationAttacher(ModuleOp module) : module(module) {}
  LogicalResult run();

private:
  LogicalResult attach(AnnotationOp annotation);
  LogicalResult setSharding(AnnotationOp annotation, Operation *op, ArrayAttr sharding);
  InFlightDiagnostic error(AnnotationOp annotation, Location loc) const;

  ModuleOp module;
  /// Ops whose results only annotations use.
  DenseSet<Operation *> unneeded;
  /// Annotation from which an op got its sharding.
  DenseMap<Operation *, AnnotationOp> shardings;
  /// Stages from annotation ops (as opposed to stages of ONNX nodes).
  llvm::MapVector<Operation *, Attribute> stages;
};

struct AttachAnnotations : public mlir::tpc::impl::AttachAnnotationsBase<AttachAnnotations> {
  void runOnOperation() override {
    if (failed(AnnotationAttacher(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace

static SmallVector<AnnotatedSize> getEntries(ArrayAttr sharding, ArrayRef<SymExpr> sizes) {
  SmallVector<AnnotatedSize> entries;
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

/// Converts the annotation to the current dimensions of the value. Dimensions may have been merged
/// ([batch, sequence, 64] is [batch * sequence, 64]) or divided, but not permuted. Returns null if
/// the annotation does not fit.
static ArrayAttr fit(ArrayRef<AnnotatedSize> entries, ArrayRef<SymExpr> sizes,
                     MLIRContext *context) {
  SmallVector<AnnotatedSize> rest(llvm::reverse(entries));
  SmallVector<Attribute> dims;
  for (const SymExpr &size : sizes) {
    SmallVector<FactorAttr> factors;
    bool open = false;
    SymExpr need = size;
    // Dimensions of size 1 are never split.
    auto dropOnes = [&] {
      while (!rest.empty() && rest.back().size.isConstant(1))
        rest.pop_back();
    };
    for (dropOnes(); !need.isConstant(1); dropOnes()) {
      if (rest.empty())
        return {};
      AnnotatedSize &entry = rest.back();
      open |= !entry.factor;
      if (auto left = need.divideExact(entry.size)) {
        factors.push_back(entry.factor ? entry.factor : FactorAttr::get(context, entry.size));
        need = *left;
        rest.pop_back();
      } else if (auto left = entry.size.divideExact(need)) {
        if (entry.exact && !entry.factor.getAxes().empty())
          return {};
        // The axes split the outermost factor.
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
  for (const AnnotatedSize &entry : rest)
    if (!entry.size.isConstant(1))
      return {};
  return ArrayAttr::get(context, dims);
}

/// Sets the stage of each op to that of the ONNX node in its location.
static void attachStages(ModuleOp module) {
  auto recorded = dyn_cast_or_null<ArrayAttr>(module->removeAttr(kRecordedStagesAttr));
  if (!recorded)
    return;
  llvm::StringMap<Attribute> stages;
  for (auto stage : recorded.getAsRange<DictionaryAttr>())
    stages[stage.getAs<StringAttr>("node").getValue()] = stage.get("stage");
  // The last op with a node's location computes the node's value. An earlier op gets the node's
  // stage only if all its users do: a mask shared by all layers does not get the stage of the first
  // attention op.
  llvm::StringMap<DenseSet<Operation *>> attached;
  module.walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
    // Ops without operands are cloned into each stage that uses them.
    if (!isa<ShardingRuleOpInterface>(op) || op->getNumOperands() == 0)
      return;
    SmallVector<std::string> names;
    collectNodeNames(op->getLoc(), names);
    for (const std::string &name : names) {
      auto it = stages.find(name);
      if (it == stages.end())
        continue;
      DenseSet<Operation *> &parts = attached[name];
      if (!parts.empty() &&
          !llvm::all_of(op->getUsers(), [&](Operation *user) { return parts.contains(user); }))
        continue;
      parts.insert(op);
      op->setAttr(kPipelineStageAttr, it->second);
    }
  });
}

InFlightDiagnostic AnnotationAttacher::error(AnnotationOp annotation, Location loc) const {
  InFlightDiagnostic diag =
      emitError(loc) << (annotation.getSharding() ? "annotation of value '" : "pipeline stage of '")
                     << annotation.getName() << "'";
  if (auto source = annotation.getSource())
    diag << " (" << *source << ")";
  return diag;
}

LogicalResult AnnotationAttacher::setSharding(AnnotationOp annotation, Operation *op,
                                              ArrayAttr sharding) {
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

LogicalResult AnnotationAttacher::attach(AnnotationOp annotation) {
  Value value = annotation.getValue();
  ArrayAttr sharding = annotation.getShardingAttr();
  SmallVector<SymExpr> sizes = getSizes(value);
  SmallVector<AnnotatedSize> entries;
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
    diag << ": the annotation is for dimensions [";
    llvm::interleaveComma(entries, diag, [&](const AnnotatedSize &e) { diag << e.size.str(); });
    diag << "], but the value has [";
    llvm::interleaveComma(sizes, diag, [&](const SymExpr &size) { diag << size.str(); });
    return diag << "] in the partitioned program: in another order, or not divided where the "
                   "annotation splits a factor; annotate a weight, or another value";
  }
  if (!op || unneeded.contains(op)) {
    InFlightDiagnostic diag =
        error(annotation, NameLoc::get(annotation.getNameAttr(), module.getLoc()));
    if (!op)
      return diag << ": it equals an input of the partitioned program; annotate the "
                     "input";
    return diag << ": it was fused into a larger op before partitioning; "
                   "annotate "
                << (sharding ? "a weight, or the result of that op" : "that op");
  }
  if (Attribute stage = annotation.getStageAttr())
    stages[op] = stage;
  return sharding ? setSharding(annotation, op, sharding) : success();
}

LogicalResult AnnotationAttacher::run() {
  SmallVector<AnnotationOp> annotations;
  llvm::SetVector<Block *> blocks;
  module.walk([&](AnnotationOp op) {
    annotations.push_back(op);
    blocks.insert(op->getBlock());
  });
  for (Block *block : blocks)
    unneeded.insert_range(getUnusedOps(*block));
  bool ok = true;
  for (AnnotationOp annotation : annotations)
    ok &= succeeded(attach(annotation));
  if (!ok)
    return failure();
  for (AnnotationOp annotation : annotations)
    annotation.erase();
  for (Block *block : blocks)
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (unneeded.contains(&op))
        op.erase();

  attachStages(module);
  for (auto [op, stage] : stages)
    op->setAttr(kPipelineStageAttr, stage);
  return success();
}
