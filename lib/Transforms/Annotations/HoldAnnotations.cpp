//===- HoldAnnotations.cpp - Annotations of ops through rewrites ----------===//
//
// Rewrites drop attributes of the ops that they replace; they keep locations. So an annotated op's
// location is marked with a number, and the module has a list of what each number stands
// for. When the model has its normal form, tpc-place-annotations finds the last op that has the
// mark: what is made of one op is made in its place, and the last of that is its value.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_HOLDANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct HoldAnnotations : public mlir::tpc::impl::HoldAnnotationsBase<HoldAnnotations> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(&getContext());
    SmallVector<Attribute> held;
    module.walk([&](Operation *op) {
      auto sharding = op->getAttrOfType<ArrayAttr>(kShardingAttr);
      if (isa<WeightOp>(op) || op->getNumResults() != 1)
        sharding = {};
      Attribute stage = op->removeDiscardableAttr(kPipelineStageAttr);
      if (!sharding && !stage)
        return;
      std::string name = getValueName(op->getLoc());
      if (name.empty())
        name = getSourceName(op->getLoc());
      SmallVector<NamedAttribute> fields = {
          builder.getNamedAttr("name", builder.getStringAttr(name))};
      if (sharding) {
        // Entries with their sizes: dimensions may be merged on the way.
        SmallVector<Attribute> entries;
        for (auto [entry, size] : llvm::zip(sharding, getSizes(op->getResult(0))))
          entries.push_back(isa<DimAttr>(entry) ? entry : builder.getStringAttr(size.str()));
        fields.push_back(builder.getNamedAttr("entries", builder.getArrayAttr(entries)));
        if (Attribute source = op->removeAttr(kShardingSourceAttr))
          fields.push_back(builder.getNamedAttr("source", source));
        op->removeAttr(kShardingAttr);
      }
      if (stage)
        fields.push_back(builder.getNamedAttr("stage", stage));
      op->setLoc(
          FusedLoc::get({op->getLoc()}, builder.getI64IntegerAttr(held.size()), &getContext()));
      held.push_back(builder.getDictionaryAttr(fields));
    });
    if (!held.empty())
      module->setAttr(kHeldAnnotationsAttr, builder.getArrayAttr(held));
  }
};
} // namespace
