//===- RaiseRolls.cpp - Recognition of cyclic shifts ----------------------===//

#include "Movement.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_RAISEROLLS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Elements [start, start + size) of `base`.
struct ElementRange {
  Value base;
  SymExpr start, size;
};

struct RaiseRolls : public mlir::tpc::impl::RaiseRollsBase<RaiseRolls> {
  void runOnOperation() override {
    SmallVector<ConcatOp> concats;
    getOperation().walk([&](ConcatOp op) { concats.push_back(op); });
    for (ConcatOp op : concats)
      raise(op);
  }

  static ElementRange getRange(Value v, int64_t dim) {
    if (auto slice = v.getDefiningOp<SliceOp>();
        slice && int64_t(slice.getDim()) == dim && slice.getStep() == 1)
      return {slice.getOperand(), slice.getStart(), getSizes(v)[dim]};
    return {v, SymExpr(0), getSizes(v)[dim]};
  }

  void raise(ConcatOp op) {
    int64_t dim = op.getDim();
    // A shift by zero, or by the whole dimension, has an empty part.
    SmallVector<ElementRange> parts;
    for (Value operand : op.getOperands())
      if (!getSizes(operand)[dim].isConstant(0))
        parts.push_back(getRange(operand, dim));
    if (parts.size() != 2 || op.getOperands().size() != 2) {
      if (parts.size() == 1 && parts[0].size == getSizes(op.getResult())[dim])
        for (Value operand : op.getOperands())
          if (operand.getType() == op.getType()) {
            op.getResult().replaceAllUsesWith(operand);
            return erase(op);
          }
      return;
    }
    // The first part of the result is the second part of the base.
    ElementRange first = parts[0], second = parts[1];
    if (first.base != second.base || first.start != second.start + second.size)
      return;
    OpBuilder builder(op);
    SymExpr size = first.size + second.size;
    Value base = createSlice(builder, op.getLoc(), second.base, dim, second.start, size);
    Value roll = RollOp::create(builder, op.getLoc(), op.getType(), base, dim, second.size, size);
    op.getResult().replaceAllUsesWith(roll);
    erase(op);
  }

  static void erase(ConcatOp op) {
    SmallVector<Value> operands(op.getOperands());
    op.erase();
    for (Value operand : operands)
      if (Operation *def = operand.getDefiningOp(); def && isa<SliceOp>(def) && def->use_empty())
        def->erase();
  }
};

} // namespace
