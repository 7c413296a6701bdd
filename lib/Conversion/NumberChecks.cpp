//===- NumberChecks.cpp - Calls that check results of ops -----------------===//

#include "NumberChecks.h"
#include "HostEmitter.h"

#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/State.h"
#include "tpc/check_numbers.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;

NumberChecks::NumberChecks(ModuleOp module) : isEnabled(module->hasAttr(kOptimizerAttr)) {
  if (!isEnabled)
    return;
  llvm::DenseMap<StringAttr, unsigned> count; // of calls, by callee
  module.walk([&](buffer::CallOp call) { ++count[call.getCalleeAttr().getAttr()]; });
  module.walk([&](buffer::CallOp call) {
    Attribute at = call.getLoc();
    Names names;
    collectNodeNames(call.getLoc(), names);
    auto caller = call->getParentOfType<buffer::FuncOp>();
    // A stage may call its function and its layers.
    if (names.empty() || !caller ||
        (caller.getStage() && count[call.getCalleeAttr().getAttr()] == 1))
      return;
    layers.try_emplace(at, std::move(names));
    callers[call.getCalleeAttr().getAttr()].push_back(at);
  });
}

void NumberChecks::enter(buffer::CallOp call, HostEmitter &e) const {
  if (!isEnabled)
    return;
  const auto *layer = layers.find(call.getLoc());
  if (layer == layers.end())
    return;
  auto names = StringAttr::get(call.getContext(), llvm::join(layer->second, "\n"));
  e.call(TPC_ABI(tpc_enter_layer), e.i32(e.getHost().object.getNode(names)),
         e.i32(layer - layers.begin()));
}

int64_t NumberChecks::findLine(Operation *op) const {
  auto function = op->getParentOfType<buffer::FuncOp>();
  if (!function)
    return -1;
  auto calls = callers.find(function.getSymNameAttr());
  if (calls == callers.end())
    return -1;
  std::string name = getSourceName(op->getLoc());
  for (Attribute at : calls->second) {
    const Names &names = layers.find(at)->second;
    if (const auto *found = llvm::find(names, name); found != names.end())
      return found - names.begin();
  }
  return -1;
}

void NumberChecks::check(Operation *op, HostEmitter &e) const {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!isEnabled || !effects || isa<buffer::CallOp>(op))
    return;
  SmallVector<MemoryEffects::EffectInstance> all;
  effects.getEffects(all);
  for (const MemoryEffects::EffectInstance &effect : all) {
    Value buffer = effect.getValue();
    if (!isa<MemoryEffects::Write>(effect.getEffect()) || !buffer ||
        !isa<buffer::BufferType>(buffer.getType()) || buffer.getDefiningOp<buffer::ColumnsOp>())
      continue;
    buffer::ExtentAttr extent = buffer::getExtent(buffer);
    if (!isa<FloatType>(extent.getElement()))
      continue;
    e.call(TPC_ABI(tpc_check_numbers), e.pointer(buffer), e.expr(extent.getElements()),
           e.dtype(buffer), e.i32(e.getHost().object.getNode(op)), e.i32(findLine(op)),
           e.i32(isa<buffer::LaunchOp>(op)));
  }
}
