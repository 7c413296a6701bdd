//===- ExtendedLogits.cpp - Check of the logits of all tokens -------------===//
//
// The last token of the extended logits is sliced and compared with the file's output. Both
// programs run at small sizes over the prime field.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Verify/Verify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Replaces output `i` by its elements for the last token, in the shape of `type`.
static LogicalResult takeLastToken(func::FuncOp main, unsigned i, RankedTensorType type) {
  Operation *end = main.front().getTerminator();
  Value all = end->getOperand(i);
  SmallVector<SymExpr> sizes = getSizes(all);
  if (sizes.size() != 3 || product(getSizes(type)) != sizes[0] * sizes[2])
    return main.emitError() << "output " << i << ", " << type << ", is not of the last token of "
                            << all.getType();
  OpBuilder builder(end);
  SymExpr last = sizes[1] - SymExpr(1);
  sizes[1] = SymExpr(1);
  Type element = elementTypeOf(all);
  Value slice =
      SliceOp::create(builder, all.getLoc(), makeTensorType(element, sizes), all, 1, last, 1);
  if (slice.getType() != type)
    slice = ReshapeOp::create(builder, all.getLoc(), type, slice);
  end->setOperand(i, slice);
  main.setType(FunctionType::get(main.getContext(), main.front().getArgumentTypes(),
                                 end->getOperandTypes()));
  return success();
}

static void eraseOutput(func::FuncOp main, unsigned i) {
  main.front().getTerminator()->eraseOperand(i);
  (void)main.eraseResult(i);
}

LogicalResult mlir::tpc::verifyExtendedLogits(ModuleOp file, ModuleOp extended) {
  OwningOpRef<ModuleOp> before = file.clone(), after = extended.clone();
  auto from = before->lookupSymbol<func::FuncOp>("main");
  auto to = after->lookupSymbol<func::FuncOp>("main");
  if (!from || !to || from.getNumResults() != to.getNumResults())
    return extended.emitError("has other outputs than the file");
  for (unsigned i = from.getNumResults(); i-- > 0;) {
    auto type = cast<RankedTensorType>(from.getResultTypes()[i]);
    if (type == to.getResultTypes()[i])
      continue;
    if (isa<FloatType>(type.getElementType())) {
      if (failed(takeLastToken(to, i, type)))
        return failure();
      continue;
    }
    // The output is the index of the largest logit, which sampling computes again.
    eraseOutput(from, i);
    eraseOutput(to, i);
  }
  if (from.getNumResults() == 0)
    return success();
  return verifyEquivalence(*before, *after, {.symbolic = false, .interpret = true});
}
