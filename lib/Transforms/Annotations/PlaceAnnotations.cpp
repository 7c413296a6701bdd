//===- PlaceAnnotations.cpp - Annotations of values, placed again ---------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/Passes.h"

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

struct PlaceAnnotations : public mlir::tpc::impl::PlaceAnnotationsBase<PlaceAnnotations> {
  void runOnOperation() override;
};

} // namespace

static std::optional<int64_t> getMark(Operation *op) {
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto mark = fused ? dyn_cast_or_null<IntegerAttr>(fused.getMetadata()) : IntegerAttr();
  return mark ? std::optional<int64_t>(mark.getInt()) : std::nullopt;
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

void PlaceAnnotations::runOnOperation() {
  ModuleOp module = getOperation();
  placeStages(module);
  MLIRContext *context = &getContext();
  auto held = dyn_cast_or_null<ArrayAttr>(module->removeAttr(kHeldAnnotationsAttr));
  if (!held)
    return;
  SmallVector<Operation *> found(held.size());
  module.walk([&](Operation *op) {
    std::optional<int64_t> mark = getMark(op);
    if (!mark)
      return;
    // Shardings are of ops with one result.
    if (*mark >= 0 && *mark < int64_t(found.size()) &&
        (op->getNumResults() == 1 || !cast<DictionaryAttr>(held[*mark]).contains("entries")))
      found[*mark] = op;
    op->setLoc(cast<FusedLoc>(op->getLoc()).getLocations()[0]);
  });

  bool ok = true;
  for (auto [op, attr] : llvm::zip(found, held)) {
    auto annotation = dyn_cast<DictionaryAttr>(attr);
    auto name = annotation ? annotation.getAs<StringAttr>("name") : StringAttr();
    auto list = annotation ? annotation.getAs<ArrayAttr>("entries") : ArrayAttr();
    Attribute stage = annotation ? annotation.get("stage") : Attribute();
    if (!name || (!list && !stage))
      continue;
    auto source = annotation.getAs<StringAttr>("source");
    Location loc = op ? op->getLoc() : Location(NameLoc::get(name, module.getLoc()));
    auto error = [&] {
      ok = false;
      InFlightDiagnostic diag = emitError(loc)
                                << (list ? "annotation of value '" : "pipeline stage of '")
                                << name.getValue() << "'";
      if (source)
        diag << " (" << source.getValue() << ")";
      return diag;
    };
    if (!op) {
      error() << ": it is not in the program that is partitioned, it has become part of a larger "
                 "op; annotate "
              << (list ? "a weight, or the result of that op" : "that op");
      continue;
    }
    if (stage)
      op->setAttr(kPipelineStageAttr, stage);
    if (!list)
      continue;
    SmallVector<Entry> entries;
    for (Attribute entry : list) {
      if (auto dim = dyn_cast<DimAttr>(entry))
        for (FactorAttr factor : dim.getFactors())
          entries.push_back({factor.getExpr(), factor, dim.getFactors().size() > 1});
      else if (auto size = dyn_cast<StringAttr>(entry))
        entries.push_back(
            {SymExpr::parse(std::string_view(size.getValue())).value_or(SymExpr(1)), {}});
    }
    ArrayAttr sharding = fit(entries, getSizes(op->getResult(0)), context);
    if (!sharding) {
      InFlightDiagnostic diag = error();
      diag << ": the value has dimensions [";
      llvm::interleaveComma(entries, diag, [&](const Entry &e) { diag << e.size.str(); });
      diag << "], which are [";
      llvm::interleaveComma(getSizes(op->getResult(0)), diag,
                            [&](const SymExpr &size) { diag << size.str(); });
      diag << "] in the program that is partitioned: in another order, or not divided where a "
              "factor is to be split; annotate a weight, or another value";
      continue;
    }
    op->setAttr(kShardingAttr, sharding);
    if (source)
      op->setAttr(kShardingSourceAttr, source);
  }
  if (!ok)
    signalPassFailure();
}
