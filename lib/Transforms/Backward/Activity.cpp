//===- Activity.cpp - Values that depend on trainable weights -------------===//

#include "Activity.h"
#include "GradientOp.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns true if a result of `op` depends smoothly on an active operand. Emits an error if the op
/// has no gradient.
static FailureOr<bool> isActiveOp(Operation *op, const DenseSet<Value> &values) {
  auto gradient = dyn_cast<GradientOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!values.contains(operand.get()))
      continue;
    if (!gradient)
      return emitError(op->getLoc()) << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                                     << ") has no gradient",
             failure();
    if (gradient.isDifferentiable(operand.getOperandNumber()))
      return true;
  }
  return false;
}

namespace {
class Analysis {
public:
  Analysis(ModuleOp module, DenseSet<Value> &values) : symbols(module), values(values) {}

  /// Marks the active values of a function. `changed` is set if an argument of another function
  /// became active.
  LogicalResult run(func::FuncOp function, bool &changed) {
    for (Operation &op : function.front().without_terminator()) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        for (auto [operand, argument] : llvm::zip(call.getOperands(), callee.getArguments()))
          if (values.contains(operand))
            changed |= values.insert(argument).second;
        if (failed(run(callee, changed)))
          return failure();
        Operation *end = callee.front().getTerminator();
        for (auto [result, inner] : llvm::zip(call.getResults(), end->getOperands()))
          if (values.contains(inner))
            values.insert(result);
        continue;
      }
      if (auto parameter = dyn_cast<ParameterOp>(op)) {
        if (isa<FloatType>(elementTypeOf(parameter.getResult())))
          values.insert(parameter.getResult());
        continue;
      }
      FailureOr<bool> active = isActiveOp(&op, values);
      if (failed(active))
        return failure();
      if (*active)
        for (Value result : op.getResults())
          if (isFloatTensor(result))
            values.insert(result);
    }
    return success();
  }

private:
  SymbolTable symbols;
  DenseSet<Value> &values;
};
} // namespace

LogicalResult Activity::analyze(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  // A later call may make an argument active after an earlier call was analyzed.
  for (bool changed = true; changed;) {
    changed = false;
    if (failed(Analysis(module, values).run(main, changed)))
      return failure();
  }
  for (Value v : values)
    if (auto parameter = v.getDefiningOp<ParameterOp>(); parameter && !elementTypeOf(v).isF32())
      return emitError(parameter.getLoc())
             << "weight '" << parameter.getWeight() << "' has type " << elementTypeOf(v)
             << "; only f32 weights have gradients";
  return success();
}
