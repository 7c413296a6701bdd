//===- AnnotationTargets.cpp - Annotated tensors of a program -------------===//

#include "AnnotationTargets.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

ArrayAttr AnnotationTarget::getSharding() const {
  Attribute sharding =
      input ? cast<func::FuncOp>(op).getArgAttr(*input, kShardingAttr) : op->getAttr(kShardingAttr);
  return dyn_cast_or_null<ArrayAttr>(sharding);
}

void AnnotationTarget::setSharding(ArrayAttr sharding, StringAttr source) const {
  if (input) {
    auto main = cast<func::FuncOp>(op);
    main.setArgAttr(*input, kShardingAttr, sharding);
    main.setArgAttr(*input, kShardingSourceAttr, source);
  } else {
    op->setAttr(kShardingAttr, sharding);
    op->setAttr(kShardingSourceAttr, source);
  }
}

std::vector<AnnotationTarget> mlir::tpc::collectAnnotationTargets(ModuleOp module) {
  std::vector<AnnotationTarget> targets;
  for (auto weight : module.getOps<WeightOp>())
    targets.push_back(
        {"weight", weight.getSymName().str(), getSizes(weight.getType()), weight, {}});
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return targets;
  for (BlockArgument input : main.getArguments())
    if (auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr))
      targets.push_back({"input", name.getValue().str(), getSizes(input), main.getOperation(),
                         input.getArgNumber()});
  module.walk([&](Operation *op) {
    std::string name = getValueName(op->getLoc());
    if (isa<ShardingRuleOpInterface>(op) && !isa<ParameterOp>(op) && !name.empty() &&
        op->getNumResults() == 1)
      targets.push_back({"value", name, getSizes(op->getResult(0)), op, {}});
  });
  return targets;
}
