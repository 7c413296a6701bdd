//===- LiftReductions.cpp - All-reduces moved from functions to calls -----===//

#include "LiftReductions.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the addition that is the only use of a value; null if there is none.
static AddOp getAddition(Value v) {
  return v.hasOneUse() ? dyn_cast<AddOp>(*v.getUsers().begin()) : AddOp();
}

/// Returns true if the only use of result `index` of each call is an addition, and one addition
/// adds the results of two calls.
static bool areAdded(ArrayRef<func::CallOp> calls, unsigned index) {
  bool haveSum = false;
  for (func::CallOp call : calls) {
    AddOp sum = getAddition(call.getResult(index));
    if (!sum || sum.getType() != call.getResult(index).getType())
      return false;
    auto isResult = [&](Value v) {
      auto other = v.getDefiningOp<func::CallOp>();
      return other && other.getCallee() == call.getCallee() && v == other.getResult(index);
    };
    haveSum |= sum.getLhs() != sum.getRhs() && isResult(sum.getLhs()) && isResult(sum.getRhs());
  }
  return haveSum;
}

bool mlir::tpc::liftReductions(ModuleOp module) {
  bool changed = false;
  llvm::StringMap<SmallVector<func::CallOp>> callsOf;
  module.walk([&](func::CallOp call) { callsOf[call.getCallee()].push_back(call); });
  for (auto function : module.getOps<func::FuncOp>()) {
    auto calls = callsOf.find(function.getName());
    if (calls == callsOf.end() || function.isExternal())
      continue;
    Operation *end = function.front().getTerminator();
    for (OpOperand &returned : end->getOpOperands()) {
      auto reduction = returned.get().getDefiningOp<AllReduceOp>();
      unsigned index = returned.getOperandNumber();
      if (!reduction || !reduction.getResult().hasOneUse() ||
          getDist(reduction.getOperand()).getPartial().getKind() != ReductionKind::Sum ||
          !areAdded(calls->second, index))
        continue;
      Type reducedType = reduction.getType(), partialType = reduction.getOperand().getType();
      for (func::CallOp call : calls->second) {
        Value result = call.getResult(index);
        result.setType(partialType);
        OpBuilder builder(call->getContext());
        builder.setInsertionPointAfter(call);
        Value reduced = AllReduceOp::create(builder, reduction.getLoc(), reducedType, result,
                                            reduction.getAxesAttr());
        result.replaceAllUsesExcept(reduced, reduced.getDefiningOp());
      }
      returned.set(reduction.getOperand());
      reduction.erase();
      function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(),
                                         end->getOperandTypes()));
      changed = true;
    }
  }
  return changed;
}
