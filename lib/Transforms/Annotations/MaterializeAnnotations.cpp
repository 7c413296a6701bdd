//===- MaterializeAnnotations.cpp - Conversion of annotations to ops ------===//
//
// Rewrites drop attributes of replaced ops, but update the uses of their results. This pass
// therefore converts each annotation of an op to a `tpc.annotation` op on the result. The new op is
// at the end of the block, because any replacement of the result dominates that point.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Annotations/Passes.h"

#include "mlir/Interfaces/CallInterfaces.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_MATERIALIZEANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct MaterializeAnnotations
    : public mlir::tpc::impl::MaterializeAnnotationsBase<MaterializeAnnotations> {
  void runOnOperation() override {
    SmallVector<Operation *> annotated;
    getOperation().walk([&](Operation *op) {
      // Calls keep their attributes, because rewrites do not replace them.
      if (op->getNumResults() == 1 && !isa<CallOpInterface>(op) &&
          (op->hasAttr(kShardingAttr) || op->hasAttr(kPipelineStageAttr)))
        annotated.push_back(op);
    });
    for (Operation *op : annotated)
      materialize(op);
  }

  static void materialize(Operation *op) {
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
