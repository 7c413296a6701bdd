//===- Plan.cpp - What the tactics decide ---------------------------------===//

#include "Plan.h"

using namespace mlir;
using namespace mlir::tpc;

Plan::Plan(ModuleOp module, const ::tpc::ShardSpec &spec, FactorClasses &classes)
    : module(module), spec(spec), classes(classes) {
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      if (auto callee =
              SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr()))
        calls[callee].push_back(call);
    if (!isa<ShardingRuleOpInterface>(op))
      return;
    ops.push_back(op);
    for (unsigned factor = 0; factor < classes.getRule(op).factors.size(); ++factor)
      for (int cls : classes.getFactorClasses(op, factor))
        uses[cls].push_back({op, factor});
  });
}

ArrayRef<StringAttr> Plan::getAxes(int cls) const {
  auto it = axes.find(cls);
  return it == axes.end() ? ArrayRef<StringAttr>() : ArrayRef<StringAttr>(it->second);
}

bool Plan::hasAxis(ArrayRef<int> list, StringRef axis) const {
  return llvm::any_of(list, [&](int cls) {
    return llvm::any_of(getAxes(cls), [&](StringAttr a) { return a.getValue() == axis; });
  });
}

void Plan::addAxis(int cls, StringRef axis) {
  axes[cls].push_back(StringAttr::get(module.getContext(), axis));
}

DimAttr Plan::getDim(ArrayRef<int> list, bool splitTokens) const {
  MLIRContext *context = module.getContext();
  SmallVector<FactorAttr> factors;
  for (int cls : list)
    factors.push_back(FactorAttr::get(context, classes.getSize(cls), getAxes(cls)));
  if (factors.empty())
    factors.push_back(FactorAttr::get(context, ::tpc::SymExpr(1)));
  SmallVector<StringAttr> product;
  if (splitTokens)
    product.push_back(StringAttr::get(context, "tp"));
  return DimAttr::get(context, factors, product);
}

ArrayRef<ClassUse> Plan::getUses(int cls) const {
  auto it = uses.find(cls);
  return it == uses.end() ? ArrayRef<ClassUse>() : ArrayRef<ClassUse>(it->second);
}

int64_t Plan::getCallCount(Operation *op) const {
  auto function = op->getParentOfType<func::FuncOp>();
  auto it = calls.find(function);
  if (it == calls.end())
    return 1;
  int64_t count = 0;
  for (func::CallOp call : it->second)
    count += getCallCount(call);
  return count;
}

SmallVector<Operation *> Plan::getParameters(Value value) const {
  while (isa_and_nonnull<TransposeOp, ReshapeOp, CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (Operation *op = value.getDefiningOp())
    return isa<ParameterOp>(op) ? SmallVector<Operation *>{op} : SmallVector<Operation *>{};
  SmallVector<Operation *> result;
  auto argument = cast<BlockArgument>(value);
  if (auto it = calls.find(argument.getOwner()->getParentOp()); it != calls.end())
    for (func::CallOp call : it->second)
      result.append(getParameters(call.getOperand(argument.getArgNumber())));
  return result;
}

bool Plan::isUnreduced(Value value, StringRef axis) const {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<ShardingRuleOpInterface>(op))
    return false;
  const ShardingRule &rule = classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (rule.factors[factor].kind != FactorKind::Parallel &&
        hasAxis(classes.getFactorClasses(op, factor), axis))
      return true;
  return false;
}
