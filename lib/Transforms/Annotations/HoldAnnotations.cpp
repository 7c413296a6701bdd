//===- HoldAnnotations.cpp - Annotations of ops through rewrites ----------===//
//
// Rewrites drop attributes of the ops that they replace; they keep uses of values. So what is said
// of an op becomes an op that uses its result. It stands at the end of the block, where whatever
// replaces the result may be used.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/Passes.h"

#include "mlir/Interfaces/CallInterfaces.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_HOLDANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct HoldAnnotations : public mlir::tpc::impl::HoldAnnotationsBase<HoldAnnotations> {
  void runOnOperation() override {
    SmallVector<Operation *> annotated;
    getOperation().walk([&](Operation *op) {
      // Calls are not replaced.
      if (op->getNumResults() == 1 && !isa<CallOpInterface>(op) &&
          (op->hasAttr(kShardingAttr) || op->hasAttr(kPipelineStageAttr)))
        annotated.push_back(op);
    });
    for (Operation *op : annotated)
      hold(op);
  }

  static void hold(Operation *op) {
    std::string name = getValueName(op->getLoc());
    if (name.empty())
      name = getSourceName(op->getLoc());
    auto sharding = dyn_cast_or_null<ArrayAttr>(op->removeDiscardableAttr(kShardingAttr));
    auto source = dyn_cast_or_null<StringAttr>(op->removeDiscardableAttr(kShardingSourceAttr));
    auto stage = dyn_cast_or_null<IntegerAttr>(op->removeDiscardableAttr(kPipelineStageAttr));
    OpBuilder builder(op->getContext());
    builder.setInsertionPoint(op->getBlock()->getTerminator());
    AnnotationOp::create(builder, op->getLoc(), op->getResult(0), builder.getStringAttr(name),
                         sharding, source,
                         stage ? builder.getI64IntegerAttr(stage.getInt()) : IntegerAttr());
  }
};
} // namespace
