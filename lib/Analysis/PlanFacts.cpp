//===- PlanFacts.cpp - Layer counts, and warnings about a plan ------------===//

#include "tpc/Analysis/PlanFacts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

int64_t mlir::tpc::countLayers(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    if (!callee || callee.isExternal())
      return 0;
    return callee->hasAttr(kLayerAttr) ? 1 : countLayers(callee);
  }
  int64_t layers = isa<AttentionOp>(op);
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      layers += countLayers(&inner);
  return layers;
}

bool mlir::tpc::callsLayers(Operation *op) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return false;
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  return callee && (callee->hasAttr(kLayerPartAttr) || countLayers(call) > 0);
}

void mlir::tpc::warnAboutPlan(ModuleOp module, const Twine &message) {
  std::string text = message.str();
  emitWarning(module.getLoc()) << text;
  SmallVector<Attribute> warnings;
  if (auto known = module->getAttrOfType<ArrayAttr>(kWarningsAttr))
    llvm::append_range(warnings, known);
  warnings.push_back(StringAttr::get(module.getContext(), text));
  module->setAttr(kWarningsAttr, ArrayAttr::get(module.getContext(), warnings));
}
